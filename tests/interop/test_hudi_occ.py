# SPDX-License-Identifier: Apache-2.0
"""Optimistic writers of Apache Hudi and of ours on one table: each finds the other's conflicts, through the shared lock."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebraid as lb
from tests.interop.our_tables import rows
from tests.interop.referee import HudiRefused, Referee
from tests.interop.shared_table import SharedTable
from tests.kit.reference import hudi_rows, our_rows

pytestmark = [pytest.mark.interop, pytest.mark.slow]

kinds = pytest.mark.parametrize(("table_type", "index"), [("mor", "bucket"), ("cow", "simple")])


def occ_table(referee: Referee, path: Path, table_type: str, index: str) -> SharedTable:
    """One file group with the rows a1 and a2."""
    shared = SharedTable.create(referee, path, table_type=table_type, index=index, concurrency="occ", buckets=1)
    shared.table.upsert(rows("a", {1: 1, 2: 1}))
    return shared


def check(shared: SharedTable, *names: str) -> None:
    """Both readers see just these rows, and the audit finds no damage."""
    ours = our_rows(shared.table.to_arrow(meta_columns=True))
    assert sorted(str(dict(row)["name"]) for row in ours) == sorted(names)
    assert ours == hudi_rows(shared.referee.ask("read", path=str(shared.path))["rows"])
    found = shared.table.audit(deep=True)
    assert found.is_healthy, repr(found)


@kinds
def test_our_commit_is_refused_if_hudi_wrote_the_file_group_meanwhile_and_goes_through_after_it(
    referee: Referee, tmp_path: Path, table_type: str, index: str
) -> None:
    shared = occ_table(referee, tmp_path / "t", table_type, index)
    before = shared.writes()
    ours = shared.table.begin()
    ours.write(rows("ours", {1: 2}))
    shared.hudi_writes(rows("h", {2: 2}))
    ((theirs, _),) = set(shared.writes()) - set(before)
    with pytest.raises(lb.WriteConflict, match=f"{theirs} .by Apache Hudi") as refused:
        ours.commit()
    facts = refused.value.facts
    assert (facts["instant"], facts["other"], facts["other_writer"]) == (ours.instant, theirs, "Apache Hudi")
    assert len(facts["groups"]) == 1
    assert shared.table.status(ours.instant) == "refused"
    again = shared.table.upsert(rows("ours", {1: 2}))
    assert again.attempts == 1, "what completed before it began is no conflict"
    check(shared, "ours1", "h2")


@kinds
def test_the_commit_of_hudi_is_refused_if_we_wrote_the_file_group_meanwhile_and_goes_through_after_it(
    referee: Referee, tmp_path: Path, table_type: str, index: str
) -> None:
    shared = occ_table(referee, tmp_path / "t", table_type, index)
    shared.hudi_begins(rows("h", {2: 2}))
    ours = shared.table.upsert(rows("ours", {1: 2}))
    assert ours.attempts == 1
    with pytest.raises(HudiRefused, match=r"(?i)conflict"):
        shared.hudi_finishes()
    assert sorted(shared.table.to_arrow().column("name").to_pylist()) == ["a2", "ours1"]
    shared.hudi_writes(rows("h", {2: 2}))
    check(shared, "ours1", "h2")


def test_whoever_of_hudi_and_us_began_first_the_first_to_commit_wins(referee: Referee, tmp_path: Path) -> None:
    shared = occ_table(referee, tmp_path / "t", "mor", "bucket")
    early = shared.table.begin()
    early.write(rows("early", {1: 2}))
    shared.hudi_begins(rows("h", {2: 2}))
    early.commit()
    with pytest.raises(HudiRefused, match=r"(?i)conflict"):
        shared.hudi_finishes()
    shared.hudi_begins(rows("h", {2: 2}))
    late = shared.table.begin()
    late.write(rows("late", {1: 3}))
    shared.hudi_finishes()
    with pytest.raises(lb.WriteConflict, match="Apache Hudi"):
        late.commit()
    check(shared, "early1", "h2")


def test_hudi_and_we_write_different_file_groups_at_once(referee: Referee, tmp_path: Path) -> None:
    shared = SharedTable.create(
        referee,
        tmp_path / "t",
        "id bigint, name string, ts bigint, p string",
        buckets=1,
        concurrency="occ",
        partition_by=["p"],
    )
    shared.table.upsert([*rows("a", {1: 1}, p="x"), *rows("a", {2: 1}, p="y")])
    ours = shared.table.begin()
    ours.write(rows("ours", {1: 2}, p="x"))
    shared.hudi_begins(rows("h", {2: 2}, p="y"))
    shared.table.upsert(rows("more", {3: 1}, p="z"))
    shared.hudi_finishes()
    ours.commit()
    check(shared, "ours1", "h2", "more3")


def test_hudi_writes_again_by_itself_after_our_commit_if_it_is_told_to(referee: Referee, tmp_path: Path) -> None:
    shared = occ_table(referee, tmp_path / "t", "mor", "bucket")
    # Hudi tries again only if the job itself says that it is optimistic; the table's properties do not count here.
    shared.hudi_begins(
        rows("h", {2: 2}),
        hoodie__write__num__retries__on__conflict__failures="1",
        hoodie__write__concurrency__mode="OPTIMISTIC_CONCURRENCY_CONTROL",
    )
    shared.table.upsert(rows("ours", {1: 2}))
    shared.hudi_finishes()
    check(shared, "ours1", "h2")

# SPDX-License-Identifier: Apache-2.0
"""We clean, our tables and Hudi's own: Apache Hudi reads the same rows afterwards, writes on, and cleans after us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from tests.interop.our_tables import keys, plan, rows, run_plan
from tests.interop.referee import HudiRefused, Referee
from tests.interop.shared_table import SharedTable
from tests.kit.reference import our_rows, unpack

pytestmark = pytest.mark.interop

CLEANED = "Cleaner cleaned up the timestamp of interest"

REFERENCES = {
    "v9_cow_cdc_keys_only": 2,
    "v9_cow_clean_savepoint": 1,
    "v9_cow_clustering": 1,
    "v9_cow_overwrite": 2,
    "v9_mor_cleaned_archived": 1,
    "v9_mor_clustering_logs": 1,
    "v9_mor_late_writers_two_compactions": 2,
    "v9_mor_log_compaction_chain": 1,
    "v9_mor_overwrite": 1,
    "v9_mor_order_two_fields": 2,
    "v9_mor_pending_write_and_compaction": 1,
    "v9_mor_upgraded_from_6": 1,
}
"""Tables that Hudi wrote, and how many commits we leave in each."""


@pytest.fixture
def shared(referee: Referee, tmp_path: Path) -> SharedTable:
    return SharedTable.create(referee, tmp_path / "shared")


def busy(shared: SharedTable, turns: int = 4) -> list[str]:
    """Writes, a delete and compactions, turn by turn; gives the names of the rows at the end."""
    for turn in range(1, turns + 1):
        shared.table.upsert(rows(f"t{turn}_", {1: turn, turn + 1: 1}))
        shared.table.compact()
    shared.table.delete(keys({2: 9}))
    return [f"t{turns}_1", *(f"t{turn}_{turn + 1}" for turn in range(2, turns + 1))]


def same_answers(before: dict[str, Any], after: dict[str, Any], since: str) -> int:
    """Hudi's answers from `since` on are as they were; gives how many of the past there were."""
    assert isinstance(after["snapshot"], list), "Hudi does not answer any more"
    assert after["snapshot"] == before["snapshot"] and after["schema"] == before["schema"]
    assert after["read_optimized"] == before["read_optimized"]
    assert after["incremental_after"]["000"] == before["incremental_after"]["000"]
    compared = 0
    for query in ("as_of", "incremental_after"):
        for time, answer in before[query].items():
            if time >= since:
                assert after[query][time] == answer, f"{query} {time}"
                compared += isinstance(answer, list)
    return compared


def never_short(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What was removed is refused by Hudi as well: it never answers with fewer rows."""
    for time, answer in before["as_of"].items():
        found = after["as_of"][time]
        assert found == answer or CLEANED in found["error"], time


def test_hudi_reads_the_same_after_our_clean_and_both_go_on(shared: SharedTable) -> None:
    names = busy(shared)
    before = shared.referee.ask("answers", path=str(shared.path))
    done = shared.table.clean(commits=3)
    assert done.files and done.readable_since is not None
    after = shared.referee.ask("answers", path=str(shared.path))
    assert same_answers(before, after, done.readable_since) >= 6
    never_short(before, after)
    shared.check(names)
    shared.hudi_writes(rows("h", {3: 9, 9: 1}))
    shared.check(["t4_1", "h3", "t3_4", "t4_5", "h9"])
    shared.table.upsert(rows("o", {9: 2}))
    shared.table.compact()
    shared.check(["t4_1", "h3", "t3_4", "t4_5", "o9"])


def test_hudis_own_clean_runs_after_ours_and_ours_after_hudis(shared: SharedTable) -> None:
    names = busy(shared)
    assert shared.table.clean(commits=5).files
    left = shared.data_files()
    shared.table.compact()
    shared.call("run_clean", "retain_commits => 1")
    assert len(shared.data_files()) < len(left), "Hudi cleaned nothing"
    shared.check(names)
    shared.table.upsert(rows("x", {1: 50}))
    shared.table.compact()
    assert shared.table.clean(commits=1).files
    shared.check(["x1", *names[1:]])
    shared.hudi_writes(rows("h", {1: 60}))
    shared.check(["h1", *names[1:]])


def test_hudi_finishes_a_clean_that_we_began(shared: SharedTable) -> None:
    names = busy(shared)
    planned = shared.table.plan_clean(commits=1)
    assert planned is not None
    before = len(shared.data_files())
    shared.call("run_clean", "retain_commits => 1")
    assert len(shared.data_files()) < before
    done = [name for name in shared.timeline() if name.endswith(".clean") and name.startswith(str(planned.instant))]
    assert len(done) == 1, "Hudi did not end our clean"
    assert shared.table.clean(commits=1).finished == ()
    assert [n for n in shared.timeline() if n.endswith(".clean") and n.startswith(str(planned.instant))] == done
    shared.check(names)


def test_a_plan_of_hudi_or_ours_still_has_its_input_after_our_clean(shared: SharedTable) -> None:
    shared.table.upsert(rows("a", {1: 1, 2: 1}))
    shared.table.compact()
    late = shared.table.begin()
    late.write(rows("late", {1: 5}))
    shared.table.upsert(rows("b", {2: 2}))
    shared.table.compact()
    late.commit()  # older than the base file, completed after it
    request_time = plan(shared.table)
    for turn in range(3):
        shared.table.upsert(rows(f"c{turn}_", {3: turn + 1}))
    shared.table.clean(commits=1)
    shared.call("run_compaction", "op => 'run'", f"timestamp => {request_time}")
    shared.check(["late1", "b2", "c2_3"])
    second = plan(shared.table)
    shared.call("run_clean", "retain_commits => 1")
    run_plan(shared.table, second)
    shared.check(["late1", "b2", "c2_3"])


@pytest.mark.parametrize("name", REFERENCES)
def test_a_table_that_hudi_wrote_reads_as_before_when_we_have_cleaned_it(
    name: str, referee: Referee, tmp_path: Path
) -> None:
    reference = unpack(name, tmp_path)
    in_utc(reference.path)
    before = referee.ask("answers", path=str(reference.path))
    table = lb.Table.open(reference.path)
    ours = our_rows(table.to_arrow(meta_columns=True))
    done = table.clean(commits=REFERENCES[name])
    after = referee.ask("answers", path=str(reference.path))
    assert our_rows(lb.Table.open(reference.path).to_arrow(meta_columns=True)) == ours
    same_answers(before, after, done.readable_since or "")
    if done.files:
        never_short(before, after)
    for time, answer in before["as_of"].items():
        if done.readable_since and time >= done.readable_since and isinstance(answer, list) and not reference.overlaps:
            assert our_rows(table.to_arrow(meta_columns=True, as_of=time)) == reference.hudi(answer), time


def in_utc(path: Path) -> None:
    """Says in which zone its writers were, where a table leaves that open: a copy has other file times."""
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    if "hoodie.table.timeline.timezone=UTC" not in text:
        kept = [line for line in text.splitlines() if not line.startswith("hoodie.table.timeline.timezone")]
        properties.write_text("\n".join([*kept, "hoodie.table.timeline.timezone=UTC", ""]))
        (properties.parent / ".hoodie.properties.crc").unlink(missing_ok=True)


def test_hudi_refuses_a_past_that_we_removed(shared: SharedTable) -> None:
    busy(shared)
    first = shared.writes()[1][1]
    shared.table.clean(commits=1)
    with pytest.raises(HudiRefused, match=CLEANED):
        shared.referee.ask("read", path=str(shared.path), mode="as_of", options={"as.of.instant": first})
    with pytest.raises(lb.SnapshotExpired):
        shared.table.to_arrow(as_of=first)

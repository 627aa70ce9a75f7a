# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi and copy-on-write tables or looked-up keys: it reads what we write, and each goes on where the other wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from tests.interop.our_tables import ROW, rows
from tests.interop.referee import Referee
from tests.interop.shared_table import SharedTable
from tests.kit.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop

KINDS = (("cow", "bucket"), ("cow", "simple"), ("mor", "simple"))
NO_METADATA = {"hoodie.metadata.enable": "false"}


class Pair(SharedTable):
    """A table under two pens whose file ids are anybody's."""

    def check(self, names: list[str]) -> None:
        ours = our_rows(self.table.to_arrow(meta_columns=True))
        assert sorted(str(dict(row)["name"]) for row in ours) == sorted(names)
        assert ours == hudi_rows(self.referee.ask("read", path=str(self.path))["rows"])
        keys = Counter((dict(row)["_hoodie_partition_path"], dict(row)["_hoodie_record_key"]) for row in ours)
        assert not [key for key, times in keys.items() if times > 1]


@pytest.mark.parametrize(("table_type", "index"), KINDS)
def test_hudi_reads_and_goes_on_after_our_inserts_upserts_and_deletes(
    table_type: str, index: str, referee: Referee, tmp_path: Path
) -> None:
    pair = Pair.create(
        referee, tmp_path / "t", f"{ROW}, p string", table_type=table_type, index=index, partition_by=["p"]
    )
    pair.table.insert([*rows("a", {1: 1, 2: 1, 3: 1}, p="x"), *rows("a", {4: 1}, p="y")])
    pair.table.upsert([*rows("b", {1: 2, 5: 1}, p="x"), *rows("late", {4: 0}, p="y")])
    pair.table.delete([{"id": 2, "p": "x"}])
    late = "a4"
    pair.check(["b1", "a3", late, "b5"])
    pair.hudi_writes([*rows("h", {3: 5, 6: 1}, p="x"), *rows("h", {7: 1}, p="z")])
    pair.check(["b1", "h3", late, "b5", "h6", "h7"])
    pair.table.upsert([*rows("c", {6: 2, 3: 4}, p="x"), *rows("c", {7: 2}, p="z")])
    if table_type == "mor":
        pair.table.compact()
    pair.check(["b1", "h3", late, "b5", "c6", "c7"])
    pair.table.delete([{"id": key, "p": "x"} for key in (1, 3, 5, 6)])
    pair.check([late, "c7"])
    pair.hudi_writes(rows("again", {1: 9}, p="x"))
    pair.check([late, "c7", "again1"])


@pytest.mark.parametrize("index", ["bloom", "simple", "global_simple", "global_bloom"])
def test_hudis_own_indexes_find_the_keys_in_our_base_files(index: str, referee: Referee, tmp_path: Path) -> None:
    pair = Pair.create(
        referee,
        tmp_path / "t",
        table_type="cow",
        index=index,
        properties={"hoodie.parquet.small.file.limit": "0"},
    )
    for first in (0, 50, 100):
        pair.table.insert(rows("a", dict.fromkeys(range(first, first + 50), 1)))
    pair.hudi_writes(rows("h", {7: 2, 75: 2, 149: 2, 500: 1}))
    expected = {n: f"a{n}" for n in range(150)} | {n: f"h{n}" for n in (7, 75, 149, 500)}
    pair.check(list(expected.values()))
    pair.table.upsert(rows("b", {7: 3, 8: 3, 500: 3}))
    pair.check(list((expected | {n: f"b{n}" for n in (7, 8, 500)}).values()))


@pytest.mark.parametrize(("table_type", "index"), [("COPY_ON_WRITE", "SIMPLE"), ("COPY_ON_WRITE", "BLOOM")])
def test_we_go_on_in_a_table_that_hudi_made(table_type: str, index: str, referee: Referee, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.table.name": "theirs",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.index.type": index,
        **NO_METADATA,
    }

    def hudi_writes(given: list[dict[str, Any]]) -> None:
        referee.ask("write", path=str(path), rows={"schema": ROW, "json": given}, options=options)

    hudi_writes(rows("h", {1: 1, 2: 1, 3: 1}))
    pair = Pair(referee, path, lb.Table.open(path))
    pair.table.upsert(rows("a", {2: 2, 4: 1}))
    pair.check(["h1", "a2", "h3", "a4"])
    hudi_writes(rows("g", {4: 2, 1: 0, 5: 1}))
    pair.table.delete([{"id": 3}])
    pair.check(["h1", "a2", "g4", "g5"])


def test_changes_and_times_of_a_table_that_both_wrote(referee: Referee, tmp_path: Path) -> None:
    pair = Pair.create(referee, tmp_path / "t", table_type="cow", index="simple")
    first = pair.table.insert(rows("a", {1: 1, 2: 1}))
    pair.hudi_writes(rows("h", {2: 2, 3: 1}))
    last = pair.table.delete([{"id": 1}])
    as_it_was = pair.table.to_arrow(as_of=first.completion_time)
    assert sorted(as_it_was.column("name").to_pylist()) == ["a1", "a2"]
    changes = pair.table.changes(after=first.completion_time, images=True).to_arrow().to_pylist()
    told = sorted((change["_change_type"], change["name"]) for change in changes)
    assert told == [("delete", "a1"), ("insert", "h3"), ("update_postimage", "h2"), ("update_preimage", "a2")]
    assert pair.table.status(last.instant) == "published"
    pair.check(["h2", "h3"])

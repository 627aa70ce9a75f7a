# SPDX-License-Identifier: Apache-2.0
"""We overwrite and delete partitions: Apache Hudi and hudi-rs read the same rows, and Hudi writes on into the new groups.

Then the other way round: Hudi overwrites our tables, and we go on.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from tests.interop.our_tables import ROW, rows
from tests.interop.referee import HudiRefused, Referee
from tests.interop.shared_table import SharedTable
from tests.kit.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop
PARTED = f"{ROW}, p string"


def check(shared: SharedTable, names: list[str], *, by_rust: bool = True) -> None:
    """All readers see just these rows, each key once."""
    ours = our_rows(shared.table.to_arrow(meta_columns=True))
    assert sorted(str(dict(row)["name"]) for row in ours) == sorted(names)
    hudis = hudi_rows(shared.referee.ask("read", path=str(shared.path))["rows"])
    assert sorted(str(dict(row)["name"]) for row in hudis) == sorted(names)
    assert ours == hudis
    keys = Counter(dict(row)["_hoodie_record_key"] for row in ours)
    assert not [key for key, times in keys.items() if times > 1]
    if by_rust:
        batches = HudiTableBuilder.from_base_uri(str(shared.path)).build().read()
        rust = our_rows(pa.Table.from_batches(batches)) if batches else []
        assert sorted(str(dict(row)["name"]) for row in rust) == sorted(names)


def ids(shared: SharedTable, partition: str) -> set[str]:
    return {s.group.file_id for s in shared.table.snapshot().slices if s.group.partition == partition}


def test_hudi_reads_the_same_after_each_of_our_overwrites(referee: Referee, tmp_path: Path) -> None:
    ours = SharedTable.create(referee, tmp_path / "t", PARTED, partition_by="p", shared=False)
    t = ours.table
    t.upsert([*rows("a", {1: 1, 2: 1, 3: 1}, p="x"), *rows("a", {4: 1}, p="y")])
    t.insert_overwrite(rows("b", {1: 1, 5: 1}, p="x"))
    check(ours, ["b1", "b5", "a4"])
    t.upsert([*rows("c", {1: 2, 2: 1, 6: 1}, p="x"), *rows("c", {4: 2}, p="y")])
    check(ours, ["c1", "c2", "b5", "c6", "c4"])
    t.compact()
    with t.begin("insert_overwrite") as txn:
        txn.write(rows("d", {1: 1, 2: 1}, p="x"))
        txn.write(rows("e", {2: 1, 3: 1}, p="x"))
    check(ours, ["d1", "e2", "e3", "c4"])
    t.delete_partitions([{"p": "y"}])
    check(ours, ["d1", "e2", "e3"])
    t.upsert(rows("f", {4: 1}, p="y"))
    check(ours, ["d1", "e2", "e3", "f4"])
    t.clean(commits=1)
    t.insert_overwrite_table(rows("g", {9: 1}, p="z"))
    check(ours, ["g9"])
    t.insert_overwrite_table([])
    check(ours, [])
    t.upsert(rows("h", {1: 1, 9: 1}, p="x"))
    check(ours, ["h1", "h9"])


def test_hudi_reads_the_past_of_an_overwritten_table_as_we_do(referee: Referee, tmp_path: Path) -> None:
    ours = SharedTable.create(referee, tmp_path / "t", shared=False)
    t = ours.table
    t.upsert(rows("a", {1: 1, 2: 1}))
    t.insert_overwrite(rows("b", {1: 1}))
    t.upsert(rows("c", {3: 1}))
    t.insert_overwrite_table([])
    t.upsert(rows("d", {1: 1}))
    expected = [["a1", "a2"], ["b1"], ["b1", "c3"], [], ["d1"]]
    for (_, completion), names in zip(ours.writes()[1:], expected, strict=True):
        assert sorted(t.to_arrow(as_of=completion).column("name").to_pylist()) == names
        found = referee.ask("read", path=str(ours.path), mode="as_of", options={"as.of.instant": completion})
        assert sorted(str(dict(row)["name"]) for row in hudi_rows(found["rows"])) == names
    check(ours, ["d1"])


@pytest.mark.parametrize(("table_type", "index"), [("cow", "simple"), ("cow", "bucket"), ("mor", "simple")])
def test_hudi_reads_overwritten_tables_of_the_other_kinds(
    table_type: str, index: str, referee: Referee, tmp_path: Path
) -> None:
    kind = {"table_type": table_type, "index": index, "concurrency": "occ"}
    ours = SharedTable.create(referee, tmp_path / "t", PARTED, partition_by="p", shared=False, **kind)
    t = ours.table
    t.upsert([*rows("a", {1: 1, 2: 1, 3: 1}, p="x"), *rows("a", {4: 1}, p="y")])
    t.insert_overwrite(rows("b", {1: 1, 5: 1}, p="x"))
    t.upsert(rows("c", {1: 2, 2: 1}, p="x"))
    check(ours, ["c1", "c2", "b5", "a4"])
    t.delete_partitions(["y"])
    t.insert_overwrite_table(rows("d", {6: 1}, p="y"))
    check(ours, ["d6"])


@pytest.mark.parametrize("parted", [False, True], ids=["one partition", "partitions"])
def test_a_hudi_upsert_after_our_overwrite_lands_in_the_new_groups(
    parted: bool, referee: Referee, tmp_path: Path
) -> None:
    more: dict[str, Any] = {"p": "x"} if parted else {}
    how: dict[str, Any] = {"ddl": PARTED, "partition_by": "p"} if parted else {"ddl": ROW}
    shared = SharedTable.create(referee, tmp_path / "t", buckets=4, **how)
    shared.table.upsert(rows("a", dict.fromkeys(range(1, 9), 1), **more))
    shared.table.insert_overwrite(rows("b", {1: 1, 2: 1}, **more))
    new = ids(shared, "x" if parted else "")
    assert len(new) == 4
    shared.hudi_writes(rows("h", {1: 2, 3: 1, 4: 1, 5: 1}, **more))
    assert ids(shared, "x" if parted else "") == new
    check(shared, ["h1", "b2", "h3", "h4", "h5"])
    shared.table.upsert(rows("c", {3: 2, 6: 1}, **more))
    check(shared, ["h1", "b2", "c3", "h4", "h5", "c6"])
    if parted:
        shared.table.delete_partitions(["x"])
        new = ids(shared, "x")
    else:
        shared.table.insert_overwrite_table([])
        new = ids(shared, "")
    check(shared, [])
    shared.hudi_writes(rows("i", {1: 1, 2: 1, 3: 1, 4: 1}, **more))
    shared.table.upsert(rows("d", {4: 2, 5: 1}, **more))
    check(shared, ["i1", "i2", "i3", "d4", "d5"])
    assert ids(shared, "x" if parted else "") == new


def test_hudi_itself_refuses_to_overwrite_where_nobody_waits(referee: Referee, tmp_path: Path) -> None:
    shared = SharedTable.create(referee, tmp_path / "t")
    shared.table.upsert(rows("a", {1: 1}))
    with pytest.raises(HudiRefused, match="not supported with non-blocking"):
        shared.hudi_writes(rows("h", {1: 1}), hoodie__datasource__write__operation="insert_overwrite")
    check(shared, ["a1"])


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_after_an_overwrite_of_hudi_on_our_table_both_go_on(operation: str, referee: Referee, tmp_path: Path) -> None:
    shared = SharedTable.create(referee, tmp_path / "t", PARTED, partition_by="p", buckets=4, concurrency="occ")
    shared.table.upsert([*rows("a", dict.fromkeys(range(1, 9), 1), p="x"), *rows("a", {9: 1}, p="y")])
    shared.hudi_writes(rows("h", {1: 1, 2: 1}, p="x"), hoodie__datasource__write__operation=operation)
    rest = ["a9"] if operation == "insert_overwrite" else []
    check(shared, ["h1", "h2", *rest])
    shared.table.upsert(rows("b", {2: 2, 3: 1, 4: 1, 5: 1}, p="x"))
    check(shared, ["h1", "b2", "b3", "b4", "b5", *rest])
    shared.hudi_writes(rows("i", {3: 2, 6: 1}, p="x"))
    shared.table.insert_overwrite(rows("c", {1: 1}, p="x"))
    shared.table.upsert(rows("d", {6: 1, 7: 1}, p="x"))
    check(shared, ["c1", "d6", "d7", *rest])

# SPDX-License-Identifier: Apache-2.0
"""No two files of a commit have one name, in whichever partitions they lie: readers of Hudi's metadata table tell files apart by
their names alone, and buckets have the same file ids in each partition (MDT, T1)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.format.names import (
    claim_token,
    epoch_of_token,
    parse_data_file,
    partition_numbers,
    write_token,
)
from lakebraid.storage import open_storage
from tests.kit.present import present

pytestmark = pytest.mark.unit

_numbers = count()
DDL = "id bigint, p string, ts bigint, v double"
PARTITIONS = ("a", "b", "c")


def rows(ts: int, ids: range = range(8)) -> list[dict[str, Any]]:
    return [{"id": n, "p": p, "ts": ts, "v": 1.0} for n in ids for p in PARTITIONS]


def make(**settings: Any) -> lb.Table:
    given = {"ordering_fields": "ts", "buckets": 2, **settings}
    url = f"memory://file-names-{next(_numbers)}"
    return lb.Table.create(url, DDL, record_keys="id", partition_by="p", **given)


def names(table: lb.Table) -> dict[str, list[str]]:
    """The data files in the table's folders by the instant that wrote them."""
    found: dict[str, list[str]] = {}
    for info in open_storage(table.path).list(""):
        name = info.name.rpartition("/")[2]
        parsed = parse_data_file(name)
        if parsed is not None and not info.name.startswith(".hoodie"):
            found.setdefault(parsed.request_time, []).append(name)
    return found


def upserts(table: lb.Table) -> None:
    table.upsert(rows(1))
    table.upsert(rows(2))


def several_writes_of_one_transaction(table: lb.Table) -> None:
    with table.begin("upsert") as write:
        write.write(rows(1, range(4)))
        write.write(rows(2))


def loads(table: lb.Table) -> None:
    table.bulk_insert([*rows(1), {"id": 99, "p": "a", "ts": 1, "v": None}])


def partial_updates(table: lb.Table) -> None:
    table.upsert(rows(1))
    table.upsert(
        [{"id": n, "p": p, "ts": 2, "v": 3.0} for n in range(12) for p in PARTITIONS], columns=["id", "p", "ts", "v"]
    )


def deletes(table: lb.Table) -> None:
    table.upsert(rows(1))
    table.delete(rows(2))


def overwrites(table: lb.Table) -> None:
    table.upsert(rows(1))
    table.insert_overwrite(rows(2, range(1)))


def compactions(table: lb.Table) -> None:
    table.upsert(rows(1))
    table.delete(rows(9, range(4)))  # by event time they outlive the compaction, in log files of its own
    assert table.compact()


def log_compactions(table: lb.Table) -> None:
    table.upsert(rows(1))
    table.upsert(rows(2))
    assert table.log_compact(logs_min=2)


def clusterings(table: lb.Table) -> None:
    table.upsert(rows(1))
    assert table.cluster(sort_by=["v"])


MOR: dict[str, Any] = {}
COW = {"table_type": "cow", "concurrency": "occ"}
LOOKUP = {"table_type": "cow", "concurrency": "occ", "index": "simple"}
APPENDING = {"concurrency": "occ", "index": "simple"}
CAPTURING = {"properties": {"hoodie.table.cdc.enabled": "true"}}


@pytest.mark.parametrize(
    ("settings", "work"),
    [
        (MOR, upserts), (COW, upserts), (LOOKUP, upserts), (APPENDING, upserts), (CAPTURING, upserts),
        ({**COW, **CAPTURING}, upserts), (MOR, several_writes_of_one_transaction), (COW, several_writes_of_one_transaction),
        (APPENDING, several_writes_of_one_transaction), (MOR, loads), (COW, loads), (MOR, partial_updates), (MOR, deletes),
        (COW, deletes), (MOR, overwrites), (COW, overwrites), (MOR, compactions), (MOR, log_compactions), (LOOKUP, clusterings),
    ],
)  # fmt: skip
def test_no_two_files_of_a_commit_have_one_name(settings: dict[str, Any], work: Callable[[lb.Table], None]) -> None:
    table = make(**settings)
    work(table)
    by_instant = names(table)
    twins = {name for found in by_instant.values() for name in found if found.count(name) > 1}
    assert not twins
    assert max(map(len, by_instant.values())) >= len(PARTITIONS), "files of several partitions were compared"
    keys = [(row["id"], row["p"]) for row in table.to_arrow().to_pylist()]
    assert len(keys) == len({*keys})


def test_a_second_attempt_of_a_task_meets_the_names_of_the_first() -> None:
    assert partition_numbers(["b", "a", "b"]) == partition_numbers(["a", "b"]) == {"a": 0, "b": 1}
    assert (write_token(1000), write_token(1000, 2)) == ("1000-0-0", "1000-2-0")


def test_the_files_of_executors_are_told_from_those_of_writes_and_of_apache_hudi() -> None:
    assert [epoch_of_token(claim_token(epoch, number)) for epoch in (1, 10) for number in (0, 7)] == [1, 1, 10, 10]
    assert epoch_of_token("0-0-12") == 12, "as executors wrote before names told partitions apart"
    for token in ("0-0-0", "1000-3-0", "0-57-103", "3-0-3", "2-4-0", "0-3-0", "3-00-0", "0-0", "x-00-3", None):
        assert epoch_of_token(token) == 0
    name = f".f_20260102030405678.log.1_{claim_token(3, 2)}"
    assert present(parse_data_file(name)).write_token == claim_token(3, 2)

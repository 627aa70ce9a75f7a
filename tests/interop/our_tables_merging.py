# SPDX-License-Identifier: Apache-2.0
"""Tables of ours: deletes with every kind of ordering value, partial updates, duplicates, blocks of both kinds."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import lakebraid as lb
from tests.interop.our_tables import DEFINITIONS, ROW, Written, arrow, create, keys, rows, written

ORDERINGS: dict[str, tuple[str, list[Any]]] = {
    "int": ("int", [1, 2, 3, 4]),
    "bigint": ("bigint", [0, 2**40, 2**40 + 1, 2**62]),
    "float": ("float", [-1.5, 0.25, 0.5, 1e30]),
    "double": ("double", [-1e300, 0.1, 0.2, 1e300]),
    "string": ("string", ["a", "b", "ba", "é"]),
    "timestamp": ("timestamp", [dt.datetime(2024, 1, 1, microsecond=n, tzinfo=dt.UTC) for n in range(4)]),
    "timestamp_ntz": ("timestamp_ntz", [dt.datetime(1960, 1, 1, microsecond=n) for n in range(4)]),
    "date": ("date", [dt.date(2024, 1, n) for n in range(1, 5)]),
    "decimal": ("decimal(12,3)", [Decimal("-9.5"), Decimal("10.125"), Decimal("10.126"), Decimal(999999999)]),
}


def deletes_ordered_by(path: Path, kind: str, *, into_base: bool) -> Written:
    """A delete that is older, equal and newer than its row; events older and newer than a delete that come after it."""
    ddl, (older, now, newer, newest) = ORDERINGS[kind]
    table = create(path, f"id bigint, name string, ts {ddl}", buckets=1)
    (table.bulk_insert if into_base else table.upsert)(arrow(table, rows("row", dict.fromkeys(range(1, 6), now))))
    table.delete(arrow(table, keys({1: older, 2: now, 3: newer, 4: newer, 5: newer}), ("id", "ts")))
    table.upsert(arrow(table, rows("late", {4: now, 5: newest})))
    return Written(table, ["row1", "late5"])


for _kind in ORDERINGS:
    for _into_base in (False, True):
        DEFINITIONS[f"deletes_by_{_kind}_over_{'base' if _into_base else 'log'}"] = partial(
            deletes_ordered_by, kind=_kind, into_base=_into_base
        )


@written
def deletes_by_three_ordering_columns(path: Path) -> Written:
    ddl = "id bigint, name string, ts timestamp, rank string, day date"
    table = create(path, ddl, ordering_fields=["ts", "rank", "day"], buckets=1)
    day, (_, now, later, _) = dt.date(2024, 1, 1), ORDERINGS["timestamp"][1]
    table.bulk_insert(rows("base", dict.fromkeys(range(1, 5), now), rank="b", day=day))
    table.upsert(rows("row", dict.fromkeys(range(3, 7), now), rank="b", day=day))
    table.delete(
        [{"id": n, "ts": now, "rank": rank, "day": day} for n, rank in zip(range(1, 7), "acacac", strict=True)]
    )
    table.upsert(rows("late", {2: now, 4: later, 6: now}, rank="bb", day=day))
    return Written(table, ["base1", "row3", "late4", "row5"])


@written
def deletes_of_the_rows_as_they_are(path: Path) -> Written:
    """No ordering value is given: the row's own is used, so an event that is older than the row stays dead."""
    table = create(path, buckets=1)
    table.upsert(rows("row", {1: 5, 2: 5, 3: 5}))
    table.delete([{"id": 1}, {"id": 2}, {"id": 77}])
    table.upsert(rows("late", {1: 4, 2: 6}))
    return Written(table, ["late2", "row3"])


@written
def deletes_in_commit_order(path: Path) -> Written:
    table = create(path, ordering_fields=None, buckets=1)
    table.bulk_insert(rows("row", dict.fromkeys(range(1, 5), 5)))
    table.delete([{"id": 1}, {"id": 2}, {"id": 9}])
    table.upsert(rows("back", {2: 1, 9: 1}))
    table.delete([{"id": 3}])
    return Written(table, ["back2", "row4", "back9"])


@written
def deletes_by_flag(path: Path) -> Written:
    table = create(path, f"{ROW}, _hoodie_is_deleted boolean", buckets=1)
    table.bulk_insert(rows("row", dict.fromkeys(range(1, 4), 5), _hoodie_is_deleted=False))
    table.upsert([*rows("x", {1: 6, 2: 4, 7: 1}, _hoodie_is_deleted=True), *rows("new", {3: 6}), *rows("new", {4: 1})])
    return Written(table, ["row2", "new3", "new4"])


@written
def deletes_by_marker(path: Path) -> Written:
    options = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    table = create(path, f"{ROW}, op string", buckets=1, properties=options)
    table.bulk_insert(rows("row", dict.fromkeys(range(1, 4), 5), op="I"))
    table.upsert([*rows("x", {1: 6, 2: 4, 7: 1}, op="D"), *rows("new", {3: 6}, op="d"), *rows("new", {4: 1}, op=None)])
    return Written(table, ["row2", "new3", "new4"])


@written
def blocks_of_both_kinds(path: Path) -> Written:
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 1, 3: 9}))
    table.upsert(rows("b", {1: 2, 3: 2, 4: 2}), block_format="avro")
    table.upsert(rows("c", {2: 3, 4: 1}))
    return Written(table, ["b1", "c2", "a3", "b4"])


@written
def updates_of_some_columns(path: Path) -> Written:
    table = create(path, f"{ROW}, extra string", buckets=1)
    table.bulk_insert(rows("base", {1: 5, 2: 5, 3: 5, 4: 5}, extra="e"))
    table.upsert([{"id": 1, "name": "part1", "ts": 6}, {"id": 2, "name": "old", "ts": 4}], columns=["id", "name", "ts"])
    table.upsert([{"id": 3, "extra": "x", "ts": 6}], columns=["id", "extra", "ts"], block_format="avro")
    table.upsert([{"id": 3, "name": "part3", "ts": 7}], columns=["id", "name", "ts"])
    return Written(table, ["part1", "base2", "part3", "base4"])


@written
def updates_of_some_columns_in_commit_order(path: Path) -> Written:
    table = create(path, f"{ROW}, extra string", ordering_fields=None, buckets=1)
    table.bulk_insert(rows("base", {1: 5, 2: 5, 3: 5}, extra="e"))
    table.upsert([{"id": 1, "name": "part1"}, {"id": 2, "name": "part2"}], columns=["id", "name"])
    table.upsert([{"id": 2, "extra": "x"}], columns=["id", "extra"])
    return Written(table, ["part1", "part2", "base3"])


@written
def duplicates_in_one_write(path: Path) -> Written:
    table = create(path, buckets=1)
    table.upsert([*rows("a", {1: 1, 2: 2, 3: 1}), *rows("b", {1: 1, 2: 1, 3: 2})])
    with table.begin() as transaction:
        transaction.write(rows("c", {4: 1, 5: 2, 6: 1}))
        transaction.write(rows("d", {4: 1, 5: 1, 6: 2}))
    return Written(table, ["b1", "a2", "b3", "d4", "c5", "d6"])


@written
def duplicates_in_commit_order(path: Path) -> Written:
    table = create(path, buckets=1, ordering_fields=None)
    table.insert([*rows("a", {1: 1, 2: 2}), *rows("b", {1: 1, 2: 1})])
    return Written(table, ["b1", "b2"])


@written
def bulk_insert_then_upserts(path: Path) -> Written:
    table = create(path, buckets=3)
    table.bulk_insert(rows("base", dict.fromkeys(range(50), 5)))
    table.upsert(rows("new", dict.fromkeys(range(0, 60, 2), 6)))
    table.bulk_insert(rows("again", dict.fromkeys(range(0, 60, 3), 7)))
    expected = {n: f"base{n}" for n in range(50)} | {n: f"new{n}" for n in range(0, 60, 2)}
    return Written(table, [*(expected | {n: f"again{n}" for n in range(0, 60, 3)}).values()])


@written
def columns_stated_by_the_first_rows(path: Path) -> Written:
    table = lb.Table.create(path, record_keys="id", ordering_fields="ts", buckets=2)
    table.upsert(rows("a", {1: 1, 2: 1}))
    table.upsert(rows("b", {2: 2, 3: 2}))
    return Written(table, ["a1", "b2", "b3"])

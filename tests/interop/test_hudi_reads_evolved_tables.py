# SPDX-License-Identifier: Apache-2.0
"""Hudi reads rows of every age with the schema that we read them with, before and after each change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from tests.interop.referee import Referee
from tests.interop.test_hudi_reads_our_writes import read_by_rs, rows_of
from tests.kit.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop

DDL = "id bigint, ts bigint, n int, f float, d decimal(5,2), s struct<a: int>, l array<int>"
OLD = {"n": 1, "f": 0.5, "d": Decimal("1.25"), "s": {"a": 1}, "l": [1]}
Steps = Iterator[None]


def rows(table: lb.Table, *keys: int, **changed: tuple[pa.DataType, Any]) -> pa.Table:
    """Rows with the table's columns as they are now, some of them in another type."""
    count = len(keys)
    columns = {"id": pa.array(keys, pa.int64()), "ts": pa.array([1] * count, pa.int64())}
    for field in table.schema:
        if field.name in OLD and field.name not in changed:
            columns[field.name] = pa.array([OLD[field.name]] * count).cast(field.type, safe=False)
    columns |= {name: pa.array([value] * count, kind) for name, (kind, value) in changed.items()}
    return pa.table(columns)


def adds_a_column(table: lb.Table) -> Steps:
    table.upsert(rows(table, 2, x=(pa.string(), "new")))
    yield
    table.upsert(rows(table, 3))
    yield


def widens_an_int(table: lb.Table) -> Steps:
    table.upsert(rows(table, 2, n=(pa.int64(), 2**40)))
    yield


def widens_a_float(table: lb.Table) -> Steps:
    table.upsert(rows(table, 2, f=(pa.float64(), 0.1)))
    yield


def widens_a_decimal(table: lb.Table) -> Steps:
    table.upsert(rows(table, 2, d=(pa.decimal128(9, 4), Decimal("12345.2512"))))
    yield


def adds_a_field_in_a_struct(table: lb.Table) -> Steps:
    table.upsert(rows(table, 2, s=(pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 2, "b": "in"})))
    yield


def alters(table: lb.Table) -> Steps:
    table.alter().add("x", "string").widen("n", "bigint").commit()
    yield
    table.alter().reorder(["x", "n"]).commit()
    yield
    table.upsert(rows(table, 2, x=(pa.string(), "new")))
    yield


def is_late(table: lb.Table) -> Steps:
    """The writer that adds a column began first and completes last: a younger commit would mask it."""
    late = table.begin()
    table.upsert(rows(table, 2))
    late.write(rows(table, 3, x=(pa.string(), "late")))
    late.commit()
    yield
    table.upsert(rows(table, 4))
    yield


def joins_two(table: lb.Table) -> Steps:
    one, two = table.begin(schema_conflict="merge"), table.begin(schema_conflict="merge")
    one.write(rows(table, 2, x=(pa.string(), "one")))
    two.write(rows(table, 3, y=(pa.int32(), 2), n=(pa.int64(), 2**40)))
    two.commit()
    one.commit()
    yield


STORIES: list[Callable[[lb.Table], Steps]] = [
    adds_a_column, widens_an_int, widens_a_float, widens_a_decimal, adds_a_field_in_a_struct, alters, is_late, joins_two,
]  # fmt: skip


@pytest.mark.parametrize("is_compacted", [False, True], ids=["logs", "base files"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_hudi_reads_rows_of_every_age_as_we_do(
    story: Callable[[lb.Table], Steps], referee: Referee, tmp_path: Path, *, is_compacted: bool
) -> None:
    path = tmp_path / "t"
    table = lb.Table.create(path, DDL, record_keys="id", ordering_fields="ts", buckets=2)
    table.upsert([{"id": 1, "ts": 1, **OLD}])
    if is_compacted:
        table.compact()
    for _ in story(table):
        ours = our_rows(table.to_arrow(meta_columns=True))
        assert hudi_rows(rows_of(referee.ask("read", path=str(path))["rows"])) == ours
    table.compact()
    ours = our_rows(table.to_arrow(meta_columns=True))
    assert hudi_rows(rows_of(referee.ask("read", path=str(path))["rows"])) == ours
    assert read_by_rs(table) == ours

# SPDX-License-Identifier: Apache-2.0
"""Every way into a table keeps values as they are or refuses them, and then nothing is written and no other row is touched."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.api.table import Table
from lakebraid.errors import InvalidArgument
from lakebraid.storage.memory import MemoryStorage
from tests.kit.models.exact_values import EDGES, KINDS, REFUSED, held, row, same, schema
from tests.kit.tables.scene import TickingClock, make_table

pytestmark = pytest.mark.unit


class Stream:
    """What polars and others hand over: rows behind Arrow's C interface, and nothing else."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


def _in_objects(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series([r.get(name) for r in rows], dtype=object) for name in rows[0]})


WAYS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "dictionaries": lambda rows: rows,
    "an iterator of dictionaries": iter,
    "a mapping of columns": lambda rows: {name: [r.get(name) for r in rows] for name in rows[0]},
    "pandas' objects": _in_objects,
}


def in_memory(columns: Any, **arguments: Any) -> Table:
    clock = TickingClock()
    return make_table(MemoryStorage("memory://exact", clock), clock, columns, **{"buckets": 4, **arguments})


@pytest.fixture
def table() -> Table:
    return in_memory(schema())


@pytest.mark.parametrize("way", WAYS)
def test_every_value_that_is_taken_is_read_back_as_it_was_given(table: Table, way: str) -> None:
    pairs = [(name, value, held(value, kind)) for name, kind in KINDS.items() for value in EDGES]
    kept = [
        pair for pair in pairs if pair[2] is not REFUSED and not (way.startswith("pandas") and _is_missing(pair[1]))
    ]
    rows = [dict(row(key)) | {name: value} for key, (name, value, _) in enumerate(kept)]
    rows[0] = dict.fromkeys(KINDS) | rows[0]
    table.upsert(WAYS[way](rows), evolve=False)
    found = {r["id"]: r for r in table.to_arrow().to_pylist()}
    for key, (name, value, expected) in enumerate(kept):
        assert same(found[key][name], expected), (name, value)


@pytest.mark.parametrize("way", WAYS)
def test_every_value_that_is_not_taken_is_told_and_nothing_is_written(table: Table, way: str) -> None:
    files = table._storage.list()
    pairs = [(name, value) for name, kind in KINDS.items() for value in EDGES if held(value, kind) is REFUSED]
    fewer = pairs if way == "dictionaries" else pairs[::9]  # a look at the table takes a while
    for name, value in fewer:
        if way.startswith("pandas") and _is_missing(value):
            continue
        with pytest.raises(InvalidArgument, match=f"Row 1: column '{name}' .*Nothing was written"):
            table.upsert(WAYS[way]([{**row(1), name: None}, {**row(2), name: value}]), evolve=False)
    assert table._storage.list() == files


def _is_missing(value: Any) -> bool:
    return not isinstance(value, list | dict) and bool(pd.isna(value))


ARROW: dict[str, Callable[[pa.Table], Any]] = {
    "a table": lambda rows: rows,
    "a batch": lambda rows: rows.to_batches()[0],
    "a reader": lambda rows: rows.to_reader(),
    "a stream, as polars gives it": Stream,
    "a mapping of columns": lambda rows: dict(zip(rows.column_names, rows.columns, strict=True)),
    "pandas with Arrow's types": lambda rows: rows.to_pandas(types_mapper=pd.ArrowDtype),
}


@pytest.mark.parametrize("way", ARROW)
def test_columns_of_other_types_are_taken_value_by_value(table: Table, way: str) -> None:
    exact: dict[str, list[Any]] = {"i": [7.0], "l": [Decimal("2.0")], "f": [0.5], "d": [2**53], "m": [1.5], "mm": [7]}
    table.upsert(ARROW[way](pa.table({"id": [1.0], "ts": [Decimal("3.0")], **exact})), evolve=False)
    (found,) = table.to_arrow(columns=["id", "ts", *exact]).to_pylist()
    assert found == {"id": 1, "ts": 3} | {name: held(values[0], KINDS[name]) for name, values in exact.items()}
    lossy = {"i": [7.5], "l": [Decimal("2.5")], "f": [0.1], "d": [2**53 + 1], "m": [0.1], "mm": [Decimal(10**20)]}
    for name, values in {**lossy, "id": [1.9], "ts": [2.7]}.items():
        rows = {"id": [1], "ts": [9], name: values}
        if name == "f" and way.startswith("pandas"):
            continue  # its doubles are as Python's
        with pytest.raises(InvalidArgument, match=f"Row 0: column '{name}' .*Nothing was written"):
            table.upsert(ARROW[way](pa.table(rows)), evolve=False)
    assert table.to_arrow(columns=["id", "ts", *exact]).to_pylist() == [found]


def test_what_pandas_calls_missing_is_null_and_its_whole_floats_are_whole_numbers(table: Table) -> None:
    """A column of integers with a gap is one of floats for pandas."""
    frame = pd.DataFrame(
        {"id": [1, 2], "ts": [1, 1], "l": [5, None], "d": [math.nan, 1.5], "f": [0.1, 0.5], "i": [1, 2]}
    )
    table.upsert(frame, evolve=False)
    assert table.to_arrow(columns=["id", "l", "d", "f", "i"]).sort_by("id").to_pylist() == [
        {"id": 1, "l": 5, "d": None, "f": float(np.float32(0.1)), "i": 1},
        {"id": 2, "l": None, "d": 1.5, "f": 0.5, "i": 2},
    ]
    with pytest.raises(InvalidArgument, match=r"Row 1: column 'l' .* cannot take 5.5"):
        table.upsert(pd.DataFrame({"id": [1, 2], "ts": [1, 1], "l": [None, 5.5]}))
    nullable = pd.DataFrame({"id": [3], "ts": [1], "l": pd.array([2**53 + 1], dtype="Int64")})
    table.upsert(nullable)
    assert table.to_arrow(columns=["l"], where="id = 3").to_pylist() == [{"l": 2**53 + 1}]


def test_nanoseconds_that_would_be_cut_off_are_refused(table: Table) -> None:
    fine = pd.DataFrame({"id": [1], "ts": [1], "local": pd.to_datetime([1000], unit="ns")})
    table.upsert(fine)
    assert table.to_arrow(columns=["local"]).to_pylist() == [{"local": datetime(1970, 1, 1, 0, 0, 0, 1)}]
    with pytest.raises(InvalidArgument, match=r"column 'local' .*00:00:00.000000001"):
        table.upsert(fine.assign(local=pd.to_datetime([1], unit="ns")))


def test_values_too_large_for_a_column_widen_it_and_nothing_else_changes(table: Table) -> None:
    table.upsert([row(1, i=2**40, f=1e300)])
    assert table.to_arrow(columns=["i", "f"]).to_pylist() == [{"i": 2**40, "f": 1e300}]
    assert table.schema.field("i").type == pa.int64()
    for value in (1.5, 2**70):
        with pytest.raises(InvalidArgument, match="column 'i'"):
            table.upsert([row(1, i=value)])


def test_a_field_that_a_struct_has_not_is_added_or_refused_and_never_dropped() -> None:
    table = in_memory("id bigint, s struct<a: bigint>", ordering_fields=None)
    rows = [{"id": 1, "s": {"a": 1, "more": "x"}}]
    with pytest.raises(InvalidArgument, match="'s' has the type"):
        table.upsert(rows, evolve=False)
    table.upsert(rows)
    assert table.to_arrow().to_pylist() == rows


KEYS = st.one_of(
    st.sampled_from([v for v in EDGES if v is not None and not isinstance(v, list | dict)]),
    st.integers(-3, 6),
    st.integers(-6, 12).map(lambda n: n / 2),
    st.integers(-6, 12).map(lambda n: Decimal(n) / 2),
)
KEY_KINDS = {
    "bigint": range(6),
    "decimal(10,1)": [Decimal(n) / 2 for n in range(6)],
    "string": [str(n) for n in range(1, 6)],
}


@pytest.mark.parametrize("ddl", KEY_KINDS)
@given(key=KEYS, has_ordering=st.booleans(), deletes=st.booleans())
def test_a_key_hits_the_row_that_has_exactly_that_key_and_no_other(
    ddl: str, key: Any, has_ordering: bool, deletes: bool
) -> None:
    table = in_memory(f"id {ddl}, ts bigint, v bigint", ordering_fields="ts" if has_ordering else None)
    table.upsert([{"id": k, "ts": 1, "v": 0} for k in KEY_KINDS[ddl]])
    meant = held(key, table.schema.field("id").type)
    rows = dict.fromkeys(KEY_KINDS[ddl], 0)
    is_key = meant is not REFUSED and meant != ""
    with contextlib.nullcontext() if is_key else pytest.raises(InvalidArgument):
        if deletes:
            table.delete([{"id": key}])
        else:
            table.upsert([{"id": key, "ts": 2, "v": 1}])
    if is_key and deletes:
        rows.pop(meant, None)
    elif is_key:
        rows[meant] = 1
    assert {r["id"]: r["v"] for r in table.to_arrow().to_pylist()} == rows


def test_partitions_and_ordering_values_are_taken_exactly() -> None:
    table = in_memory("id bigint, p int, day date, ts int", partition_by=["p", "day"])
    day = date(2024, 5, 17)
    table.upsert([{"id": 1, "p": 1, "day": day, "ts": 2}])
    for wrong in (
        {"p": 1.9},
        {"p": True},
        {"day": datetime(2024, 5, 17, 5)},
        {"ts": 2.7},
        {"ts": math.nan},
        {"p": "1"},
    ):
        rows = [{"id": 1, "p": 1, "day": day, "ts": 3} | wrong]
        for write in (
            table.upsert,
            table.insert,
            table.bulk_insert,
            table.delete,
            table.insert_overwrite,
            table.insert_overwrite_table,
        ):
            with pytest.raises(InvalidArgument, match="Nothing was written"):
                write(rows)
    for partition in ({"p": 1.9, "day": day}, (True, day), (1, datetime(2024, 5, 17, tzinfo=UTC)), ("1", day)):
        with pytest.raises(InvalidArgument, match="Nothing was deleted"):
            table.delete_partitions([partition])
    assert table.count() == 1
    table.delete_partitions([(Decimal(1), day)])
    assert table.count() == 0

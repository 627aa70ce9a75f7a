# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pyarrow as pa
import pytest

from lakebraid.format.python_rows import python_rows

pytestmark = pytest.mark.unit

COUNTS = pa.map_(pa.string(), pa.int32())
NESTED = pa.map_(pa.string(), COUNTS)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (COUNTS, {"a": 1, "b": None}),
        (COUNTS, {}),
        (NESTED, {"a": {"b": 1}, "c": None, "d": {}}),
        (pa.list_(NESTED), [{"a": {"b": 1}}, None, {}]),
        (pa.large_list(COUNTS), [{"a": 1}]),
        (pa.struct({"n": pa.int32(), "m": NESTED}), {"n": 1, "m": {"a": {"b": 2}}}),
        (pa.struct({"m": COUNTS}), {"m": None}),
        (pa.list_(pa.struct({"a": pa.int32()})), [{"a": 1}]),
    ],
)
def test_maps_are_dictionaries_however_deep_they_lie(kind: pa.DataType, value: object) -> None:
    rows = [{"id": 1, "v": value}, {"id": 2, "v": None}]
    table = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("v", kind)]))
    assert python_rows(table) == rows


@pytest.mark.parametrize("kind", [COUNTS, pa.list_(COUNTS)])
def test_a_key_that_is_twice_in_a_map_is_refused_unless_one_of_its_values_may_be_lost(kind: pa.DataType) -> None:
    twice = [("a", 1), ("a", 2)]
    table = pa.table({"v": pa.array([twice if kind == COUNTS else [twice]], kind)})
    with pytest.raises(KeyError, match="a map has a key twice"):
        python_rows(table)
    kept = {"a": 2}
    assert python_rows(table, may_lose=True) == [{"v": kept if kind == COUNTS else [kept]}]

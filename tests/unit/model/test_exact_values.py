# SPDX-License-Identifier: Apache-2.0
"""A value that is written is kept as it was given, or refused: no way in rounds, cuts off, parses or guesses."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from decimal import Context, Decimal
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.model.values.arrow_casts import can_become, conformed
from lakebraid.model.values.exact import Inexact, exact_array, refused
from tests.kit.models.exact_values import EDGES, KINDS, NUMBERS, REFUSED, held, same

pytestmark = pytest.mark.unit


def taken(values: list[Any], kind: pa.DataType) -> list[Any]:
    try:
        return list(exact_array(values, kind).to_pylist())
    except Inexact as trouble:
        raise refused(trouble, "n") from None


def taken_last(values: list[Any], kind: pa.DataType) -> list[Any]:
    return taken(values, kind)[len(values) - 1 :]


def taken_deep(rows: list[Any], kind: pa.DataType) -> list[Any]:
    return [taken(rows, kind)[1]["l"][2][1][1]]


def conforming(given: Any, kind: pa.DataType) -> list[Any]:
    return list(conformed(given, kind, "n").to_pylist())


def conforming_last(given: Any, kind: pa.DataType) -> list[Any]:
    return conforming(given, kind)[len(given) - 1 :]


def conforming_deep(given: Any, kind: pa.DataType) -> list[Any]:
    return [conforming(given, kind)[1][0]["a"]]


def check_kept_or_refused(take: Callable[[], list[Any]], expected: Any) -> None:
    """The same value comes out, or InvalidArgument, and which of them the oracle says."""
    if expected is REFUSED:
        with pytest.raises(InvalidArgument, match="Nothing was written"):
            take()
    else:
        (kept,) = take()
        assert same(kept, expected), (kept, expected)


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_a_plain_value_is_kept_or_refused_whatever_it_is(kind: pa.DataType) -> None:
    for value in EDGES:
        check_kept_or_refused(partial(taken, [value], kind), held(value, kind))


@given(NUMBERS, st.sampled_from([*KINDS.values()]))
def test_a_number_is_kept_or_refused_whatever_its_digits(value: Any, kind: pa.DataType) -> None:
    check_kept_or_refused(lambda: taken([value], kind), held(value, kind))


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_a_value_is_taken_alike_alone_among_others_and_deep_inside(kind: pa.DataType) -> None:
    """Columns whose values all are of one Python type take a shorter road."""
    deep = pa.struct([("l", pa.list_(pa.map_(pa.string(), kind)))])
    fine = next(value for value in reversed(EDGES) if value is not None and held(value, kind) is not REFUSED)
    for value in EDGES:
        expected = held(value, kind)
        check_kept_or_refused(partial(taken_last, [fine, None, value], kind), expected)
        rows = [None, {"l": [{}, None, {"k": fine, "v": value}]}]
        check_kept_or_refused(partial(taken_deep, rows, deep), expected)


SOURCES = [
    *KINDS.values(), pa.int8(), pa.uint64(), pa.float16(), pa.decimal128(20, 10), pa.decimal256(60, 4), pa.large_string(),
    pa.string_view(), pa.large_binary(), pa.binary(1), pa.date64(), pa.timestamp("ns"), pa.timestamp("ns", tz="Europe/Oslo"),
    pa.timestamp("s", tz="UTC"), pa.time64("us"), pa.null(),
]  # fmt: skip
MATES = [pa.decimal128(2, 1), pa.decimal128(5, 0), pa.time32("ms"), pa.timestamp("ms", tz="UTC"), pa.binary(1)]


def arrow_edges(kind: pa.DataType) -> list[pa.Array]:
    """One array for each edge that the type has, of that value alone; Python's own doubles become what the type makes of them."""
    found = [pa.nulls(1, kind)]
    if pa.types.is_timestamp(kind):
        found.append(pa.array([1], pa.int64()).view(kind))
    for value in EDGES:
        with contextlib.suppress(Inexact, pa.ArrowInvalid):  # the latter: years beyond nanoseconds
            found.append(exact_array([value], kind))
    return found


def arrow_expected(array: pa.Array, target: pa.DataType) -> Any:
    value = array[0].as_py()
    if value is None:
        return None
    if pa.types.is_floating(array.type) and target == pa.float32():  # no rounding of what has a type
        return value if same(held(value, target), value) else REFUSED
    return held(value, target)


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_column_is_kept_or_refused_whatever_its_type(source: pa.DataType) -> None:
    for array, target in itertools.product(arrow_edges(source), KINDS.values()):
        expected = REFUSED if not can_become(source, target) else arrow_expected(array, target)
        check_kept_or_refused(partial(conforming, array, target), expected)
        assert can_become(source, target) or array[0].as_py() is None or arrow_expected(array, target) is REFUSED


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_column_is_kept_or_refused_in_chunks_dictionaries_and_nested_columns(source: pa.DataType) -> None:
    for target in KINDS.values():
        if not can_become(source, target):
            continue
        for array in arrow_edges(source):
            expected = arrow_expected(array, target)
            nested = pa.array([None, [], [{"a": array[0]}]], pa.list_(pa.struct([("a", source)])))
            into = pa.list_(pa.field("element", pa.struct([("a", target), ("more", target)])))
            check_kept_or_refused(partial(conforming_deep, nested[1:], into), expected)
            chunks = pa.chunked_array([pa.nulls(3, source), array])
            check_kept_or_refused(partial(conforming_last, chunks, target), expected)


@given(st.data(), st.integers(1, 38), st.integers(1, 38))
def test_decimals_and_whole_numbers_are_kept_or_refused_whatever_their_digits(
    data: st.DataObject, given_digits: int, digits: int
) -> None:
    """Arrow's own cast of 10**30 from decimal(38, 2) to decimal(38, 18) is another number."""
    source = pa.decimal128(given_digits, data.draw(st.integers(0, given_digits)))
    target = pa.decimal128(digits, data.draw(st.integers(0, digits)))
    units = data.draw(
        st.integers(0, given_digits - 1).map(lambda zeros: 10**zeros) | st.integers(0, 10**given_digits - 1)
    )
    value = Decimal(units).scaleb(-source.scale, Context(prec=60))
    for kind in (target, pa.int64(), pa.float64()):
        check_kept_or_refused(partial(conforming, pa.array([value], source), kind), held(value, kind))
        check_kept_or_refused(partial(taken, [value], kind), held(value, kind))
    if units < 2**63:
        check_kept_or_refused(partial(conforming, pa.array([units]), target), held(units, target))
        check_kept_or_refused(lambda: taken([units], target), held(units, target))


def test_the_value_its_row_its_place_and_what_to_do_are_told() -> None:
    kind = pa.struct([("a", pa.list_(pa.int64()))])
    with pytest.raises(
        InvalidArgument, match=r"^Row 2: column 'n.a.element' has the type int64 and cannot take 1.5 \(float\): "
    ) as told:
        taken([None, {"a": [1]}, {"a": [1, 1.5]}], kind)
    assert told.value.row == 2 and told.value.column == "n" and told.value.wanted == "int64"
    doubles = pa.struct([("a", pa.list_(pa.float64()))])
    given = pa.chunked_array([[{"a": None}], [{"a": [1.0]}, {"a": None}, {"a": [2.0, 2.5]}]], doubles)
    with pytest.raises(InvalidArgument, match=r"^Row 3: column 'n.a.element' .* cannot take 2.5 "):
        conformed(given, kind, "n")
    with pytest.raises(InvalidArgument, match=r"^Row 1: .* cannot take 1970-01-01 00:00:00.000000001"):
        conformed(pa.array([0, 1], pa.timestamp("ns")), pa.timestamp("us"), "n")
    with pytest.raises(InvalidArgument, match="a value that cannot be printed"):
        taken([10**5000], pa.int64())


def test_maps_keep_their_entries_and_nulls_when_types_change() -> None:
    given = pa.array([[("x", 9.5)], None, [], [("a", 1.0), ("b", None)]], pa.map_(pa.large_string(), pa.float64()))
    into = pa.map_(pa.string(), pa.int32())
    assert conformed(given[1:], into, "n").to_pylist() == [None, [], [("a", 1), ("b", None)]]
    with pytest.raises(InvalidArgument, match=r"Row 0: column 'n.value' .* 9.5"):
        conformed(given, into, "n")


def test_a_struct_that_has_a_name_more_than_the_column_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="the struct has no field 'more'"):
        taken([{"a": 1, "more": 2}], pa.struct([("a", pa.int64())]))


def test_columns_of_the_tables_type_are_passed_on_as_they_are() -> None:
    for kind in [*KINDS.values(), *MATES]:
        column = pa.chunked_array([pa.nulls(2, kind)])
        assert conformed(column, kind, "n") is column


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([2**53 + 1, 0.5], REFUSED),
        ([b"x", "y"], REFUSED),
        ([Decimal("1.5"), 1], [Decimal("1.5"), Decimal("1.0")]),
        ([1, 2.5], [1.0, 2.5]),
    ],
)
def test_values_of_a_new_column_are_kept_or_refused_too(values: list[Any], expected: Any) -> None:
    from lakebraid.tasks.writing.inputs import arrow_pieces

    rows = [{"n": value} for value in values]
    for brought in (rows, {"n": values}, pd.DataFrame({"n": pd.Series(values, dtype=object)})):
        if expected is REFUSED:
            with pytest.raises(InvalidArgument, match="Nothing was written"):
                list(arrow_pieces(brought))
        else:
            assert [piece.column("n").to_pylist() for piece in arrow_pieces(brought)] == [expected]

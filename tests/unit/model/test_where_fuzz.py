# SPDX-License-Identifier: Apache-2.0
"""Any `where` keeps exactly the rows that plain Python says, of whatever types; or it is refused, with an error of ours.

Constants are compared with the columns' values as they are: `id = 1.5` is true of no whole number. The rows lie in buckets and
partitions, so that what is pruned is held against all rows, too.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.api.table import Table
from lakebraid.errors import InvalidArgument
from lakebraid.model.predicate.parse import And, Compare, In, IsNull, Not, Or, Predicate, StartsWith, to_text
from lakebraid.storage.memory import MemoryStorage
from tests.kit.models.comparisons import COMPARISONS
from tests.kit.models.exact_values import KINDS
from tests.kit.tables.scene import TickingClock, make_table

pytestmark = pytest.mark.unit

MISMATCH = object()
COLUMNS = {
    "id": pa.int64(),
    "p": pa.int32(),
    **KINDS,
    "tiny": pa.decimal128(2, 2),
    "in_s": pa.struct([("d", pa.float64())]),
}
VALUES: dict[str, list[Any]] = {
    "b": [True, False],
    "i": [0, 1, -1, 2**31 - 1, -(2**31)],
    "l": [0, 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "f": [0.0, -0.0, 0.10000000149011612, 1.5, 16777216.0, math.nan, math.inf, -math.inf, 3.4028234663852886e38],
    "d": [0.0, -0.0, 0.1, 2.0**53, 2.0**53 + 2, math.nan, math.inf, -math.inf, 1e300],
    "m": [Decimal("0.0"), Decimal("25.7"), Decimal("-1.5"), Decimal("999999999.9")],
    "mm": [Decimal(0), Decimal("0.000000000000000001"), Decimal("12345678901234567890.5")],
    "tiny": [Decimal("0.00"), Decimal("0.99"), Decimal("-0.99")],
    "s": ["", "a", "ab", "ä", "5"],
    "x": [b"", b"a", b"\xff"],
    "day": [date(2024, 5, 17), date(1, 1, 1), date(9999, 12, 31)],
    "at": [datetime(2024, 5, 17, tzinfo=UTC), datetime(2024, 5, 17, 0, 0, 0, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)],
    "local": [datetime(2024, 5, 17), datetime(2024, 5, 17, 5), datetime(1, 1, 1)],
}  # fmt: skip
ROWS = 40


def rows() -> list[dict[str, Any]]:
    found = []
    for key in range(ROWS):
        row = {name: values[key % len(values)] if (key * 7) % 5 else None for name, values in VALUES.items()}
        found.append({"id": key, "p": key % 3 or None, **row, "in_s": {"d": row["d"]} if key % 4 else None})
    return found


@cache
def table() -> Table:
    clock = TickingClock()
    schema = pa.schema([*COLUMNS.items()])
    made = make_table(
        MemoryStorage("memory://where", clock), clock, schema, ordering_fields=None, partition_by="p", buckets=4
    )
    made.upsert(rows())
    return made


CONSTANTS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([value for values in VALUES.values() for value in values]),
    st.sampled_from([
        None, 1.5, 1.9, 0.5, Decimal("1.5"), Decimal("25.70"), Decimal("0.00"), Decimal("1E+2"), Decimal("0.1"), 2**53 + 3, 2**64, -(2**70),
        9007199254740993, 10**75, 16777217, 5e-324, "2024-05-17", "2024-05-17 00:00:00.000001", "2024", "x", datetime(2024, 5, 17, 1, 2),
        datetime(2024, 5, 17, 0, 0, tzinfo=UTC), date(2024, 5, 18), b"ab", Decimal("12345678901234567890.123456789"),
    ]),
    st.integers(-2, ROWS + 2),
    st.floats(),
    st.decimals(-50, 50, places=2),
)  # fmt: skip
NAMES = st.sampled_from([*COLUMNS, "in_s.d"])
LEAVES = st.one_of(
    st.builds(Compare, NAMES, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), CONSTANTS),
    st.builds(In, NAMES, st.lists(CONSTANTS, min_size=1, max_size=4).map(tuple), st.booleans()),
    st.builds(IsNull, NAMES, st.booleans()),
    st.builds(StartsWith, NAMES, st.sampled_from(["", "a", "ä"]), st.booleans()),
)
PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=4,
)


@given(PREDICATES)
def test_a_where_keeps_the_rows_that_python_keeps_or_is_refused(predicate: Predicate) -> None:
    check(predicate, predicate)
    check(predicate, to_text(predicate))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COLUMNS, "in_s.d"])
@given(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), CONSTANTS, st.lists(CONSTANTS, min_size=1, max_size=5))
def test_each_column_is_compared_with_every_constant(name: str, op: str, value: Any, values: list[Any]) -> None:
    check(Compare(name, op, value), Compare(name, op, value))
    check(In(name, (*values, value)), In(name, (*values, value)))


def check(predicate: Predicate, where: Any) -> None:
    expected = [evaluate(predicate, row) for row in rows()]
    try:
        found = table().to_arrow(columns=["id"], where=where).column("id").to_pylist()
    except InvalidArgument:
        assert any(is_mismatched(predicate, row) for row in rows()), predicate
        return
    if not any(verdict is MISMATCH for verdict in expected):
        assert sorted(found) == [key for key, verdict in enumerate(expected) if verdict is True], where


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("id = 1.5", []),
        ("id = 1.9", []),
        ("id in (1.9, 2)", [2]),
        ("id > 37.5", [38, 39]),
        ("id >= 37.5 and id < 38.5D", [38]),
        ("m in (0.00, 25.70)", [key for key, row in enumerate(rows()) if row["m"] in (0, Decimal("25.7"))]),
        ("d = 9007199254740993", []),
        ("d > 9007199254740993 and d < 1e19", [key for key, row in enumerate(rows()) if row["d"] == 2.0**53 + 2]),
    ],
)
def test_constants_between_two_values_of_a_column_are_not_moved_to_one(where: str, ids: list[int]) -> None:
    assert sorted(table().to_arrow(columns=["id"], where=where).column("id").to_pylist()) == ids


def evaluate(predicate: Predicate, row: dict[str, Any]) -> Any:
    """True, False, None for unknown, or MISMATCH."""
    match predicate:
        case Compare(column, op, value):
            return compare(column, op, value, row)
        case In(column, values, negated):
            return opposite(any_of([compare(column, "=", v, row) for v in values]), negated)
        case IsNull(column, negated):
            return (value_of(column, row) is None) != negated
        case StartsWith(column, prefix, negated):
            if column != "s":
                return MISMATCH
            return opposite(None if row["s"] is None else row["s"].startswith(prefix), negated)
        case Not(part):
            return opposite(evaluate(part, row), True)
        case And(parts):
            return opposite(any_of([opposite(evaluate(part, row), True) for part in parts]), True)
        case Or(parts):
            return any_of([evaluate(part, row) for part in parts])
    raise AssertionError(predicate)


def is_mismatched(predicate: Predicate, row: dict[str, Any]) -> bool:
    if isinstance(predicate, And | Or):
        return any(is_mismatched(part, row) for part in predicate.parts)
    if isinstance(predicate, Not):
        return is_mismatched(predicate.part, row)
    if isinstance(predicate, In):
        return any(compare(predicate.column, "=", value, row) is MISMATCH for value in predicate.values)
    return evaluate(predicate, row) is MISMATCH


def opposite(verdict: Any, negated: bool) -> Any:
    return not verdict if negated and isinstance(verdict, bool) else verdict


def any_of(verdicts: list[Any]) -> Any:
    for wanted in (MISMATCH, True, None):
        if any(verdict is wanted for verdict in verdicts):
            return wanted
    return False


def value_of(column: str, row: dict[str, Any]) -> Any:
    return (row["in_s"] or {}).get("d") if column == "in_s.d" else row[column]


def compare(column: str, op: str, constant: Any, row: dict[str, Any]) -> Any:
    kind = pa.float64() if column == "in_s.d" else COLUMNS[column]
    value = value_of(column, row)
    if constant is None:
        return None
    ranks = ranked(value, constant, kind)
    if ranks is MISMATCH or value is None:
        return ranks if ranks is MISMATCH else None
    left, right = ranks
    return COMPARISONS[op](left, right)


def ranked(value: Any, constant: Any, kind: pa.DataType) -> Any:
    """Both as values that compare, or MISMATCH."""
    is_ = pa.types
    if is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind):
        if isinstance(constant, bool) or not isinstance(constant, int | float | Decimal):
            return MISMATCH
        if is_.is_decimal(kind) and isinstance(constant, float) and math.isfinite(constant):
            # As Spark does: doubles of both. Where they have more digits than a double, that would be a guess.
            return (
                MISMATCH if kind.precision > 15 else None if value is None else (number(float(value)), number(constant))
            )
        if is_.is_floating(kind) and isinstance(constant, Decimal):
            constant = float(constant)  # SQL writes doubles so: 0.1 means the double that one gets by that text
        return None if value is None else (number(value), number(constant))
    if is_.is_date(kind) or is_.is_timestamp(kind):
        moment = micros(constant, is_.is_date(kind))
        return MISMATCH if moment is None else None if value is None else (micros(value, False), moment)
    wanted = bool if is_.is_boolean(kind) else str if is_.is_string(kind) else bytes if is_.is_binary(kind) else None
    return (value, constant) if wanted is not None and isinstance(constant, wanted) else MISMATCH


def number(value: Any) -> tuple[int, Fraction]:
    """NaN is above all, as in Spark."""
    if isinstance(value, float) and not math.isfinite(value):
        return (2 if math.isnan(value) else 1 if value > 0 else -1), Fraction(0)
    return 0, Fraction(value)


def micros(value: Any, is_date: bool) -> int | None:
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value) if is_date or len(value) == 10 else datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

# SPDX-License-Identifier: Apache-2.0
import math
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.model.predicate.arrow import ColumnStats, key_values, may_match, to_arrow
from lakebraid.model.predicate.parse import (
    And,
    Compare,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    bind,
    normal_form,
    parse_where,
)
from lakebraid.model.predicate.tree import Predicate
from tests.kit.effort import times
from tests.kit.models.comparisons import COMPARISONS
from tests.kit.present import present
from tests.unit.model.test_predicate import NAN, NOON, trees

pytestmark = pytest.mark.unit

Row = dict[str, Any]
Truth = bool | None

# Below: rows of every kind, and an evaluator of SQL's three values (True, False, None) with no cleverness in it.

ROWS = pa.schema([("i", pa.int64()), ("d", pa.float64()), ("f", pa.float32()), ("s", pa.string()), ("n", pa.int8())])
NUMBERS = [-129, -2, -1, 0, 1, 2, 127, 128, 2**53 + 1]
DOUBLES = [NAN, -0.0, 0.0, 0.1, 1.0, 2.5, -math.inf, math.inf]
STRINGS = ["", "a", "ab", "abc", "b", "é", "😀", "\uffff"]
TINY = [-128, -1, 0, 1, 127]
_numbers, _doubles, _strings = st.sampled_from(NUMBERS), st.sampled_from(DOUBLES), st.sampled_from(STRINGS)
_row = st.fixed_dictionaries(
    {
        "i": st.none() | _numbers,
        "d": st.none() | _doubles,
        "f": st.none() | _doubles.map(lambda x: pa.scalar(x, pa.float32()).as_py()),
        "s": st.none() | _strings,
        "n": st.none() | st.sampled_from(TINY),
    }
)
_constants = st.none() | _numbers | _doubles | st.sampled_from([Decimal("2.5"), Decimal("-1.00")])
_ops = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_numeric = st.sampled_from(["i", "d", "f", "n"])
_predicates = trees(
    st.one_of(
        st.builds(Compare, _numeric, _ops, _constants),
        st.builds(Compare, st.just("s"), _ops, st.none() | _strings),
        st.builds(In, _numeric, st.lists(_constants, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(In, st.just("s"), st.lists(st.none() | _strings, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(IsNull, st.sampled_from(["i", "d", "s"]), st.booleans()),
        st.builds(StartsWith, st.just("s"), _strings, st.booleans()),
        st.builds(Literal, st.booleans()),
    )
)


def rank(value: Any) -> Any:
    """Spark's order: NaN above all; text by its bytes."""
    if isinstance(value, str):
        return value.encode()
    return (1, 0) if value != value else (0, value)  # noqa: PLR0124


def compare(op: str, left: Any, right: Any) -> Truth:
    if left is None or right is None:
        return None
    if isinstance(left, float) and isinstance(right, int | Decimal):
        right = float(right)
    left, right = rank(left), rank(right)
    return COMPARISONS[op](left, right)


def negation(value: Truth) -> Truth:
    return None if value is None else not value


def any_of(values: list[Truth]) -> Truth:
    return True if True in values else None if None in values else False


def evaluate(predicate: Predicate, row: Row) -> Truth:
    match predicate:
        case Compare(column, op, value):
            return compare(op, row[column], value)
        case In(column, values, negated):
            found = any_of([compare("=", row[column], value) for value in values])
            return negation(found) if negated else found
        case IsNull(column, negated):
            return (row[column] is None) != negated
        case StartsWith(column, prefix, negated):
            return None if row[column] is None else row[column].startswith(prefix) != negated
        case Literal(value):
            return value
        case Not(part):
            return negation(evaluate(part, row))
        case Or(parts):
            return any_of([evaluate(part, row) for part in parts])
        case And(parts):
            return negation(any_of([negation(evaluate(part, row)) for part in parts]))


def statistics(rows: list[Row]) -> dict[str, ColumnStats]:
    stats = {}
    for name in ROWS.names:
        values = [row[name] for row in rows if row[name] is not None]
        bounded = [value for value in values if value == value]  # noqa: PLR0124
        low, high = (min(bounded), max(bounded)) if bounded else (None, None)
        stats[name] = ColumnStats(low, high, len(rows) - len(values), len(rows))
    return stats


def every_kind_of_row() -> list[Row]:
    """Some sixty rows in which every value of every column meets many of the others."""
    columns: list[list[Any]] = [
        [None, *NUMBERS],
        [None, *DOUBLES],
        [None, *(pa.scalar(x, pa.float32()).as_py() for x in DOUBLES)],
        [None, *STRINGS],
        [None, *TINY],
    ]
    return [
        dict(
            zip(
                ROWS.names,
                [values[(at + at // len(values) * step) % len(values)] for step, values in enumerate(columns, 1)],
                strict=True,
            )
        )
        for at in range(63)
    ]


def kept_by_arrow(predicate: Predicate, rows: list[Row]) -> list[int]:
    table = pa.Table.from_pylist(rows, ROWS).append_column("at", pa.array(range(len(rows)), pa.int32()))
    return list(table.filter(to_arrow(bind(predicate, ROWS)))["at"].to_pylist())


def kept_by_sql(predicate: Predicate, rows: list[Row]) -> list[int]:
    return [at for at, row in enumerate(rows) if evaluate(predicate, row) is True]


@pytest.mark.slow
@settings(max_examples=times(200), deadline=None)
@given(_predicates)
def test_arrow_keeps_exactly_the_rows_that_sql_keeps(predicate: Predicate) -> None:
    rows = every_kind_of_row()
    assert kept_by_arrow(predicate, rows) == kept_by_sql(predicate, rows)


@pytest.mark.parametrize("column", ["i", "d", "f", "n"])
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">=", "in", "not in"])
def test_every_comparison_with_every_kind_of_number_is_sparks(column: str, op: str) -> None:
    rows = every_kind_of_row()
    assert len({repr(row[column]) for row in rows}) > len(TINY)  # and null
    constants: list[Any] = [*NUMBERS, *DOUBLES, Decimal("2.5"), Decimal("-1.00")]
    for constant in constants:
        test: Predicate = In(column, (constant,), op == "not in") if "in" in op else Compare(column, op, constant)
        for predicate in (test, Not(test)):
            kept = kept_by_sql(predicate, rows)
            assert kept_by_arrow(predicate, rows) == kept, predicate
            for at in kept:
                assert may_match(bind(predicate, ROWS), statistics([rows[at]])), predicate


@pytest.mark.slow
@settings(max_examples=times(300), deadline=None)
@given(_predicates, st.lists(_row, max_size=4), st.booleans())
def test_pruning_never_drops_a_row_that_matches(predicate: Predicate, rows: list[Row], counted: bool) -> None:
    stats = statistics(rows)
    if not counted:
        stats = {name: ColumnStats(column.min, column.max, None, column.rows) for name, column in stats.items()}
    if any(evaluate(predicate, row) is True for row in rows):
        assert may_match(bind(predicate, ROWS), stats)


@pytest.mark.slow
@settings(max_examples=times(200), deadline=None)
@given(_predicates, _row)
def test_the_normal_form_is_true_of_the_same_rows(predicate: Predicate, row: Row) -> None:
    normal = normal_form(predicate)
    assert "Not(" not in repr(normal)
    assert (evaluate(normal, row) is True) == (evaluate(predicate, row) is True)


STATS = {
    "i": ColumnStats(10, 20, 0, 5),
    "d": ColumnStats(1.0, 2.0, 0, 5),
    "s": ColumnStats("abc", "abd", 1, 5),
    "n": ColumnStats(None, None, 5, 5),
}


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("i = 9", False),
        ("i = 10", True),
        ("i < 10", False),
        ("i > 20", False),
        ("i >= 20", True),
        ("i in (1, 2, 30)", False),
        ("i is null", False),
        ("d = 3", False),
        ("d > 3", True),  # NaN
        ("d = double('NaN')", True),
        ("d < 1", False),
        ("s like 'ab%'", True),
        ("s like 'abc%'", True),
        ("s like 'abx%'", False),
        ("s like 'aa%'", False),
        ("s not like 'ab%'", False),
        ("s not like 'abc%'", True),
        ("s is null", True),
        ("n = 1", False),
        ("n is not null", False),
        ("n is null", True),
        ("i = 9 or d = 1.5", True),
        ("i = 15 and d = 3", False),
        ("f = 1", True),
    ],
)
def test_pruning_drops_what_certainly_does_not_match(text: str, possible: bool) -> None:
    assert may_match(bind(present(parse_where(text)), ROWS), STATS) is possible


def test_statistics_of_another_type_prune_nothing() -> None:
    assert may_match(Compare("i", "=", 5), {"i": ColumnStats("a", "b", 0, 1)})
    assert may_match(Compare("i", "<", NOON), {"i": ColumnStats(date(2024, 1, 1), date(2024, 1, 2), 0, 1)})
    assert not may_match(Compare("i", "=", 5), {"i": ColumnStats(None, None, 0, 0)})


def test_nested_fields_dates_decimals_and_bytes_are_filtered() -> None:
    address = pa.struct([("city", pa.string())])
    table = pa.table(
        {
            "id": [1, 2, 3],
            "a": pa.array([{"city": "Oslo"}, None, {"city": None}], address),
            "day": pa.array([date(2024, 5, 17), None, date(2024, 5, 18)]),
            "at": pa.array([NOON, NOON, None], pa.timestamp("ms", "UTC")),
            "p": pa.array([Decimal("1.50"), Decimal("2.50"), None], pa.decimal128(10, 2)),
            "b": [b"a", b"b", None],
        }
    )
    for text, ids in [
        ("a.city = 'Oslo'", [1]),
        ("a.city is null", [2, 3]),
        ("a is null", [2]),
        ("a.city not in ('Bergen')", [1]),
        ("day in ('2024-05-17', '2024-05-18')", [1, 3]),
        ("at <= '2024-05-17 12:00:00' and at in ('2024-05-17 12:00:00')", [1, 2]),
        ("p > 1.5 or p in (1.5, 1.505)", [1, 2]),
        ("b >= X'62'", [2]),
    ]:
        assert table.filter(to_arrow(bind(present(parse_where(text)), table.schema)))["id"].to_pylist() == ids, text


@pytest.mark.slow
def test_as_many_conditions_and_values_as_are_allowed_do_not_exhaust_arrows_stack() -> None:
    many = And((Or(tuple(Compare("i", "=", at) for at in range(400))), In("i", tuple(range(100_000)))))
    table = pa.table({"i": pa.array([1, 20_001, None], pa.int64())})
    assert table.filter(to_arrow(bind(many, table.schema)))["i"].to_pylist() == [1]
    with pytest.raises(InvalidArgument, match="conditions"):
        bind(Or(tuple(Compare("i", "=", at) for at in range(500))), table.schema)


@pytest.mark.parametrize(
    ("text", "columns", "values"),
    [
        ("i = 1", ["i"], [(1,)]),
        ("i in (1, 2, 1) and s = 'x' and d > 1", ["s", "i"], [("x", 1), ("x", 2)]),
        ("i in (1, 2) and i in (2, 3)", ["i"], [(2,)]),
        ("i = 1 and i = 2", ["i"], []),
        ("i = 1", ["i", "s"], None),
        ("i = 1 or i = 2", ["i"], None),
        ("i not in (1)", ["i"], None),
        ("d = 0.0", ["d"], None),  # -0.0 has another text
        ("i = 2.5", ["i"], []),
        ("(i = 1 and (s = 'a' and n in (1, 2)))", ["i", "n"], [(1, 1), (1, 2)]),
        (f"i in ({', '.join(map(str, range(1001)))})", ["i"], None),
    ],
)
def test_only_equalities_that_must_all_hold_pin_keys(
    text: str, columns: list[str], values: list[tuple[int | str, ...]] | None
) -> None:
    assert key_values(bind(present(parse_where(text)), ROWS), columns) == values

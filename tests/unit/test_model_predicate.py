# SPDX-License-Identifier: Apache-2.0
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.model.predicate import (
    And,
    Compare,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
    bind,
    columns_of,
    normal_form,
    parse_where,
    to_text,
)
from lakebraid.model.predicate_arrow import ColumnStats, key_values, may_match, to_arrow
from lakebraid.model.predicate_tree import column_path, column_text

pytestmark = pytest.mark.unit

NAN = float("nan")
NOON = datetime(2024, 5, 17, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1", Compare("a", "=", 1)),
        ("a == -1L", Compare("a", "=", -1)),
        ("a <> 2.5", Compare("a", "!=", Decimal("2.5"))),
        ("A.b.`c.d` >= 1e3", Compare("A.b.`c.d`", ">=", 1000.0)),
        ("5 < a", Compare("a", ">", 5)),
        ("a = 'it''s'", Compare("a", "=", "it's")),
        (r"a = 'it\'s \u00e9\n\\\x\ud83d\ude00'", Compare("a", "=", "it's é\n\\x😀")),
        ('a = "x"', Compare("a", "=", "x")),
        ("active", Compare("active", "=", True)),
        ("NOT active", Not(Compare("active", "=", True))),
        ("a IS NULL or b is not null", Or((IsNull("a"), IsNull("b", negated=True)))),
        ("a in (1, null)", In("a", (1, None))),
        ("a Not In ('x')", In("a", ("x",), negated=True)),
        (
            "a BETWEEN 1 AND 2 AND b",
            And((And((Compare("a", ">=", 1), Compare("a", "<=", 2))), Compare("b", "=", True))),
        ),
        ("a LIKE 'ab%'", StartsWith("a", "ab")),
        (r"a NOT LIKE 'a\_b\%%'", StartsWith("a", "a_b%", negated=True)),
        ("a LIKE 'ab'", Compare("a", "=", "ab")),
        ("a = 1 OR b = 2 AND c = 3", Or((Compare("a", "=", 1), And((Compare("b", "=", 2), Compare("c", "=", 3)))))),
        ("(a = 1 OR b = 2) AND true", And((Or((Compare("a", "=", 1), Compare("b", "=", 2))), Literal(value=True)))),
        ("date = date '2024-05-17'", Compare("date", "=", date(2024, 5, 17))),
        ("t < timestamp '2024-05-17 14:00:00+02:00'", Compare("t", "<", NOON)),
        ("t < timestamp '2024-05-17T12:00'", Compare("t", "<", NOON)),
        ("t < timestamp_ntz '2024-05-17 12:00:00'", Compare("t", "<", NOON.replace(tzinfo=None))),
        ("b = X'00ff'", Compare("b", "=", b"\x00\xff")),
        ("a = NULL", Compare("a", "=", None)),
    ],
)
def test_sql_text_is_understood(text, predicate):
    assert repr(parse_where(text)) == repr(predicate)


@pytest.mark.parametrize(
    ("text", "position", "why"),
    [
        ("a = ", 4, "constant"),
        ("a = b", 4, "constant"),
        ("upper(a) = 'X'", 5, "functions"),
        ("a LIKE '%x'", 7, "Spark's filter"),
        ("a LIKE 'a_b%'", 7, "Spark's filter"),
        ("a <=> 1", 2, "<=>"),
        ("1 = 1", 4, "two constants"),
        ("a = 1 b = 2", 6, "AND, OR or the end"),
        ("a = 'open", 4, "quote"),
        ("(a = 1", 6, r"expected \)"),
        ("a IN ()", 6, "constant"),
        ("a = 1e999", 4, "too large"),
        ("a = " + "9" * 101, 4, "too many digits"),
        ("a = date '2024-02-30'", 4, "day"),
        ("a = timestamp '2024-02-28 12:00:00.1234567'", 4, "microseconds"),
        (r"a = '\ud800'", 4, "surrogate"),
        ("a = 1 @", 6, "not part of SQL"),
        ("and = 1", 0, "column"),
        ("(" * 101 + "a" + ")" * 101, 100, "levels deep"),
        ("NOT " * 101 + "a", 404, "levels deep"),
    ],
)
def test_text_that_is_not_understood_is_pointed_at(text, position, why):
    with pytest.raises(InvalidArgument, match=why) as caught:
        parse_where(text)
    assert caught.value.position == position
    _, line, caret = caught.value.message.split("\n")
    assert line[caret.index("^") :] == text[position : position + 60]


def test_the_deepest_allowed_text_does_not_exhaust_the_stack():
    assert parse_where("(" * 99 + "a" + ")" * 99) == Compare("a", "=", True)
    deepest = Compare("a", "=", 1)
    for _ in range(99):
        deepest = Not(deepest)
    assert parse_where(to_text(deepest)) == deepest
    with pytest.raises(InvalidArgument, match="levels"):
        to_text(Not(deepest))


@pytest.mark.parametrize(
    ("where", "predicate"),
    [
        (None, None),
        ([], None),
        ([("a", "==", 1)], Compare("a", "=", 1)),
        ([("a", "=", 1), ("b", "in", ["x", "y"])], And((Compare("a", "=", 1), In("b", ("x", "y"))))),
        ([[("a", "<", 1)], [("b", "not in", (2,))]], Or((Compare("a", "<", 1), In("b", (2,), negated=True)))),
        ([("a", "in", [])], Literal(value=False)),
        (IsNull("a"), IsNull("a")),
    ],
)
def test_tuples_and_trees_are_understood(where, predicate):
    assert parse_where(where) == predicate


@pytest.mark.parametrize(
    "where",
    [
        "",
        5,
        [("a", "like", "x")],
        [("a", "=")],
        [("a", "=", None)],
        [("a", "=", object())],
        [("a", "=", [1])],
        [("a", "in", "xyz")],
        [[]],
        [("a..b", "=", 1)],
        [("a", "=", Decimal("1e1000000"))],
        [("a", "=", 10**80)],
        Compare("a", "~", 1),
        In("a", ()),
        And(("a",)),
        In("a", tuple(range(100_001))),
        "a = '" + "x" * 1_048_576 + "'",
    ],
    ids=lambda where: repr(where)[:30],
)
def test_senseless_conditions_are_refused(where):
    with pytest.raises(InvalidArgument):
        parse_where(where)


_names = st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=3)
_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.decimals(places=3, allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9),
    st.text(),
    st.sampled_from(["\\", "'", "${x}", "a\\u0041", "%_"]),
    st.binary(),
    st.dates(),
    st.datetimes().map(lambda moment: moment.replace(fold=0)),
    st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0)),
)


def trees(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
            inner.map(Not),
        ),
        max_leaves=6,
    )


_columns = _names.map(column_text)
_any_predicate = trees(
    st.one_of(
        st.builds(Compare, _columns, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), _values),
        st.builds(In, _columns, st.lists(_values, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(IsNull, _columns, st.booleans()),
        st.builds(StartsWith, _columns, st.text(), st.booleans()),
        st.builds(Literal, st.booleans()),
    )
)


@given(_any_predicate)
def test_what_is_printed_is_parsed_back(predicate):
    # repr, not ==: types count, and NaN is itself.
    assert repr(parse_where(to_text(predicate))) == repr(predicate)


def test_nothing_in_a_string_can_trigger_sparks_variable_substitution():
    assert "$" not in to_text(Compare("a", "=", "${spark.secret}"))


@given(_names)
def test_a_column_of_any_name_is_read_back(path):
    assert column_path(column_text(path)) == tuple(path)


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("tiny", pa.int8()),
        ("x", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 2)),
        ("name", pa.string()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("ms")),
        ("address", pa.struct([("City", pa.string())])),
        ("tags", pa.list_(pa.string())),
        ("Twin", pa.int32()),
        ("TWIN", pa.int32()),
    ]
)
NEVER = "false"


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("ID = 5", "`id` = 5"),
        ("id > 2.5", "`id` >= 3"),
        ("id < 2.5", "`id` <= 2"),
        ("id <= -2.5", "`id` <= -3"),
        ("id = 2.5", NEVER),
        ("id != 2.5", "`id` IS NOT NULL"),
        ("NOT id > 2.5", "`id` <= 2"),
        ("id in (1, 2.5, 3.0)", "`id` IN (1, 3)"),
        ("id not in (2.5)", "`id` IS NOT NULL"),
        ("id not in (1, null)", NEVER),
        ("id in (null)", NEVER),
        ("id = null", NEVER),
        ("NOT id = null", NEVER),
        ("id < double('NaN')", "`id` IS NOT NULL"),
        ("id > double('-Infinity')", "`id` IS NOT NULL"),
        ("id >= double('Infinity')", NEVER),
        ("tiny < 1000", "`tiny` IS NOT NULL"),
        ("tiny >= 128", NEVER),
        ("tiny > -128.5", "`tiny` >= -128"),
        ("tiny < -128", "`tiny` < -128"),
        ("x > 3", "`x` > 3.0D"),
        ("x = 0.1", "`x` = 0.1D"),
        ("price = 2", "`price` = 2.00BD"),
        ("price = 0.1D", "`price` = 0.10BD"),
        ("price < 0.125", "`price` <= 0.12BD"),
        ("price > 1e9", NEVER),
        ("wide <= 99999999999999999999.999", "`wide` <= 99999999999999999999.99BD"),
        ("day >= '2024-05-17'", "`day` >= date '2024-05-17'"),
        ("day > timestamp '2024-05-17 12:00:00'", "`day` >= date '2024-05-18'"),
        ("day = timestamp '2024-05-17 00:00:00'", "`day` = date '2024-05-17'"),
        ("at = '2024-05-17 14:00:00+02:00'", "`at` = timestamp '2024-05-17 12:00:00+00:00'"),
        ("at < date '2024-05-17'", "`at` < timestamp '2024-05-17 00:00:00+00:00'"),
        ("wall > timestamp '2024-05-17 12:00:00.0005'", "`wall` >= timestamp_ntz '2024-05-17 12:00:00.001000'"),
        ("ADDRESS.city = 'Oslo'", "`address`.`City` = 'Oslo'"),
        ("address is null", "`address` IS NULL"),
        ("Twin = 1", "`Twin` = 1"),
        ("true and id = 1", "`id` = 1"),
        ("false or (true and not true)", NEVER),
    ],
)
def test_constants_take_their_columns_type_without_being_rounded(text, bound):
    assert to_text(bind(parse_where(text), SCHEMA)) == bound


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nmae = 'x'", "Did you mean name"),
        ("address.town = 'x'", "does not exist.*City"),
        ("id.x = 1", "does not exist"),
        ("twin = 1", "Twin, TWIN"),
        ("name = 5", "in quotes"),
        ("id = '5'", "without quotes"),
        ("ok = 1", "bool"),
        ("id = true", "int64"),
        ("tags = 'x'", "only be tested with IS NULL"),
        ("day = 'tomorrow'", "not a date"),
        ("at = '17.5.2024'", "not a timestamp"),
        ("wide = 0.1D", "as a decimal"),
        ("id LIKE '5%'", "int64"),
        ("at = 5", "timestamp"),
    ],
)
def test_comparisons_that_would_need_a_guess_are_refused(text, why):
    with pytest.raises(InvalidArgument, match=why):
        bind(parse_where(text), SCHEMA)


def test_the_columns_of_a_predicate_are_all_it_looks_at():
    assert columns_of(parse_where("a = 1 or not (b.c in (2) and d is null) or true")) == {"a", "b.c", "d"}


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


def rank(value):
    """Spark's order: NaN above all; text by its bytes."""
    if isinstance(value, str):
        return value.encode()
    return (1, 0) if value != value else (0, value)  # noqa: PLR0124


def compare(op, left, right):
    if left is None or right is None:
        return None
    if isinstance(left, float) and isinstance(right, int | Decimal):
        right = float(right)
    left, right = rank(left), rank(right)
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[op]


def negation(value):
    return None if value is None else not value


def any_of(values):
    return True if True in values else None if None in values else False


def evaluate(predicate, row):
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


def statistics(rows):
    stats = {}
    for name in ROWS.names:
        values = [row[name] for row in rows if row[name] is not None]
        bounded = [value for value in values if value == value]  # noqa: PLR0124
        low, high = (min(bounded), max(bounded)) if bounded else (None, None)
        stats[name] = ColumnStats(low, high, len(rows) - len(values), len(rows))
    return stats


def every_kind_of_row():
    """Some sixty rows in which every value of every column meets many of the others."""
    columns = [
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


def kept_by_arrow(predicate, rows):
    table = pa.Table.from_pylist(rows, ROWS).append_column("at", pa.array(range(len(rows)), pa.int32()))
    return table.filter(to_arrow(bind(predicate, ROWS)))["at"].to_pylist()


def kept_by_sql(predicate, rows):
    return [at for at, row in enumerate(rows) if evaluate(predicate, row) is True]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(_predicates)
def test_arrow_keeps_exactly_the_rows_that_sql_keeps(predicate):
    rows = every_kind_of_row()
    assert kept_by_arrow(predicate, rows) == kept_by_sql(predicate, rows)


@pytest.mark.parametrize("column", ["i", "d", "f", "n"])
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">=", "in", "not in"])
def test_every_comparison_with_every_kind_of_number_is_sparks(column, op):
    rows = every_kind_of_row()
    assert len({repr(row[column]) for row in rows}) > len(TINY)  # and null
    for constant in [*NUMBERS, *DOUBLES, Decimal("2.5"), Decimal("-1.00")]:
        test = In(column, (constant,), op == "not in") if "in" in op else Compare(column, op, constant)
        for predicate in (test, Not(test)):
            kept = kept_by_sql(predicate, rows)
            assert kept_by_arrow(predicate, rows) == kept, predicate
            for at in kept:
                assert may_match(bind(predicate, ROWS), statistics([rows[at]])), predicate


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(_predicates, st.lists(_row, max_size=4), st.booleans())
def test_pruning_never_drops_a_row_that_matches(predicate, rows, counted):
    stats = statistics(rows)
    if not counted:
        stats = {name: ColumnStats(column.min, column.max, None, column.rows) for name, column in stats.items()}
    if any(evaluate(predicate, row) is True for row in rows):
        assert may_match(bind(predicate, ROWS), stats)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(_predicates, _row)
def test_the_normal_form_is_true_of_the_same_rows(predicate, row):
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
def test_pruning_drops_what_certainly_does_not_match(text, possible):
    assert may_match(bind(parse_where(text), ROWS), STATS) is possible


def test_statistics_of_another_type_prune_nothing():
    assert may_match(Compare("i", "=", 5), {"i": ColumnStats("a", "b", 0, 1)})
    assert may_match(Compare("i", "<", NOON), {"i": ColumnStats(date(2024, 1, 1), date(2024, 1, 2), 0, 1)})
    assert not may_match(Compare("i", "=", 5), {"i": ColumnStats(None, None, 0, 0)})


def test_nested_fields_dates_decimals_and_bytes_are_filtered():
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
        assert table.filter(to_arrow(bind(parse_where(text), table.schema)))["id"].to_pylist() == ids, text


@pytest.mark.slow
def test_as_many_conditions_and_values_as_are_allowed_do_not_exhaust_arrows_stack():
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
def test_only_equalities_that_must_all_hold_pin_keys(text, columns, values):
    assert key_values(bind(parse_where(text), ROWS), columns) == values

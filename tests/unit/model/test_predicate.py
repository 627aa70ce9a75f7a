# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
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
    columns_of,
    parse_where,
    to_text,
)
from lakebraid.model.predicate.tree import Predicate, column_path, column_text
from tests.kit.present import present

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
def test_sql_text_is_understood(text: str, predicate: Any) -> None:
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
def test_text_that_is_not_understood_is_pointed_at(text: str, position: int, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as caught:
        parse_where(text)
    assert caught.value.position == position
    _, line, caret = caught.value.message.split("\n")
    assert line[caret.index("^") :] == text[position : position + 60]


def test_the_deepest_allowed_text_does_not_exhaust_the_stack() -> None:
    assert parse_where("(" * 99 + "a" + ")" * 99) == Compare("a", "=", True)
    deepest: Predicate = Compare("a", "=", 1)
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
def test_tuples_and_trees_are_understood(where: Any, predicate: Predicate | None) -> None:
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
        And(("a",)),  # type: ignore[arg-type]  # refused, not understood
        In("a", tuple(range(100_001))),
        "a = '" + "x" * 1_048_576 + "'",
    ],
    ids=lambda where: repr(where)[:30],
)
def test_senseless_conditions_are_refused(where: Any) -> None:
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


def trees(leaves: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
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
def test_what_is_printed_is_parsed_back(predicate: Any) -> None:
    # repr, not ==: types count, and NaN is itself.
    assert repr(parse_where(to_text(predicate))) == repr(predicate)


def test_nothing_in_a_string_can_trigger_sparks_variable_substitution() -> None:
    assert "$" not in to_text(Compare("a", "=", "${spark.secret}"))


@given(_names)
def test_a_column_of_any_name_is_read_back(path: list[str]) -> None:
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
def test_constants_take_their_columns_type_without_being_rounded(text: str, bound: str) -> None:
    assert to_text(bind(present(parse_where(text)), SCHEMA)) == bound


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
def test_comparisons_that_would_need_a_guess_are_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        bind(present(parse_where(text)), SCHEMA)


def test_the_columns_of_a_predicate_are_all_it_looks_at() -> None:
    assert columns_of(present(parse_where("a = 1 or not (b.c in (2) and d is null) or true"))) == {"a", "b.c", "d"}

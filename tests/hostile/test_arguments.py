# SPDX-License-Identifier: Apache-2.0
"""What callers can pass: times, filters and columns that make no sense, are huge, or try to be more than a filter."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.errors import InvalidArgument, SnapshotExpired
from lakebraid.model.predicate.parse import And, Compare, In, Not, Or, StartsWith, bind, parse_where, to_text
from tests.hostile.attack import Target, refusal, refused

pytestmark = pytest.mark.hostile


def _short(value: Any) -> str:
    try:
        return repr(value).partition(" at 0x")[0][:30]
    except ValueError:
        return "too many digits"


TIMES: list[Any] = [
    "",
    "now",
    "yesterday",
    "2026-01-01",
    "2026-01-01 00:00:00",
    "2026-13-01T00:00:00Z",
    "2026-01-01T00:00:00+99:99",
    "2026010100000000",
    "20261301000000000",
    "99999999999999999",
    "٢٠٢٦٠١٠١٠٠٠٠٠٠٠٠٠",
    "20260101000000000\n",
    "2" * 1_000_000,
    "\x1b[31m",
    "'; DROP TABLE x; --",
    math.nan,
    math.inf,
    -math.inf,
    1e300,
    -(10**30),
    10**4000,
    10**5000,
    -(10**5000),
    True,
    b"20260101000000000",
    dt.datetime(2026, 1, 1),
    dt.date(2026, 1, 1),
    decimal.Decimal("NaN"),
    [],
    {},
    object(),
    ("20260101000000000",),
]


@pytest.mark.parametrize("time", TIMES, ids=_short)
def test_a_time_that_is_none_is_an_invalid_argument(cow: Target, time: Any) -> None:
    table = lb.Table.open(cow.url)
    refused("time", InvalidArgument, lambda: table.to_arrow(as_of=time))
    refused("time", InvalidArgument, lambda: table.changes(after=time))
    refused("time", InvalidArgument, lambda: table.changes(until=time))


@pytest.mark.parametrize("time", ["00010101000000000", 0, -1, "99991231235959999", 253402300799])
def test_a_time_at_the_edges_gives_rows_or_a_clear_error(cow: Target, time: int | str) -> None:
    error = refusal("time", lambda: lb.Table.open(cow.url).to_arrow(as_of=time))
    assert error is None or isinstance(error, (InvalidArgument, SnapshotExpired))


WHERES: list[Any] = [
    "",
    " ",
    "(" * 500_000 + ")" * 500_000,
    "(" * 1_000_000,
    "not " * 250_000 + "id = 1",
    "!" * 1_000_000,
    "id = 1" + " and id = 1" * 90_000,
    "id = 1" + " or id = 1" * 90_000,
    "id in (" + ",".join(["1"] * 400_000) + ")",
    "id = " + "9" * 1_000_000,
    "id = " + "-" * 1_000_000 + "1",
    "id = 1e999999999",
    "id = 1e-999999999999",
    "id = '" + "x" * 1_000_000,
    "`" * 1_000_001,
    "`" + "a" * 900_000 + "` = 1",
    "'" * 1_000_001,
    '"' * 999_999 + " = 1",
    "id = '\\ud800'",
    "id = '\ud800'",
    "\ud800 = 1",
    "id = 1; drop table x",
    "id = 1 -- comment",
    "id = 1 /* comment */",
    "id = (select 1)",
    "exec('x')",
    "id = ${env:HOME}",
    "java_method('java.lang.System', 'exit', 0)",
    "id like '%x%'",
    "id rlike '(a+)+$'",
    "a.b.c.d.e = 1",
    "." * 100_000,
    "id = \0",
    "id = \x1b[31m",
    "ıd = 1",
    "x" * 2_000_000,
    [],
    [("id",)],
    [("id", "=", object())],
    [("id", "=", None)],
    [("id", "in", [])],
    [("id", "exec", "x")],
    [[("id", "=", 1)], []],
    [("id", "=", float("nan"))],
    [("id", "=", 10**5000)],
    [("id", "in", list(range(200_000)))],
    [("id", "=", 1)] * 10_000,
    5,
    b"id = 1",
    {"id": 1},
    Compare("id", "~", 1),
    Compare("", "=", 1),
    And(()),
    In("id", ()),
]


@pytest.mark.parametrize("where", WHERES, ids=_short)
def test_a_filter_that_makes_no_sense_is_refused_soon_or_means_what_it_says(cow: Target, where: Any) -> None:
    table = lb.Table.open(cow.url)
    error = refusal("where", lambda: table.to_arrow(where=where), what=_short(where))
    assert error is None or isinstance(error, InvalidArgument)


def test_a_tree_of_a_hundred_thousand_nots_is_refused(cow: Target) -> None:
    tree: Any = Compare("id", "=", 1)
    for _ in range(100_000):
        tree = Not(tree)
    refused("where", InvalidArgument, lambda: lb.Table.open(cow.url).to_arrow(where=tree))
    while isinstance(tree, Not):  # freed from the outside in: Python would recurse otherwise
        tree = tree.part


@pytest.mark.parametrize(
    "columns",
    ["id", [""], ["nowhere"], ["id\0"], ["\x1b[31m"], ["*"], ["id", "nowhere"], [None], [5], [["id"]], ["x" * 10**6]],
)
def test_columns_that_are_not_there_are_an_invalid_argument(cow: Target, columns: Any) -> None:
    refused("columns", InvalidArgument, lambda: lb.Table.open(cow.url).to_arrow(columns=columns))


@pytest.mark.parametrize("mode", ["", "SNAPSHOT", "everything", None, 5])
def test_an_unknown_mode_is_an_invalid_argument(cow: Target, mode: Any) -> None:
    refused("mode", InvalidArgument, lambda: lb.Table.open(cow.url).to_arrow(mode=mode))


EVIL = [
    "`",
    "``",
    "'",
    "''",
    '"',
    "\\",
    "\\'",
    "`; drop table x; --",
    "' or '1'='1",
    "${x}",
    "$" + "{spark.app.name}",
    "\n",
    "\0",
    "💥",
    "%",
    "_",
    "a.b",
    ") or (1=1",
    "*/",
    "/*",
    "--",
]


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("value", EVIL)
def test_the_text_for_spark_reads_back_as_the_same_filter_whatever_names_and_values_hold(name: str, value: str) -> None:
    schema = pa.schema([pa.field(name, pa.string()), pa.field("id", pa.int64())])
    column = "`" + name.replace("`", "``") + "`"
    for predicate in (
        Compare(column, "=", value),
        In(column, (value, "x"), negated=True),
        StartsWith(column, value),
        Or((And((Compare(column, "<", value), Compare("id", ">", 1))), Not(Compare(column, "!=", value)))),
    ):
        bound = bind(predicate, schema)
        again = parse_where(to_text(bound))
        assert again is not None
        assert bind(again, schema) == bound

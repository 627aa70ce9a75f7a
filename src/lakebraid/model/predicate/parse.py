# SPDX-License-Identifier: Apache-2.0
"""The `where` of a read: Spark SQL text, pyarrow's tuples or a ready tree, all become the same frozen value.

"age >= 18 AND city IN ('Oslo', 'Bergen')"
[("age", ">=", 18), ("city", "in", ["Oslo", "Bergen"])]               all of them
[[("age", ">=", 18)], [("city", "=", "Oslo")]]                        any of the lists
And((Compare("age", ">=", 18), In("city", ("Oslo", "Bergen"))))
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

import numpy as np

from lakebraid.errors import InvalidArgument
from lakebraid.model.predicate.bind import bind
from lakebraid.model.predicate.text import parse_text, to_text
from lakebraid.model.predicate.tree import (
    And,
    Compare,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    Value,
    check_predicate,
    columns_of,
    normal_form,
)

__all__ = [
    "And",
    "Compare",
    "In",
    "IsNull",
    "Literal",
    "Not",
    "Or",
    "Predicate",
    "StartsWith",
    "Value",
    "Where",
    "bind",
    "columns_of",
    "normal_form",
    "parse_where",
    "to_text",
]

Term: TypeAlias = tuple[str, str, Any]
Where: TypeAlias = str | Sequence[Term] | Sequence[Sequence[Term]] | Predicate | None

_TUPLE_OPS: Final = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def parse_where(where: Where) -> Predicate | None:
    """The predicate, not yet held against a schema (`bind` does that); None, or an empty list, keeps every row."""
    predicate = _read(where)
    if predicate is not None:
        check_predicate(predicate)
    return predicate


def _read(where: Where) -> Predicate | None:
    match where:
        case None:
            return None
        case str():
            return parse_text(where)
        case Compare() | In() | IsNull() | StartsWith() | And() | Or() | Not() | Literal():
            return where
        case list() | tuple():
            return _from_lists(list(where))
    raise InvalidArgument(
        f"where is a {type(where).__name__}; give SQL text, a list of (column, op, value) tuples or a predicate."
    )


def _from_lists(where: list[Any]) -> Predicate | None:
    if not where:
        return None
    if all(
        isinstance(part, list) or (isinstance(part, tuple) and isinstance(next(iter(part), None), tuple))
        for part in where
    ):
        groups = [_conjunction(group) for group in where]
        return groups[0] if len(groups) == 1 else Or(tuple(groups))
    return _conjunction(where)


def _conjunction(terms: list[Any]) -> Predicate:
    parts = [_from_tuple(term) for term in terms]
    if not parts:
        raise InvalidArgument("where has an empty list of conditions; leave it out to keep every row.")
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _from_tuple(term: Any) -> Predicate:
    match term:
        case (str(column), str(op), value) if op in _TUPLE_OPS:
            return Compare(column, _TUPLE_OPS[op], _given(value, term))
        case (str(column), str(op), list() | tuple() | set() | frozenset() as values) if op.lower() in ("in", "not in"):
            listed = sorted(values, key=repr) if isinstance(values, set | frozenset) else values
            negated = op.lower() == "not in"
            given = tuple(_given(value, term) for value in listed)
            return In(column, given, negated) if given else Literal(negated)
    raise InvalidArgument(
        f"{term!r} is not a condition. Conditions are (column, op, value) with op one of "
        "= == != < <= > >=, or (column, 'in' or 'not in', [values])."
    )


def _given(value: Any, term: Any) -> Value:
    if value is None:
        raise InvalidArgument(f'{term!r} compares with None, which is true of no row. Write "column IS NULL" as text.')
    if isinstance(value, np.generic) and not isinstance(value, float | str | bytes):
        return _given(value.item(), term)
    if isinstance(value, datetime) and (value != value or getattr(value, "nanosecond", False)):  # noqa: PLR0124 -- NaT
        raise InvalidArgument(f"{value!r} is finer than microseconds, which is what tables keep. Round it.")
    return _builtin(value)


def _builtin(value: Any) -> Value:
    # Subclasses (numpy.float64, pandas.Timestamp) print and compare in their own ways.
    match value:
        case bool() | int():
            return value
        case float():
            return float(value)
        case datetime():
            return datetime.combine(value.date(), value.timetz()).replace(fold=value.fold)
        case str():
            return str(value)
        case _:
            return value  # type: ignore[no-any-return] # check_predicate refuses what is no Value

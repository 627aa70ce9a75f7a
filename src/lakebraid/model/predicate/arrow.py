# SPDX-License-Identifier: Apache-2.0
"""What a bound predicate says of Arrow rows, of statistics and of keys.

Equal to Spark's answer: rows where the predicate is unknown are dropped, NaN equals NaN and is greater than every other
number, and -0.0 equals 0.0.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.limits import KEY_COMBINATIONS_MAX
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
    column_path,
    column_text,
    normal_form,
)

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Bounds of a column in some rows: every value that is neither null nor NaN lies in [min, max].

    A bound is None if it is not known; string bounds may be cut, as long as they stay bounds.
    """

    min: Value
    max: Value
    null_count: int | None
    rows: int


def to_arrow(predicate: Predicate) -> pc.Expression:
    """An Arrow filter that keeps exactly the rows the predicate is true of.

    The predicate must be bound, for the NaN rules go by the constants' types. Timestamps with a zone are compared with
    columns whose zone is "UTC", as Hudi's are.
    """
    return _expression(normal_form(predicate))


def may_match(predicate: Predicate, stats: Mapping[str, ColumnStats]) -> bool:
    """False only if certainly no row within these statistics satisfies the (bound) predicate."""
    return _may(normal_form(predicate), stats)


def key_values(predicate: Predicate, columns: Sequence[str]) -> list[tuple[Value, ...]] | None:
    """The only combinations of values that these columns can have where the predicate holds; None if not so few.

    They come from `=` and IN among the conditions that must all hold. Floating point pins nothing: 0.0 has two texts.
    """
    predicate = normal_form(predicate)
    if predicate == Literal(value=False):
        return []
    pinned: dict[str, list[Value]] = {}
    for part in _conjuncts(predicate):
        if (values := _pinning(part)) is not None and not isinstance(part, And | Or | Not | Literal):
            before = pinned.get(part.column)
            pinned[part.column] = [value for value in values if before is None or value in before]
    wanted = [pinned.get(column_text(column_path(column))) for column in columns]
    choices = [values for values in wanted if values is not None]
    if len(choices) < len(columns) or math.prod(map(len, choices)) > KEY_COMBINATIONS_MAX:
        return None
    return list(itertools.product(*choices))


def _expression(predicate: Predicate) -> pc.Expression:
    match predicate:
        case Literal(value):
            return pc.scalar(value)
        case And(parts):
            return functools.reduce(operator.and_, map(_expression, parts))
        case Or(parts):
            return functools.reduce(operator.or_, map(_expression, parts))
        case IsNull(column, negated):
            return _field(column).is_valid() if negated else _field(column).is_null()
        case StartsWith(column, prefix, negated):
            starts = pc.starts_with(_field(column), prefix)
            return ~starts if negated else starts
        case Compare(column, op, value):
            return (
                _float_compare(_field(column), op, value) if isinstance(value, float) else _compare(column, op, value)
            )
        case In(column, values, negated):
            return _not_in(column, values) if negated else _in(column, values)
        case Not():
            raise AssertionError("a predicate in normal form has no Not")


def _compare(column: str, op: str, value: Value) -> pc.Expression:
    return _OPERATORS[op](_field(column), _scalar(value))


def _float_compare(field: pc.Expression, op: str, value: float) -> pc.Expression:
    if not math.isnan(value):
        compared = _OPERATORS[op](field, pa.scalar(value, pa.float64()))
        return compared | pc.is_nan(field) if op in (">", ">=") else compared
    match op:
        case "=" | ">=":
            return pc.is_nan(field)
        case "!=" | "<":
            return ~pc.is_nan(field)
        case "<=":
            return field.is_valid()
        case _:
            return pc.scalar(False)  # nothing is greater than NaN


def _in(column: str, values: tuple[Value, ...]) -> pc.Expression:
    field = _field(column)
    if isinstance(values[0], float):
        # Arrow's is_in rounds the list to a float column's width, and tells 0.0 from -0.0 and one NaN from another.
        numbers = [value for value in values if not math.isnan(value)]  # type: ignore[arg-type]  # all are floats
        listed = pa.array([*numbers, 0.0, -0.0] if 0.0 in numbers else numbers, pa.float64())
        found = field.cast(pa.float64()).isin(listed)
        return found if len(numbers) == len(values) else found | (field.is_valid() & pc.is_nan(field))
    kind = _scalar(values[0]).type
    # Of decimals each has digits of its own; Arrow finds a type that holds all.
    return field.isin(pa.array(values, None if pa.types.is_decimal(kind) else kind))


def _not_in(column: str, values: tuple[Value, ...]) -> pc.Expression:
    # is_in is false, not null, where the column is null.
    return ~_in(column, values) & _field(column).is_valid()


def _field(column: str) -> pc.Expression:
    path = column_path(column)
    return pc.field(path[0]) if len(path) == 1 else pc.field(*path)


def _scalar(value: Value) -> pa.Scalar:
    if isinstance(value, datetime):
        return pa.scalar(value, pa.timestamp("us", "UTC" if value.tzinfo is not None else None))
    return pa.scalar(value)


def _may(predicate: Predicate, stats: Mapping[str, ColumnStats]) -> bool:
    match predicate:
        case Literal(value):
            return value
        case And(parts):
            return all(_may(part, stats) for part in parts)
        case Or(parts):
            return any(_may(part, stats) for part in parts)
        case Not():
            raise AssertionError("a predicate in normal form has no Not")
    column = stats.get(predicate.column)
    if column is None:
        return True
    if column.rows == 0:
        return False
    if isinstance(predicate, IsNull) and not predicate.negated:
        return column.null_count != 0
    if column.null_count == column.rows:
        return False
    try:
        return isinstance(predicate, IsNull) or _may_value(predicate, column)
    except TypeError:
        return True  # bounds of another type than the constant say nothing


def _may_value(predicate: Compare | In | StartsWith, column: ColumnStats) -> bool:
    low, high = column.min, column.max
    if low is None or high is None or low != low or high != high:  # noqa: PLR0124 -- NaN bounds are a writer's mistake
        return True
    match predicate:
        case Compare(_, op, value):
            return _may_compare(op, value, low, high)
        case In(_, values, False):
            return any(_may_compare("=", value, low, high) for value in values)
        case In(_, values, True):
            return all(_may_compare("!=", value, low, high) for value in values)
        case StartsWith(_, prefix, negated) if isinstance(low, str) and isinstance(high, str):
            return _may_start(prefix, low, high, negated=negated)
        case _:
            return True


def _may_compare(op: str, value: Any, low: Any, high: Any) -> bool:
    # Bounds say nothing of NaN, which is equal to itself and greater than all else.
    if (isinstance(value, float) or isinstance(low, float)) and (math.isnan(value) or op in ("!=", ">", ">=")):
        return True
    match op:
        case "=":
            return bool(low <= value <= high)
        case "!=":
            return not low == value == high
        case "<":
            return bool(low < value)
        case "<=":
            return bool(low <= value)
        case ">":
            return bool(high > value)
        case _:
            return bool(high >= value)


def _may_start(prefix: str, low: str, high: str, *, negated: bool) -> bool:
    if negated:
        return not (low.startswith(prefix) and high.startswith(prefix))
    return low[: len(prefix)] <= prefix <= high


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for part in predicate.parts:
            yield from _conjuncts(part)
    else:
        yield predicate


def _pinning(part: Predicate) -> list[Value] | None:
    match part:
        case Compare(_, "=", value):
            values = [value]
        case In(_, listed, False):
            values = list(dict.fromkeys(listed))
        case _:
            return None
    return None if any(isinstance(value, float) for value in values) else values

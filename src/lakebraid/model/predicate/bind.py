# SPDX-License-Identifier: Apache-2.0
"""Holds a predicate against a schema: the columns exist, and every constant has its column's own type.

Whole numbers, decimals, dates and timestamps lie on a grid. A constant between two of its points is not rounded:
`id > 2.5` becomes `id >= 3`, `id = 2.5` is nowhere true, and `tinyint_column < 1000` means "is not null".
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from typing import Final

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.limits import NAMES_SHOWN_MAX
from lakebraid.model.predicate.literals import literal_text, parse_date, parse_timestamp
from lakebraid.model.predicate.tree import (
    And,
    Compare,
    In,
    IsNull,
    Literal,
    Or,
    Predicate,
    StartsWith,
    Value,
    column_path,
    column_text,
    conjunction,
    disjunction,
    normal_form,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAY_MICROS: Final = 86_400_000_000
_UNIT_MICROS: Final = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}  # constants are never finer than microseconds
_EXACT_DOUBLE_DIGITS: Final = 15


def bind(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """The predicate in normal form, with the schema's own column names and constants of the columns' types.

    Names are matched as Spark does, whatever their case. Raises InvalidArgument for an unknown column (with the nearest
    names) and for a constant that cannot be compared with its column without guessing.
    """
    return _bind(normal_form(predicate), schema)


def _bind(predicate: Predicate, schema: pa.Schema) -> Predicate:
    match predicate:
        case And(parts):
            return conjunction([_bind(part, schema) for part in parts])
        case Or(parts):
            return disjunction([_bind(part, schema) for part in parts])
        case Compare(column, op, value):
            name, kind = _resolve(column, schema)
            return _compare(name, kind, op, value)
        case In(column, values, negated):
            name, kind = _resolve(column, schema)
            return _bind_in(name, kind, values, negated=negated)
        case IsNull(column, negated):
            return IsNull(_resolve(column, schema)[0], negated)
        case StartsWith(column, prefix, negated):
            name, kind = _resolve(column, schema)
            if not _is_text(kind):
                raise _mismatch(name, kind, prefix)
            return StartsWith(name, prefix, negated)
        case _:
            return predicate


def _bind_in(name: str, kind: pa.DataType, values: tuple[Value, ...], *, negated: bool) -> Predicate:
    equal = [_compare(name, kind, "=", value) for value in values]
    possible = tuple(part.value for part in equal if isinstance(part, Compare))
    if possible:
        return In(name, possible, negated)
    return IsNull(name, negated=True) if negated else Literal(value=False)


def _compare(name: str, kind: pa.DataType, op: str, value: Value) -> Predicate:
    if (grid := _grid(kind)) is not None:
        place = grid.place(value)
        if place is None:
            raise _mismatch(name, kind, value)
        return grid.compare(name, op, place)
    if pa.types.is_floating(kind) and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _compare_floating(name, op, value)
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return Compare(name, op, value)
    if (_is_text(kind) and isinstance(value, str)) or (_is_bytes(kind) and isinstance(value, bytes)):
        return Compare(name, op, value)
    raise _mismatch(name, kind, value)


def _compare_floating(name: str, op: str, value: float | Decimal) -> Predicate:
    """A decimal is how SQL writes doubles, so it means the nearest one; a whole number means itself, also beyond 2**53."""
    nearest = float(value)
    if not isinstance(value, int) or nearest == value:
        return Compare(name, op, nearest)
    if op in ("=", "!="):
        return Literal(value=False) if op == "=" else IsNull(name, negated=True)
    if op.startswith("<"):
        return Compare(name, "<=", nearest if nearest < value else math.nextafter(nearest, -math.inf))
    return Compare(name, ">=", nearest if nearest > value else math.nextafter(nearest, math.inf))


@dataclass(frozen=True, slots=True)
class _Grid:
    """A type whose values are whole multiples of a step, from `low` to `high` steps."""

    low: int
    high: int
    place: Callable[[Value], Fraction | float | None]
    """Where a constant lies, in steps; infinite or NaN beyond all points; None if it cannot be compared."""
    value: Callable[[int], Value]

    def compare(self, name: str, op: str, place: Fraction | float) -> Predicate:
        if isinstance(place, float):
            # NaN is greater than everything, as infinity is.
            return _beyond(name, op, above=place != -math.inf)
        point = math.floor(place)
        if point != place:
            if op in ("=", "!="):
                return Literal(value=False) if op == "=" else IsNull(name, negated=True)
            op, point = ("<=", point) if op in ("<", "<=") else (">=", point + 1)
        if self.low <= point <= self.high:
            return Compare(name, op, self.value(point))
        return _beyond(name, op, above=point > self.high)


def _beyond(name: str, op: str, *, above: bool) -> Predicate:
    """The comparison of a column with something above (or below) all that it can hold."""
    true = op == "!=" or op.startswith("<" if above else ">")
    return IsNull(name, negated=True) if true else Literal(value=False)


def _grid(kind: pa.DataType) -> _Grid | None:
    if pa.types.is_integer(kind):
        bits = kind.bit_width - int(pa.types.is_signed_integer(kind))
        low = -(1 << bits) if pa.types.is_signed_integer(kind) else 0
        return _Grid(low, (1 << bits) - 1, _number_place, int)
    if pa.types.is_decimal(kind):
        return _decimal_grid(kind.precision, kind.scale)
    if pa.types.is_date(kind):
        return _Grid(
            (date.min - _EPOCH.date()).days,
            (date.max - _EPOCH.date()).days,
            lambda value: _scaled(_micros(value, parse_date), _DAY_MICROS),
            lambda day: _EPOCH.date() + timedelta(days=day),
        )
    if pa.types.is_timestamp(kind):
        return _timestamp_grid(_UNIT_MICROS[kind.unit], aware=kind.tz is not None)
    return None


def _decimal_grid(precision: int, scale: int) -> _Grid:
    def place(value: Value) -> Fraction | float | None:
        if isinstance(value, float) and math.isfinite(value):
            # Spark compares as doubles. Up to 15 digits that is the same as comparing with the double's shortest text.
            value = Decimal(repr(value)) if precision <= _EXACT_DOUBLE_DIGITS else None
        at = _number_place(value)
        return at * Fraction(10) ** scale if isinstance(at, Fraction) else at

    limit = 10**precision - 1
    context = Context(prec=max(precision, 1))
    return _Grid(-limit, limit, place, lambda units: Decimal(units).scaleb(-scale, context))


def _timestamp_grid(step: int, *, aware: bool) -> _Grid:
    def value(steps: int) -> datetime:
        moment = _EPOCH + timedelta(microseconds=steps * step)
        return moment if aware else moment.replace(tzinfo=None)

    low = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
    high = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
    return _Grid(-(-low // step), high // step, lambda given: _scaled(_micros(given, parse_timestamp), step), value)


def _number_place(value: Value) -> Fraction | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return value if isinstance(value, float) and not math.isfinite(value) else Fraction(value)


def _micros(value: Value, parse: Callable[[str], date]) -> int | None:
    """Microseconds since 1970 of a date (its midnight), a datetime or its text; UTC where no zone is given."""
    if isinstance(value, str):
        try:
            value = parse(value)
        except ValueError as problem:
            raise InvalidArgument(f"In the where, {problem}.") from problem
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * _DAY_MICROS
    return None


def _scaled(micros: int | None, step: int) -> Fraction | None:
    return None if micros is None else Fraction(micros, step)


def _resolve(column: str, schema: pa.Schema) -> tuple[str, pa.DataType]:
    """The column's own spelling and its type (a dictionary's values count)."""
    fields, kind, found = list(schema), None, list[str]()
    for name in column_path(column):
        field = _field(name, fields, column)
        found.append(field.name)
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        fields = [kind.field(at) for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    return column_text(found), kind


def _field(name: str, fields: list[pa.Field], column: str) -> pa.Field:
    same = [field for field in fields if field.name == name] or [
        field for field in fields if field.name.lower() == name.lower()
    ]
    if len(same) == 1:
        return same[0]
    if same:
        trouble = f"could be any of {', '.join(field.name for field in same)}; write its exact case."
    else:
        names = [field.name for field in fields]
        near = difflib.get_close_matches(name[:100], names[:NAMES_SHOWN_MAX], n=3, cutoff=0.5)
        trouble = f"does not exist. Did you mean {' or '.join(near)}?" if near else "does not exist."
        trouble += f" There are: {', '.join(names[:50])}." if names and not near else ""
    raise InvalidArgument(f"The column {column[:100]} in the where {trouble}", column=column)


def _mismatch(name: str, kind: pa.DataType, value: Value) -> InvalidArgument:
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        advice = "Such a column can only be tested with IS NULL."
    elif _is_text(kind):
        advice = "Write the constant in quotes."
    elif isinstance(value, str):
        advice = "Write the constant without quotes."
    elif pa.types.is_decimal(kind):
        advice = "Write the constant as a decimal (2.5, without D or an exponent)."
    else:
        advice = "Write a constant of the column's type."
    shown = literal_text(value)
    return InvalidArgument(
        f"Column {name} is {kind}; comparing it with {shown[:100]} would need a guess. {advice}", column=name
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))

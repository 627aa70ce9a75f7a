# SPDX-License-Identifier: Apache-2.0
"""The types of indexed columns: Hudi's numbers for them, the wrappers of their values, and Arrow's types (MDT, section 3)."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa

from lakebraid.digits import whole_number
from lakebraid.format.metadata.values import Kind, Wrapped
from lakebraid.limits import RANGE_END_MAX

V1, V2 = "V1", "V2"
"""How values are wrapped: V1 by their meaning (table versions 6 and 8), V2 by their primitive type, with a number for the type."""
_EXACT: Final = Context(prec=80)
_DECIMAL_BYTES_MAX: Final = 32
_V1_SCALE: Final = 15


class ValueType(NamedTuple):
    """Hudi's number of a type, and for decimals their precision and scale, as in `10,2`."""

    ordinal: int
    more: str | None = None


NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, STRING, BYTES, FIXED, DECIMAL, UUID, DATE = range(1, 13)
TIME_MS, TIME_US, TIMESTAMP_MS, TIMESTAMP_US, TIMESTAMP_NS, LOCAL_MS, LOCAL_US, LOCAL_NS = range(13, 21)
NOTHING: Final = ValueType(NULL)
"""The type of a column of which a file has no row."""

_WRAPPERS: Final = {
    BOOLEAN: Kind.BOOLEAN, INT: Kind.INT, LONG: Kind.LONG, FLOAT: Kind.FLOAT, DOUBLE: Kind.DOUBLE, STRING: Kind.STRING,
    BYTES: Kind.BYTES, FIXED: Kind.BYTES, DECIMAL: Kind.BYTES, UUID: Kind.STRING, DATE: Kind.INT, TIME_MS: Kind.INT,
    **dict.fromkeys((TIME_US, TIMESTAMP_MS, TIMESTAMP_US, TIMESTAMP_NS, LOCAL_MS, LOCAL_US, LOCAL_NS), Kind.LONG),
}  # fmt: skip
_V1_WRAPPERS: Final = _WRAPPERS | {
    DATE: Kind.DATE, DECIMAL: Kind.DECIMAL, TIME_US: Kind.TIME_MICROS, TIMESTAMP_US: Kind.TIMESTAMP_MICROS,
}  # fmt: skip
_V1_TYPES: Final = {
    Kind.BOOLEAN: BOOLEAN, Kind.INT: INT, Kind.LONG: LONG, Kind.FLOAT: FLOAT, Kind.DOUBLE: DOUBLE, Kind.BYTES: BYTES,
    Kind.STRING: STRING, Kind.DATE: DATE, Kind.LOCAL_DATE: DATE, Kind.TIME_MICROS: TIME_US, Kind.TIMESTAMP_MICROS: TIMESTAMP_US,
}  # fmt: skip
_UNITS: Final = {"ms": (TIMESTAMP_MS, LOCAL_MS), "us": (TIMESTAMP_US, LOCAL_US), "ns": (TIMESTAMP_NS, LOCAL_NS)}
_PLAIN: Final = {
    BOOLEAN: pa.bool_(), INT: pa.int32(), LONG: pa.int64(), FLOAT: pa.float32(), DOUBLE: pa.float64(), STRING: pa.string(),
    BYTES: pa.binary(), FIXED: pa.binary(), UUID: pa.string(), DATE: pa.date32(), TIME_MS: pa.time32("ms"), TIME_US: pa.time64("us"),
    TIMESTAMP_MS: pa.timestamp("ms", "UTC"), TIMESTAMP_US: pa.timestamp("us", "UTC"), TIMESTAMP_NS: pa.timestamp("ns", "UTC"),
    LOCAL_MS: pa.timestamp("ms"), LOCAL_US: pa.timestamp("us"), LOCAL_NS: pa.timestamp("ns"),
}  # fmt: skip
_LONGS, _INTS = (-(1 << 63), (1 << 63) - 1), (-(1 << 31), (1 << 31) - 1)
_EXTREMES: Final[dict[int, tuple[Any, Any]]] = {
    BOOLEAN: (False, True), INT: _INTS, DATE: _INTS, TIME_MS: (0, 86_400_000), TIME_US: (0, 86_400_000_000),
    **dict.fromkeys((FLOAT, DOUBLE), (-math.inf, math.nan)),
    **dict.fromkeys((STRING, UUID), ("", RANGE_END_MAX * "\U0010ffff")),
    **dict.fromkeys((BYTES, FIXED), (b"", RANGE_END_MAX * b"\xff")),
    **dict.fromkeys((LONG, TIMESTAMP_US, TIMESTAMP_NS, LOCAL_US, LOCAL_NS), _LONGS),
    # In microseconds, as which Spark holds them, they fill the same 64 bits.
    **dict.fromkeys((TIMESTAMP_MS, LOCAL_MS), (-((1 << 63) // 1000), ((1 << 63) - 1) // 1000)),
}  # fmt: skip
_WIDER: Final = {
    frozenset({INT, LONG}): LONG,
    frozenset({FLOAT, DOUBLE}): DOUBLE,
    frozenset({BYTES, FIXED}): BYTES,
}


def value_type(kind: pa.DataType) -> ValueType | None:
    """The type of a column's values; None for columns that are not indexed (structs, lists, maps and what Hudi does not have)."""
    is_ = pa.types
    if is_.is_dictionary(kind):
        return value_type(kind.value_type)
    if is_.is_timestamp(kind):
        absolute, local = _UNITS["ms" if kind.unit == "s" else kind.unit]
        return ValueType(local if kind.tz is None else absolute)
    if is_.is_decimal(kind):
        return ValueType(DECIMAL, f"{kind.precision},{kind.scale}") if kind.precision <= 38 else None
    if is_.is_integer(kind):
        small = kind.bit_width < 32 or kind == pa.int32()
        return None if kind == pa.uint64() else ValueType(INT if small else LONG)
    if is_.is_time(kind):
        return ValueType(TIME_MS if is_.is_time32(kind) else TIME_US)
    for found, ordinal in (
        (is_.is_boolean(kind), BOOLEAN),
        (is_.is_float32(kind), FLOAT),
        (is_.is_float64(kind), DOUBLE),
        (is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind), STRING),
        (is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind), BYTES),
        (is_.is_fixed_size_binary(kind), FIXED),
        (is_.is_date(kind), DATE),
    ):
        if found:
            return ValueType(ordinal)
    return None


def plain_arrow_type(kind: ValueType) -> pa.DataType | None:
    """The Arrow type that a plain value of this type has; None if there is none, or no type that we know."""
    if kind.ordinal != DECIMAL:
        return _PLAIN.get(kind.ordinal)
    precision, scale = decimal_form(kind)
    return pa.decimal128(precision, scale) if 0 <= scale <= precision <= 38 and precision else None


def decimal_form(kind: ValueType) -> tuple[int, int]:
    """Precision and scale of a decimal; zeros if the type does not say them."""
    precision, _, scale = (kind.more or "").partition(",")
    found = whole_number(precision.strip()), whole_number(scale.strip() or "0")
    return (0, 0) if None in found or max(found[0] or 0, found[1] or 0) > 76 else (found[0] or 0, found[1] or 0)


def extremes(kind: ValueType) -> tuple[Any, Any]:
    """The least and the greatest plain value of a type. Texts and bytes have no greatest: those that are given begin with more of
    the greatest character than is to be expected.
    """
    if kind.ordinal == DECIMAL:
        precision, scale = decimal_form(kind)
        most = Decimal(10**precision - 1).scaleb(-scale, _EXACT)
        return -most, most
    return _EXTREMES[kind.ordinal]


def wrap(value: Any, kind: ValueType, version: str = V2) -> Wrapped | None:
    """A plain value as it is stored."""
    if value is None:
        return None
    if kind.ordinal != DECIMAL:
        return Wrapped((_WRAPPERS if version == V2 else _V1_WRAPPERS)[kind.ordinal], value)
    scale = decimal_form(kind)[1] if version == V2 else _V1_SCALE
    unscaled = int(Decimal(value).scaleb(scale, _EXACT))
    raw = unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    return Wrapped(Kind.BYTES if version == V2 else Kind.DECIMAL, raw)


def unwrap(wrapped: Wrapped | None, kind: tuple[int, str | None] | None) -> tuple[Any, ValueType] | None:
    """The plain value and its type; `kind` is what stands beside it, None in V1. None if the two do not fit."""
    stated = None if kind is None else ValueType(*kind)
    if wrapped is None:
        return None, stated or NOTHING
    if stated is None:
        if wrapped.kind is Kind.DECIMAL:
            return _decimal(wrapped.value, ValueType(DECIMAL, f"30,{_V1_SCALE}"))
        return wrapped.value, ValueType(_V1_TYPES[wrapped.kind])
    if wrapped.kind is not _WRAPPERS.get(stated.ordinal):
        return None
    return _decimal(wrapped.value, stated) if stated.ordinal == DECIMAL else (wrapped.value, stated)


def _decimal(raw: bytes, kind: ValueType) -> tuple[Any, ValueType] | None:
    precision, scale = decimal_form(kind)
    if not precision or len(raw) > _DECIMAL_BYTES_MAX:
        return None
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _EXACT), kind


def wider_type(first: ValueType, second: ValueType) -> ValueType | None:
    """The type whose values both have; None if they cannot be compared."""
    if second in (first, NOTHING):
        return first
    if first == NOTHING:
        return second
    if first.ordinal == second.ordinal == DECIMAL:
        (digits, scale), (other_digits, other_scale) = decimal_form(first), decimal_form(second)
        whole, fraction = max(digits - scale, other_digits - other_scale), max(scale, other_scale)
        return ValueType(DECIMAL, f"{whole + fraction},{fraction}")
    ordinal = _WIDER.get(frozenset({first.ordinal, second.ordinal}))
    return None if ordinal is None else ValueType(ordinal)

# SPDX-License-Identifier: Apache-2.0
"""What a column may become of a value that is given to it: an oracle in plain Python, and values at all edges.

It shares nothing with the product: numbers are fractions, floats are what `struct` makes of them.
"""

from __future__ import annotations

import enum
import math
import struct
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

REFUSED: Final = object()

KINDS: Final = {
    "b": pa.bool_(),
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "m": pa.decimal128(10, 1),
    "mm": pa.decimal128(38, 18),
    "s": pa.string(),
    "x": pa.binary(),
    "day": pa.date32(),
    "at": pa.timestamp("us", tz="UTC"),
    "local": pa.timestamp("us"),
}
"""One column of each type that a table can have, but for those that hold others."""


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


_OSLO: Final = timezone(timedelta(hours=2))
EDGES: Final[list[Any]] = [
    None, True, False, 0, 1, -1, 5, 2**24, 2**24 + 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**53, 2**53 + 1, 2**54, 2**63 - 1, 2**63,
    -(2**63), 10**18, 10**30, 10**400, 0.0, -0.0, 1.0, 1.5, 0.1, -2.7, 1e300, -1e300, 1e-300, 3.4028235e38, 3.5e38, 2.0**31, 2.0**53,
    2.0**63, math.nan, math.inf, -math.inf, 5e-324, 16777217.0, Decimal(5), Decimal("5.5"), Decimal("1.50"), Decimal("1.55"),
    Decimal("0.1"), Decimal("0.5"), Decimal("1E+5"), Decimal("1E+1000"), Decimal("-0.0"), Decimal("NaN"), Decimal("Infinity"),
    Decimal("999999999.9"), Decimal(9999999999), Decimal("0.0000000000000000001"), Decimal("5.93655777477653163456457967824E-28"), Decimal("0E-60"), Decimal(10) ** 30, "", "5", "1.5", "true", "2024-05-17", "\ud800", "ä",
    b"", b"5", b"\xff", bytearray(b"x"), memoryview(b"x"), date(2024, 5, 17), date(1, 1, 1), date(9999, 12, 31),
    datetime(2024, 5, 17), datetime(2024, 5, 17, 5, 6, 7, 8), datetime(2024, 5, 17, tzinfo=UTC),
    datetime(2024, 5, 17, 0, 0, 0, 1, tzinfo=_OSLO), datetime(1, 1, 2, tzinfo=_OSLO), time(1, 2), timedelta(1),
    np.int8(5), np.int64(2**53 + 1), np.uint64(2**63), np.float32(0.1), np.float16(0.5), np.float64(1.5), np.longdouble(1.5),
    np.longdouble(1) / 3, np.bool_(True), np.str_("5"), np.bytes_(b"5"), np.datetime64("2024-05-17"), np.datetime64(1, "ns"),
    np.datetime64(1000, "ns"), np.datetime64("NaT"), np.timedelta64(1, "D"), pd.Timestamp(1), pd.Timestamp("2024-05-17 01:02:03.000004"),
    pd.Timestamp("2024-05-17", tz="Europe/Oslo"), pd.NaT, pd.NA, Colour.RED, Level.LOW, uuid.UUID(int=5), [1], {"a": 1}, object(), 1j,
]  # fmt: skip

NUMBERS: Final = st.one_of(
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(width=32),
    st.decimals(allow_nan=True, places=None),
    st.decimals(-(10**10), 10**10, places=1),
    st.integers(-(2**70), 2**70).map(float),
)


def held(value: Any, kind: pa.DataType) -> Any:
    """What the column holds then, or REFUSED."""
    value = _plain(value)
    if value is None or value is REFUSED:
        return value
    is_ = pa.types
    if is_.is_boolean(kind):
        return value if isinstance(value, bool) else REFUSED
    if is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind):
        return _number(value, kind)
    if is_.is_string(kind):
        return value if isinstance(value, str) and not any(0xD800 <= ord(c) < 0xE000 for c in value) else REFUSED
    if is_.is_binary(kind):
        return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else REFUSED
    if is_.is_date(kind):
        return value if isinstance(value, date) and not isinstance(value, datetime) else REFUSED
    return _moment(value, kind)


def same(kept: Any, expected: Any) -> bool:
    """Whether both are the same value: of the same type, NaN and the sign of zero included."""
    if isinstance(expected, float):
        return isinstance(kept, float) and struct.pack("<d", kept) == struct.pack("<d", expected)
    if isinstance(expected, datetime) and isinstance(kept, datetime):
        return (kept.tzinfo is None) == (expected.tzinfo is None) and kept == expected
    return type(kept) is type(expected) and bool(kept == expected)


def _plain(value: Any) -> Any:
    match value:
        case np.datetime64():
            if np.isnat(value):
                return REFUSED
            unit = np.datetime_data(value.dtype)[0]
            if unit == "D":
                return value.item()
            nanoseconds = int(value.astype("datetime64[ns]").astype(np.int64))
            return REFUSED if nanoseconds % 1000 else datetime(1970, 1, 1) + timedelta(microseconds=nanoseconds // 1000)
        case np.floating() if type(value) is np.longdouble:
            return float(value) if np.longdouble(float(value)) == value else REFUSED
        case np.generic():
            return value.item()
        case pd.Timestamp():
            return REFUSED if value.nanosecond else value.to_pydatetime()
        case _:
            return REFUSED if value is pd.NaT or value is pd.NA else value


def _number(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return REFUSED
    if pa.types.is_floating(kind) and isinstance(value, float):
        return value if kind == pa.float64() else _single(value)
    if not (
        value.is_finite() if isinstance(value, Decimal) else math.isfinite(value) if isinstance(value, float) else True
    ):
        return REFUSED
    exact = Fraction(value)
    if pa.types.is_integer(kind):
        high = 2 ** (kind.bit_width - 1)
        return int(exact) if exact.denominator == 1 and -high <= exact < high else REFUSED
    if pa.types.is_decimal(kind):
        scaled = exact * 10**kind.scale
        fits = scaled.denominator == 1 and abs(scaled) < 10**kind.precision
        return Decimal(int(scaled)).scaleb(-kind.scale, Context(prec=60)) if fits else REFUSED
    if not exact:
        return math.copysign(0.0, value)
    try:
        nearest = float(exact)
    except OverflowError:
        return REFUSED
    nearest = nearest if kind == pa.float64() else _single(nearest)
    return nearest if nearest is not REFUSED and Fraction(nearest) == exact else REFUSED


def _single(value: float) -> Any:
    try:
        found = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return REFUSED
    return REFUSED if value and not found else found


def _moment(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, datetime) or (value.tzinfo is None) != (kind.tz is None):
        return REFUSED
    try:
        return value if kind.tz is None else value.astimezone(UTC)
    except OverflowError:
        return REFUSED


def schema() -> pa.Schema:
    """A table with all kinds of columns."""
    return pa.schema([("id", pa.int64()), ("ts", pa.int64()), *KINDS.items()])


def row(key: int, **values: Any) -> Mapping[str, Any]:
    return {"id": key, "ts": 1, **values}

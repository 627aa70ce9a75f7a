# SPDX-License-Identifier: Apache-2.0
"""Values of every type at its edges: extremes, odd ones, long ones, and such as compress to nothing."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

TEXTS: Final = (
    *("", "x", "ä", "\U0001f600", "it's", "null", "a,b:c", "%2F", " ", "line\nbreak", "__null__", "\x00", "\\", '"'),
    *("NaN", "1e400", "\ufeff", "e\u0301", "é", "\u202e", "é" * 50, "0" * 400),
)
LENGTHS: Final = (100, 4_000, 33_000, 70_000, 1_050_000)
LONG_LENGTHS: Final = (*LENGTHS, 5_000_000, 8_400_000, 20_000_000, 30_000_000)
_EPOCH: Final = datetime(1970, 1, 1)
_DOUBLES: Final = (
    *(0.0, -0.0, 0.1, -1.5, 5e-324, 1.7976931348623157e308, 9007199254740993.0),
    *(math.inf, -math.inf),
)
_FLOATS: Final = (0.0, -0.0, 0.5, -1.5, 16777216.0, -4194304.5, math.inf, -math.inf)
"""Such as have the same digits as doubles: a column that is widened goes by these, as in Hudi (docs/differences.md)."""


def an_edge(dice: Random, kind: str, lengths: tuple[int, ...] = LENGTHS) -> Any:
    """A value of that type that a careless cast, limit or format would change or refuse."""
    if kind in _CHOICES:
        return dice.choice(_CHOICES[kind])
    match kind:
        case "string":
            return _text(dice, lengths)
        case "binary":
            return _text(dice, lengths).encode()
        case "time":
            return (_EPOCH + dice.choice(_INSTANTS)).replace(tzinfo=UTC)
        case "local time":
            return _EPOCH + dice.choice(_INSTANTS)
        case "list":
            return [dice.choice([None, 2**31 - 1, -(2**31)])] * dice.choice([0, 1, 300, 5_000])
        case "map":
            return [(f"k{n}", 2**63 - 1) for n in range(dice.choice([0, 1, 300]))]
        case "points":
            return [{"a": -(2**31), "b": "\U0001f600" * 30}] * dice.choice([0, 1, 400])
        case "point" | "long point":
            return {"a": dice.choice([2**31 - 1, None]), "b": _text(dice, lengths)}
        case "point of three":
            return {"a": -(2**31), "b": _text(dice, lengths), "c": dice.choice(_DOUBLES)}
    raise AssertionError(kind)


_CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "int": (2**31 - 1, -(2**31), 0, -1),
    "bigint": (2**63 - 1, -(2**63), 0, -1, 2**53 + 1, 2**31),
    "double": _DOUBLES,
    "float": _FLOATS,
    "decimal": (Decimal("9999999.99"), Decimal("-9999999.99"), Decimal("0.00"), Decimal("-0.01")),
    "wide decimal": (Decimal(10) ** 18 - Decimal("0.01"), -(Decimal(10) ** 17), Decimal("0.01")),
    "date": (date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1969, 12, 31), date(9999, 12, 31)),
    "boolean": (True, False),
}
_INSTANTS: Final = (
    timedelta(0),
    timedelta(microseconds=-1),
    timedelta(days=-365 * 300, microseconds=1),
    timedelta(days=365 * 200, microseconds=999_999),
    timedelta(days=-719_100),
    timedelta(days=2_932_896, hours=23, minutes=59, seconds=59, microseconds=999_999),
)


def _text(dice: Random, lengths: tuple[int, ...]) -> str:
    if dice.random() < 0.5:
        return dice.choice(TEXTS)
    length = dice.choice(lengths)
    if dice.random() < 0.7:
        return dice.choice(["x", " ", "ab", "\U0001f600"])[:1] * length
    # Nothing that repeats within the reach of a compressor.
    return dice.randbytes(length // 2).hex()


MISFITS: Final[dict[str, tuple[Any, ...]]] = {
    "int": (1.5, 2**31, -(2**40), math.nan, math.inf, "1", True, b"1", Decimal("0.1"), _EPOCH),
    "bigint": (0.5, 2**63, 1e300, "x", False, Decimal(9223372036854775808), date(2026, 1, 1)),
    "float": (1e300, "1.0", True, 1e-60),
    "decimal": (Decimal("1.555"), Decimal(10) ** 8, 0.1, "1.00", True),
    "date": (_EPOCH + timedelta(hours=1), "2026-01-01", 5),
    "time": (_EPOCH, "2026-01-01T00:00:00Z", date(2026, 1, 1), 5),
    "local time": (_EPOCH.replace(tzinfo=UTC), date(2026, 1, 1)),
    "boolean": (1, "true", 0.0),
    "string": (1, b"bytes", True),
    "binary": ("text", 1),
}
"""Values that a column of that type cannot hold as they are."""

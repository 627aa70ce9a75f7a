# SPDX-License-Identifier: Apache-2.0
"""Constants in Spark SQL text, read and written. Trouble is a ValueError; the parser adds the place."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Final

from lakebraid.model.predicate.tree import Value

UNTYPED: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}

_NUMBER_CHARACTERS_MAX: Final = 100
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7][0-7])|(.))|(''|\"\")", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_TO_ESCAPE: Final = re.compile(r"[\\'$\x00-\x1f]")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,6}))?)?)?"
    r" ?(Z|UTC|(?:([+-])([0-9]{1,2})(?::?([0-9]{2}))?))?"
)


def number(text: str, *, negative: bool = False) -> int | float | Decimal:
    """A number as Spark types it: `1` whole, `2.5` decimal, `1e3` double; suffixes L S Y, D, BD say it outright."""
    if len(text) > _NUMBER_CHARACTERS_MAX:
        raise ValueError("this number has too many digits")
    digits, suffix = re.fullmatch(r"([0-9.eE+-]+)(BD|[LSYD])?", text, re.IGNORECASE).groups()  # type: ignore[union-attr]
    signed = f"-{digits}" if negative else digits
    suffix = (suffix or "").upper()
    if suffix == "D" or (not suffix and re.search("[eE]", digits)):
        value = float(signed)
        if math.isinf(value):
            raise ValueError("this number is too large for a double")
        return value
    if suffix == "BD" or (not suffix and "." in digits):
        return Decimal(signed)
    if not re.fullmatch("[0-9]+", digits):
        raise ValueError(f"a number with {suffix} must be whole")
    return int(signed)


def string_value(quoted_text: str) -> str:
    """What a quoted string means: backslash escapes as in Spark, a doubled quote is one."""
    quote = quoted_text[0]

    def plain(found: re.Match[str]) -> str:
        code = found[1] or found[2]
        if code:
            return _character(int(code, 16))
        if found[3]:
            return chr(int(found[3], 8))
        if found[4]:
            return _ESCAPED.get(found[4], found[4])
        return quote if found[5] == quote * 2 else found[5]

    text = _ESCAPE.sub(plain, quoted_text[1:-1])
    try:
        # Two \u escapes may make one character together.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise ValueError("this string has half a surrogate pair") from None


def typed_value(word: str, text: str) -> Value:
    """A string with a type before it: date, timestamp, timestamp_ntz, x (bytes) and double."""
    match word:
        case "date":
            return parse_date(text)
        case "timestamp" | "timestamp_ltz":
            return parse_timestamp(text)
        case "timestamp_ntz":
            return parse_timestamp(text).replace(tzinfo=None)
        case "x" if re.fullmatch("(?:[0-9A-Fa-f]{2})*", text):
            return bytes.fromhex(text)
        case "double" if text in ("NaN", "Infinity", "-Infinity"):
            return float(text)
    raise ValueError(f"{word} '{text}' is not a constant that can be compared")


def parse_date(text: str) -> date:
    """`2024-05-17`; ValueError for anything else."""
    if re.fullmatch("[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}", text.strip()):
        year, month, day = map(int, text.strip().split("-"))
        return date(year, month, day)
    raise ValueError(f"{text!r} is not a date like 2024-05-17")


def parse_timestamp(text: str) -> datetime:
    """`2024-05-17 12:34:56.123456+02:00` as UTC; without a zone it is UTC already. ValueError for anything else."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a timestamp like 2024-05-17 12:34:56.123456+02:00 (at most microseconds)")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micros = int((found[7] or "").ljust(6, "0"))
    offset = timedelta(hours=int(found[10] or 0), minutes=int(found[11] or 0)) * (-1 if found[9] == "-" else 1)
    try:
        zone = timezone(offset)
        return datetime(year, month, day, hour, minute, second, micros, zone).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is outside the years 1 to 9999") from None


def literal_text(value: Value) -> str:
    """Spark SQL text that means this value and type."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return f"{value!r}D" if math.isfinite(value) else f"double('{_special(value)}')"
        case Decimal():
            return f"{value:f}BD"
        case str():
            return string_text(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return _timestamp_text(value)
        case date():
            return f"date '{value.isoformat()}'"


def string_text(text: str) -> str:
    """A quoted string. Besides quotes, `$` is escaped: Spark would replace `${…}` even inside strings."""
    return (
        "'"
        + _TO_ESCAPE.sub(lambda found: f"\\{found[0]}" if found[0] in "\\'" else f"\\u{ord(found[0]):04x}", text)
        + "'"
    )


def _timestamp_text(value: datetime) -> str:
    if value.tzinfo is None:
        return f"timestamp_ntz '{value.isoformat(' ')}'"
    return f"timestamp '{value.astimezone(UTC).isoformat(' ')}'"


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _character(code: int) -> str:
    if code > 0x10FFFF:
        raise ValueError("this string has an escape beyond Unicode")
    return chr(code)

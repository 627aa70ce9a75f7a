# SPDX-License-Identifier: Apache-2.0
"""Instant times: seventeen digits, year to millisecond, in the timezone of the table's timeline.

>>> format_instant_time(1_767_323_045_678, UTC)
'20260102030405678'
>>> parse_instant_time("20260102030405678", UTC)
1767323045678
>>> parse_user_time("2026-01-02T04:04:05.678+01:00", UTC)
'20260102030405678'
>>> parse_user_time(1_767_323_045, UTC)
'20260102030405000'
>>> parse_user_time("20260102030405", UTC)
'20260102030405000'
"""

from __future__ import annotations

import math
import numbers
import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from lakebraid.errors import InvalidArgument, UnsupportedTable

_INSTANT_TIME: Final = re.compile(r"[0-9]{17}|[0-9]{14}")
_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SECONDS_BELOW: Final = 100_000_000_000
_NUMBER_MAX: Final = 10**18  # far beyond the year 9999; larger ones need not fit a float, nor print

_ACCEPTED: Final = (
    "Give an instant's 17 digits (yyyyMMddHHmmssSSS), a datetime with a timezone, text like "
    "2026-01-02T03:04:05Z with an offset, or seconds or milliseconds since 1970"
)


def is_instant_time(text: str) -> bool:
    """Whether the text has the form of an instant time; also the fourteen digits of old releases.

    Only digits are looked at: Hudi uses times that are in no calendar (all zeros) as marks.
    """
    return _INSTANT_TIME.fullmatch(text) is not None


def format_instant_time(epoch_ms: int, zone: tzinfo) -> str:
    """The seventeen digits of that moment in `zone`; InvalidArgument outside the years 1 to 9999."""
    try:
        moment = (_EPOCH + epoch_ms * _MILLISECOND).astimezone(zone)
    except (OverflowError, ValueError, OSError) as error:  # the last two: a machine's zone at the edge of time
        raise _refused(epoch_ms, "it is outside the years 1 to 9999") from error
    return (
        f"{moment.year:04d}{moment.month:02d}{moment.day:02d}"
        f"{moment.hour:02d}{moment.minute:02d}{moment.second:02d}{moment.microsecond // 1000:03d}"
    )


def next_instant_time(text: str) -> str:
    """The millisecond after, as digits: no zone or summer time has a say, so it always sorts higher.

    >>> next_instant_time("20260228235959999")
    '20260301000000000'
    >>> next_instant_time("0" * 17)
    '00000000000000001'
    """
    try:
        return format_instant_time(parse_instant_time(text, UTC) + 1, UTC)
    except InvalidArgument:
        return f"{int(text.ljust(17, '0')) + 1:017d}"  # in no calendar: a mark, or written by a broken clock


def parse_instant_time(text: str, zone: tzinfo) -> int:
    """Milliseconds since 1970 of an instant time read in `zone`; InvalidArgument if no calendar has it.

    In a zone with summer time one hour of the year is ambiguous (the first pass is taken): one reason why tables
    should be made with UTC.
    """
    if not is_instant_time(text):
        raise _refused(text, "an instant time has 17 (or 14) digits")
    digits = text.ljust(17, "0")
    try:
        moment = datetime(
            int(digits[0:4]), int(digits[4:6]), int(digits[6:8]),
            int(digits[8:10]), int(digits[10:12]), int(digits[12:14]),
            int(digits[14:17]) * 1000, tzinfo=zone,
        )  # fmt: skip
        return (moment - _EPOCH) // _MILLISECOND
    except (OverflowError, ValueError, OSError) as error:
        raise _refused(text, f"no calendar has it ({error})") from error


def parse_user_time(value: Any, zone: tzinfo) -> str:
    """The seventeen digits, in the table's `zone`, of a moment as a user gives it.

    Accepted are an instant's 17 digits (or 14, whose milliseconds are then 000), a timezone-aware datetime, RFC 3339
    text with an offset, and numbers: below 100,000,000,000 they count seconds since 1970 (up to the year 5138), from
    there on milliseconds (from 1973). What is finer than a millisecond is cut off. Everything else is
    InvalidArgument, above all text and datetimes without a zone, which would mean different moments on different
    machines.
    """
    match value:
        case bool():
            raise _refused(value, "a truth value is not a time")
        case datetime():
            return format_instant_time(_epoch_ms(value), zone)
        case str() if is_instant_time(value):
            parse_instant_time(value, zone)
            return value.ljust(17, "0")
        case str() if _RFC_3339.fullmatch(value):
            return format_instant_time(_epoch_ms(_parse_rfc_3339(value)), zone)
        case str():
            raise _refused(value, "the text is neither an instant time nor a date and time with an offset")
        case numbers.Real():
            return format_instant_time(_number_to_ms(value), zone)
        case _:
            raise _refused(value, f"a {type(value).__name__} is not a time")


def _epoch_ms(moment: datetime) -> int:
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise _refused(moment, "it has no timezone, so it would mean different moments on different machines")
    return (moment - _EPOCH) // _MILLISECOND


def _parse_rfc_3339(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise _refused(text, f"no calendar has it ({error})") from error


def _number_to_ms(value: Any) -> int:
    if isinstance(value, numbers.Integral) and abs(int(value)) > _NUMBER_MAX:
        raise _refused("a number of too many digits", "it is outside the years 1 to 9999")
    if not math.isfinite(value):
        raise _refused(value, "it is not a finite number")
    scale = 1000 if abs(value) < _SECONDS_BELOW else 1
    # Whole numbers stay whole; a float of seconds is rounded, for 0.678 has no exact binary form.
    return int(value) * scale if isinstance(value, numbers.Integral) else round(float(value) * scale)


def _refused(value: object, reason: str) -> InvalidArgument:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return InvalidArgument(
        f"{shown} is not a time that can be used: {reason}. {_ACCEPTED}.", value=shown, reason=reason
    )


def table_zone(name: str | None) -> tzinfo:
    """The zone that `hoodie.table.timeline.timezone` names: UTC, or for LOCAL (Hudi's default) this machine's."""
    match (name or "LOCAL").strip().upper():
        case "UTC":
            return UTC
        case "LOCAL":
            return LocalZone()
        case other:
            raise UnsupportedTable(
                f"The table's timeline is in the timezone {other!r}; Hudi knows UTC and LOCAL. Nothing was read. "
                "Correct hoodie.table.timeline.timezone.",
                feature="hoodie.table.timeline.timezone",
                value=other,
            )


class LocalZone(tzinfo):
    """The machine's zone with its rules for every date, which a fixed offset of today would not have."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None if moment is None else moment.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, _moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        local = moment.replace(tzinfo=UTC).astimezone()
        here = local.replace(tzinfo=self)
        return here if here.utcoffset() == local.utcoffset() else here.replace(fold=1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalZone)

    def __hash__(self) -> int:
        return hash(LocalZone)

# SPDX-License-Identifier: Apache-2.0
"""Values in wrappers: the ends of a column's range, each a record of one field that says by its kind what it holds.

The bytes carry no names: the numbers of `Kind` are the positions in the union of Hudi's schema. (MDT, section 3)
"""

from __future__ import annotations

import enum
import struct
from typing import Any, Final, NamedTuple

from lakebraid.errors import InvalidArgument
from lakebraid.format.avro.varint import format_long, parse_long

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class Kind(enum.IntEnum):
    """What a wrapper holds; a list of wrappers, the last branch of Hudi's union, is not understood."""

    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    LOCAL_DATE = 12


_KINDS: Final = (*Kind,)
_WHOLE: Final = frozenset({Kind.INT, Kind.LONG, Kind.DATE, Kind.TIME_MICROS, Kind.TIMESTAMP_MICROS, Kind.LOCAL_DATE})
_RAW: Final = frozenset({Kind.BYTES, Kind.DECIMAL})
_INTS: Final = frozenset({Kind.INT, Kind.DATE, Kind.LOCAL_DATE})


class Wrapped(NamedTuple):
    """A value as it is stored: a whole number, a float, a text, bytes or a boolean."""

    kind: Kind
    value: Any


def parse_wrapped(data: bytes, position: int) -> tuple[Wrapped | None, int]:
    """The wrapper at `position`, None for null, and where it ends; ValueError or IndexError for what is none."""
    branch = data[position]
    position += 1
    if not branch:
        return None, position
    if branch & 1 or branch >> 1 > len(_KINDS):
        raise ValueError(f"byte {position - 1:,} names no known kind of value")
    kind = _KINDS[(branch >> 1) - 1]
    if kind is Kind.STRING or kind in _RAW:
        length, position = parse_long(data, position)
        end = position + length
        if not position <= end <= len(data):
            raise ValueError(f"a value claims {length:,} bytes")
        raw = data[position:end]
        return Wrapped(kind, raw.decode() if kind is Kind.STRING else raw), end
    if kind in _WHOLE:
        number, position = parse_long(data, position)
        return Wrapped(kind, number), position
    if kind is Kind.BOOLEAN:
        if data[position] > 1:
            raise ValueError("a boolean is neither true nor false")
        return Wrapped(kind, data[position] == 1), position + 1
    form = _FLOAT if kind is Kind.FLOAT else _DOUBLE
    if position + form.size > len(data):
        raise IndexError
    return Wrapped(kind, form.unpack_from(data, position)[0]), position + form.size


def format_wrapped(wrapped: Wrapped | None) -> bytes:
    """The same as bytes; InvalidArgument for a value that its wrapper cannot hold."""
    if wrapped is None:
        return b"\x00"
    kind, value = wrapped
    branch = bytes((kind << 1,))
    if kind in _WHOLE:
        bits = 31 if kind in _INTS else 63
        if not -(1 << bits) <= value < 1 << bits:
            raise InvalidArgument(
                f"{value:,} does not fit into a wrapper of the kind {kind.name}. Nothing was written."
            )
        return branch + format_long(value)
    if kind is Kind.STRING or kind in _RAW:
        raw: bytes = value.encode() if kind is Kind.STRING else value
        return branch + format_long(len(raw)) + raw
    if kind is Kind.BOOLEAN:
        return branch + (b"\x01" if value else b"\x00")
    return branch + (_FLOAT if kind is Kind.FLOAT else _DOUBLE).pack(value)

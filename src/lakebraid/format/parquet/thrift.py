# SPDX-License-Identifier: Apache-2.0
"""Thrift's compact encoding, as far as looking into Parquet needs it: numbers and structs; the rest is passed over.

IndexError means that the data end too soon, ValueError that they make no sense. A field that comes twice or out of order
makes none: readers differ in what they then believe.
"""

from __future__ import annotations

from typing import Any, Final

from lakebraid.format.avro.varint import parse_long

BOOLEANS: Final = (1, 2)
BYTE, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 3, 5, 6, 7, 8, 9, 12
NUMBERS: Final = (4, I32, I64)
_LISTS: Final = (LIST, 10)
_DEPTH_MAX: Final = 16


def parse_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The fields of a struct by their ids, and where it ends. Numbers are ints, structs dictionaries, all others None.

    >>> parse_struct(bytes.fromhex("15021c15080000"), 0)
    ({1: 1, 2: {1: 4}}, 7)
    """
    if depth > _DEPTH_MAX:
        raise ValueError("structs are nested too deeply")
    fields: dict[int, Any] = {}
    key = 0
    while data[at]:
        key, kind, at = field_head(data, at, key)
        if kind in NUMBERS:
            fields[key], at = parse_long(data, at)
        elif kind == STRUCT:
            fields[key], at = parse_struct(data, at, depth + 1)
        else:
            fields[key], at = None, skip(data, at, kind, depth)
    return fields, at + 1


def field_head(data: bytes, at: int, before: int) -> tuple[int, int, int]:
    """Id and type of the field at `at`, which is not the end of a struct, and where its value begins."""
    head = data[at]
    if head >= 16:
        return before + (head >> 4), head & 15, at + 1
    key, at = parse_long(data, at + 1)
    if not before < key < 1 << 15:
        raise ValueError(f"field {key} comes twice or out of order")
    return key, head & 15, at


def list_head(data: bytes, at: int, kind: int, item_kind: int) -> tuple[int, int]:
    """The number of items of a list, and where the first one begins; the items must be of this type."""
    if kind not in _LISTS or data[at] & 15 != item_kind:
        raise ValueError("a list is missing, or holds something else")
    return _list_count(data, at)


def skip(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Where the value that begins at `at` ends."""
    if kind in NUMBERS:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if kind == BINARY:
        length, at = _unsigned(data, at)
        return _within(data, at + length)
    if kind in BOOLEANS:
        return at
    if kind == STRUCT:
        return _skip_struct(data, at, depth + 1)
    if kind in _LISTS:
        return _skip_list(data, at, depth + 1)
    if kind in (BYTE, DOUBLE):
        return _within(data, at + (1 if kind == BYTE else 8))
    raise ValueError(f"type {kind} is not expected here")


def _skip_struct(data: bytes, at: int, depth: int) -> int:
    if depth > _DEPTH_MAX:
        raise ValueError("structs are nested too deeply")
    key = 0
    while head := data[at]:
        # The usual fields are passed over here and now: a footer has thousands.
        if head >= 16:
            key, kind, at = key + (head >> 4), head & 15, at + 1
        else:
            key, kind, at = field_head(data, at, key)
        if kind in NUMBERS:
            while data[at] >= 0x80:
                at += 1
            at += 1
        elif kind == BINARY and data[at] < 0x80:
            at += 1 + data[at]
        elif kind > 2:
            at = skip(data, at, kind, depth)
    return at + 1


def _skip_list(data: bytes, at: int, depth: int) -> int:
    if depth > _DEPTH_MAX:
        raise ValueError("lists are nested too deeply")
    kind = data[at] & 15
    count, at = _list_count(data, at)
    for _ in range(count):
        if kind == STRUCT:
            at = _skip_struct(data, at, depth + 1)
        else:
            at = at + 1 if kind in BOOLEANS else skip(data, at, kind, depth)
    return _within(data, at)


def _list_count(data: bytes, at: int) -> tuple[int, int]:
    count = data[at] >> 4
    at += 1
    if count == 15:
        count, at = _unsigned(data, at)
    _within(data, at + count)  # every item takes a byte at least
    return count, at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    number, at = parse_long(data, at)
    return (number << 1) if number >= 0 else (-number << 1) - 1, at


def _within(data: bytes, at: int) -> int:
    if at > len(data):
        raise IndexError("the data end too soon")
    return at

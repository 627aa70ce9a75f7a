# SPDX-License-Identifier: Apache-2.0
"""Thrift's compact encoding, as far as looking into Parquet needs it: numbers and structs; the rest is passed over."""

from __future__ import annotations

from typing import Any, Final

from lakebraid.format.varint import parse_long

_DEPTH_MAX: Final = 16
_BOOLEANS: Final = (1, 2)
_BYTE, _DOUBLE, _BINARY, _STRUCT = 3, 7, 8, 12
_NUMBERS, _LISTS = (4, 5, 6), (9, 10)


def parse_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The fields of a struct by their ids, and where it ends; IndexError if the data end first, ValueError for nonsense.

    Numbers are ints and structs dictionaries; all other values are None.

    >>> parse_struct(bytes.fromhex("15021c15080000"), 0)
    ({1: 1, 2: {1: 4}}, 7)
    """
    if depth > _DEPTH_MAX:
        raise ValueError("structs are nested too deeply")
    fields: dict[int, Any] = {}
    key = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            key += head >> 4
        else:
            key, at = parse_long(data, at)
        fields[key], at = _value(data, at, head & 15, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _NUMBERS:
        return parse_long(data, at)
    if kind == _STRUCT:
        return parse_struct(data, at, depth + 1)
    if kind in _BOOLEANS:
        return None, at
    if kind in (_BYTE, _DOUBLE):
        return None, _within(data, at + (1 if kind == _BYTE else 8))
    if kind == _BINARY:
        length, at = _unsigned(data, at)
        return None, _within(data, at + length)
    if kind in _LISTS:
        return None, _after_list(data, at, depth + 1)
    raise ValueError(f"type {kind} is not expected here")


def _after_list(data: bytes, at: int, depth: int) -> int:
    if depth > _DEPTH_MAX:
        raise ValueError("lists are nested too deeply")
    count, kind = data[at] >> 4, data[at] & 15
    at += 1
    if count == 15:
        count, at = _unsigned(data, at)
    _within(data, at + count)  # every element takes a byte at least
    for _ in range(count):
        at = at + 1 if kind in _BOOLEANS else _value(data, at, kind, depth)[1]
    return at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    number, at = parse_long(data, at)
    return (number << 1) if number >= 0 else (-number << 1) - 1, at


def _within(data: bytes, at: int) -> int:
    if at > len(data):
        raise IndexError
    return at

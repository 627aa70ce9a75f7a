# SPDX-License-Identifier: Apache-2.0
"""XXH64, the hash in the keys of column statistics: short texts, so plain Python will do."""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_LANES: Final = struct.Struct("<4Q")
_LANE: Final = struct.Struct("<Q")
_HALF: Final = struct.Struct("<I")


def xxh64(data: bytes, seed: int = 0) -> int:
    """The hash as a number without sign.

    >>> f"{xxh64(b''):016x} {xxh64(b'abc'):016x}"
    'ef46db3751d8e999 44bc2cf5ad770999'
    """
    whole = len(data) - len(data) % _LANES.size
    value = (_stripes(data, whole, seed) if whole else seed + _P5) + len(data)
    return _avalanche(_tail(data, whole, value & _MASK))


def _stripes(data: bytes, whole: int, seed: int) -> int:
    lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed & _MASK, (seed - _P1) & _MASK]
    for at in range(0, whole, _LANES.size):
        lanes = [_round(lane, word) for lane, word in zip(lanes, _LANES.unpack_from(data, at), strict=True)]
    value = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    for lane in lanes:
        value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return value


def _tail(data: bytes, at: int, value: int) -> int:
    while len(data) - at >= _LANE.size:
        value ^= _round(0, _LANE.unpack_from(data, at)[0])
        value = (_rotate(value, 27) * _P1 + _P4) & _MASK
        at += _LANE.size
    if len(data) - at >= _HALF.size:
        value ^= _HALF.unpack_from(data, at)[0] * _P1 & _MASK
        value = (_rotate(value, 23) * _P2 + _P3) & _MASK
        at += _HALF.size
    for byte in data[at:]:
        value ^= byte * _P5 & _MASK
        value = _rotate(value, 11) * _P1 & _MASK
    return value


def _avalanche(value: int) -> int:
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK

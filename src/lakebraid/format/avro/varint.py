# SPDX-License-Identifier: Apache-2.0
"""Avro's numbers: zigzag, seven bits a byte, the lowest first."""

from __future__ import annotations


def format_long(value: int) -> bytes:
    """The number as bytes, one to ten of them.

    >>> [format_long(n).hex() for n in (0, -1, 1, 64, -(2**63))]
    ['00', '01', '02', '8001', 'ffffffffffffffffff01']
    """
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    if rest < 0x80:
        return bytes((rest,))
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def parse_long(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and where it ends; IndexError at the end of the data, ValueError beyond 64 bits.

    >>> parse_long(bytes.fromhex("ff8001"), 1)
    (64, 3)
    """
    value = data[position]
    position += 1
    if value >= 0x80:
        value, position = _parse_longer(data, position, value & 0x7F)
    return (value >> 1) ^ -(value & 1), position


def _parse_longer(data: bytes, position: int, value: int) -> tuple[int, int]:
    for shift in range(7, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, position
    raise ValueError("a number has more than 64 bits")

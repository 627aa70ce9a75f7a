# SPDX-License-Identifier: Apache-2.0
"""Whole numbers as texts have them: in properties, options and names, which come from outside."""

from __future__ import annotations

from typing import Final

_DIGITS_MAX: Final = 18
"""So many always fit into 64 bits; Python itself refuses texts of some thousand digits."""


def whole_number(text: str, digits_max: int = _DIGITS_MAX) -> int | None:
    """The number, if the text is nothing but ASCII digits, and not too many; None for anything else.

    >>> whole_number("007"), whole_number("-1"), whole_number("²"), whole_number("1_000"), whole_number("9" * 5000)
    (7, None, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits_max else None

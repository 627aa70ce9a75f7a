# SPDX-License-Identifier: Apache-2.0
"""What may be asked of a store, before it is asked: names that cannot leave the table, sizes, ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lakebraid.errors import CorruptFile, InvalidArgument
from lakebraid.limits import NAME_BYTES_MAX, PARTITION_DEPTH_MAX

SEGMENTS_MAX: Final = PARTITION_DEPTH_MAX + 8
"""Folder levels of partitions, and those of the deepest file below `.hoodie`."""

_REFUSED_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")


def check_name(name: str) -> None:
    """Raises InvalidArgument unless `name` is a plain relative path of one object.

    >>> check_name("city=Oslo/a%2Fb.parquet")
    >>> check_name("city/../../etc/passwd")
    Traceback (most recent call last):
    lakebraid.errors.InvalidArgument: The name 'city/../../etc/passwd' is refused: a part of it is '..'. ...
    """
    reason = _reason_to_refuse(name)
    if reason:
        raise InvalidArgument(
            f"The name {_shown(name)} is refused: {reason}. Nothing was read or changed. "
            "Names are relative to the table, use '/', and may not leave it.",
            name=name,
        )


def check_names(names: Iterable[str]) -> list[str]:
    """The names, every one checked before the first is acted upon."""
    checked = list(names)
    for name in checked:
        check_name(name)
    return checked


def folder_name(prefix: str) -> str:
    """The folder a listing asks for, without its trailing slash; '' is the root.

    >>> folder_name("city=Oslo/"), folder_name("city=Oslo"), folder_name("")
    ('city=Oslo', 'city=Oslo', '')
    """
    folder = prefix.removesuffix("/") if len(prefix) > 1 else prefix
    if folder:
        check_name(folder)
    return folder


def check_size(where: str, size: int, size_max: int) -> None:
    """Raises CorruptFile if an object is larger than its kind may be; called before any of it is read."""
    if size > size_max:
        raise CorruptFile(
            f"{where} has {size:,} bytes, where at most {size_max:,} are expected. It was not read, and nothing was "
            "changed. It is damaged or was not written by Hudi; compare it with a backup.",
            path=where,
            size=size,
            size_max=size_max,
        )


def check_range(start: int, length: int) -> None:
    if start < 0 or length < 0:
        raise InvalidArgument(
            f"{length:,} bytes from byte {start:,} on cannot be read: neither number may be negative. "
            "Nothing was read. Check the caller.",
            start=start,
            length=length,
        )


def _reason_to_refuse(name: object) -> str:
    if not isinstance(name, str):
        return "it is not text"
    if not name:
        return "it is empty"
    # No character takes less than a byte, so this bounds the work of what follows.
    if len(name) > NAME_BYTES_MAX:
        return f"it is longer than {NAME_BYTES_MAX:,} bytes"
    found = _REFUSED_CHARACTER.search(name)
    if found:
        return f"it contains the character U+{ord(found.group()):04X}"
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if len(encoded) > NAME_BYTES_MAX:
        return f"it is longer than {NAME_BYTES_MAX:,} bytes"
    return _reason_to_refuse_parts(name.split("/"))


def _reason_to_refuse_parts(parts: list[str]) -> str:
    if len(parts) > SEGMENTS_MAX:
        return f"it has {len(parts):,} parts, more than {SEGMENTS_MAX}"
    if "" in parts:
        return "it begins or ends with '/', or has '//' in it"
    for dots in (".", ".."):
        if dots in parts:
            return f"a part of it is {dots!r}"
    return ""


def _shown(name: object) -> str:
    text = ascii(name)
    return text if len(text) <= 200 else f"{text[:200]}…"

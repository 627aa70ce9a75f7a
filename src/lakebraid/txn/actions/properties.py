# SPDX-License-Identifier: Apache-2.0
"""Changing lines of hoodie.properties, one process at a time, so that it can be set back.

First a record is created that has the file as it was; the process that creates record n+1 may change the file, all others
look again. The file itself is replaced whole. Apache Hudi's jobs change it in a way of their own (a backup, then the file
anew) and know of no record: what they have read before this change, they write over it, which makes the table one that is
not adopted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakebraid import limits
from lakebraid.digits import whole_number
from lakebraid.errors import CommitRefused, CorruptFile, InvalidArgument, ObjectExists, ObjectNotFound
from lakebraid.format.properties import format_properties, needs_backup, parse_properties
from lakebraid.storage.protocol import Storage, VersionedStorage
from lakebraid.table.loading import PROPERTIES

FOLDER: Final = ".hoodie/.lakebraid/properties"
"""Where the records lie, each under its number."""


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of the lines of a change that is set back."""

    lines: Mapping[str, str | None]
    """Those that were set back, each with its value now; None where there is none."""
    left: tuple[str, ...]
    """Those that another process has changed since, and that stay as they are."""


def change_properties(storage: Storage, known: Mapping[str, str], lines: Mapping[str, str]) -> str:
    """Puts lines into hoodie.properties, if they still are what is `known`; the name of the record.

    CommitRefused, and nothing is changed, if another process changes them, too.
    """
    data, version = _read(storage)
    if parse_properties(data, PROPERTIES) != dict(known):
        raise _refused(storage)
    record = _name(max(_records(storage), default=0) + 1)
    try:
        storage.create(record, _format_record(data, lines))
    except ObjectExists:
        raise _refused(storage) from None
    try:
        _replace(storage, format_properties({**known, **lines}), version)
    except CommitRefused:
        storage.delete([record])
        raise
    return record


def undo_properties(storage: Storage) -> Undone:
    """Sets the last change back. Lines that have another value by now stay; if none has, the file is again what it was.

    InvalidArgument if there is no change to set back.
    """
    numbers = _records(storage)
    if not numbers:
        raise InvalidArgument(
            f"No lines of hoodie.properties were changed by an adoption of {storage.url}, so there is nothing to set back. "
            "Nothing was changed.",
            path=storage.url,
        )
    record = _name(max(numbers))
    before, lines = _parse_record(storage.read(record, 2 * limits.PROPERTIES_BYTES_MAX), f"{storage.url}/{record}")
    data, version = _read(storage)
    old, now = parse_properties(before, record), parse_properties(data, PROPERTIES)
    ours = {key: old.get(key) for key, value in lines.items() if now.get(key) == value}
    if now == {**old, **lines}:
        _replace(storage, before, version)
    elif ours:
        kept = {key: value for key, value in now.items() if key not in ours}
        _replace(storage, format_properties({**kept, **{k: v for k, v in ours.items() if v is not None}}), version)
    storage.delete([record])
    return Undone(ours, tuple(key for key in lines if key not in ours and now.get(key) != old.get(key)))


def _read(storage: Storage) -> tuple[bytes, Any]:
    """The file's bytes and, where the store has that, its version."""
    try:
        if isinstance(storage, VersionedStorage):
            data, version = storage.read_version(PROPERTIES, limits.PROPERTIES_BYTES_MAX)
        else:
            data, version = storage.read(PROPERTIES, limits.PROPERTIES_BYTES_MAX), None
    except ObjectNotFound:
        raise _refused(storage) from None
    if needs_backup(data, storage.url) and _is_there(storage, f"{PROPERTIES}.backup"):
        raise _refused(storage)
    return data, version


def _is_there(storage: Storage, name: str) -> bool:
    try:
        storage.info(name)
    except ObjectNotFound:
        return False
    return True


def _replace(storage: Storage, data: bytes, version: Any) -> None:
    if not isinstance(storage, VersionedStorage):
        storage.replace(PROPERTIES, data)
    elif storage.replace_version(PROPERTIES, data, version) is None:
        raise _refused(storage)


def _refused(storage: Storage) -> CommitRefused:
    return CommitRefused(
        f"The properties of {storage.url} are being changed by another process. They were left as they are. Look again "
        "when it is done.",
        path=storage.url,
    )


def _records(storage: Storage) -> list[int]:
    numbers = (whole_number(name.removesuffix(".json"), 9) for name in storage.list_names(FOLDER))
    return [number for number in numbers if number]


def _name(number: int) -> str:
    return f"{FOLDER}/{number:06d}.json"


def _format_record(before: bytes, lines: Mapping[str, str]) -> bytes:
    return json.dumps({"before": before.decode("latin-1"), "lines": dict(lines)}, indent=1).encode()


def _parse_record(data: bytes, where: str) -> tuple[bytes, dict[str, str]]:
    try:
        match json.loads(data):
            case {"before": str(before), "lines": dict(lines)} if all(isinstance(v, str) for v in lines.values()):
                return before.encode("latin-1"), lines
    except (ValueError, RecursionError):
        pass
    raise CorruptFile(
        f"{where} is no record of changed properties. Nothing was changed. Take the lines of the adoption out of "
        "hoodie.properties by hand, and remove that file.",
        path=where,
    )

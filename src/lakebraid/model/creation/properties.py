# SPDX-License-Identifier: Apache-2.0
"""The properties a user gives to a new table, beside those that its arguments mean: none may contradict another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakebraid.errors import InvalidArgument
from lakebraid.format.properties import CHECKSUM

_MERGE: Final = "hoodie.record.merge.property."
_SAME: Final = {
    "hoodie.cleaner.policy.failed.writes": "hoodie.clean.failed.writes.policy",
    "hoodie.datasource.write.keygenerator.type": "hoodie.table.keygenerator.type",
    "hoodie.datasource.write.ordering.fields": "hoodie.table.ordering.fields",
    "hoodie.datasource.write.partitionpath.field": "hoodie.table.partition.fields",
    "hoodie.datasource.write.precombine.field": "hoodie.table.ordering.fields",
    "hoodie.datasource.write.record.merge.mode": "hoodie.record.merge.mode",
    "hoodie.datasource.write.recordkey.field": "hoodie.table.recordkey.fields",
    "hoodie.datasource.write.table.name": "hoodie.table.name",
    "hoodie.datasource.write.table.type": "hoodie.table.type",
    "hoodie.payload.delete.field": f"{_MERGE}hoodie.payload.delete.field",
    "hoodie.payload.delete.marker": f"{_MERGE}hoodie.payload.delete.marker",
    "hoodie.table.precombine.field": "hoodie.table.ordering.fields",
    "hoodie.write.record.merge.mode": "hoodie.record.merge.mode",
    "hoodie.write.table.version": "hoodie.table.version",
    "lakebraid.schema_conflict": "hoodie.lakebraid.schema.conflict",
    "lakebraid.table_service_rollback_delay": "hoodie.lakebraid.table.service.rollback.delay.minutes",
}
"""Other names of the same settings: a writer's options and former spellings."""
_SWITCH: Final = ("true", "false")
_SECRET: Final = re.compile("password|passwd|secret|credential|private.?key|access.?key", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of hoodie.properties, and the argument that it comes from; an empty value is not written."""

    key: str
    value: str
    argument: str = ""
    is_default: bool = False
    """Whether the user's own value goes before this one."""


def property_texts(given: Mapping[str, Any] | None) -> dict[str, str]:
    """The user's properties as text, under the names that a table has for them."""
    texts: dict[str, str] = {}
    for key, value in (given or {}).items():
        name = _SAME.get(_checked_key(key), key)
        text = _text(key, value)
        if texts.setdefault(name, text) != text:
            raise InvalidArgument(
                f"properties say {name} twice, as {texts[name]!r:.200} and by {key}={text!r:.200}. Nothing was created. "
                "Leave one of the two out.",
                key=key,
            )
    return texts


def combine(lines: Iterable[Line], given: Mapping[str, str]) -> dict[str, str]:
    """All lines of the file: those that the arguments mean, then what the user adds. Empty ones are left out."""
    combined: dict[str, str] = {}
    for line in lines:
        theirs = given.get(line.key)
        if theirs is not None and not line.is_default and not _means(theirs, line.value):
            raise _contradiction(line, theirs)
        if theirs and line.value in _SWITCH and theirs.lower() not in _SWITCH:
            raise InvalidArgument(
                f"The property {line.key} is true or false, not {theirs!r:.200}. Nothing was created. Correct it.",
                key=line.key,
            )
        combined[line.key] = theirs if theirs is not None and line.is_default else line.value
    return {
        key: value for key, value in (combined | {k: v for k, v in given.items() if k not in combined}).items() if value
    }


def _checked_key(key: Any) -> str:
    if not isinstance(key, str) or not re.fullmatch(r"(hoodie|lakebraid)\.[\x21-\x7e]+", key):
        raise InvalidArgument(
            f"{key!r:.200} is no property of a Hudi table: their names begin with 'hoodie.'. Nothing was created. "
            "Settings of the storage go into its options.",
            key=key,
        )
    if _SECRET.search(key):
        raise InvalidArgument(
            f"{key} looks like a secret, and every reader of the table could read it. Nothing was created. "
            "Give it to the writers instead.",
            key=key,
        )
    if key == CHECKSUM:
        raise InvalidArgument(f"{key} is calculated and cannot be given. Nothing was created. Leave it out.", key=key)
    return key


def _text(key: str, value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case str():
            return value.strip()
    raise InvalidArgument(
        f"The property {key} must be text, a whole number, True or False, not {value!r:.200}. Nothing was created.",
        key=key,
    )


def _means(theirs: str, ours: str) -> bool:
    """Whether both say the same: lists with or without blanks, Hudi's words and truth values in any case."""
    spaceless = re.sub(r"\s*,\s*", ",", theirs)
    is_word = ours.isupper() or ours in ("true", "false", "native")
    return spaceless == ours or (is_word and theirs.upper() == ours.upper())


def _contradiction(line: Line, theirs: str) -> InvalidArgument:
    meant = f"{line.key}={line.value}" if line.value else f"no {line.key}"
    source = f"the argument {line.argument}, which means {meant}" if line.argument else f"{meant}, which is always so"
    return InvalidArgument(
        f"The property {line.key}={theirs!r:.200} contradicts {source:.500}. Nothing was created. "
        f"{'Leave one of the two out' if line.argument else 'Leave it out'}.",
        key=line.key,
        argument=line.argument,
    )

# SPDX-License-Identifier: Apache-2.0
"""`.hoodie/.index_defs/index.json`: which columns have statistics, and in which version their values are wrapped."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from lakebraid.format.damage import damaged
from lakebraid.limits import INDEX_DEFINITIONS_BYTES_MAX

INDEX_DEFINITIONS: Final = ".hoodie/.index_defs/index.json"
"""Where the file is unless hoodie.properties names another place."""


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """One index; `columns` are those that it covers, none where it is about whole rows or files."""

    name: str
    kind: str
    columns: tuple[str, ...]
    version: str
    options: tuple[tuple[str, str], ...] = ()
    function: str = ""


def parse_index_definitions(data: bytes, where: str) -> dict[str, IndexDefinition]:
    """The definitions by their names; CorruptFile for what is none."""
    if len(data) > INDEX_DEFINITIONS_BYTES_MAX:
        raise damaged(where, f"it has {len(data):,} bytes; {INDEX_DEFINITIONS_BYTES_MAX:,} are read")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise damaged(where, "it is not JSON") from None
    match found:
        case {"indexDefinitions": dict(definitions)}:
            return {name: _parse(name, given, where) for name, given in definitions.items()}
    raise damaged(where, "it has no definitions of indexes")


def _parse(name: str, given: Any, where: str) -> IndexDefinition:
    if not isinstance(given, dict):
        raise damaged(where, f"its index {name[:60]!r} is not defined")
    columns, options = given.get("sourceFields") or [], given.get("indexOptions") or {}
    texts = (given.get("indexType", ""), given.get("version") or "V1", given.get("indexFunction") or "")
    if not (
        isinstance(columns, list) and isinstance(options, dict) and all(isinstance(t, str) for t in (*texts, *columns))
    ):
        raise damaged(where, f"its index {name[:60]!r} is not defined as Hudi does it")
    kind, version, function = texts
    return IndexDefinition(
        name, kind, tuple(columns), version, tuple((k, str(v)) for k, v in options.items()), function
    )


def format_index_definitions(definitions: Iterable[IndexDefinition]) -> bytes:
    """The file with these definitions."""
    entries = {
        one.name: {
            "indexName": one.name, "indexType": one.kind, "indexFunction": one.function, "sourceFields": list(one.columns),
            "indexOptions": dict(one.options), "version": one.version,
        }
        for one in definitions
    }  # fmt: skip
    return json.dumps({"indexDefinitions": entries}, separators=(",", ":")).encode()

# SPDX-License-Identifier: Apache-2.0
"""The schema of a metadata table's records: the text that Hudi writes, and whether another text means the same."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

from lakebraid import limits
from lakebraid.errors import UnsupportedTable

_META_FIELDS: Final = 5


@cache
def schema_text() -> str:
    """The schema as Hudi 1.2.0 writes it into every block, meta fields included."""
    return files("lakebraid.format.metadata").joinpath("schema.json").read_text("utf-8")


@cache
def plain_schema_text() -> str:
    """The same without the meta fields, as commits of a metadata table state it."""
    record = json.loads(schema_text())
    return json.dumps({**record, "fields": record["fields"][_META_FIELDS:]}, separators=(",", ":"))


def has_meta_fields(text: str, where: str) -> bool:
    """Whether records of that schema begin with Hudi's meta fields; UnsupportedTable if they are others than we know."""
    found = _meaning(text) if len(text) <= limits.TIMELINE_SCHEMA_BYTES_MAX else None
    if found is None:
        raise UnsupportedTable(
            f"{where} holds records of another form than Apache Hudi 1.2.0 writes. They are not guessed at, and nothing was changed. "
            "The table itself can be read without its metadata table: its folders say the same.",
            path=where,
        )
    return found


@lru_cache(maxsize=16)
def _meaning(text: str) -> bool | None:
    if text == schema_text():
        return True
    try:
        fields = _reduced(json.loads(text))["fields"]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    known = _reduced(json.loads(schema_text()))["fields"]
    return True if fields == known else False if fields == known[_META_FIELDS:] else None


def _reduced(written: Any) -> Any:
    """What of a schema decides how values lie in the bytes."""
    if isinstance(written, list):
        return [_reduced(branch) for branch in written]
    if isinstance(written, str):
        return written.rpartition(".")[2]
    kind = written["type"]
    if kind == "record":
        fields = [{"name": field["name"], "type": _reduced(field["type"])} for field in written["fields"]]
        return {"name": written["name"], "fields": fields}
    if kind in ("map", "array"):
        return {kind: _reduced(written["values" if kind == "map" else "items"])}
    if kind in ("fixed", "enum"):
        return written
    return _reduced(kind)

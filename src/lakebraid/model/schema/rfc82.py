# SPDX-License-Identifier: Apache-2.0
"""What becomes of a write whose schema, or the table's, changed on the way: the eight rows of RFC-82.

Three schemas count: the table's when the write began, the table's now, and the write's own. Only which of them are
equal decides, so a row of the RFC is a pattern of letters: the same letter, the same schema; a dash: none yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa

from lakebraid.errors import SchemaConflict
from lakebraid.model.schema.growth import joined


class Outcome(Enum):
    """Which schema the commit states."""

    OURS = "ours"
    THEIRS = "theirs"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the RFC's table."""

    number: int
    outcome: Outcome
    what: str


RFC_82: Final[Mapping[str, Row]] = {
    # begin, now, own
    "--a": Row(1, Outcome.OURS, "the first commit ever"),
    "-aa": Row(2, Outcome.OURS, "another writer stated the same schema first"),
    "-ab": Row(3, Outcome.CONFLICT, "another writer stated a different schema first"),
    "aaa": Row(4, Outcome.OURS, "nothing changed"),
    "aab": Row(5, Outcome.OURS, "this write evolves the schema"),
    "aba": Row(6, Outcome.THEIRS, "another writer evolved the schema, and these rows are older"),
    "abb": Row(7, Outcome.OURS, "both evolved it to the same schema"),
    "abc": Row(8, Outcome.CONFLICT, "both evolved it, to different schemas"),
}


def resolve(
    begun: pa.Schema | None, now: pa.Schema | None, own: pa.Schema, *, merges: bool = False, where: str = "the table"
) -> pa.Schema:
    """The schema that the commit states. SchemaConflict by the RFC; with `merges`, changes that fit are joined."""
    row = RFC_82.get(pattern(begun, now, own))
    if row is not None and row.outcome is Outcome.OURS:
        return own
    if row is not None and row.outcome is Outcome.THEIRS:
        assert now is not None
        return now
    if merges and now is not None:
        both = joined(now, own)
        if both is not None:
            return both
    what = "the table's schema vanished after the write began" if row is None else row.what
    number = "" if row is None else f" (RFC-82, row {row.number})"
    advice = (
        "Begin again: the write then starts from the schema of now."
        if merges
        else 'Begin again, or write with schema_conflict="merge", which joins changes that fit together.'
    )
    raise SchemaConflict(
        f"The schema of {where} changed while this write was under way: {what}{number}. Nothing was published, and "
        f"nothing of it is visible. {advice}\n{difference(begun, now, own)}",
        row=None if row is None else row.number,
    )


def pattern(begun: pa.Schema | None, now: pa.Schema | None, own: pa.Schema) -> str:
    """Which of the three are equal.

    >>> a, b = pa.schema([("n", pa.int32())]), pa.schema([("n", pa.int64())])
    >>> pattern(None, a, b), pattern(a, b, a)
    ('-ab', 'aba')
    """
    seen: list[pa.Schema] = []
    letters = ""
    for schema in (begun, now, own):
        if schema is None:
            letters += "-"
            continue
        at = next((i for i, known in enumerate(seen) if known.equals(schema)), len(seen))
        if at == len(seen):
            seen.append(schema)
        letters += "abc"[at]
    return letters


def difference(begun: pa.Schema | None, now: pa.Schema | None, own: pa.Schema) -> str:
    """The columns in which the three differ, side by side."""
    schemas = [schema if schema is not None else pa.schema([]) for schema in (begun, now, own)]
    names = dict.fromkeys(name for schema in schemas for name in schema.names)
    rows = [("column", "when it began", "now", "this write")]
    for name in names:
        kinds = [_kind(schema, name) for schema in schemas]
        if len(set(kinds)) > 1:
            rows.append((name, *kinds))
    widths = [min(max(len(row[i]) for row in rows), 40) for i in range(4)]
    return "\n".join(
        "  " + "  ".join(f"{cell:.40}".ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _kind(schema: pa.Schema, name: str) -> str:
    at = schema.get_field_index(name)
    if at < 0:
        return "-"
    return f"{schema.field(at).type}{'' if schema.field(at).nullable else ' not null'}"

# SPDX-License-Identifier: Apache-2.0
"""What Hudi's CDC query wants beside a base file that is written anew: each changed row, in a log file of its own.

Its blocks hold operations: `i`, `u` or `d`, and by the table's mode the key, the row before, the row after (FORMAT, section 7).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.format.avro.rows import format_avro_block
from lakebraid.format.log.blocks import BlockType, HeaderKey, LogBlock, format_log
from lakebraid.model.merge_rules import MergeRules
from lakebraid.model.schema.avro_text import table_schema_text
from lakebraid.model.schema.conform import without_meta
from lakebraid.model.values.arrow_numpy import to_bools, to_mask
from lakebraid.model.values.cutting import cut
from lakebraid.tasks.changes.diff import differing
from lakebraid.tasks.reading.ranks import without_ranks
from lakebraid.tasks.reading.versions import row_keys

_KEYS_ONLY: Final = json.dumps(
    {
        "type": "record",
        "name": "Record",
        "fields": [{"name": name, "type": ["string", "null"]} for name in ("op", "record_key")],
    }
)


class Captured:
    """Takes note of the rows with these keys as they go by, before and after a file group is written anew."""

    def __init__(self, keys: pa.Array, rules: MergeRules) -> None:
        self._keys, self._rules = keys.unique(), rules
        self._before: list[pa.Table] = []
        self._after: list[pa.Table] = []

    def before(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The same batches: rows as they were."""
        return self._watched(batches, self._before)

    def after(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The same batches: rows as they will be."""
        return self._watched(batches, self._after)

    def _watched(self, batches: Iterator[pa.Table], noted: list[pa.Table]) -> Iterator[pa.Table]:
        for batch in batches:
            found = batch.filter(pc.is_in(row_keys(batch, self._rules), value_set=self._keys))
            noted.append(without_ranks(found))
            yield batch

    def events(self, schema: pa.Schema, request_time: str) -> pa.Table:
        """One row for each change by the write that began at `request_time`: its kind, the row's key, the row before and after.

        A row that is still of another write, and has the same values, has not changed: what was given for its key has lost.
        """
        before, after = (pa.concat_tables([schema.empty_table(), *rows]) for rows in (self._before, self._after))
        old, new = (pc.index_in(self._keys, value_set=row_keys(rows, self._rules)) for rows in (before, after))
        was, is_there = old.is_valid(), new.is_valid()
        changed = pc.and_(pc.and_(was, is_there), _changed(before, after, old, new, request_time))
        kinds = pc.case_when(
            pc.make_struct(pc.and_(was, pc.invert(is_there)), pc.and_(pc.invert(was), is_there), changed),
            *("d", "i", "u"),
        )
        names = without_meta(schema).names
        columns = {
            "op": kinds,
            "record_key": self._keys,
            "ts_ms": pa.repeat(request_time, len(self._keys)),
            "before": _rows(before, names, old),
            "after": _rows(after, names, new),
        }
        return pa.table(columns).filter(kinds.is_valid())


def _changed(before: pa.Table, after: pa.Table, old: pa.Array, new: pa.Array, request_time: str) -> pa.Array:
    """Which rows this write made, or gave other values: a partial update with a low ordering value leaves the row to others."""
    own = (
        pc.equal(after.column("_hoodie_commit_time").combine_chunks(), request_time)
        .take(new)
        .fill_null(fill_value=False)
    )
    both = pc.and_(old.is_valid(), new.is_valid())
    differs = differing(before.take(old.filter(both)), after.take(new.filter(both)))
    others = np.zeros(len(both), np.bool_)
    others[to_bools(both)] = differs
    return pc.or_(own, to_mask(others))


def _rows(table: pa.Table, names: list[str], places: pa.Array) -> pa.Array:
    """Rows as one column, null where there is no place."""
    chosen = table.select(names)
    if not chosen.num_rows:  # of which pyarrow 19 makes no struct
        return pa.nulls(len(places), pa.struct(list(chosen.schema)))
    return chosen.to_struct_array().combine_chunks().take(places)


def format_captured(events: pa.Table, schema: pa.Schema, table: str, mode: str, request_time: str) -> bytes:
    """The log file with these events, at least one, as the table's mode wants them."""
    text = _schema_text(without_meta(schema), table, mode)
    header = {HeaderKey.INSTANT_TIME: request_time, HeaderKey.SCHEMA: text}
    pieces = cut(events, limits.LOG_BLOCK_ARROW_BYTES)
    return format_log(LogBlock(BlockType.CDC, header, format_avro_block(piece, text)) for piece in pieces)


@lru_cache(maxsize=64)
def _schema_text(schema: pa.Schema, table: str, mode: str) -> str:
    if mode == "OP_KEY_ONLY":
        return _KEYS_ONLY
    row = json.loads(table_schema_text(schema, table))
    name = f"{row['namespace']}.{row['name']}"
    fields = {
        "DATA_BEFORE": {"op": "string", "record_key": "string", "before": row},
        "DATA_BEFORE_AFTER": {"op": "string", "ts_ms": "string", "before": row, "after": name},
    }[mode]
    return json.dumps(
        {
            "type": "record",
            "name": "CDC",
            "namespace": row["namespace"],
            "fields": [_nullable(name, kind) for name, kind in fields.items()],
        }
    )


def _nullable(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}

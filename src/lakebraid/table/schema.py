# SPDX-License-Identifier: Apache-2.0
"""The table's schema at a moment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import pyarrow as pa

from lakebraid.errors import CorruptFile
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.damage import damaged
from lakebraid.format.parquet.rows import read_parquet_schema
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.model.config import TableConfig
from lakebraid.model.schema.conform import without_meta
from lakebraid.model.timeline.slicing import BaseFile, GroupId
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.storage.parallel import calls_at_once, map_calls
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_commit

_LOOKS_AT_ONCE: Final = 2
"""Newest writes whose schema an object store is asked for together: behind a compaction stands a write, mostly."""

KEEPS_SCHEMA = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER", "INDEX", "BUCKET_RESCALE"})
"""Operations that move rows and cannot change the schema; theirs may be older than the table's."""


def stated_schema(table: TableAt, timeline: Timeline) -> str | None:
    """The schema of the completed write with the greatest request time, as Hudi's readers choose it (FORMAT, trap 33).

    Without any: that of an archived write, of the table's creation; else None.
    """
    return _newest(table, timeline) or _archived(table, timeline) or table.config.create_schema


def parse_schema(table: TableAt, text: str | None, bases: Mapping[GroupId, list[BaseFile]]) -> pa.Schema:
    """What the stated schema says; without one the columns of the newest base file, else none."""
    if text:
        stated = without_meta(parse_avro_schema(text, f"the schema of {table.storage.url}"))
        if not stated:
            raise damaged(f"The schema of {table.storage.url}", "it has no columns")
        return _with_dropped(stated, table.config)
    newest = max((b for files in bases.values() for b in files), key=lambda b: b.request_time, default=None)
    if newest is None:
        return pa.schema([])
    found = read_parquet_schema(table.storage.open_input(newest.name), newest.size, newest.name)
    return _with_dropped(without_meta(found), table.config)


def _with_dropped(schema: pa.Schema, config: TableConfig) -> pa.Schema:
    """Partition columns that no file holds come last, as text out of the folder's name, as in Hudi."""
    names = set(schema.names)
    dropped = [f for f in config.partition_fields if config.drop_partition_columns and f not in names]
    return pa.schema([*schema, *(pa.field(name, pa.string()) for name in dropped)])


def _newest(table: TableAt, timeline: Timeline) -> str | None:
    fallback = None
    instants = sorted(timeline.writes, key=lambda i: i.request_time, reverse=True)
    at_once = min(_LOOKS_AT_ONCE, calls_at_once(table.storage))
    for first in range(0, len(instants), at_once):
        for metadata in map_calls(table.storage, partial(load_commit, table), instants[first : first + at_once]):
            if metadata.schema and metadata.operation not in KEEPS_SCHEMA:
                return metadata.schema
            fallback = fallback or metadata.schema
    return fallback


def _archived(table: TableAt, timeline: Timeline) -> str | None:
    rows = load_history(table, actions=frozenset({"commit", "deltacommit", "replacecommit"}), with_metadata=True)
    for row in sorted(rows, key=lambda r: r.instant.request_time, reverse=True):
        done_by = row.instant.completion_time or row.instant.request_time
        if row.metadata and (timeline.until is None or done_by <= timeline.until):
            try:
                schema = parse_commit(row.metadata, f"archived {row.instant.request_time}").schema
            except CorruptFile:
                continue
            if schema:
                return schema
    return None

# SPDX-License-Identifier: Apache-2.0
"""Audit: log files, block by block: whole, of their own instant, with a schema that can be read, hiding nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import CorruptFile, LakebraidError, ObjectNotFound
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.log.blocks import BlockType, LogBlock, read_blocks
from lakebraid.format.log.delete_list import parse_delete_block
from lakebraid.format.names import State, parse_data_file
from lakebraid.format.parquet.rows import open_parquet_file
from lakebraid.format.timeline.plans import parse_compaction_plan
from lakebraid.format.times import is_instant_time
from lakebraid.inspect.audit.evidence import Evidence, Object
from lakebraid.inspect.audit.findings import Finding
from lakebraid.inspect.audit.reach import Reach
from lakebraid.model.schema.avro_text import states_skeletons
from lakebraid.model.schema.conform import without_meta
from lakebraid.model.schema.readable import unreadable_columns
from lakebraid.model.timeline.slicing import GroupId

_DATA: Final = (BlockType.AVRO, BlockType.PARQUET)
Merged: TypeAlias = dict[tuple[GroupId, str], set[str]]
"""Of each group and log compaction, the writes that its blocks say they hold: readers pass over their own blocks."""


def check_log(evidence: Evidence, reach: Reach, found: Object, merged: Merged) -> Iterator[Finding]:
    """One log file; what its blocks say they replace is added to `merged`."""
    name = found.info.name
    try:
        content = read_blocks(evidence.storage.read(name, limits.LOG_FILE_BYTES_MAX), name)
    except CorruptFile as error:
        yield Finding("log-damaged", name, error.message)
        return
    is_whole = evidence.config.layout == 2  # elsewhere a dead writer's half block stays in a log that goes on
    for torn in content.damaged if is_whole else ():
        yield Finding("log-torn", name, f"{torn.size:,} bytes from byte {torn.offset:,} on: {torn.reason}.")
    for block in content.blocks:
        yield from _block(evidence, found, block)
        if block.compacted_times:
            merged.setdefault((found.group, found.parsed.request_time), set()).update(block.compacted_times)
    named = reach.named.get(name)
    if is_whole and named is not None and named.rows is not None and not content.damaged:
        rows = _rows(evidence, found, content.blocks)
        # Hudi counts rows that are deletes as rows, or as deletes.
        all_told = named.rows + (named.deletes or 0)
        if rows and not any(n == named.rows or n + _deletes(content.blocks) == all_told for n in rows):
            yield Finding("file-rows", name, f"It has {rows[0]:,} rows; {named.instant} wrote {named.rows:,}.")


def _block(evidence: Evidence, found: Object, block: LogBlock) -> Iterator[Finding]:
    where = f"{found.info.name} at byte {block.offset:,}"
    written = block.instant_time or ""
    if not is_instant_time(written):
        yield Finding("block-instant", where, f"Its instant is {written[:40]!r}.")
    elif not _is_own(evidence, found, written):
        yield Finding("block-instant", where, f"The block is of {written}, the file of {found.parsed.request_time}.")
    if block.type in _DATA and block.schema_text:
        try:
            schema = _schema(block.schema_text)
        except LakebraidError as error:
            yield Finding("log-damaged", where, error.message)
        else:
            yield from fits_table(evidence, where, schema)


def _is_own(evidence: Evidence, found: Object, written: str) -> bool:
    """Whether a block may be in the file. Deletes that a compaction carries on keep the time of their own write."""
    request_time = found.parsed.request_time
    return written == request_time or _is_carried(evidence, found, written) or evidence.config.may_share_logs


def _is_carried(evidence: Evidence, found: Object, written: str) -> bool:
    """Whether a compaction has taken the block over as it was."""
    request_time = found.parsed.request_time
    instant = evidence.timeline.write(request_time)
    return instant is not None and instant.action == "commit" and written < request_time


@lru_cache(maxsize=32)  # most blocks of a table say the same
def _schema(text: str) -> pa.Schema:
    return without_meta(parse_avro_schema(text, "the schema of a log block"))


def _rows(evidence: Evidence, found: Object, blocks: tuple[LogBlock, ...]) -> tuple[int, ...]:
    """The rows in data blocks, by their own counts; with the skeletons of partial updates, and without: a writer tells
    their rows once, a log compaction all that it has copied. Nothing if a block does not tell.

    What a compaction has carried on is not counted, for it tells what it has merged.
    """
    rows = skeletons = 0
    for block in blocks:
        if block.type is BlockType.DELETE or _is_carried(evidence, found, block.instant_time or ""):
            continue
        count = _count(block)
        if count is None:
            return ()
        rows += count
        skeletons += count if states_skeletons(block.schema_text) else 0
    return (rows, rows - skeletons) if skeletons else (rows,)


def _count(block: LogBlock) -> int | None:
    if block.type is BlockType.AVRO and len(block.content) >= 8:
        return int(struct.unpack_from(">i", block.content, 4)[0])
    if block.type is not BlockType.PARQUET:
        return None
    try:
        source = pa.BufferReader(pa.py_buffer(block.content))
        return int(open_parquet_file(source, len(block.content), "a log block").metadata.num_rows)
    except LakebraidError:
        return None


def _deletes(blocks: tuple[LogBlock, ...]) -> int:
    return sum(
        len(parse_delete_block(b.content, "a log block").record_keys) for b in blocks if b.type is BlockType.DELETE
    )


def check_merged(evidence: Evidence, reach: Reach, merged: Merged) -> Iterator[Finding]:
    """Whether log compactions replace only what their plans merged, themselves or by way of earlier ones."""
    written = {(file.group, file.request_time): file.path for file in reach.named.values() if not file.is_base}
    for (group, request_time), claimed in merged.items():
        inputs = _inputs(evidence, group, request_time)
        if inputs is None:
            continue
        held = inputs.union(*(merged.get((group, request_time), set()) for request_time in inputs))
        for hidden in sorted(claimed - held):
            if (group, hidden) in written:
                what = f"The log compaction {request_time} says it holds {hidden}, and its plan does not name that log."
                yield Finding("log-compaction-hides", written[group, hidden], what)


def _inputs(evidence: Evidence, group: GroupId, request_time: str) -> set[str] | None:
    """The request times of the logs that a log compaction merged; None if its plan is not on the timeline any more."""
    instant = evidence.timeline.write(request_time)
    if instant is None or instant.kind != "logcompaction":
        return None
    try:
        plan = parse_compaction_plan(evidence.read(instant, State.REQUESTED), request_time)
    except (CorruptFile, ObjectNotFound):
        return None
    own = (o for o in plan.operations if GroupId(o.partition_path, o.file_id) == group)
    names = (parse_data_file(name) for operation in own for name in operation.delta_file_names)
    return {parsed.request_time for parsed in names if parsed is not None}


def fits_table(evidence: Evidence, where: str, schema: pa.Schema) -> Iterator[Finding]:
    """Whether rows of that schema can be read with the table's."""
    if evidence.view is None or evidence.has_schema_on_read:
        return
    for column, problem in unreadable_columns(schema, evidence.view.schema):
        yield Finding("file-schema", where, f"Column {column}: {problem}.")

# SPDX-License-Identifier: Apache-2.0
"""What in a log file forbids to compact it while older writes are open.

A compacted row keeps one rank: that of its newest version. A write that began before that version and is published
after the compaction is then judged against this one rank. For whole rows that is right. It is not where the compacted
file forgets something that such a write would still have to meet: a delete that leaves no row, or by commit time columns
of which some were written before and some after it. Where columns have ordering values, base files keep what each
column needs (`tasks.reading.ranks`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.format.avro.rows import parse_avro_block
from lakebraid.format.log.blocks import BlockType, LogBlock, read_blocks
from lakebraid.format.log.delete_list import parse_delete_block
from lakebraid.format.parquet.rows import read_parquet_block
from lakebraid.model.merge_rules import MergeRules, marked_deleted
from lakebraid.model.schema.conform import conform
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.data_files import read_log


@dataclass(frozen=True, slots=True)
class Hazard:
    """Open writes that began before `request_time` must end first, unless they write nothing but these columns."""

    request_time: str
    covers: frozenset[str] = frozenset()
    is_exact: bool = True
    """Whether that is just where the block ranks; a log-compacted one ranks there or before."""

    def endangers(self, request_time: str, columns: tuple[str, ...] | None) -> bool:
        """Whether an open write with that request time, of these columns or (None) of whole rows, must be waited for."""
        return request_time < self.request_time and (columns is None or not self.covers.issuperset(columns))


def find_hazards(storage: Storage, name: str, rules: MergeRules, schema: pa.Schema) -> tuple[Hazard, ...]:
    """The hazards in a log file; `schema` is the table's."""
    blocks = read_blocks(read_log(storage, name), name).blocks
    found = ((block, hazard) for block in blocks for hazard in _of_block(block, name, rules, schema))
    return tuple(replace(hazard, is_exact=not block.compacted_times) for block, hazard in found)


def _of_block(block: LogBlock, name: str, rules: MergeRules, schema: pa.Schema) -> Iterator[Hazard]:
    # A log-compacted block ranks at the newest instant it stands for.
    request_time = max(block.compacted_times, default=block.instant_time or "")
    where = f"the block at byte {block.offset:,} of {name}"
    by_event = bool(rules.order_columns)
    if block.compacted_times and block.type in (BlockType.AVRO, BlockType.PARQUET):
        # Log compactions of Apache Hudi give their own commit time to rows that rank lower.
        yield Hazard(_newest_commit_time(block, where))
    if block.type is BlockType.DELETE:
        gone = parse_delete_block(block.content, where)
        # By event time a delete with an ordering value is carried on, and forgets nothing.
        forgets = np.asarray(gone.unconditional).any() if by_event else len(gone) > 0
        if forgets:
            yield Hazard(request_time)
    elif block.type in (BlockType.AVRO, BlockType.PARQUET):
        if block.is_partial and not rules.every_order_column:
            yield Hazard(request_time, _columns(block))
        if not by_event and rules.delete_columns and _has_marked(block, where, rules, schema):
            yield Hazard(request_time)


def _columns(block: LogBlock) -> frozenset[str]:
    try:
        return frozenset(str(field["name"]) for field in json.loads(block.schema_text or "")["fields"])
    except (ValueError, KeyError, TypeError):
        return frozenset()


def _newest_commit_time(block: LogBlock, where: str) -> str:
    """The greatest commit time that a row bears; that of the block if its rows bear none."""
    rows = _rows(block, ["_hoodie_commit_time"], where)
    times = pc.max(rows.column("_hoodie_commit_time")).as_py() if "_hoodie_commit_time" in rows.column_names else None
    return str(times or block.instant_time or "")


def _has_marked(block: LogBlock, where: str, rules: MergeRules, schema: pa.Schema) -> bool:
    """Whether a row of the block marks itself as deleted."""
    marks = pa.schema([schema.field(name) for name in rules.delete_columns])
    rows = _rows(block, marks.names, where)
    return rows.num_columns > 0 and bool(marked_deleted(conform(rows, marks, where), rules).any())


def _rows(block: LogBlock, columns: list[str], where: str) -> pa.Table:
    """The rows of a data block, with at least these of its columns."""
    if block.type is BlockType.AVRO:
        return parse_avro_block(block.content, block.schema_text or "", where)
    return read_parquet_block(block.content, columns, where)

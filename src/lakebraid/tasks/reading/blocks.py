# SPDX-License-Identifier: Apache-2.0
"""The blocks of a slice's log files that count, and the rows that they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import CorruptFile, UnsupportedTable
from lakebraid.format.avro.rows import parse_avro_block, parse_avro_blocks
from lakebraid.format.damage import damaged
from lakebraid.format.log.blocks import BlockType, LogBlock
from lakebraid.format.log.delete_list import DeletedKeys, parse_delete_block
from lakebraid.format.parquet.rows import ParquetBlock
from lakebraid.format.times import is_instant_time
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.log_order import BlockOrigin, Ordered, place_blocks, place_blocks_layout1
from lakebraid.model.merge_rules import KeyForm, MergeRules
from lakebraid.model.schema.conform import widen
from lakebraid.storage.parallel import map_calls
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.cache import KEPT
from lakebraid.tasks.reading.kept_files import open_log
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

_HOLD_ROWS = (BlockType.AVRO, BlockType.PARQUET, BlockType.DELETE, BlockType.HFILE)


@dataclass(frozen=True, slots=True)
class OrderedBlock:
    """A block that counts, and the request time at which its rows rank."""

    block: LogBlock
    where: str
    request_time: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """The content of one block: rows as they lie there, or deleted keys."""

    rows: pa.Table | DeletedKeys
    is_partial: bool
    where: str

    @property
    def likeness(self) -> tuple[Any, ...]:
        """Equal for blocks that may be handled together."""
        own = self.where if isinstance(self.rows, DeletedKeys) else self.rows.schema
        return (isinstance(self.rows, DeletedKeys), self.is_partial, own)


@dataclass(frozen=True, slots=True)
class Known:
    """What was read of the logs of slices that have most of them in common."""

    decoded: dict[str, Decoded] = field(default_factory=dict)
    """By the block's place."""
    logs: dict[str, Sequence[LogBlock]] = field(default_factory=dict)
    """The blocks of small log files, by name."""


def ordered_blocks(storage: Storage, plan: ReadPlan, task: SliceTask, known: Known | None = None) -> list[OrderedBlock]:
    """The blocks of the slice's logs that count, in merging order."""
    logs = {} if known is None else known.logs
    missing = [name for name in task.log_names if name not in logs]
    found: dict[str, Sequence[LogBlock]] = {}
    for name, log in zip(missing, map_calls(storage, partial(open_log, storage, task), missing), strict=True):
        found[name] = log.blocks
        if log.size <= limits.KEPT_BLOCK_BYTES_MAX:
            logs[name] = log.blocks
    blocks = [(block, name) for name in task.log_names for block in found.get(name) or logs.get(name, ())]
    placed = [p for p in _placed(blocks, plan, task) if not task.before or p.request_time < task.before]
    return [OrderedBlock(blocks[p.index][0], _where(*blocks[p.index]), p.request_time) for p in placed]


def _where(block: LogBlock, name: str) -> str:
    return f"the block at byte {block.offset:,} of {name}"


def _placed(blocks: list[tuple[LogBlock, str]], plan: ReadPlan, task: SliceTask) -> list[Ordered]:
    origins = [
        BlockOrigin(
            block.instant_time or "",
            block.compacted_times,
            block.target_instant_time if block.is_rollback_command else None,
            block.type in _HOLD_ROWS and task.visible.counts(block.instant_time or ""),
        )
        for block, _ in blocks
    ]
    for origin, (block, where) in zip(origins, blocks, strict=True):
        wrong = next((t for t in (origin.instant_time, *origin.compacted_times) if not is_instant_time(t)), None)
        if wrong is not None:
            raise CorruptFile(
                f"The log block at byte {block.offset:,} of {where} carries no valid instant time "
                f"({wrong[:40]!r}). Nothing was changed. Run Apache Hudi's repair, or restore the file.",
                path=where,
                offset=block.offset,
            )
    return place_blocks(origins) if plan.layout == 2 else place_blocks_layout1(origins)


def decode_block(placed: OrderedBlock, rules: MergeRules, schema: pa.Schema, keys: pa.Array | None = None) -> Decoded:
    """What a block holds, of all keys or, where that saves work, of few more than `keys`."""
    block, where = placed.block, placed.where
    if block.type is BlockType.DELETE:
        return Decoded(parse_delete_block(block.content, where), is_partial=False, where=where)
    if block.type is BlockType.AVRO:
        rows = parse_avro_block(block.content, block.schema_text or "", where)
    elif block.type is BlockType.PARQUET:
        columns = [*schema.names, *([RECORD_KEY] if block.is_partial else [])]
        opened = ParquetBlock(block.content, where)
        if keys is not None and not block.is_partial and not _may_hold(opened, where, rules, schema, keys):
            columns = []
        rows = opened.read(columns)
        if columns and not rows.column_names:
            raise damaged(where, "it has none of the table's columns")
        rows = rows if columns else rows.slice(0, 0)
    else:
        raise UnsupportedTable(f"{where} is an {block.type.name} block; such blocks belong to metadata tables.")
    return Decoded(rows, block.is_partial, where)


def kept_or_decoded(placed: OrderedBlock, rules: MergeRules, schema: pa.Schema, keys: pa.Array | None) -> Decoded:
    """The same, if it is Parquet perhaps decoded before. If few keys are wanted, of a block without them only the keys are kept."""
    block, where = placed.block, placed.where
    if block.type is not BlockType.PARQUET or (keys is not None and not KEPT.may_keep(block)):
        return decode_block(placed, rules, schema, keys)
    if keys is not None and not block.is_partial:
        names = list(rules.key_columns)
        of_keys = KEPT.rows(block, names, lambda: ParquetBlock(block.content, where).read(names))
        if not _are_among(of_keys, where, rules, schema, keys):
            return Decoded(of_keys.slice(0, 0), is_partial=False, where=where)
    rows = KEPT.rows(block, schema.names, lambda: decode_block(placed, rules, schema).rows)
    return Decoded(rows, block.is_partial, where)


def _may_hold(block: ParquetBlock, where: str, rules: MergeRules, schema: pa.Schema, keys: pa.Array) -> bool:
    """Whether one of the keys is in a block of whole rows, by its key column alone."""
    if rules.key_form is KeyForm.RENDERED:
        return True
    return _are_among(block.read(list(rules.key_columns)), where, rules, schema, keys)


def _are_among(rows: pa.Table, where: str, rules: MergeRules, schema: pa.Schema, keys: pa.Array) -> bool:
    """Whether the key column of a block may hold one of the keys."""
    if rules.key_form is KeyForm.RENDERED:
        return True
    if rules.key_columns[0] not in rows.column_names:
        return True
    column = widen(rows.column(0), schema.field(rules.key_columns[0]).type, where)
    return bool(pc.any(pc.is_in(column, value_set=keys)).as_py())


def decoded_together(placed: Sequence[OrderedBlock]) -> dict[str, Decoded]:
    """What the Avro blocks among these hold, by where they lie, perhaps decoded before.

    Neighbours are decoded by one call of the reader, which costs more than the rows of a small block.
    """
    found = {}
    for run in _runs([p for p in placed if p.block.type is BlockType.AVRO]):
        tables = KEPT.all_rows([member.block for member in run], (), partial(_decoded_run, run))
        for member, rows in zip(run, tables, strict=True):
            found[member.where] = Decoded(rows, member.block.is_partial, member.where)
    return found


def _decoded_run(run: Sequence[OrderedBlock], numbers: Sequence[int]) -> list[pa.Table]:
    """The rows of these of the run."""
    contents, places = [run[n].block.content for n in numbers], [run[n].where for n in numbers]
    return parse_avro_blocks(contents, run[0].block.schema_text or "", places)


def _runs(placed: Sequence[OrderedBlock]) -> Iterator[list[OrderedBlock]]:
    """Neighbours of one schema, not too many bytes of them."""
    run: list[OrderedBlock] = []
    room = 0
    for block in placed:
        size = len(block.block.content)
        if run and (size > room or block.block.schema_text != run[0].block.schema_text):
            yield run
            run = []
        room = (room if run else limits.AVRO_TOGETHER_BYTES) - size
        run.append(block)
    if run:
        yield run

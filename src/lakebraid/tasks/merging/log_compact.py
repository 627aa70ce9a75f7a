# SPDX-License-Identifier: Apache-2.0
"""What one task of a log compaction does: many log files of a group in, one log file that stands for them out.

The new file's blocks name the instants they stand for; readers put them at the place of the newest of these and pass
over the others. What is written merges like what it stands for, whatever came before and whatever comes later:

- Of whole rows and deletes the winner of each key is enough, with every row's own commit time. By event time a delete
  without ordering value goes before it: it makes way for its successor, however low that one's ordering value.
- Partial rows are merged only with neighbours of the very same columns. By event time neither they nor what follows them
  is: to us that would make no difference, but Apache Hudi's readers fold versions in sequence, and a partial row with a
  high ordering value takes some columns of each version that follows. Such blocks are copied.
- Where groups of columns are ordered apart, one row may win for some columns and another one for others: all is copied.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa

from lakebraid.format.log.blocks import POSITIONS, BlockType, HeaderKey, LogBlock, format_log, read_blocks
from lakebraid.format.log.delete_list import DeletedKeys
from lakebraid.format.names import LogFileName
from lakebraid.model.config import RECORD_KEY, PartialMode
from lakebraid.model.keys.keys import render_values
from lakebraid.model.ordering import Ints, winners
from lakebraid.model.schema.avro_text import row_schema_text, states_skeletons
from lakebraid.model.values.arrow_numpy import take_rows
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.data_files import read_log
from lakebraid.tasks.merging.compact import CompactTask, MergeContext, fits_delete_block, ranges_of_blocks
from lakebraid.tasks.new_files import place_file
from lakebraid.tasks.reading.blocks import Decoded, OrderedBlock, decode_block, ordered_blocks
from lakebraid.tasks.reading.versions import Versions, join_decoded
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.log_file import BlockRules, Deletes, block_format, delete_block, row_blocks

_WHOLE: Final = "whole rows"


@dataclass(frozen=True, slots=True)
class _Written:
    """Blocks of the new file, and how much is in them."""

    blocks: tuple[LogBlock, ...] = ()
    rows: int = 0
    deletes: int = 0


def run_log_compaction_task(storage: Storage, plan: MergeContext, task: CompactTask) -> list[StagedFile]:
    """Writes the one log file that stands for the slice's logs; none if they hold nothing. No reader sees it yet.

    What is written is a function of plan and claim, so a second attempt meets its own file.
    """
    blocks = ordered_blocks(storage, plan.read, task.slice)
    is_cut = any(_has_partial(storage, name) for name in task.earlier_logs)
    parts = [_merged(list(run), kind, plan, task) for kind, run in _runs(blocks, plan, after_partial=is_cut)]
    written = [_standing_for(block, plan.request_time, _times(blocks)) for part in parts for block in part.blocks]
    if not written:
        return []
    partition, token = task.slice.partition, plan.token(task.partition_number)
    name = LogFileName(task.file_id, plan.request_time, 1, token, "").format()
    data = format_log(written)
    place_file(storage, plan.request_time, partition, name, data)
    rows, deletes = sum(part.rows for part in parts), sum(part.deletes for part in parts)
    ranges = ranges_of_blocks(plan, blocks)
    return [StagedFile(partition, task.file_id, name, len(data), rows, deletes, is_base=False, ranges=ranges)]


def _has_partial(storage: Storage, name: str) -> bool:
    return any(block.is_partial for block in read_blocks(read_log(storage, name), name).blocks)


def _runs(
    blocks: Sequence[OrderedBlock], plan: MergeContext, *, after_partial: bool
) -> Iterator[tuple[str, Iterator[OrderedBlock]]]:
    """Neighbours that may be merged with each other, with what they are; "" for those that are to be copied."""
    kinds = {id(block): kind for block, kind in zip(blocks, _kinds(blocks, plan, after_partial), strict=True)}
    return groupby(blocks, key=lambda block: kinds[id(block)])


def _kinds(blocks: Iterable[OrderedBlock], plan: MergeContext, after_partial: bool) -> Iterator[str]:
    by_event = bool(plan.read.rules.order_columns)
    for placed in blocks:
        block = placed.block
        is_odd = block.is_partial or states_skeletons(block.schema_text)
        after_partial |= is_odd
        rules = plan.read.rules
        if rules.partial_mode is not PartialMode.NONE or rules.groups or (by_event and after_partial):
            yield ""
        elif block.is_partial:
            yield block.schema_text or ""
        else:
            yield "" if is_odd else _WHOLE


def _times(blocks: Iterable[OrderedBlock]) -> str:
    """The instants that are stood for: those of the blocks, and those that these stand for themselves."""
    named = {time for placed in blocks for time in (placed.block.instant_time, *placed.block.compacted_times) if time}
    return ",".join(sorted(named))


def _standing_for(block: LogBlock, request_time: str, times: str) -> LogBlock:
    kept = {key: value for key, value in block.header.items() if key not in POSITIONS}
    return replace(block, header={**kept, HeaderKey.INSTANT_TIME: request_time, HeaderKey.COMPACTED_BLOCK_TIMES: times})


def _merged(run: list[OrderedBlock], kind: str, plan: MergeContext, task: CompactTask) -> _Written:
    """The run as few blocks; as it is where there is nothing to merge or it cannot be told in fewer."""
    if not kind or len(run) < 2:
        return _copied(run, plan)
    rules, schema = plan.read.rules, plan.read.schema
    times = [int(block.request_time) for block in run]
    filled = [(d, time) for d, time in zip(_decoded(run, plan, schema), times, strict=True) if len(d.rows)]
    versions = join_decoded(filled, rules, schema)
    if versions is None:
        return _Written()
    told = _whole(versions, filled, run, plan, task) if kind == _WHOLE else _partial(versions, filled, run, plan)
    return _copied(run, plan) if told is None else told


def _copied(run: list[OrderedBlock], plan: MergeContext) -> _Written:
    keys = pa.schema([plan.read.schema.field(RECORD_KEY)])
    counts = [(len(found.rows), isinstance(found.rows, DeletedKeys)) for found in _decoded(run, plan, keys)]
    rows, deletes = sum(n for n, gone in counts if not gone), sum(n for n, gone in counts if gone)
    return _Written(tuple(placed.block for placed in run), rows, deletes)


def _decoded(run: Iterable[OrderedBlock], plan: MergeContext, schema: pa.Schema) -> Iterator[Decoded]:
    return (decode_block(block, plan.read.rules, schema) for block in run)


def _whole(
    versions: Versions,
    decoded: list[tuple[Decoded, int]],
    run: list[OrderedBlock],
    plan: MergeContext,
    task: CompactTask,
) -> _Written | None:
    """The winner of each key; None if a delete among them cannot be written again."""
    by_event = bool(plan.read.rules.order_columns)
    is_gone = np.repeat([isinstance(d.rows, DeletedKeys) for d, _ in decoded], [len(d.rows) for d, _ in decoded])
    is_plain = versions.unconditional
    if by_event and not fits_delete_block(versions.ordering, len(is_gone))[is_gone & ~is_plain].all():
        return None
    top, cut = _winners(versions)
    gone, kept = top[is_gone[top]], top[~is_gone[top]]
    # Deletes without ordering value first: what follows them in the run is above them.
    first, last = (cut, gone[~is_plain[gone]]) if by_event else (gone, gone[:0])
    text = row_schema_text(plan.schema, plan.table)
    blocks = [
        *_deletes(versions, first, text, plan, task, with_order=False),
        *row_blocks(_block_rules(plan, text, run), take_rows(versions.rows, kept).select(list(plan.read.columns))),
        *_deletes(versions, last, text, plan, task, with_order=True),
    ]
    return _Written(tuple(blocks), len(kept), len(first) + len(last))


def _winners(versions: Versions) -> tuple[Ints, Ints]:
    """The rows that win, one of each key, and of each key the last delete without ordering value; both in sequence."""
    encoded = versions.keys.dictionary_encode()
    codes, count = np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary)
    best = winners(codes, versions.order, versions.unconditional, count)
    cut = np.full(count, -1, np.int64)
    plain = np.flatnonzero(versions.unconditional)
    cut[codes[plain]] = plain  # numpy keeps the last of equal indices
    return np.sort(best), np.sort(cut[cut >= 0])


def _deletes(
    versions: Versions, rows: Ints, text: str, plan: MergeContext, task: CompactTask, *, with_order: bool
) -> Iterator[LogBlock]:
    if len(rows):
        at = pa.array(rows)
        ordering = tuple(values.take(at) for values in versions.ordering) if with_order else None
        partitions = pa.repeat(task.slice.partition, len(rows))
        yield delete_block(
            plan.request_time, text, Deletes(render_values(versions.keys.take(at)), partitions, ordering)
        )


def _partial(
    versions: Versions, decoded: list[tuple[Decoded, int]], run: list[OrderedBlock], plan: MergeContext
) -> _Written | None:
    """By commit time, of partial rows with one set of columns: the last of each key. None if they cannot be put together."""
    tables = [found.rows for found, _ in decoded if isinstance(found.rows, pa.Table)]
    text = run[0].block.schema_text or ""
    if any(not table.schema.equals(tables[0].schema) for table in tables):
        return None
    if {*tables[0].column_names} != _columns(text):
        return None
    top, _ = _winners(versions)
    rows = take_rows(pa.concat_tables(tables), top)
    rules = _block_rules(plan, text, run)
    noted = tuple(name for name in rules.statistics if name in rows.column_names)
    blocks = tuple(row_blocks(replace(rules, is_partial=True, statistics=noted), rows))
    return _Written(blocks, len(top))


def _columns(schema_text: str) -> set[str]:
    try:
        return {str(field["name"]) for field in json.loads(schema_text)["fields"]}
    except (ValueError, KeyError, TypeError):
        return set()


def _block_rules(plan: MergeContext, schema_text: str, run: Iterable[OrderedBlock]) -> BlockRules:
    forms = {block.block.type for block in run} - {BlockType.DELETE}
    rules = plan.read.rules
    return BlockRules(
        plan.request_time,
        schema_text,
        block_format("avro" if forms == {BlockType.AVRO} else "parquet", plan.schema, rules.order_columns),
        statistics=tuple(dict.fromkeys((RECORD_KEY, *rules.key_columns, *rules.order_columns))),
    )

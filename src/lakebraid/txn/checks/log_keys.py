# SPDX-License-Identifier: Apache-2.0
"""The keys in log files, and whether two writes that met in a file group have one in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.format.avro.rows import parse_avro_block
from lakebraid.format.log.blocks import BlockType, LogBlock, read_blocks
from lakebraid.format.log.delete_list import parse_delete_block
from lakebraid.format.parquet.rows import read_parquet_block
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.schema.avro_text import states_skeletons
from lakebraid.model.timeline.instant import Instant
from lakebraid.storage.protocol import Storage
from lakebraid.table.loading import load_commit
from lakebraid.tasks.data_files import read_log
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.ledger.rounds import Round

SERVICES = frozenset({"compaction", "logcompaction"})
"""Kinds of instants that bring no row and no delete of their own."""
Group = tuple[str, str]
"""A partition and a file id."""
Clashes = Callable[[Storage, Iterable[StagedFile], str], bool]
"""Whether our files of a group clash with another file of it, by the name of that one."""


@dataclass(frozen=True, slots=True)
class BlockKeys:
    """The keys of one block of a log file."""

    keys: pa.Array
    order: pa.Array | None = None
    """Their ordering values; None if the order of two versions cannot be told by these alone."""


def has_rows(block: LogBlock) -> bool:
    """Whether a block holds rows, whole or partial ones."""
    return block.type in (BlockType.AVRO, BlockType.PARQUET)


def opens_rows(block: LogBlock) -> bool:
    """Whether a block holds skeletons, with which a partial update opens rows."""
    return has_rows(block) and states_skeletons(block.schema_text)


def has_rows_or_deletes(block: LogBlock) -> bool:
    """Whether a block says anything about keys."""
    return has_rows(block) or block.type is BlockType.DELETE


def log_keys(
    storage: Storage, name: str, is_wanted: Callable[[LogBlock], bool], order_column: str | None = None
) -> Iterator[BlockKeys]:
    """The keys of a log file, one wanted block after the other; SnapshotExpired if the file is gone.

    With the column whose greater value wins, ordering values as well.
    """
    for block in read_blocks(read_log(storage, name), name).blocks:
        if is_wanted(block):
            where = f"the block at byte {block.offset:,} of {name}"
            is_delete = block.type is BlockType.DELETE
            yield (_deleted_keys if is_delete else _row_keys)(block, where, order_column)


def _deleted_keys(block: LogBlock, where: str, order_column: str | None) -> BlockKeys:
    deleted = parse_delete_block(block.content, where)
    has_order = order_column is not None and bool(deleted.ordering)
    return BlockKeys(deleted.record_keys, deleted.ordering[0] if has_order and deleted.ordering else None)


def _row_keys(block: LogBlock, where: str, order_column: str | None) -> BlockKeys:
    if block.type is BlockType.AVRO:
        rows = parse_avro_block(block.content, block.schema_text or "", where)
    else:
        columns = [RECORD_KEY] if order_column is None else [RECORD_KEY, order_column]
        rows = read_parquet_block(block.content, columns, where)
    # A partial update ranks by more than its ordering value: it may open a row.
    has_order = order_column in rows.column_names and not block.is_partial
    order = rows.column(order_column).combine_chunks() if has_order else None
    return BlockKeys(rows.column(RECORD_KEY).combine_chunks(), order)


def share_a_key(some: Iterable[BlockKeys], others: Iterable[BlockKeys]) -> bool:
    """Whether a key is among both."""
    known = pa.chunked_array([block.keys for block in some], pa.string()).combine_chunks()
    rest = pa.chunked_array([block.keys for block in others], pa.string())
    return bool(pc.any(pc.is_in(rest, value_set=known)).as_py())


def by_group(files: Iterable[StagedFile]) -> dict[Group, list[StagedFile]]:
    """Our files, by partition and file id."""
    groups: dict[Group, list[StagedFile]] = {}
    for file in files:
        groups.setdefault((file.partition, file.file_id), []).append(file)
    return groups


def meets(now: Round, instant: Instant, groups: dict[Group, list[StagedFile]], clash: Clashes) -> bool:
    """Whether a file of a completed write clashes with our own files of the same file group."""
    storage = now.ledger.storage
    metadata = load_commit(now.ledger.table, instant)
    for partition, stats in metadata.write_stats.items():
        for stat in stats:
            own = groups.get((partition, stat.file_id or ""))
            if own is not None and stat.path is not None and clash(storage, own, stat.path):
                return True
    return False

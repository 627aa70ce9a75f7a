# SPDX-License-Identifier: Apache-2.0
"""The bytes of one log file: blocks of rows, then a block of deletes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.avro.rows import format_avro_block
from lakebraid.format.log.blocks import BlockType, HeaderKey, LogBlock, format_log
from lakebraid.format.log.delete_list import format_delete_block
from lakebraid.format.parquet.write import format_parquet
from lakebraid.model.values.cutting import cut

_CONSTANT = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")


@dataclass(frozen=True, slots=True)
class Deletes:
    """Keys that are gone, row by row."""

    record_keys: pa.Array
    partition_paths: pa.Array
    ordering: tuple[pa.Array, ...] | None
    """One array for each ordering field, in the type of its column; None deletes whatever came before."""

    def __len__(self) -> int:
        return len(self.record_keys)

    @property
    def takes_all(self) -> bool:
        """Whether some of them have no ordering value."""
        return bool(len(self)) and (self.ordering is None or any(column.null_count for column in self.ordering))


@dataclass(frozen=True, slots=True)
class BlockRules:
    """What all log files of one write have in common."""

    request_time: str
    schema_text: str
    """The schema of the rows, Hudi's five columns first."""
    block_format: str = "parquet"
    is_partial: bool = False
    statistics: tuple[str, ...] = ()
    """The columns whose least and greatest values are noted in Parquet blocks."""
    is_small: bool = False
    """Whether the rows are known to be few and short: then nothing is measured, and speed counts more than size."""


@dataclass(frozen=True, slots=True)
class Skeletons:
    """Whole rows that stand before the partial rows of the same keys: see `tasks.writing.skeletons`."""

    rows: pa.Table
    schema_text: str

    def rules(self, partial: BlockRules) -> BlockRules:
        return replace(partial, schema_text=self.schema_text, is_partial=False)


def format_log_file(
    rules: BlockRules, rows: pa.Table, deletes: Deletes | None, skeletons: Skeletons | None = None
) -> bytes:
    """A log file of these rows, which have Hudi's five columns, and these deletes; at least one must be there.

    `skeletons` go before the rows of a partial update.
    """
    blocks = [] if skeletons is None else list(row_blocks(skeletons.rules(rules), skeletons.rows))
    blocks += row_blocks(rules, rows)
    if deletes is not None and len(deletes):
        blocks.append(delete_block(rules.request_time, rules.schema_text, deletes))
    if not blocks:
        raise InvalidArgument("A log file of no rows and no deletes was asked for. Nothing was written.")
    return format_log(blocks)


def block_format(asked: str, schema: pa.Schema, order_columns: Sequence[str]) -> str:
    """The form of data blocks for rows of this schema: what was asked for, but Avro where a text orders the rows.

    Of rows in Parquet blocks Apache Hudi 1.2.0 keeps such a text in memory that its reader uses again, and then takes an
    older version for the newer one, its compaction as well.
    """
    kinds = [schema.field(name).type for name in order_columns if name in schema.names]
    return "avro" if any(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds) else asked


def row_blocks(rules: BlockRules, rows: pa.Table) -> Iterator[LogBlock]:
    """The rows as data blocks: one, or several if they take much memory."""
    header = {HeaderKey.INSTANT_TIME: rules.request_time, HeaderKey.SCHEMA: rules.schema_text}
    if rules.is_partial:
        header[HeaderKey.IS_PARTIAL] = "true"
    for piece in [rows] if rules.is_small and rows.num_rows else cut(rows, limits.LOG_BLOCK_ARROW_BYTES):
        if rules.block_format == "avro":
            yield LogBlock(BlockType.AVRO, header, format_avro_block(piece, rules.schema_text))
        else:
            yield LogBlock(BlockType.PARQUET, header, _parquet(piece, rules))


def delete_block(instant_time: str, schema_text: str, deletes: Deletes) -> LogBlock:
    """A delete block that counts as written by the instant that began at `instant_time`."""
    header = {HeaderKey.INSTANT_TIME: instant_time, HeaderKey.SCHEMA: schema_text}
    content = format_delete_block(deletes.record_keys, deletes.partition_paths, deletes.ordering)
    return LogBlock(BlockType.DELETE, header, content)


def _parquet(rows: pa.Table, rules: BlockRules) -> bytes:
    compression = "snappy" if rules.is_small else "zstd"
    return format_parquet(rows, constant=_CONSTANT, statistics=rules.statistics, compression=compression)

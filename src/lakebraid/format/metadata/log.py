# SPDX-License-Identifier: Apache-2.0
"""Files of a metadata table: logs, whose blocks hold an HFile or deleted keys, and base files, which are an HFile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Final

import pyarrow as pa

from lakebraid.errors import InvalidArgument, UnsupportedTable
from lakebraid.format.damage import damaged
from lakebraid.format.hfile.parts import Codec
from lakebraid.format.hfile.read import HFile, parse_hfile
from lakebraid.format.hfile.write import format_hfile
from lakebraid.format.log.blocks import BlockType, HeaderKey, LogBlock, format_log, read_blocks
from lakebraid.format.log.delete_list import format_delete_block, parse_delete_block
from lakebraid.format.metadata.records import Record, encoded
from lakebraid.format.metadata.schema import schema_text
from lakebraid.format.times import is_instant_time, parse_instant_time

_SCHEMA_INFO: Final = "schema"


@dataclass(frozen=True, slots=True)
class LogPart:
    """What one block of a log says: entries, or keys that are gone."""

    instant_time: str
    """The request time of the instant that wrote it."""
    entries: HFile | None
    deleted: tuple[str, ...] = ()


def format_metadata_log(
    records: Mapping[str, Record],
    request_time: str,
    *,
    deleted: Iterable[str] = (),
    partition: str = "",
    codec: Codec = Codec.GZIP,
) -> bytes:
    """The log file that one instant writes into one file group of the metadata table's `partition`: these records by their
    keys, then the deleted keys. Equal calls give equal bytes.
    """
    gone = sorted(set(deleted))
    if gone and not partition:
        raise InvalidArgument("Deleted keys need the name of the metadata table's partition. Nothing was written.")
    header = {HeaderKey.SCHEMA: schema_text(), HeaderKey.INSTANT_TIME: request_time}
    blocks = []
    if records:
        blocks.append(LogBlock(BlockType.HFILE, header, format_metadata_base(records, request_time, codec=codec)))
    if gone:
        content = format_delete_block(pa.array(gone, pa.string()), pa.array([partition] * len(gone), pa.string()))
        blocks.append(LogBlock(BlockType.DELETE, header, content))
    return format_log(blocks) if blocks else format_empty_log(request_time)


def format_empty_log(request_time: str) -> bytes:
    """A log file that says nothing, as Hudi puts it into each new file group, so that the group is never hidden (FORMAT, trap 1)."""
    content = format_delete_block(pa.array([], pa.string()), pa.array([], pa.string()))
    return format_log([LogBlock(BlockType.DELETE, {HeaderKey.INSTANT_TIME: request_time}, content)])


def format_metadata_base(records: Mapping[str, Record], request_time: str, *, codec: Codec = Codec.GZIP) -> bytes:
    """A base file of these records by their keys; as it is, it is also the content of a log block."""
    info = {_SCHEMA_INFO: schema_text().encode()}
    return format_hfile(encoded(records), info, created_ms=_milliseconds(request_time), codec=codec)


def _milliseconds(request_time: str) -> int:
    # A file is made when its instant is: no clock is asked, so that a write which is done twice makes the same bytes.
    is_time = is_instant_time(request_time) and not request_time.startswith("0000")
    return parse_instant_time(request_time, UTC) if is_time else 0


def parse_metadata_log(data: bytes | memoryview, where: str) -> tuple[LogPart, ...]:
    """What a log file says, in its order. Nothing is passed over: a damaged block is CorruptFile, one of another kind
    UnsupportedTable.
    """
    content = read_blocks(data, where)
    if content.damaged or not content.blocks:
        first = content.damaged[0].reason if content.damaged else "it has no block"
        raise damaged(f"The log file {where}", first)
    return tuple(_parse_block(block, f"{where} at byte {block.offset:,}") for block in content.blocks)


def _parse_block(block: LogBlock, where: str) -> LogPart:
    instant = block.instant_time
    if instant is None or block.compacted_times or block.type not in (BlockType.HFILE, BlockType.DELETE):
        raise UnsupportedTable(
            f"{where} is a block that lakebraid does not understand in a metadata table ({block.type.name}). Nothing was changed. "
            "The table itself can be read without its metadata table: its folders say the same.",
            path=where,
        )
    if block.type is BlockType.DELETE:
        keys: list[str] = parse_delete_block(block.content, where).record_keys.to_pylist()
        return LogPart(instant, None, tuple(keys))
    return LogPart(instant, parse_hfile(block.content, where))

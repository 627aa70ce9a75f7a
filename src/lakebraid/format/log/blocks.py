# SPDX-License-Identifier: Apache-2.0
"""Log files as blocks: where each block begins and ends, its header, and its content as a view on the bytes.

A block is ``#HUDI#``, its size, a format version, a type, a header map, the content, a footer map and the size again.
Nothing here looks into a content: Avro rows, Parquet files and delete lists have their own modules.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.damage import damaged

MAGIC: Final = b"#HUDI#"
LOG_FORMAT_VERSION: Final = 1

_NEXT_MAGIC: Final = re.compile(re.escape(MAGIC))
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_START: Final = struct.Struct(">qii")
_BLOCK_SIZE_MIN: Final = 32
"""Version, type, empty header, content length, empty footer and trailer: what every block has after its size."""


class BlockType(enum.IntEnum):
    """What a block's content is."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


class HeaderKey(enum.IntEnum):
    """What a header entry says; other numbers are ignored on reading."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


POSITIONS: Final[tuple[HeaderKey, ...]] = (
    HeaderKey.RECORD_POSITIONS,
    HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS,
)
"""What must not go with a block into another slice: its rows' places in a base file."""
_KNOWN_KEYS: Final = {int(key): key for key in HeaderKey}
_KNOWN_TYPES: Final = {int(kind): kind for kind in BlockType}


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One whole block: `offset` is that of its magic, `size` reaches to the end of its trailer."""

    type: BlockType
    header: dict[HeaderKey, str]
    content: memoryview | bytes
    offset: int = 0
    size: int = 0

    @property
    def instant_time(self) -> str | None:
        """The request time of the instant that wrote the block."""
        return self.header.get(HeaderKey.INSTANT_TIME)

    @property
    def schema_text(self) -> str | None:
        """The Avro schema of the rows, meta fields included."""
        return self.header.get(HeaderKey.SCHEMA)

    @property
    def is_partial(self) -> bool:
        """Whether the rows carry only some of the table's columns."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    @property
    def compacted_times(self) -> tuple[str, ...]:
        """The request times of the instants that log compaction merged into this block."""
        listed = self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
        return tuple(part for part in (piece.strip() for piece in listed.split(",")) if part)

    @property
    def target_instant_time(self) -> str | None:
        """The request time of the instant that a command block speaks about."""
        return self.header.get(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def is_rollback_command(self) -> bool:
        """Whether the block drops all earlier blocks of its target instant (tables of version 6)."""
        return self.type is BlockType.COMMAND and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == "0"


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes that were skipped because no whole block begins there."""

    offset: int
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class LogFileContent:
    """The whole blocks of a log file in file order, and what lies between them."""

    blocks: tuple[LogBlock, ...]
    damaged: tuple[DamagedRange, ...]


def read_blocks(data: bytes | memoryview, where: str) -> LogFileContent:
    """All whole blocks of a log file; their contents are views on `data`.

    A block that runs past the end, whose trailer contradicts its size, or that neither a magic nor the end of the file
    follows was left by a writer that died. It is skipped up to the next magic, as Hudi does, and reported. A block that
    is whole but makes no sense inside, or that a newer Hudi wrote, raises CorruptFile: skipping it would lose rows.
    """
    view = memoryview(data).toreadonly().cast("B")
    if len(view) > limits.LOG_FILE_BYTES_MAX:
        _refuse(where, 0, f"the file has {len(view):,} bytes; at most {limits.LOG_FILE_BYTES_MAX:,} are read")
    blocks: list[LogBlock] = []
    damaged: list[DamagedRange] = []
    offset = steps = 0
    while offset < len(view):
        steps += 1
        if steps > limits.LOG_BLOCKS_MAX:
            _refuse(where, offset, f"more than {limits.LOG_BLOCKS_MAX:,} blocks or fragments were counted up to here")
        reason = _damage(view, offset, where)
        if reason is None:
            blocks.append(_parse_block(view, offset, where))
            offset += blocks[-1].size
        else:
            end = _next_magic(view, offset + len(MAGIC))
            _note_damage(damaged, DamagedRange(offset, end - offset, reason))
            offset = end
    return LogFileContent(tuple(blocks), tuple(damaged))


def format_block(
    type: BlockType,  # noqa: A002 - the name of the field it becomes
    header: Mapping[HeaderKey, str],
    content: bytes | memoryview,
) -> bytes:
    """One block as Hudi reads it; the header entries keep their order."""
    entries = [(key, value.encode()) for key, value in header.items()]
    head = b"".join(_INT.pack(key) + _INT.pack(len(value)) + value for key, value in entries)
    size = _BLOCK_SIZE_MIN + len(head) + len(content)
    if size > limits.BLOCK_BYTES_MAX or any(len(value) > limits.BLOCK_HEADER_VALUE_BYTES_MAX for _, value in entries):
        raise InvalidArgument(
            f"A log block of {size:,} bytes, {len(head):,} of them its header, cannot be written: Hudi holds 2 GiB at most. Nothing "
            "was written. Write fewer rows at once."
        )
    return b"".join(
        (
            MAGIC,
            _START.pack(size, LOG_FORMAT_VERSION, type),
            _INT.pack(len(entries)),
            head,
            _LONG.pack(len(content)),
            content,
            _INT.pack(0),
            _LONG.pack(size + len(MAGIC)),
        )
    )


def format_log(blocks: Iterable[LogBlock]) -> bytes:
    """A log file of these blocks, one after the other; InvalidArgument if readers would not take it."""
    parts = [format_block(block.type, block.header, block.content) for block in blocks]
    size = sum(map(len, parts))
    if size > limits.LOG_FILE_BYTES_MAX or len(parts) > limits.LOG_BLOCKS_MAX:
        raise InvalidArgument(
            f"One log file would have {size:,} bytes in {len(parts):,} blocks; readers take {limits.LOG_FILE_BYTES_MAX:,} bytes in "
            f"{limits.LOG_BLOCKS_MAX:,} blocks. Nothing was written. Write fewer rows at once, or use more buckets."
        )
    return b"".join(parts)


def _damage(view: memoryview, offset: int, where: str) -> str | None:
    """Why no whole block begins at `offset`, or None. These are Hudi's three tests, in its order."""
    remaining = len(view) - offset
    if remaining < len(MAGIC):
        return f"{remaining} bytes are too few for a block"
    if bytes(view[offset : offset + len(MAGIC)]) != MAGIC:
        # Only possible at the very beginning: everywhere else a magic was looked for. Hudi refuses such a file too.
        _refuse(where, offset, "it does not begin like a log file")
    body = offset + len(MAGIC) + _LONG.size
    if body > len(view):
        return "the file ends before the size of the block"
    size = _LONG.unpack_from(view, offset + len(MAGIC))[0]
    if not _BLOCK_SIZE_MIN <= size <= len(view) - body:
        return f"the block claims {size:,} bytes; {len(view) - body:,} remain"
    end = body + size
    trailer = _LONG.unpack_from(view, end - _LONG.size)[0]
    if trailer != size + len(MAGIC):
        return f"the block claims {size:,} bytes at its start and {trailer - len(MAGIC):,} at its end"
    follows = bytes(view[end : end + len(MAGIC)])
    if len(follows) == len(MAGIC) and follows != MAGIC:
        return "neither a block nor the end of the file follows"
    return None


def _next_magic(view: memoryview, start: int) -> int:
    found = _NEXT_MAGIC.search(view, start)
    return found.start() if found else len(view)


def _note_damage(damaged: list[DamagedRange], found: DamagedRange) -> None:
    """Adds a range; ranges that touch become one, so that a file full of magics stays a short list."""
    if damaged and damaged[-1].offset + damaged[-1].size == found.offset:
        first = damaged.pop()
        found = DamagedRange(first.offset, first.size + found.size, first.reason)
    damaged.append(found)


def _parse_block(view: memoryview, offset: int, where: str) -> LogBlock:
    """The block at `offset`, whose outer lengths were checked."""
    size, version, type_number = _START.unpack_from(view, offset + len(MAGIC))
    if size > limits.BLOCK_BYTES_MAX:
        _refuse(where, offset, f"its block has {size:,} bytes; at most {limits.BLOCK_BYTES_MAX:,} are read")
    if version != LOG_FORMAT_VERSION:
        _refuse(where, offset, f"its block has log format version {version}; only {LOG_FORMAT_VERSION} is known")
    if type_number not in _KNOWN_TYPES:
        _refuse(where, offset, f"its block has type {type_number}; types 0 to {max(_KNOWN_TYPES)} are known")
    end = offset + len(MAGIC) + _LONG.size + size
    inner_end = end - _LONG.size
    header, position = _parse_header(view, offset + len(MAGIC) + _START.size, inner_end, where)
    if inner_end - position < _LONG.size:
        _refuse(where, position, "the content's length lies outside of its block")
    length = _LONG.unpack_from(view, position)[0]
    content = position + _LONG.size
    if not 0 <= length <= inner_end - content:
        _refuse(where, position, f"a content claims {length:,} bytes; {inner_end - content:,} remain in its block")
    _, footer_end = _parse_header(view, content + length, inner_end, where)
    if footer_end != inner_end:
        _refuse(where, footer_end, f"{inner_end - footer_end:,} bytes of a block belong to none of its parts")
    return LogBlock(_KNOWN_TYPES[type_number], header, view[content : content + length], offset, end - offset)


def _parse_header(view: memoryview, position: int, end: int, where: str) -> tuple[dict[HeaderKey, str], int]:
    """The entries with known keys, and where the map ends."""
    if end - position < _INT.size:
        _refuse(where, position, "the header of a block is cut off")
    count = _INT.unpack_from(view, position)[0]
    position += _INT.size
    if not 0 <= count <= min(limits.BLOCK_HEADER_ENTRIES_MAX, (end - position) // 8):
        _refuse(where, position, f"the header of a block claims {count:,} entries")
    entries: dict[HeaderKey, str] = {}
    for _ in range(count):
        if end - position < 8:
            _refuse(where, position, "the header of a block is cut off")
        key, length = struct.unpack_from(">ii", view, position)
        position += 8
        if not 0 <= length <= min(limits.BLOCK_HEADER_VALUE_BYTES_MAX, end - position):
            _refuse(where, position, f"a header entry claims {length:,} bytes; {end - position:,} remain")
        if key in _KNOWN_KEYS:
            entries[_KNOWN_KEYS[key]] = _text(view[position : position + length], position, where)
        position += length
    return entries, position


def _text(value: memoryview, position: int, where: str) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        _refuse(where, position, "a header entry is not UTF-8 text")


def _refuse(where: str, offset: int, problem: str) -> NoReturn:
    raise damaged(f"The log file {where}", f"at byte {offset:,}, {problem}")

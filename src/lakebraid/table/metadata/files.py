# SPDX-License-Identifier: Apache-2.0
"""Reading one file of a metadata table: a log as a whole, a base file by ranges, so that a lookup reads one block of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebraid import limits
from lakebraid.format.damage import damaged
from lakebraid.format.hfile.parts import TRAILER_BYTES, parse_trailer
from lakebraid.format.hfile.read import Index, Selection, parse_index, read_entries
from lakebraid.format.metadata.log import parse_metadata_log
from lakebraid.format.metadata.records import Record, RecordParser
from lakebraid.format.metadata.schema import has_meta_fields
from lakebraid.memory import check_held
from lakebraid.storage.parallel import map_ahead
from lakebraid.storage.protocol import Storage

RECORD_BYTES_HELD: Final = 500
"""About what a small record takes in memory."""
_HELD_FACTOR: Final = 8
"""How many bytes of memory a byte of records takes, at the most."""
_TAIL_BYTES: Final = 256 * limits.KIB
"""What is read of a base file at first: all of a small one, the index of one of some 200 MB."""
_RUN_BYTES: Final = 4 * limits.MIB
"""Blocks that lie side by side are fetched together, so many bytes at a time."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one file, or one block of a log, says: records by their keys, and keys that are gone."""

    entries: list[tuple[bytes, Record]]
    deleted: tuple[str, ...] = ()


def read_log(storage: Storage, name: str, size: int, request_time: str, selection: Selection) -> list[Contribution]:
    """The wanted records of a log file, block by block; all deleted keys, whether or not they are wanted."""
    where = f"{storage.url}/{name}"
    found = []
    for part in parse_metadata_log(storage.read(name, max(size, 1)), where):
        if part.instant_time != request_time:
            raise damaged(where, f"a block of the instant {part.instant_time} lies in it")
        if part.entries is None:
            found.append(Contribution([], part.deleted))
            continue
        parser = RecordParser(where, has_meta_fields=has_meta_fields(part.entries.index.schema_text, where))
        found.append(Contribution(_parsed(part.entries.entries(selection), parser, where)))
    return found


def read_base(storage: Storage, name: str, size: int, selection: Selection) -> Contribution:
    """The wanted records of a base file; blocks in which none can lie are not fetched."""
    where = f"{storage.url}/{name}"
    tail_at = max(0, size - _TAIL_BYTES)
    tail = storage.read_range(name, tail_at, size - tail_at)
    if len(tail) < size - tail_at or size < TRAILER_BYTES:
        raise damaged(where, f"it ends after {tail_at + len(tail):,} of {size:,} bytes")
    trailer = parse_trailer(tail, size, where)
    if trailer.load_on_open_offset < tail_at:
        rest = storage.read_range(name, trailer.load_on_open_offset, tail_at - trailer.load_on_open_offset)
        tail, tail_at = rest + tail, trailer.load_on_open_offset
    index = parse_index(memoryview(tail)[trailer.load_on_open_offset - tail_at :], trailer, where)
    parser = RecordParser(where, has_meta_fields=has_meta_fields(index.schema_text, where))
    runs = _runs(selection.blocks(index), index)
    fetch = partial(_read_run, storage, name, index, selection, (tail_at, tail))
    entries = map_ahead(storage, fetch, runs, lambda run: sum(index.sizes[number] for number in run))
    return Contribution(_parsed(entries, parser, where))


def _runs(blocks: list[int], index: Index) -> list[list[int]]:
    """The blocks in runs that lie side by side, none of many more bytes than are fetched at a time."""
    runs: list[list[int]] = []
    held = 0
    for number in blocks:
        follows = (
            runs
            and runs[-1][-1] == number - 1
            and index.offsets[number] == index.offsets[number - 1] + index.sizes[number - 1]
        )
        if follows and held + index.sizes[number] <= _RUN_BYTES:
            runs[-1].append(number)
            held += index.sizes[number]
        else:
            runs.append([number])
            held = index.sizes[number]
    return runs


def _read_run(
    storage: Storage, name: str, index: Index, selection: Selection, known: tuple[int, bytes], run: list[int]
) -> Iterator[tuple[bytes, bytes]]:
    start, end = index.offsets[run[0]], index.offsets[run[-1]] + index.sizes[run[-1]]
    known_at, tail = known
    data = (
        memoryview(tail)[start - known_at : end - known_at]
        if start >= known_at
        else memoryview(storage.read_range(name, start, end - start))
    )
    for number in run:
        block = data[index.offsets[number] - start :]
        yield from selection.of(read_entries(block, number, index, f"{storage.url}/{name}"))


def _parsed(entries: Iterator[tuple[bytes, bytes]], parser: RecordParser, where: str) -> list[tuple[bytes, Record]]:
    found: list[tuple[bytes, Record]] = []
    held, checked = 0, limits.HELD_BYTES_FREE
    for key, value in entries:
        found.append((key, parser.parse(value)))
        held += (len(key) + len(value)) * _HELD_FACTOR
        if held > checked:
            check_held(held, where)
            checked = held + limits.HELD_BYTES_FREE
    return found

# SPDX-License-Identifier: Apache-2.0
"""The fast road for Avro rows: an Avro container in memory, read by datafusion.

datafusion's reader is trusted to be fast, not to be careful, so the container is built around two of its habits:

- It spins for ever on a container block that holds more bytes than its announced records take, which one damaged
  length is enough to cause. It never asks for more than a batch of records at once, though. So each container block
  holds exactly one batch (the last is filled up with blank records) and announces more records than it has bytes:
  honest bytes end with the batch, others end in more rows or in an error, and both are noticed.
- It does not know the length that Hudi writes before each record. That length is declared as a first column of four
  bytes. If every one comes back where it was, every record took just the bytes it should.

What it cannot or will not read is told by `ScanRefused`; the caller has a slow reader for that.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from lakebraid import limits
from lakebraid.format.avro.types import AvroSchema
from lakebraid.format.avro.varint import format_long
from lakebraid.format.hudi_types import decoded

_LENGTH_COLUMN: Final = "#length"
_SYNC: Final = b"lakebraid-blocks"
_runtime_lost = False


class ScanRefused(Exception):
    """The fast reader did not give the rows; nothing is known about why."""


def scan_records(content: memoryview, start: int, ends: Sequence[int], schema: AvroSchema) -> pa.Table:
    """The rows of the length-prefixed records that lie back to back from `start`, the i-th ending at ``ends[i]``."""
    rows = len(ends)
    batches = -(-rows // limits.AVRO_BATCH_ROWS)
    batch_rows = -(-rows // batches)
    blanks = batches * batch_rows - rows
    if _runtime_lost:
        raise ScanRefused("datafusion's threads did not survive the fork of this process")
    with _file_of(_container(content, start, ends, schema, batch_rows)) as path:
        table = _read(path, batch_rows)
    if table.num_rows != rows + blanks or _bytes_of(table.column(0)) != _prefixes(start, ends, blanks):
        raise ScanRefused("the records do not end where their lengths say")
    try:
        table = table.slice(0, rows).drop_columns(_LENGTH_COLUMN)
        table = decoded(table, schema.arrow).cast(schema.arrow)
        table.validate(full=True)  # decimals beyond their precision come through unnoticed otherwise
    except (pa.ArrowException, ValueError) as error:
        raise ScanRefused(str(error)) from None
    return table


def _container(
    content: memoryview, start: int, ends: Sequence[int], schema: AvroSchema, batch_rows: int
) -> Iterator[bytes | memoryview]:
    """The pieces of the container: a header, then one block for each batch."""
    yield _header(_with_length(schema.type.plain))
    for first in range(0, len(ends), batch_rows):
        batch = ends[first : first + batch_rows]
        begin = ends[first - 1] if first else start
        blanks = batch_rows - len(batch)
        filling = (bytes(4) + _blank(schema.type.plain)) * blanks if blanks else b""
        size = batch[-1] - begin + len(filling)
        yield format_long(size + batch_rows + 1) + format_long(size)
        yield content[begin : batch[-1]]
        yield filling + _SYNC


def _header(schema: dict[str, Any]) -> bytes:
    # Not escaped: the reader borrows names from the text and takes no others.
    text = json.dumps(schema, ensure_ascii=False).encode()
    entries = ((b"avro.schema", text), (b"avro.codec", b"null"))
    pairs = b"".join(format_long(len(part)) + part for entry in entries for part in entry)
    return b"Obj\x01" + format_long(len(entries)) + pairs + format_long(0) + _SYNC


def _with_length(plain: dict[str, Any]) -> dict[str, Any]:
    length = {"name": _LENGTH_COLUMN, "type": {"type": "fixed", "name": "length", "size": 4}}
    return plain | {"fields": [length, *plain["fields"]]}


def _blank(plain: Any) -> bytes:
    """The shortest value of a type."""
    match plain:
        case list():
            index = plain.index("null") if "null" in plain else 0
            return format_long(index) + _blank(plain[index])
        case {"type": "record", "fields": fields}:
            return b"".join(_blank(field["type"]) for field in fields)
        case {"type": "fixed", "size": int(size)}:
            return bytes(size)
        case {"type": kind}:
            return _blank(kind)
    return bytes({"null": 0, "float": 4, "double": 8}.get(plain, 1))


def _prefixes(start: int, ends: Sequence[int], blanks: int) -> bytes:
    """The length prefixes as they must come back, big-endian."""
    lengths = array("i", (end - begin - 4 for begin, end in zip((start, *ends), ends, strict=False)))
    if sys.byteorder == "little":
        lengths.byteswap()
    return lengths.tobytes() + bytes(4 * blanks)


def _bytes_of(column: pa.ChunkedArray) -> bytes:
    width = column.type.byte_width
    return b"".join(
        memoryview(chunk.buffers()[1])[chunk.offset * width : (chunk.offset + len(chunk)) * width]
        for chunk in column.chunks
    )


def _read(path: str, batch_rows: int) -> pa.Table:
    try:
        return _session(batch_rows).read_avro(path, file_extension="").to_arrow_table()
    except Exception as error:  # noqa: BLE001 - datafusion raises bare exceptions
        raise ScanRefused(str(error)) from None
    except BaseException as error:
        # A panic in Rust arrives as a direct child of BaseException that has no importable name.
        if type(error).__name__ != "PanicException":
            raise
        raise ScanRefused(str(error)) from None


@lru_cache(maxsize=32)
def _session(batch_rows: int) -> Any:
    from datafusion import SessionConfig, SessionContext  # noqa: PLC0415 - slow to import, and see below

    return SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(batch_rows))


def _note_fork() -> None:
    # Threads do not survive a fork, and datafusion waits for its own for ever. Other code that imported it may have used it.
    global _runtime_lost  # noqa: PLW0603 - the fork is what is global
    _runtime_lost = _runtime_lost or "datafusion" in sys.modules


os.register_at_fork(after_in_child=_note_fork)


@contextmanager
def _file_of(pieces: Iterable[bytes | memoryview]) -> Iterator[str]:
    """A path under which the pieces can be read as one file, and which leaves nothing behind."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):  # noqa: PTH112 - one stat, no object
        with os.fdopen(os.memfd_create("lakebraid-avro"), "wb") as file:
            file.writelines(pieces)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.TemporaryDirectory(prefix="lakebraid-") as folder:
            path = os.path.join(folder, "rows.avro")  # noqa: PTH118 - datafusion takes text
            with open(path, "wb") as file:  # noqa: PTH123 - as above
                file.writelines(pieces)
            yield path

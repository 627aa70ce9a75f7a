# SPDX-License-Identifier: Apache-2.0
"""The archived timeline: Parquet files of finished instants, and the manifest that says which of them count."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebraid.errors import CorruptFile, InvalidArgument
from lakebraid.format.damage import damaged
from lakebraid.format.names import parse_history_file
from lakebraid.format.parquet.footer import parse_footer, read_footer
from lakebraid.format.parquet.pages import batch_rows
from lakebraid.format.times import is_instant_time
from lakebraid.limits import (
    HISTORY_DECODED_BYTES_MAX,
    HISTORY_FILE_BYTES_MAX,
    HISTORY_MANIFEST_BYTES_MAX,
    HISTORY_ROWS_MAX,
    PARQUET_FOOTER_BYTES_MAX,
)
from lakebraid.memory import check_held

_TIMES: Final = ["instantTime", "completionTime", "action"]
_CONTENTS: Final = ["metadata", "plan"]
_BATCH_ROWS: Final = 256  # small, because a row may hold a whole commit

_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in _TIMES),
        *(pa.field(name, pa.binary()) for name in _CONTENTS),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One archived file that a manifest names."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """One finished instant: its completed file as `metadata`, its requested file as `plan`, if they were asked for.

    `action` is that of the completed file, so a compaction is a "commit".
    """

    request_time: str
    completion_time: str | None
    action: str
    metadata: bytes | None = None
    plan: bytes | None = None


def manifests_to_try(version_text: bytes | None, manifest_numbers: Iterable[int]) -> list[int]:
    """The manifests that may count, best first, from `_version_` and the listed ones; empty if there is no history.

    The greatest counts, if it is whole: a sleeper may put an old number into `_version_`, and every manifest holds what
    the ones before it held. Hudi writes a manifest before it points at it, so one above `_version_` may be torn. Hudi
    also deletes and re-creates `_version_`: without it there is only the greatest. A number beyond the listed ones is
    newer than the listing; one below them that is listed no longer was cleaned away.

    >>> manifests_to_try(b"4", [3, 4, 5]), manifests_to_try(None, [3, 4]), manifests_to_try(b"2", [3, 4])
    ([5, 4], [4], [4, 3])
    """
    numbers = set(manifest_numbers)
    greatest = max(numbers, default=None)
    text = (version_text or b"").strip()
    if not (text.isdigit() and len(text) < 10):
        return [] if greatest is None else [greatest]
    version = int(text)
    if greatest is None or version > greatest:
        return [version]
    return sorted((n for n in numbers if n >= version), reverse=True)


def parse_manifest(data: bytes, where: str) -> tuple[HistoryFile, ...]:
    """The archived files that count, in the manifest's order."""
    if len(data) > HISTORY_MANIFEST_BYTES_MAX:
        raise damaged(where, f"a manifest of {len(data):,} bytes is larger than {HISTORY_MANIFEST_BYTES_MAX:,}")
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged(where, f"it is not JSON ({type(error).__name__})") from None
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, list):
        raise damaged(where, "it has no list of files")
    return tuple(_history_file(entry, where) for entry in files)


def _history_file(entry: Any, where: str) -> HistoryFile:
    match entry:
        case {"fileName": str(name), "fileLen": int(size)} if parse_history_file(name) is not None:
            if 0 <= size <= HISTORY_FILE_BYTES_MAX:
                return HistoryFile(name, size)
    raise damaged(where, "it has an entry that is not the name and size of an archived file")


def format_manifest(files: Iterable[HistoryFile]) -> bytes:
    """The bytes of a manifest."""
    entries = tuple(files)
    data = json.dumps({"files": [{"fileName": entry.name, "fileLen": entry.size} for entry in entries]}).encode()
    _check_read_back(lambda: parse_manifest(data, "the new manifest"), entries)
    return data


def read_history(
    source: Any, where: str, *, with_metadata: bool = False, actions: Collection[str] | None = None
) -> list[ArchivedInstant]:
    """The instants of one archived file, given as bytes or as a file for pyarrow.

    `with_metadata` also reads the contents, many times the size of the rest; `actions` keeps only some. A storage
    error raised by a file passes through; everything the bytes themselves are to blame for is CorruptFile.
    """
    columns = [*_TIMES, *_CONTENTS] if with_metadata else _TIMES
    instants: list[ArchivedInstant] = []
    decoded_bytes = 0
    try:
        for batch in _batches(_native(source), columns, where):
            decoded_bytes += sum(_plain_bytes(column) for column in batch.columns)
            if decoded_bytes > HISTORY_DECODED_BYTES_MAX:
                raise damaged(where, f"it unfolds to more than {HISTORY_DECODED_BYTES_MAX:,} bytes")
            check_held(decoded_bytes, f"Decoding {where}")
            instants += _instants(batch, where, actions)
    except (pa.ArrowException, ValueError, KeyError, OSError) as error:
        # Arrow reports damage as OSError without a number; one with a number came from the file below.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged(where, f"it is not the Parquet file it should be ({str(error)[:120]})") from None
    return instants


def _native(source: Any) -> Any:
    if isinstance(source, bytes):
        return pa.BufferReader(source)
    return source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, mode="r")


def _batches(source: Any, columns: list[str], where: str) -> Iterator[Any]:
    parquet = pq.ParquetFile(
        source,
        read_dictionary=columns,  # a value repeated a million times stays one value until it was counted
        pre_buffer=False,
        thrift_string_size_limit=PARQUET_FOOTER_BYTES_MAX,
        thrift_container_size_limit=HISTORY_ROWS_MAX,
    )
    footer = parse_footer(read_footer(source, where), parquet.schema, where)
    _check_footer(parquet, columns, source.size(), where)
    batch_rows(source, parquet.metadata, footer, range(len(footer.groups)), set(columns), where)
    for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
        yield batch.select(columns)


def _check_footer(parquet: Any, columns: list[str], size: int, where: str) -> None:
    """Holds what the file announces against the limits before anything is decoded."""
    metadata = parquet.metadata
    # No two instants are equal, so each takes bytes of its own.
    if metadata.num_rows > min(HISTORY_ROWS_MAX, size):
        raise damaged(where, f"it announces {metadata.num_rows:,} instants; {HISTORY_ROWS_MAX:,} are the limit")
    schema = parquet.schema_arrow
    for name in columns:
        wanted = pa.dictionary(pa.int32(), _SCHEMA.field(name).type)
        if [schema.field(index).type for index in schema.get_all_field_indices(name)] != [wanted]:
            raise damaged(where, f"its column {name} is missing or of the wrong type")


def _plain_bytes(column: Any) -> int:
    lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    return pc.sum(lengths.cast(pa.int64())).as_py() or 0


def _instants(batch: Any, where: str, actions: Collection[str] | None) -> Iterator[ArchivedInstant]:
    if actions is not None:
        batch = batch.filter(pc.is_in(batch["action"].dictionary_decode(), pa.array(sorted(actions), pa.string())))
    contents = (name if name in batch.schema.names else None for name in _CONTENTS)
    rows = zip(*(_values(batch, name) for name in (*_TIMES, *contents)), strict=True)
    for request_time, completion_time, action, metadata, plan in rows:
        if request_time is None or not is_instant_time(request_time) or action is None:
            raise damaged(where, f"it has an instant without a time or an action: {str(request_time)[:40]!r}")
        if completion_time is not None and not is_instant_time(completion_time):
            raise damaged(where, f"instant {request_time} has the completion time {completion_time[:40]!r}")
        yield ArchivedInstant(request_time, completion_time, action, metadata, plan)


def _values(batch: Any, name: str | None) -> list[Any]:
    if name is None:
        return [None] * batch.num_rows
    indices = batch[name].indices
    used = pc.unique(indices.drop_null())
    distinct = dict(zip(used.to_pylist(), batch[name].dictionary.take(used).to_pylist(), strict=True))
    return [distinct.get(index) for index in indices.to_pylist()]


def write_history(instants: Iterable[ArchivedInstant]) -> bytes:
    """The bytes of an archived file with those instants, in the order of their request times."""
    ordered = sorted(instants, key=lambda instant: (instant.request_time, instant.action))
    columns: dict[str, list[Any]] = {
        "instantTime": [instant.request_time for instant in ordered],
        "completionTime": [instant.completion_time for instant in ordered],
        "action": [instant.action for instant in ordered],
        "metadata": [instant.metadata for instant in ordered],
        "plan": [instant.plan for instant in ordered],
        "version": [1] * len(ordered),
    }
    sink = pa.BufferOutputStream()
    # Times and contents are all different, so a dictionary of them would only be thrown away again.
    pq.write_table(
        pa.table(columns, schema=_SCHEMA), sink, compression="gzip", use_dictionary=["action"], store_schema=False
    )
    data: bytes = sink.getvalue().to_pybytes()
    _check_read_back(lambda: read_history(data, "the new archived file", with_metadata=True), ordered)
    return data


def _check_read_back(read: Callable[[], object], written: object) -> None:
    try:
        found = read()
    except CorruptFile as error:
        raise InvalidArgument(f"This would not be read back: {error.reason}. Nothing was written.") from error
    if found != written:
        raise InvalidArgument("This would not be read back as it is. Nothing was written.")

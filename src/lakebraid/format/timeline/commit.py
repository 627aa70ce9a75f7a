# SPDX-License-Identifier: Apache-2.0
"""Commit metadata: what a finished write put where. Avro in layout 2, JSON in layout 1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from lakebraid.errors import InvalidArgument
from lakebraid.format.avro.container import read_record, write_record
from lakebraid.format.damage import damaged
from lakebraid.format.timeline.records import value_misfit
from lakebraid.limits import TIMELINE_FILE_BYTES_MAX

_COMMIT: Final = "HoodieCommitMetadata"
_REPLACE: Final = "HoodieReplaceCommitMetadata"


@dataclass(frozen=True, slots=True)
class RuntimeStats:
    """Milliseconds that writing one file took."""

    total_scan_time: int | None = None
    total_create_time: int | None = None
    total_upsert_time: int | None = None


@dataclass(frozen=True, slots=True)
class WriteStat:
    """One file that a write made. Hudi's field names in Python's spelling; None where the writer said nothing."""

    file_id: str | None = None
    path: str | None = None
    prev_commit: str | None = None
    num_writes: int | None = None
    num_deletes: int | None = None
    num_update_writes: int | None = None
    total_write_bytes: int | None = None
    total_write_errors: int | None = None
    partition_path: str | None = None
    total_log_records: int | None = None
    total_log_files: int | None = None
    total_updated_records_compacted: int | None = None
    num_inserts: int | None = None
    total_log_blocks: int | None = None
    total_corrupt_log_block: int | None = None
    total_rollback_blocks: int | None = None
    file_size_in_bytes: int | None = None
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_base_file: str | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    total_log_files_compacted: int | None = None
    total_log_read_time_ms: int | None = None
    total_log_size_compacted: int | None = None
    temp_path: str | None = None
    num_updates: int | None = None


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """A finished (or, as a workload profile, begun) write. `replaced` names the file groups it retires."""

    write_stats: dict[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    compacted: bool = False
    extra: dict[str, str] = field(default_factory=dict)
    operation: str | None = None
    replaced: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def schema(self) -> str | None:
        """The Avro schema of the table, as text and without meta columns, if this write states one."""
        return self.extra.get("schema") or None

    @property
    def writer(self) -> str | None:
        """Who wrote it; None if that was not lakebraid."""
        return self.extra.get("lakebraid.writer")

    @property
    def rows_written(self) -> int:
        return sum(stat.num_writes or 0 for stats in self.write_stats.values() for stat in stats)

    @property
    def file_paths(self) -> tuple[str, ...]:
        """The files written, relative to the table. The files of change data are not among them."""
        return tuple(stat.path for stats in self.write_stats.values() for stat in stats if stat.path)


def parse_commit(data: bytes, where: str) -> CommitMetadata:
    """The metadata of a commit, delta commit or replace commit.

    No bytes give no metadata: Hudi creates the file first and fills it afterwards, and treats one that stays empty
    as completed with nothing to say.
    """
    if not data:
        return CommitMetadata()
    if data[:1] == b"{":
        return _build(_parse_json(data, where))
    return _build(read_record(data, where, _REPLACE))


def _parse_json(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > TIMELINE_FILE_BYTES_MAX:
        raise damaged(where, f"{len(data):,} bytes are more than the {TIMELINE_FILE_BYTES_MAX:,} of the largest record")
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged(where, f"it begins like JSON and is not ({type(error).__name__})") from None
    if isinstance(record.get("extraMetadata"), dict):
        # Java maps may hold null, which our records do not know.
        record["extraMetadata"] = {key: value for key, value in record["extraMetadata"].items() if value is not None}
    misfit = value_misfit(record, _REPLACE)
    if misfit:
        raise damaged(where, f"it has something unexpected at {misfit[:200]}")
    return dict(record)


def _build(record: dict[str, Any]) -> CommitMetadata:
    write_stats = record.get("partitionToWriteStats") or {}
    replaced = record.get("partitionToReplaceFileIds") or {}
    return CommitMetadata(
        write_stats={partition: tuple(map(_build_stat, stats)) for partition, stats in write_stats.items()},
        compacted=bool(record.get("compacted")),
        extra=record.get("extraMetadata") or {},
        operation=record.get("operationType"),
        replaced={partition: tuple(file_ids) for partition, file_ids in replaced.items()},
    )


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_STAT_FIELDS: Final = {_camel_case(part.name): part.name for part in fields(WriteStat)}
_RUNTIME_FIELDS: Final = {_camel_case(part.name): part.name for part in fields(RuntimeStats)}
_STAT_KEYS: Final = tuple(_STAT_FIELDS)


def _build_stat(record: dict[str, Any]) -> WriteStat:
    # A commit may have a hundred thousand of these, so the two nested values are put in place beforehand and the
    # rest goes in by position: the fields above are in Hudi's order.
    if (log_files := record.get("logFiles")) is not None:
        record["logFiles"] = tuple(log_files)
    if (runtime := record.get("runtimeStats")) is not None:
        record["runtimeStats"] = RuntimeStats(*map(runtime.get, _RUNTIME_FIELDS))
    return WriteStat(*map(record.get, _STAT_KEYS))


def format_commit(meta: CommitMetadata, *, replace: bool | None = None) -> bytes:
    """The Avro container of the metadata; a replace commit's if it replaces file groups or `replace` says so."""
    is_replace = bool(meta.replaced) if replace is None else replace
    if meta.replaced and not is_replace:
        raise InvalidArgument("Only a replace commit can replace file groups. Nothing was written.")
    record: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [_stat_record(stat) for stat in stats] for partition, stats in meta.write_stats.items()
        },
        "compacted": meta.compacted,
        "extraMetadata": dict(meta.extra),
        "version": None,
        "operationType": meta.operation,
    }
    if is_replace:
        record["partitionToReplaceFileIds"] = {key: list(file_ids) for key, file_ids in meta.replaced.items()}
    return write_record(_REPLACE if is_replace else _COMMIT, record)


def _stat_record(stat: WriteStat) -> dict[str, Any]:
    record = {key: getattr(stat, name) for key, name in _STAT_FIELDS.items()}
    if stat.log_files is not None:
        record["logFiles"] = list(stat.log_files)
    if stat.cdc_stats is not None:
        record["cdcStats"] = dict(stat.cdc_stats)
    if stat.runtime_stats is not None:
        record["runtimeStats"] = {key: getattr(stat.runtime_stats, name) for key, name in _RUNTIME_FIELDS.items()}
    return record

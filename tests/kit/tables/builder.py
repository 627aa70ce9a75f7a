# SPDX-License-Identifier: Apache-2.0
"""Real Hudi tables out of a described history: properties, timeline, base and log files, plans, history.

`build_table(history, storage, now)` puts down what lies on storage at one moment: files of writes that had begun,
timeline files in the states they had reached. Single pieces can be written with the functions below it.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakebraid.api.table import Table
from lakebraid.format.avro.rows import format_avro_block
from lakebraid.format.avro.types import format_avro_schema
from lakebraid.format.log.blocks import BlockType, HeaderKey, LogBlock, format_block, format_log
from lakebraid.format.log.delete_list import format_delete_block
from lakebraid.format.names import BaseFileName, LogFileName, State, TimelineFileName, history_file_name
from lakebraid.format.parquet.rows import format_parquet_block
from lakebraid.format.properties import PartitionMetadata, checksum, format_partition_metadata, format_properties
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat, format_commit
from lakebraid.format.timeline.history import ArchivedInstant, HistoryFile, format_manifest, write_history
from lakebraid.format.timeline.plans import (
    CompactionOperation,
    CompactionPlan,
    RequestedReplace,
    format_compaction_plan,
    format_requested_replace,
)
from lakebraid.format.timeline.services import (
    CleanedPartition,
    CleanMetadata,
    CleanPlan,
    format_clean_metadata,
    format_clean_plan,
)
from lakebraid.reading.plan import Source
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from tests.kit.models.oracle import UNAVAILABLE, Base, Block, Gone, Group, History, Instant, Log, Put, Settings

TIMELINE = ".hoodie/timeline"
ARROW_TYPES = {
    "id": pa.string(),
    "part": pa.string(),
    "ts": pa.int64(),
    "ts2": pa.int64(),
    "v": pa.string(),
    "w": pa.int64(),
    "extra": pa.string(),
    "_hoodie_is_deleted": pa.bool_(),
}
META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
ORDER_TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "long": (pa.int64(), lambda n: n),
    "int": (pa.int32(), lambda n: n + 7),  # in a delete an int 0 means "no ordering value"
    "double": (pa.float64(), lambda n: math.nan if n == 2 else n / 4),  # NaN is above every number
    "string": (pa.string(), lambda n: ("", "Z", "a", "ä")[n + 1]),
    "decimal": (pa.decimal128(12, 2), lambda n: Decimal(n) / 4),
    "timestamp": (pa.timestamp("us", tz="UTC"), lambda n: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)),
}
COMPLETED_ACTION = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}


def t(number: int) -> str:
    """An instant time for a small number."""
    assert 0 < number < 60_000
    return f"{20260101000000000 + number:017d}"


class StillClock:
    """A clock that does not move and never waits."""

    def now_ms(self) -> int:
        return 1_767_225_600_000

    def sleep(self, seconds: float) -> None:
        pass

    def monotonic(self) -> float:
        return 0.0

    def token(self) -> str:
        return "0" * 16

    def random(self) -> float:
        return 0.5


def open_table(storage: Storage) -> Table:
    """The table on that very storage object, with a clock that never waits."""
    config, properties = load_config(storage)
    return Table(TableAt(storage, config, StillClock()), Source(storage.url), properties)


def build_table(history: History, storage: Storage | None = None, now: int | None = None, archived: int = 0) -> Storage:
    """What lies on storage at the moment `now` (None: after everything). The `archived` oldest instants, as far as
    they may be, have left the active timeline for the history.
    """
    storage = MemoryStorage("memory://built", StillClock()) if storage is None else storage
    now = 59_999 if now is None else now
    write_properties(storage, history.settings)
    begun = [i for i in history.instants if i.request_time <= now]
    removed = {id(f) for i in begun for f in i.removed}
    for file in history.files:
        instant = history.instant(file.request_time)
        lies_there = file.request_time <= now and id(file) not in removed and not _was_rolled_back(instant, now)
        if lies_there:
            put_file(storage, file, history.settings)
    for instant in begun:
        if instant.rolled_back_at is None or instant.rolled_back_at > now:
            put_instant(storage, history, instant, now)
    archive(storage, history, archivable(history, now)[:archived])
    return storage


def _was_rolled_back(instant: Instant, now: int) -> bool:
    return instant.rolled_back_at is not None and instant.rolled_back_at <= now and not instant.leaves_files


def archivable(history: History, now: int) -> list[Instant]:
    """Completed instants, oldest first, that may leave the active timeline: at least one write stays that is older
    than everything which is not committed (FORMAT, section 13e), and no pending instant is passed.
    """
    begun = sorted((i for i in history.instants if i.request_time <= now), key=lambda i: i.request_time)
    open_request_times = [i.request_time for i in begun if not i.done(now)]
    first_open = min(open_request_times, default=60_000)
    older = [i for i in begun if i.request_time < first_open]
    writes = [i for i in older if i.action != "clean"]
    if not writes:
        return []
    return [i for i in older if i.request_time < writes[-1].request_time]


# --- pieces ----------------------------------------------------------------------------------------------------------


def write_properties(storage: Storage, settings: Settings, **more: str) -> None:
    entries = {
        "hoodie.table.name": "built",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.keygenerator.type": _key_generator(settings),
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING" if settings.by_event else "COMMIT_TIME_ORDERING",
        "hoodie.table.timeline.timezone": "UTC",
    }
    if settings.partitioned:
        entries["hoodie.table.partition.fields"] = "part"
    if not settings.meta:
        entries["hoodie.populate.meta.fields"] = "false"
    if settings.ordering:
        entries["hoodie.table.ordering.fields"] = ",".join(settings.ordering)
    if settings.buckets:
        entries |= {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": str(settings.buckets)}
    if settings.fill:
        prefix = "hoodie.record.merge.property."
        entries["hoodie.table.partial.update.mode"] = settings.fill
        entries[f"{prefix}hoodie.write.partial.update.unavailable.value"] = UNAVAILABLE
    entries |= more
    entries["hoodie.table.checksum"] = str(checksum(entries))
    storage.replace(".hoodie/hoodie.properties", format_properties(entries))


def _key_generator(settings: Settings) -> str:
    if settings.complex_keys:
        return "COMPLEX"
    return "SIMPLE" if settings.partitioned else "NON_PARTITION"


def record_key(key: str, settings: Settings) -> str:
    return f"id:{key}" if settings.complex_keys else key


def stored(name: str, value: Any, settings: Settings) -> Any:
    """A column's value as it lies in a file."""
    is_order = name in ("ts", "ts2") and value is not None
    return ORDER_TYPES[settings.order_type][1](value) if is_order else value


def column_type(name: str, settings: Settings) -> pa.DataType:
    return ORDER_TYPES[settings.order_type][0] if name in ("ts", "ts2") else ARROW_TYPES[name]


def file_name(file: Log | Base) -> str:
    if isinstance(file, Base):
        return BaseFileName(file.group[1], file.token, t(file.request_time), ".parquet").format()
    return LogFileName(file.group[1], t(file.request_time), file.version, file.token, "").format()


def file_path(file: Log | Base) -> str:
    return f"{file.group[0]}/{file_name(file)}" if file.group[0] else file_name(file)


def put_file(storage: Storage, file: Log | Base, settings: Settings | None = None) -> None:
    """Writes a data file, and the partition's own file before it."""
    partition = file.group[0]
    mark = f"{partition}/.hoodie_partition_metadata" if partition else ".hoodie_partition_metadata"
    depth = len(partition.split("/")) if partition else 0
    storage.replace(mark, format_partition_metadata(PartitionMetadata(t(file.request_time), depth)))
    settings = settings or Settings()
    data = base_bytes(file, settings) if isinstance(file, Base) else log_bytes(file, settings)
    storage.replace(file_path(file), data)


def base_bytes(base: Base, settings: Settings) -> bytes:
    columns = base.columns or _columns_of(row for _, row in base.rows)
    rows = [(at, row["id"], row) for at, row in base.rows]
    table = _with_meta(rows, columns, base.group, file_name(base), settings)
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False, row_group_size=2)
    return sink.getvalue()


def log_bytes(log: Log, settings: Settings) -> bytes:
    return format_log([_log_block(log, block, settings) for block in log.blocks])


def _log_block(log: Log, block: Block, settings: Settings) -> LogBlock:
    header = {HeaderKey.INSTANT_TIME: t(log.request_time)}
    if block.compacted:
        header[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(t(s) for s in block.compacted)
    if block.partial:
        header[HeaderKey.IS_PARTIAL] = "true"
    kind, content = BlockType.DELETE, b""
    if block.form == "delete":
        content = _deletes([e for e in block.entries if isinstance(e, Gone)], log.group[0], settings)
    else:
        rows = [(log.request_time, e.key, e.values) for e in block.entries if isinstance(e, Put)]
        table = _with_meta(rows, block.columns, log.group, log.group[1], settings)
        header[HeaderKey.SCHEMA] = format_avro_schema(table.schema, "built_record", "hoodie.built")
        if block.form == "avro":
            kind, content = BlockType.AVRO, format_avro_block(table, header[HeaderKey.SCHEMA])
        else:
            kind, content = BlockType.PARQUET, format_parquet_block(table)
    format_block(kind, header, content)
    return LogBlock(kind, header, content)


def _deletes(entries: Sequence[Gone], partition: str, settings: Settings) -> bytes:
    keys = pa.array([record_key(e.key, settings) for e in entries], pa.string())
    partitions = pa.array([partition] * len(entries), pa.string())
    width = max((len(e.order) for e in entries if e.order is not None), default=0)
    kind, value = ORDER_TYPES[settings.order_type]
    ordering = [pa.array([None if e.order is None else value(e.order[i]) for e in entries], kind) for i in range(width)]
    return format_delete_block(keys, partitions, ordering or None)


def _columns_of(rows: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    named = {name for row in rows for name in row}
    return tuple(name for name in ARROW_TYPES if name in named)


def _with_meta(
    rows: Sequence[tuple[int, str, dict[str, Any]]], columns: Sequence[str], group: Group, name: str, settings: Settings
) -> pa.Table:
    meta = [
        [t(at) for at, _, _ in rows],
        [f"{t(at)}_0_{i}" for i, (at, _, _) in enumerate(rows)],
        [record_key(key, settings) for _, key, _ in rows],
        [group[0]] * len(rows),
        [name] * len(rows),
    ]
    arrays = [pa.array(values, pa.string()) for values in meta] if settings.meta else []
    for column in columns:
        values = [stored(column, row.get(column), settings) for _, _, row in rows]
        arrays.append(pa.array(values, column_type(column, settings)))
    return pa.Table.from_arrays(arrays, names=[*(META if settings.meta else ()), *columns])


def schema_text(columns: Sequence[str], settings: Settings) -> str:
    fields = [(c, column_type(c, settings)) for c in columns]
    return format_avro_schema(pa.schema(fields), "built_record", "hoodie.built")


# --- timeline --------------------------------------------------------------------------------------------------------


def put_instant(storage: Storage, history: History, instant: Instant, now: int) -> None:
    """Writes the timeline files that the instant has at this moment: each state's file stays beside the next."""
    requested, completed = instant_bytes(history, instant, storage.url)
    _put_state(storage, instant, State.REQUESTED, requested)
    _put_state(storage, instant, State.INFLIGHT, b"")
    if instant.done(now):
        _put_state(storage, instant, State.COMPLETED, completed)


def timeline_path(instant: Instant, state: State) -> str:
    done = state is State.COMPLETED
    action = COMPLETED_ACTION.get(instant.action, instant.action) if done else instant.action
    completion = t(instant.completion or 0) if done else None
    return f"{TIMELINE}/{TimelineFileName(t(instant.request_time), completion, action, state).format()}"


def _put_state(storage: Storage, instant: Instant, state: State, data: bytes) -> None:
    storage.replace(timeline_path(instant, state), data)


def instant_bytes(history: History, instant: Instant, url: str) -> tuple[bytes, bytes]:
    """The contents of the requested and of the completed file."""
    if instant.action == "clean":
        return _clean_bytes(instant, url)
    requested = b""
    if instant.action in ("compaction", "logcompaction"):
        requested = format_compaction_plan(_plan(instant))
    elif instant.action in ("replacecommit", "clustering"):
        requested = format_requested_replace(RequestedReplace(), url)
    return requested, format_commit(
        _metadata(history, instant), replace=instant.action in ("replacecommit", "clustering")
    )


def _metadata(history: History, instant: Instant) -> CommitMetadata:
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for file in history.files:
        if file.request_time == instant.request_time and (isinstance(file, Log) or file.named):
            stat = WriteStat(file_id=file.group[1], path=file_path(file), partition_path=file.group[0], num_writes=1)
            if isinstance(file, Log):
                stat = replace(stat, log_files=(file_name(file),))
            stats[file.group[0]] = (*stats.get(file.group[0], ()), stat)
    replaced: dict[str, tuple[str, ...]] = {}
    for partition, file_id in instant.replaces:
        replaced[partition] = (*replaced.get(partition, ()), file_id)
    operation = {"compaction": "COMPACT", "logcompaction": "LOG_COMPACT", "clustering": "CLUSTER"}.get(
        instant.action, "UPSERT"
    )
    extra = {"schema": schema_text(instant.columns, history.settings)} if instant.columns else {}
    return CommitMetadata(stats, instant.action == "compaction", extra, operation, replaced)


def _plan(instant: Instant) -> CompactionPlan:
    by_group: dict[Group, list[Log | Base]] = {}
    for file in instant.inputs:
        by_group.setdefault(file.group, []).append(file)
    operations = []
    for (partition, file_id), files in by_group.items():
        base = next((f for f in files if isinstance(f, Base)), None)
        logs = tuple(file_name(f) for f in files if isinstance(f, Log))
        request_time = base.request_time if base else min(f.request_time for f in files)
        operations.append(
            CompactionOperation(file_id, partition, t(request_time), logs, file_name(base) if base else None)
        )
    return CompactionPlan(tuple(operations))


def _clean_bytes(instant: Instant, url: str) -> tuple[bytes, bytes]:
    names: dict[str, tuple[str, ...]] = {}
    for file in instant.removed:
        names[file.group[0]] = (*names.get(file.group[0], ()), file_name(file))
    policy = "KEEP_LATEST_COMMITS"
    plan = CleanPlan(policy, names)
    done = CleanMetadata(
        t(instant.request_time),
        t(instant.request_time),
        {p: CleanedPartition(policy, n) for p, n in names.items()},
        len(instant.removed),
    )
    return format_clean_plan(plan, url), format_clean_metadata(done)


def archive(storage: Storage, history: History, instants: Sequence[Instant], *, delete: bool = True) -> None:
    """Moves completed instants into the archived timeline, one file per call, as a round of archival does."""
    if not instants:
        return
    rows = []
    for instant in instants:
        requested, completed = instant_bytes(history, instant, storage.url)
        action = COMPLETED_ACTION.get(instant.action, instant.action)
        assert instant.completion is not None
        rows.append(
            ArchivedInstant(t(instant.request_time), t(instant.completion), action, completed, requested or None)
        )
    name = history_file_name(rows[0].request_time, rows[-1].request_time, 0)
    put_history(storage, {name: write_history(rows)}, 1)
    if delete:
        for instant in instants:
            for state in (State.REQUESTED, State.INFLIGHT, State.COMPLETED):
                storage.delete([timeline_path(instant, state)])


def put_history(storage: Storage, files: dict[str, bytes], number: int) -> None:
    """Writes the files of the history, their manifest and the version that points at it."""
    folder = f"{TIMELINE}/history"
    for name, data in files.items():
        storage.replace(f"{folder}/{name}", data)
    manifest = format_manifest([HistoryFile(name, len(data)) for name, data in files.items()])
    storage.replace(f"{folder}/manifest_{number}", manifest)
    storage.replace(f"{folder}/_version_", str(number).encode())

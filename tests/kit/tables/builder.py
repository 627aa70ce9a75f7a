# SPDX-License-Identifier: Apache-2.0
"""Real Hudi tables out of a described history: properties, timeline, base and log files, plans, history.

`build_table(history, storage, now)` puts down what lies on storage at one moment: files of writes that had begun,
timeline files in the states they had reached. Single pieces can be written with the functions below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakebraid.api.table import Table
from lakebraid.format.names import State, TimelineFileName, history_file_name
from lakebraid.format.properties import checksum, format_properties
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
from tests.kit.models.oracle import UNAVAILABLE, Base, Group, History, Instant, Log, Settings
from tests.kit.tables.built_files import (
    file_name,
    file_path,
    put_file,
    schema_text,
    t,
)

TIMELINE = ".hoodie/timeline"
COMPLETED_ACTION = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}


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

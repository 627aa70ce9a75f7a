# SPDX-License-Identifier: Apache-2.0
"""Tables in memory, broken on purpose: one way at a time, each under the name of what an audit must find."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakebraid.api.table import Table
from lakebraid.format.commit import CommitMetadata, format_commit, parse_commit
from lakebraid.format.log_blocks import HeaderKey, format_block, read_blocks
from lakebraid.format.names import BaseFileName, LogFileName, parse_data_file
from lakebraid.format.plans import format_compaction_plan, parse_compaction_plan
from lakebraid.format.properties import checksum, format_properties, parse_properties
from lakebraid.format.services import CleanedPartition, CleanMetadata, format_clean_metadata, parse_clean_metadata
from lakebraid.format.times import next_instant_time
from lakebraid.services.audit import Audit, audit_table
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.rollback import take_back
from tests.archiving import past
from tests.scene import TickingClock, make_table, row, table_on

TIMELINE = ".hoodie/timeline"
PROPERTIES = ".hoodie/hoodie.properties"
HOURS = 3 * 60 * 60_000
KEYS = "abcdefgh"


@dataclass
class Broken:
    """A table that something is done to."""

    storage: MemoryStorage
    clock: Any
    table: Table

    def audit(self, *, deep: bool = False) -> Audit:
        return audit_table(self.storage, self.clock, deep=deep)

    def read(self, name: str) -> bytes:
        return self.storage.read(name, 1 << 30)

    def names(self, *parts: str) -> list[str]:
        return [info.name for info in self.storage.list() if all(part in info.name for part in parts)]

    def one(self, *parts: str) -> str:
        """The last object whose name has all these parts."""
        return self.names(*parts)[-1]

    def move(self, name: str, other: str) -> None:
        self.storage.create(other, self.read(name))
        self.storage.delete([name])

    def logs(self) -> list[str]:
        return [n for n in self.names(".log.") if not n.startswith(".hoodie/")]

    def bases(self) -> list[str]:
        return [n for n in self.names(".parquet") if not n.startswith(".hoodie/")]

    def commits(self) -> list[str]:
        return [n for n in self.names(TIMELINE, "_") if n.endswith(".deltacommit")]

    def edit(self, name: str, change: Callable[[CommitMetadata], CommitMetadata]) -> None:
        self.storage.replace(name, format_commit(change(parse_commit(self.read(name), name))))

    def set_properties(self, **changes: str | None) -> None:
        entries = parse_properties(self.read(PROPERTIES), PROPERTIES)
        for key, value in changes.items():
            entries.pop(f"hoodie.{key}", None)
            if value is not None:
                entries[f"hoodie.{key}"] = value
        self.storage.replace(PROPERTIES, format_properties(entries))

    def rewrite_base(self, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
        """A base file with other rows; its commit is told their number and its new size."""
        out = io.BytesIO()
        rows = change(pq.read_table(io.BytesIO(self.read(name))))
        pq.write_table(rows, out, store_schema=False)
        self.storage.replace(name, out.getvalue())
        self.restate(name, rows=rows.num_rows)

    def restate(self, name: str, rows: int | None = None) -> None:
        """Makes the commit of a file say what the file is now."""
        start = _parsed(name).request_time
        commit = next(n for n in self.names(f"{TIMELINE}/{start}_") if n.endswith("commit"))
        size = self.storage.info(name).size

        def told(stat: Any) -> Any:
            if stat.path != name:
                return stat
            return dataclasses.replace(
                stat,
                file_size_in_bytes=size,
                total_write_bytes=size,
                num_writes=stat.num_writes if rows is None else rows,
            )

        self.edit(commit, lambda m: _restated(m, told))


def _restated(metadata: CommitMetadata, told: Callable[[Any], Any]) -> CommitMetadata:
    stats = {p: tuple(map(told, stats)) for p, stats in metadata.write_stats.items()}
    return dataclasses.replace(metadata, write_stats=stats)


def _parsed(name: str) -> BaseFileName | LogFileName:
    found = parse_data_file(name.rpartition("/")[2])
    assert found is not None
    return found


@cache
def _rich() -> tuple[tuple[tuple[str, bytes], ...], int]:
    """Two buckets, writes, a compaction, more writes: logs above bases in both."""
    clock = TickingClock()
    storage = MemoryStorage("memory://audited", clock)
    table = make_table(storage, clock, buckets=2, properties={"hoodie.client.heartbeat.interval_in_ms": "60000"})
    table.upsert([row(key, "1") for key in KEYS])
    table.upsert([row(key, "2", 2) for key in KEYS])
    table.compact()
    table.upsert([row(key, "3", 3) for key in KEYS])
    table.upsert([row(key, "4", 4) for key in KEYS])
    return tuple((i.name, storage.read(i.name, i.size)) for i in storage.list()), clock.ms


def rich() -> Broken:
    """A fresh copy of it."""
    objects, now_ms = _rich()
    return filled(objects, now_ms)


def filled(objects: tuple[tuple[str, bytes], ...], now_ms: int) -> Broken:
    clock = TickingClock(now_ms)
    storage = MemoryStorage("memory://audited", clock)
    for name, data in objects:
        storage.create(name, data)
    return Broken(storage, clock, table_on(storage, clock))


@cache
def _archived() -> tuple[tuple[tuple[str, bytes], ...], int]:
    made = past()
    b = filled(made.objects, made.now_ms)
    b.table.archive(keep_min=2, keep_max=3)
    return tuple((i.name, b.read(i.name)) for i in b.storage.list()), b.clock.ms


def archived() -> Broken:
    """A table with a history."""
    return filled(*_archived())


def fresh(**arguments: Any) -> Broken:
    clock = TickingClock()
    storage = MemoryStorage("memory://audited", clock)
    return Broken(storage, clock, make_table(storage, clock, **arguments))


# --- the ways --------------------------------------------------------------------------------------------------------

Way = Callable[[], Broken]
WAYS: dict[str, list[Way]] = {}
"""Every way to break a table, by the kind that must be found."""


def breaks(kind: str) -> Callable[[Way], Way]:
    def add(way: Way) -> Way:
        WAYS.setdefault(kind, []).append(way)
        return way

    return add


@breaks("properties-damaged")
def wrong_checksum() -> Broken:
    b = rich()
    entries = parse_properties(b.read(PROPERTIES), PROPERTIES)
    entries["hoodie.table.checksum"] = str(checksum(entries) + 1)
    b.storage.replace(PROPERTIES, format_properties(entries))
    return b


@breaks("properties-damaged")
def main_file_gone() -> Broken:
    b = rich()
    b.move(PROPERTIES, f"{PROPERTIES}.backup")
    return b


@breaks("properties-damaged")
def both_files_gone() -> Broken:
    b = rich()
    b.storage.delete([PROPERTIES])
    return b


@breaks("properties-backup")
def old_backup() -> Broken:
    b = rich()
    b.storage.create(f"{PROPERTIES}.backup", b.read(PROPERTIES).replace(b"buckets=2", b"buckets=3"))
    return b


@breaks("crc-stale")
def stale_checksum_file() -> Broken:
    b = rich()
    b.storage.create(".hoodie/.hoodie.properties.crc", b"crc\x00\x00\x00\x02\x00" + b"\x00" * 8)
    return b


@breaks("instant-unreadable")
def torn_commit() -> Broken:
    b = rich()
    name = b.commits()[1]
    b.storage.replace(name, b.read(name)[:-40])
    return b


@breaks("reading-fails")
def torn_newest_commit() -> Broken:
    b = rich()
    b.storage.replace(b.commits()[-1], b"Obj\x01")
    return b


@breaks("instant-empty")
def empty_commit_file() -> Broken:
    b = rich()
    b.storage.replace(b.commits()[-1], b"")
    b.clock.ms += HOURS
    return b


@breaks("time-order")
def completed_before_it_began() -> Broken:
    b = rich()
    name = b.commits()[-1]
    start = name.rpartition("/")[2][:17]
    b.move(name, f"{TIMELINE}/{start}_{int(start) - 1}.deltacommit")
    return b


@breaks("time-twice")
def two_completions_at_once() -> Broken:
    b = rich()
    first, second = (n.rpartition("/")[2] for n in b.commits()[-2:])
    b.move(f"{TIMELINE}/{first}", f"{TIMELINE}/{first[:17]}{second[17:]}")
    return b


@breaks("time-twice")
def two_actions_of_one_start() -> Broken:
    b = rich()
    start = b.commits()[-1].rpartition("/")[2][:17]
    b.storage.create(f"{TIMELINE}/{start}.clean.requested", b"")
    return b


@breaks("completed-twice")
def two_completed_files() -> Broken:
    b = rich()
    name = b.commits()[-1]
    start, done = name.rpartition("/")[2][:17], name.rpartition("/")[2][18:35]
    b.storage.create(f"{TIMELINE}/{start}_{next_instant_time(done)}.deltacommit", b.read(name))
    return b


@breaks("state-missing")
def inflight_file_gone() -> Broken:
    b = rich()
    b.storage.delete([b.names(TIMELINE, ".deltacommit.inflight")[-1]])
    return b


@breaks("time-ahead")
def clock_of_next_century() -> Broken:
    b = rich()
    name = b.commits()[-1]
    b.move(name, f"{TIMELINE}/{name.rpartition('/')[2][:17]}_20990101000000000.deltacommit")
    return b


@breaks("plan-unreadable")
def torn_plan() -> Broken:
    b = rich()
    b.table.plan_compaction()
    b.storage.replace(b.names(TIMELINE, ".compaction.requested")[-1], b"Obj\x01torn")
    return b


@breaks("plan-input-missing")
def input_of_a_plan_gone() -> Broken:
    b = rich()
    b.table.plan_compaction()
    b.storage.delete([b.logs()[-1]])
    return b


@breaks("undo-unfinished")
def rollback_that_nobody_ends() -> Broken:
    b = rich()
    txn = b.table.begin()
    txn._heartbeat.stop()
    take_back(b.table._writing.ledger(b.table._config), "dead", txn.instant)
    b.clock.ms += HOURS
    return b


@breaks("writer-dead")
def writer_that_died() -> Broken:
    b = rich()
    txn = b.table.begin()
    txn.write([row("a", "dead", 9)])
    txn._heartbeat.stop()
    b.clock.ms += HOURS
    return b


@breaks("hidden-from-hudi")
def dead_writer_hides_a_group() -> Broken:
    b = fresh(seed_base=False)
    txn = b.table.begin()
    txn.write([row("a", "dead", 9)])
    txn._heartbeat.stop()
    b.table.upsert([row("b", "1")])
    b.clock.ms += HOURS
    return b


@breaks("file-missing")
def log_gone() -> Broken:
    b = rich()
    b.storage.delete([b.logs()[-1]])
    return b


@breaks("file-missing")
def base_gone() -> Broken:
    b = rich()
    b.storage.delete([b.bases()[-1]])
    return b


@breaks("file-removed-by-clean")
def clean_took_a_live_file() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.delete([name])
    _add_clean(b, {"": CleanedPartition("KEEP_LATEST_COMMITS", (name,))})
    return b


def _add_clean(b: Broken, partitions: dict[str, CleanedPartition], earliest: str = "") -> None:
    start = next_instant_time(b.commits()[-1].rpartition("/")[2][18:35])
    data = format_clean_metadata(CleanMetadata(start, earliest, partitions))
    b.storage.create(f"{TIMELINE}/{start}.clean.requested", b"")
    b.storage.create(f"{TIMELINE}/{start}.clean.inflight", b"")
    b.storage.create(f"{TIMELINE}/{start}_{next_instant_time(start)}.clean", data)


@breaks("old-file-missing")
def compacted_log_gone() -> Broken:
    b = rich()
    first = b.commits()[1].rpartition("/")[2][:17]
    b.storage.delete([next(n for n in b.logs() if first in n)])
    return b


@breaks("file-unreachable")
def base_of_another_format() -> Broken:
    b = rich()
    name = b.bases()[-1]
    other = name.replace(".parquet", ".orc")
    b.move(name, other)
    commit = b.names(TIMELINE, "_", ".commit")[-1]
    b.edit(
        commit,
        lambda m: _restated(m, lambda s: dataclasses.replace(s, path=other) if s.path == name else s),
    )
    return b


@breaks("file-misnamed")
def commit_names_a_file_of_another_group() -> Broken:
    b = rich()
    b.edit(b.commits()[-1], lambda m: _restated(m, lambda s: dataclasses.replace(s, file_id="7" * 8 + "-x")))
    return b


@breaks("uncommitted-visible")
def late_log_of_a_zombie_task() -> Broken:
    b = rich()
    name = b.logs()[-1]
    b.storage.create(f"{name.rpartition('_')[0]}_9-9-9", b.read(name))
    return b


@breaks("orphan-visible")
def late_log_older_than_the_timeline() -> Broken:
    b = archived()
    name = b.logs()[-1]
    starts = sorted(i.request_time for i in (e.instant for e in b.table.timeline(archived=True)))
    start = _parsed(name).request_time
    b.storage.create(name.replace(start, next_instant_time(next_instant_time(starts[1]))), b.read(name))
    return b


@breaks("late-twin")
def twin_of_a_compaction() -> Broken:
    b = rich()
    name = b.bases()[-1]
    token = _parsed(name).write_token
    b.storage.create(name.replace(f"_{token}_", "_0-0-1_"), b.read(name))
    return b


@breaks("orphan-file")
def log_of_nobody() -> Broken:
    b = rich()
    name = b.logs()[-1]
    start = _parsed(name).request_time
    b.storage.create(name.replace(start, next_instant_time(next_instant_time(start))), b.read(name))
    return b


@breaks("partition-mark-missing")
def folder_without_mark() -> Broken:
    b = rich()
    b.storage.delete([".hoodie_partition_metadata"])
    return b


@breaks("partition-mark-damaged")
def torn_mark() -> Broken:
    b = rich()
    b.storage.replace(".hoodie_partition_metadata", b"partitionDepth=0\n")
    return b


@breaks("partition-mark-damaged")
def mark_of_another_depth() -> Broken:
    b = rich()
    b.storage.replace(".hoodie_partition_metadata", b"commitTime=20260101000000000\npartitionDepth=2\n")
    return b


def _edit_plan(b: Broken, change: Callable[[Any], Any]) -> None:
    name = b.names(TIMELINE, ".compaction.requested")[-1]
    plan = parse_compaction_plan(b.read(name), name)
    operations = (change(plan.operations[0]), *plan.operations[1:])
    b.storage.replace(name, format_compaction_plan(dataclasses.replace(plan, operations=operations)))


@breaks("compaction-missed-log")
def compaction_without_a_log() -> Broken:
    b = rich()
    _edit_plan(b, lambda o: dataclasses.replace(o, delta_file_names=o.delta_file_names[:-1]))
    return b


@breaks("compaction-took-uncommitted")
def compaction_with_an_open_log() -> Broken:
    b = rich()
    txn = b.table.begin()
    txn.write([row(key, "5", 5) for key in KEYS])
    txn._heartbeat.stop()
    name = next(n for n in b.logs() if txn.instant in n)
    _edit_plan(b, lambda o: dataclasses.replace(o, delta_file_names=(*o.delta_file_names, name)))
    return b


@breaks("log-compaction-hides")
def log_compaction_that_claims_too_much() -> Broken:
    b = fresh()
    for n in range(6):
        b.table.upsert([row("a", f"{n}", n)])
    b.table.log_compact()
    name = b.names(TIMELINE, ".logcompaction.requested")[-1]
    plan = parse_compaction_plan(b.read(name), name)
    fewer = [dataclasses.replace(o, delta_file_names=o.delta_file_names[1:]) for o in plan.operations]
    b.storage.replace(name, format_compaction_plan(dataclasses.replace(plan, operations=tuple(fewer))))
    return b


@breaks("replaced-group-written")
def overwrite_beside_a_writer() -> Broken:
    b = fresh()
    first = b.table.upsert([row("a", "1")])
    txn = b.table.begin()
    txn.write([row("a", "2", 2)])
    start = next_instant_time(txn.instant)
    group = _parsed(b.logs()[0]).file_id
    metadata = CommitMetadata(operation="INSERT_OVERWRITE", replaced={"": (group,)})
    b.storage.create(f"{TIMELINE}/{start}.replacecommit.requested", b"")
    b.storage.create(f"{TIMELINE}/{start}.replacecommit.inflight", b"")
    b.storage.create(f"{TIMELINE}/{start}_{next_instant_time(start)}.replacecommit", format_commit(metadata))
    txn.commit()
    assert first.completion_time < start
    return b


@breaks("clean-too-far")
def clean_that_promised_more() -> Broken:
    b = rich()
    b.table.clean(versions=1)
    name = b.names(TIMELINE, "_", ".clean")[-1]
    first = b.commits()[1].rpartition("/")[2][:17]
    told = dataclasses.replace(parse_clean_metadata(b.read(name), name), earliest_commit_to_retain=first)
    b.storage.replace(name, format_clean_metadata(told))
    return b


@breaks("clean-left-file")
def clean_that_left_a_file() -> Broken:
    b = rich()
    before = {name: b.read(name) for name in b.logs()}
    b.table.clean(versions=1)
    name = next(n for n in before if n not in b.logs())
    b.storage.create(name, before[name])
    return b


@breaks("savepoint-file-missing")
def file_of_a_savepoint_gone() -> Broken:
    b = rich()
    b.table.savepoint()
    b.storage.delete([b.bases()[-1]])
    return b


@breaks("file-size")
def longer_log() -> Broken:
    b = rich()
    name = b.logs()[-1]
    b.storage.replace(name, b.read(name) * 2)
    return b


@breaks("file-rows")
def fewer_rows_than_committed() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.restate(name, rows=99)
    return b


@breaks("file-rows")
def fewer_rows_in_a_log() -> Broken:
    b = rich()
    b.restate(b.logs()[-1], rows=99)
    return b


@breaks("file-damaged")
def base_without_its_end() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.replace(name, b.read(name)[:-4] + b"XXXX")
    return b


@breaks("file-damaged")
def base_of_zeros() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.replace(name, bytes(len(b.read(name))))
    return b


@breaks("log-torn")
def log_without_its_end() -> Broken:
    b = rich()
    name = b.logs()[-1]
    b.storage.replace(name, b.read(name)[:-9])
    return b


@breaks("log-damaged")
def log_without_its_beginning() -> Broken:
    b = rich()
    name = b.logs()[-1]
    b.storage.replace(name, b"#hudi?" + b.read(name)[6:])
    return b


@breaks("block-instant")
def block_of_another_instant() -> Broken:
    b = rich()
    older, name = b.logs()[-3], b.logs()[-1]
    blocks = read_blocks(b.read(name), name).blocks
    header = {HeaderKey.INSTANT_TIME: _parsed(older).request_time}
    b.storage.replace(name, b"".join(format_block(k.type, k.header | header, k.content) for k in blocks))
    return b


@breaks("file-schema")
def base_with_another_type() -> Broken:
    b = rich()

    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("ts")
        return rows.set_column(at, "ts", rows.column("ts").cast(pa.string()))

    b.rewrite_base(b.bases()[-1], change)
    return b


def _other_schema(b: Broken, name: str, old: str, new: str) -> None:
    def change(metadata: CommitMetadata) -> CommitMetadata:
        text = metadata.extra["schema"]
        assert old in text
        return dataclasses.replace(metadata, extra=metadata.extra | {"schema": text.replace(old, new)})

    b.edit(name, change)


@breaks("schema-unreadable")
def schema_that_is_none() -> Broken:
    b = rich()
    _other_schema(b, b.commits()[1], "{", "<")
    return b


@breaks("schema-break")
def schema_of_another_type() -> Broken:
    b = rich()
    _other_schema(b, b.commits()[1], '"long"', '"string"')
    return b


@breaks("schema-masked")
def column_of_a_late_finisher() -> Broken:
    b = fresh()
    b.table.upsert([row("a", "1")])
    late = b.table.begin()
    late.write([row("a", "2", 2)])
    b.table.upsert([row("a", "3", 3)])
    late.commit()
    name = next(n for n in b.commits() if late.instant in n)
    _other_schema(b, name, '"fields":[', '"fields":[{"name":"more","type":["null","int"],"default":null},')
    return b


@breaks("bucket-twice")
def second_group_of_a_bucket() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.create(name.replace("-0000-0000", "-0000-000a", 1), b.read(name))
    return b


@breaks("bucket-out-of-range")
def group_of_a_bucket_that_is_none() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.create(f"00000007{name[8:]}", b.read(name))
    return b


def _exchange(b: Broken) -> None:
    """One bucket's newest base file becomes that of the other: all its keys are in both, or in the wrong one."""
    first, second = b.bases()[-3], b.bases()[-1]
    assert _parsed(first).request_time == _parsed(second).request_time
    b.storage.replace(second, b.read(first))
    b.restate(second, rows=pq.read_metadata(io.BytesIO(b.read(first))).num_rows)


@breaks("key-wrong-bucket")
def keys_in_another_bucket() -> Broken:
    b = rich()
    _exchange(b)
    return b


def _without_index(b: Broken) -> Broken:
    """The same files in a table that does not say how keys find their groups."""
    b.set_properties(**{"index.type": None, "bucket.index.num.buckets": None, "index.bucket.engine": None})
    return Broken(b.storage, b.clock, table_on(b.storage, b.clock))


@breaks("key-two-groups")
def keys_in_two_groups() -> Broken:
    b = rich()
    _exchange(b)
    return _without_index(b)


@breaks("key-inserted-twice")
def keys_inserted_twice() -> Broken:
    b = rich()
    _exchange(b)
    b.edit(b.commits()[1], lambda m: dataclasses.replace(m, operation="BULK_INSERT"))
    return _without_index(b)


@breaks("key-twice")
def key_twice_in_a_file() -> Broken:
    b = rich()
    b.storage.delete([n for n in b.logs() if _parsed(n).request_time > _parsed(b.bases()[-1]).request_time])
    b.rewrite_base(b.bases()[-1], lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))
    return b


def _with_column(b: Broken, column: str, value: str | None) -> Broken:
    b.storage.delete([n for n in b.logs() if _parsed(n).request_time > _parsed(b.bases()[-1]).request_time])

    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(column)
        return rows.set_column(at, column, pa.array([value] * rows.num_rows, pa.string()))

    b.rewrite_base(b.bases()[-1], change)
    return b


@breaks("key-wrong-partition")
def rows_of_another_partition() -> Broken:
    return _with_column(rich(), "_hoodie_partition_path", "elsewhere")


@breaks("key-missing")
def rows_without_key() -> Broken:
    return _with_column(rich(), "_hoodie_record_key", None)


@breaks("history-damaged")
def history_file_gone() -> Broken:
    b = archived()
    b.storage.delete([b.one("/history/", ".parquet")])
    return b


@breaks("history-damaged")
def torn_history_file() -> Broken:
    b = archived()
    name = b.one("/history/", ".parquet")
    b.storage.replace(name, b.read(name)[:-4] + b"XXXX")
    return b


@breaks("history-damaged")
def torn_manifest() -> Broken:
    b = archived()
    for name in b.names("/history/manifest_"):
        b.storage.replace(name, b"{")
    return b


@breaks("history-stray")
def history_file_that_nobody_names() -> Broken:
    b = archived()
    name = b.one("/history/", ".parquet")
    b.storage.create(f"{name.rpartition('_')[0]}_7.parquet", b.read(name))
    b.clock.ms += HOURS
    return b


@breaks("ledger-damaged")
def torn_entry() -> Broken:
    b = rich()
    b.storage.replace(b.one(".lakebraid/ledger/"), b'{"version":1')
    return b


@breaks("ledger-unfulfilled")
def decision_without_its_file() -> Broken:
    b = rich()
    name = b.commits()[-1]
    entry = b.table._writing.ledger(b.table._config).newest()
    b.storage.create(entry.files[-1][0], b.read(name))
    b.storage.delete([name])
    b.clock.ms += HOURS
    return b


@breaks("ledger-disagrees")
def open_write_off_the_timeline() -> Broken:
    b = rich()
    txn = b.table.begin()
    txn._heartbeat.stop()
    b.table.upsert([row("a", "5", 5)])
    b.storage.delete(b.names(TIMELINE, f"{txn.instant}."))
    return b


@breaks("ledger-disagrees")
def write_without_the_ledger() -> Broken:
    b = rich()
    start = b.commits()[-2].rpartition("/")[2][18:35]
    for state in ("requested", "inflight"):
        b.storage.create(f"{TIMELINE}/{int(start) - 1}.deltacommit.{state}", b"")
    return b


@breaks("metadata-table-behind")
def metadata_table_that_nobody_tends() -> Broken:
    b = rich()
    b.set_properties(**{"table.metadata.partitions": "files"})
    return b


@breaks("lock-stale")
def lock_file_left() -> Broken:
    b = rich()
    b.storage.create(".hoodie/lock", b"")
    b.clock.ms += HOURS
    return b


@breaks("lock-stale")
def lease_left() -> Broken:
    b = rich()
    text = f'{{"expired":false,"validUntil":{b.clock.ms},"owner":"somebody"}}'
    b.storage.create(".hoodie/.locks/table_lock.json", text.encode())
    b.clock.ms += HOURS
    return b


@breaks("marker-leftover")
def markers_left() -> Broken:
    b = rich()
    start = b.commits()[-1].rpartition("/")[2][:17]
    b.storage.create(f".hoodie/.temp/{start}/{b.logs()[-1]}.marker.CREATE", b"")
    b.clock.ms += HOURS
    return b


@breaks("heartbeat-leftover")
def heartbeat_left() -> Broken:
    b = rich()
    b.storage.create(f".hoodie/.heartbeat/{b.commits()[-1].rpartition('/')[2][:17]}", b"")
    b.clock.ms += HOURS
    return b


@breaks("staged-leftover")
def staged_object_left() -> Broken:
    b = rich()
    b.storage.create(f".hoodie/.lakebraid/staged/{1:020d}.left", b"")
    b.clock.ms += HOURS
    return b

# SPDX-License-Identifier: Apache-2.0
"""What a reader of captured changes gets from one commit, as Hudi's CDC query goes about it.

Of a log file it merges the slice that the commit names, without and with the commit's own log files; of a base file that
was written anew it takes the file of changes beside it; the rows of a new base file are all new, and those of a replaced
group, as the last commit or service before left them, are all gone. Hudi itself is asked in tests/interop/test_hudi_cdc.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC
from typing import Any

from lakebraid.api.table import Table
from lakebraid.format.avro.rows import parse_avro_block
from lakebraid.format.log.blocks import read_blocks
from lakebraid.format.names import BaseFileName, LogFileName, in_partition, parse_data_file
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat, parse_commit
from lakebraid.format.times import format_instant_time, parse_instant_time
from lakebraid.model.timeline.slicing import BaseFile, FileSlice, GroupId, LogFile, merge_order
from lakebraid.reading.plan import slice_task
from lakebraid.reading.snapshot import Snapshot
from lakebraid.tasks.reading.read import read_slice

Row = dict[str, Any]
Event = tuple[str, Row | None, Row | None]
"""The kind of change, the row before, the row after: None where there is none, or the mode says nothing of it."""
KeyOf = Callable[[Row], Any]
_BYTES_MAX = 1 << 26


def cdc_events(table: Table, request_time: str, key_of: KeyOf) -> list[Event]:
    """The changes that the commit of the write that began at `request_time` tells."""
    commit, after = commit_of(table, request_time), table.snapshot()
    events: list[Event] = []
    for partition, stats in commit.write_stats.items():
        for file_id in dict.fromkeys(stat.file_id or "" for stat in stats):
            own = [stat for stat in stats if stat.file_id == file_id]
            events += _of_group(table, after, GroupId(partition, file_id), own, key_of)
    replaced = {GroupId(partition, file_id) for partition, ids in commit.replaced.items() for file_id in ids}
    if replaced:
        events += [("d", row, None) for row in _before(table, request_time).only(replaced).to_arrow().to_pylist()]
    return _netted(events, key_of)


def commit_of(table: Table, request_time: str) -> CommitMetadata:
    """What the commit of a write says."""
    name = _commit_name(table, request_time)
    return parse_commit(table._storage.read(name, _BYTES_MAX), name)


def differences(before: dict[Any, Row], after: dict[Any, Row]) -> list[Event]:
    """The same from two states of the table."""
    pairs = [(before.get(key), after.get(key)) for key in {**before, **after}]
    return [(_kind(old, new), old, new) for old, new in pairs if old != new]


def _commit_name(table: Table, request_time: str) -> str:
    begin = f".hoodie/timeline/{request_time}_"
    (name,) = [info.name for info in table._storage.list(".hoodie/timeline") if info.name.startswith(begin)]
    return name


def _before(table: Table, request_time: str) -> Snapshot:
    """The table in the last millisecond before the commit: services that ran since the write before it count, too."""
    completion = _commit_name(table, request_time).rpartition("_")[2].partition(".")[0]
    return table.snapshot(format_instant_time(parse_instant_time(completion, UTC) - 1, UTC))


def _kind(old: Row | None, new: Row | None) -> str:
    return "i" if old is None else "d" if new is None else "u"


def _netted(events: list[Event], key_of: KeyOf) -> list[Event]:
    """A key that goes in one file group and comes in another of the same commit has changed, or has not."""
    gone = {key_of(old): old for kind, old, _ in events if kind == "d" and old is not None}
    kept: list[Event] = []
    for kind, old, new in events:
        if kind == "i" and new is not None and key_of(new) in gone:
            kept.append(("u", gone.pop(key_of(new)), new))
        elif kind != "d" or old is None:
            kept.append((kind, old, new))
    kept += [("d", old, None) for old in gone.values()]
    return [event for event in kept if event[0] != "u" or event[1] is None or event[1] != event[2]]


def _of_group(table: Table, after: Snapshot, group: GroupId, own: list[WriteStat], key_of: KeyOf) -> Iterator[Event]:
    logs = [stat for stat in own if stat.log_files]
    if logs:
        names = [(stat.path or "").rpartition("/")[2] for stat in logs]
        told = dict.fromkeys(name.removeprefix("./") for stat in logs for name in stat.log_files or ())
        base = logs[0].base_file
        assert base, f"Hudi's query reads no slice without base file: {logs[0]}"
        earlier = [name for name in told if name not in names]
        old, new = (
            {key_of(row): row for row in _rows(table, after, group, base, logs)}
            for logs in (earlier, [*earlier, *names])
        )
        yield from differences(old, new)
        return
    for stat in own:
        if stat.cdc_stats:
            yield from _captured(table, stat.cdc_stats)
        else:
            assert stat.prev_commit == "null", f"a base file that was written anew tells no changes: {stat}"
            name = (stat.path or "").rpartition("/")[2]
            yield from (("i", None, row) for row in _rows(table, after, group, name, []))


def _captured(table: Table, paths: Iterable[str]) -> Iterator[Event]:
    for path in paths:
        for block in read_blocks(table._storage.read(path, _BYTES_MAX), path).blocks:
            for told in parse_avro_block(block.content, block.schema_text or "", path).to_pylist():
                yield told["op"], told.get("before"), told.get("after")


def _rows(table: Table, snapshot: Snapshot, group: GroupId, base: str, logs: Iterable[str]) -> Iterator[Row]:
    """The rows of a slice that is given by names."""
    plan, _ = snapshot.plan()
    held = FileSlice(group, "", _base(table, group, base), merge_order(_log(table, group, name) for name in logs))
    task = slice_task(held, table._config, snapshot.view.timeline.visibility())
    for rows in read_slice(table._storage, plan, task):
        yield from rows.to_pylist()


def _base(table: Table, group: GroupId, name: str) -> BaseFile:
    path, parsed = in_partition(group.partition, name), parse_data_file(name)
    assert isinstance(parsed, BaseFileName)
    return BaseFile(path, parsed, table._storage.info(path).size, "")


def _log(table: Table, group: GroupId, name: str) -> LogFile:
    path, parsed = in_partition(group.partition, name), parse_data_file(name)
    assert isinstance(parsed, LogFileName)
    return LogFile(path, parsed, table._storage.info(path).size, "")

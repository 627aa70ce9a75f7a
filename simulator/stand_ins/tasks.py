# SPDX-License-Identifier: Apache-2.0
"""Stands in for Spark's executors: files with real names and tiny contents, merged by the simulator's own rule.

The control plane looks at names and at the timeline only, so a few bytes of JSON do for a log or base file:
a log is {"b": [[instant, changes], …]}, a base is {"r": [[key, order, start, value], …]}. What a log compaction writes
says in "c" which instants it stands for, and each of its changes has the request time of the write it is of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

from lakebraid.errors import ObjectExists, ObjectNotFound, OutcomeUnknown
from lakebraid.format.names import BaseFileName, LogFileName
from lakebraid.format.timeline.commit import WriteStat
from lakebraid.model.keys.buckets import bucket_file_id
from lakebraid.model.log_order import BlockOrigin, place_blocks
from lakebraid.storage.protocol import Storage
from simulator.oracle import Change, Rows

MARK = b"#partition metadata\ncommitTime=20260101000000000\npartitionDepth=1\n"


@dataclass(frozen=True, slots=True)
class Written:
    """A data file that a task made."""

    partition: str
    file_id: str
    name: str
    rows: int
    deletes: int

    @property
    def path(self) -> str:
        return f"{self.partition}/{self.name}"

    def stat(self) -> WriteStat:
        return WriteStat(
            file_id=self.file_id, path=self.path, prev_commit="null", num_writes=self.rows, num_deletes=self.deletes,
            partition_path=self.partition,
        )  # fmt: skip


def group_of(key: str, partitions: int, buckets: int) -> tuple[str, str]:
    """Partition and file id of a key."""
    number = crc32(key.encode())
    return f"p{number % partitions}", bucket_file_id(number // 7 % buckets)


def by_group(
    changes: Iterable[Change], partitions: int, buckets: int
) -> list[tuple[tuple[str, str], tuple[Change, ...]]]:
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        groups.setdefault(group_of(change.key, partitions, buckets), []).append(change)
    return [(group, tuple(found)) for group, found in sorted(groups.items())]


def write_log(
    storage: Storage, request_time: str, group: tuple[str, str], changes: Sequence[Change], task: int = 0
) -> Written:
    """What one task does for one file group: partition file, marker, log file; any of it may be there already."""
    partition, file_id = group
    name = LogFileName(file_id, request_time, 1, f"{task}-0-0", "").format()
    content = [[request_time, [[c.key, c.order, c.value] for c in changes]]]
    create_once(storage, f"{partition}/.hoodie_partition_metadata", MARK)
    create_once(storage, f".hoodie/.temp/{request_time}/{partition}/{name}.marker.CREATE", b"")
    create_once(storage, f"{partition}/{name}", json.dumps({"b": content}).encode())
    deletes = sum(c.value is None for c in changes)
    return Written(partition, file_id, name, len(changes) - deletes, deletes)


def write_base(storage: Storage, request_time: str, group: tuple[str, str], changes: Sequence[Change]) -> Written:
    """What one task of an overwrite does: the first base file of a new file group."""
    partition, file_id = group
    name = BaseFileName(file_id, "0-0-0", request_time, ".parquet").format()
    create_once(storage, f"{partition}/.hoodie_partition_metadata", MARK)
    put(storage, request_time, partition, name, {"r": [[c.key, c.order, request_time, c.value] for c in changes]})
    return Written(partition, file_id, name, len(changes), 0)


def create_once(storage: Storage, name: str, data: bytes) -> None:
    """Creates an object whose bytes are always the same; unanswered requests are repeated, as tasks do."""
    for attempt in range(3):
        try:
            storage.create(name, data)
        except ObjectExists:
            return
        except OutcomeUnknown:
            if attempt == 2:
                raise
        else:
            return


@dataclass(slots=True)
class Version:
    """One version of one row while merging."""

    key: str
    order: int | None
    request_time: str
    value: str | None
    rank: str
    """Where it comes in the order of merging: at its request time, or where a log-compacted file has its place."""


def read_versions(data: bytes) -> list[Version]:
    """The versions in a log or base file, each at the request time of its write."""
    content = json.loads(data)
    if "r" in content:
        return [
            Version(key, order, request_time, value, request_time) for key, order, request_time, value in content["r"]
        ]
    return [
        Version(row[0], row[1], row[3] if len(row) > 3 else instant, row[2], row[3] if len(row) > 3 else instant)
        for instant, rows in content["b"]
        for row in rows
    ]


def read_origins(data: bytes) -> tuple[BlockOrigin, ...]:
    """What the headers of a log file's blocks would say."""
    content = json.loads(data)
    return tuple(BlockOrigin(instant, tuple(content.get("c", ()))) for instant, _ in content["b"])


def read_placed(logs: Iterable[bytes]) -> list[Version]:
    """The versions in log files by the product's rule: which blocks count, and at which place."""
    blocks: list[list[Version]] = []
    origins: list[BlockOrigin] = []
    for data in logs:
        content = json.loads(data)
        for instant, rows in content["b"]:
            origins.append(BlockOrigin(instant, tuple(content.get("c", ()))))
            blocks.append([Version(r[0], r[1], r[3] if len(r) > 3 else instant, r[2], instant) for r in rows])
    found = []
    for placed in place_blocks(origins):
        for version in blocks[placed.index]:
            version.rank = placed.request_time
            found.append(version)
    return found


def merge(versions: Iterable[Version], *, by_event: bool) -> dict[str, Version]:
    """The winner of each key, tombstones included: what the product's reader does, by rank of the writes' request times."""
    winners: dict[str, Version] = {}
    for new in sorted(versions, key=lambda v: v.rank):
        old = winners.get(new.key)
        is_plain_delete = new.value is None and (new.order is None or not by_event)
        if is_plain_delete or old is None or not by_event or old.order is None or (new.order or 0) >= old.order:
            winners[new.key] = new
    return winners


def rows_of(winners: dict[str, Version]) -> Rows:
    return {k: (v.order or 0, v.request_time, v.value) for k, v in sorted(winners.items()) if v.value is not None}


@dataclass(frozen=True, slots=True)
class Merging:
    """One operation of a compaction plan."""

    partition: str
    file_id: str
    base: str | None
    logs: tuple[str, ...]
    before: str = ""
    """What ranks after it, if given, is not merged but carried on."""


def run_merge(
    storage: Storage, plan: str, epoch: int, work: Merging, *, by_event: bool, token: str | None = None
) -> list[Written]:
    """Writes the base file of a compaction, and a log that carries tombstones with their own ordering and request time."""
    token = token or f"0-0-{epoch}"
    versions = read_versions(storage.read(f"{work.partition}/{work.base}", 1 << 20)) if work.base else []
    placed = read_placed([storage.read(f"{work.partition}/{name}", 1 << 20) for name in work.logs])
    later = [v for v in placed if work.before and v.rank > work.before]
    versions += [v for v in placed if not work.before or v.rank < work.before]
    winners = merge(versions, by_event=by_event)
    rows = [[v.key, v.order, v.request_time, v.value] for _, v in sorted(winners.items()) if v.value is not None]
    base = BaseFileName(work.file_id, token, plan, ".parquet").format()
    made = [Written(work.partition, work.file_id, base, len(rows), 0)]
    put(storage, plan, work.partition, base, {"r": rows})
    carried = [v for _, v in sorted(winners.items()) if v.value is None and by_event and v.order is not None]
    if carried or later:
        log = LogFileName(work.file_id, plan, 1, token, "").format()
        blocks = [[v.rank, [[v.key, v.order, v.value, v.request_time]]] for v in (*carried, *later)]
        put(storage, plan, work.partition, log, {"b": blocks})
        made.append(Written(work.partition, work.file_id, log, 0, len(carried)))
    return made


def run_fold(storage: Storage, plan: str, epoch: int, work: Merging, *, by_event: bool) -> list[Written]:
    """Writes the one log file of a log compaction: the winner of each key, deletes too, in the place of the newest."""
    logs = [storage.read(f"{work.partition}/{name}", 1 << 20) for name in work.logs]
    origins = [origin for data in logs for origin in read_origins(data)]
    winners = merge(read_placed(logs), by_event=by_event)
    rows = [[v.key, v.order, v.value, v.request_time] for _, v in sorted(winners.items())]
    named = sorted({time for origin in origins for time in (origin.instant_time, *origin.compacted_times)})
    log = LogFileName(work.file_id, plan, 1, f"0-0-{epoch}", "").format()
    put(storage, plan, work.partition, log, {"b": [[plan, rows]], "c": named})
    deletes = sum(v.value is None for v in winners.values())
    return [Written(work.partition, work.file_id, log, len(rows) - deletes, deletes)]


def put(storage: Storage, plan: str, partition: str, name: str, content: object) -> None:
    """A data file, its marker before it."""
    create_once(storage, f".hoodie/.temp/{plan}/{partition}/{name}.marker.CREATE", b"")
    create_once(storage, f"{partition}/{name}", json.dumps(content).encode())


__all__ = [
    "Merging", "ObjectNotFound", "Version", "Written", "by_group", "create_once", "group_of", "merge", "put", "read_origins",
    "read_placed", "read_versions", "rows_of", "run_fold", "run_merge", "write_base", "write_log",
]  # fmt: skip

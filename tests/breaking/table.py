# SPDX-License-Identifier: Apache-2.0
"""A table in memory that something is done to, and the list of ways to break it."""

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
from lakebraid.format.names import BaseFileName, LogFileName, parse_data_file
from lakebraid.format.properties import format_properties, parse_properties
from lakebraid.format.timeline.commit import CommitMetadata, format_commit, parse_commit
from lakebraid.inspect.audit.run import Audit, audit_table
from lakebraid.storage.memory import MemoryStorage
from tests.kit.tables.archiving import past
from tests.kit.tables.scene import TickingClock, make_table, row, table_on

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
        request_time = parsed(name).request_time
        commit = next(n for n in self.names(f"{TIMELINE}/{request_time}_") if n.endswith("commit"))
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

        self.edit(commit, lambda m: restated(m, told))


def restated(metadata: CommitMetadata, told: Callable[[Any], Any]) -> CommitMetadata:
    stats = {p: tuple(map(told, stats)) for p, stats in metadata.write_stats.items()}
    return dataclasses.replace(metadata, write_stats=stats)


def parsed(name: str) -> BaseFileName | LogFileName:
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


Way = Callable[[], Broken]
WAYS: dict[str, list[Way]] = {}
"""Every way to break a table, by the kind that must be found."""


def breaks(kind: str) -> Callable[[Way], Way]:
    def add(way: Way) -> Way:
        WAYS.setdefault(kind, []).append(way)
        return way

    return add

# SPDX-License-Identifier: Apache-2.0
"""Small worlds of optimistic writers: who takes part, how they are played, and who must have been refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from lakebraid.errors import SchemaConflict, WriteConflict
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.checks.file_groups import STRATEGY
from lakebraid.txn.writer import Writing
from lakebraid.writing.transaction import Transaction
from simulator.world.world import EPOCH_MS
from tests.kit.races.enumerating import Actor, NoHeartbeat, Played, every_schedule, objects_of
from tests.kit.tables.scene import TickingClock, make_table, table_on

S1 = pa.schema([("id", pa.string()), ("ts", pa.int64())])


WITH_NAMES = S1.append(pa.field("by", pa.string()))


@dataclass(frozen=True)
class End:
    """How a write ended, as its process was told."""

    label: str
    request_time: str
    completion: str | None
    error: Exception | None = None
    begun: frozenset[str] | None = None
    """The table's columns as the write saw them before its first row."""
    attempts: int = 1

    def met(self, other: End) -> bool:
        """Whether neither could know what the other wrote: no one began after the other's completion."""
        return self.completion is not None and other.completion is not None and not (self < other or other < self)

    def __lt__(self, other: End) -> bool:
        return self.completion is not None and self.completion < other.request_time


def row(key: str) -> pa.Table:
    return pa.table({"id": [key], "ts": [1]}, schema=S1)


def rows(schema: pa.Schema, key: str) -> pa.Table:
    values: dict[str, Any] = {"id": key, "ts": 1, "x": 8, "y": "nine"}
    return pa.table({f.name: pa.array([values[f.name]], f.type) for f in schema}, schema=schema)


def columns_at_begin(begun: Transaction) -> frozenset[str] | None:
    seen = begun.begun.schema.begun
    return None if seen is None else frozenset(seen.columns.names)


def writer(data: pa.Table) -> Callable[[Actor], End]:
    """Begins, writes, commits; what it is told is its end."""

    def body(actor: Actor) -> End:
        table = table_on(actor.storage, actor.process.clock)
        begun = table.begin()
        seen = columns_at_begin(begun)
        try:
            begun.write(data)
            done = begun.commit()
        except (WriteConflict, SchemaConflict) as error:
            return End(actor.process.name, begun.instant, None, error, seen)
        return End(actor.process.name, begun.instant, done.completion_time, begun=seen)

    return body


@contextmanager
def without_heartbeats() -> Iterator[None]:
    before = Writing.heartbeat
    Writing.heartbeat = NoHeartbeat
    try:
        yield
    finally:
        Writing.heartbeat = before


@cache
def table_objects(
    strategy: str, concurrency: str, *, has_schema: bool = True, is_filled: bool = False, kind: str | None = None
) -> Any:
    clock = TickingClock()
    storage = MemoryStorage("memory://small", clock)
    table = make_table(
        storage,
        clock,
        (WITH_NAMES if kind else S1) if has_schema else None,
        buckets=4,
        table_type=kind or "mor",
        concurrency=concurrency,
        properties={STRATEGY: "org.apache.hudi.client.transaction." + strategy},
    )
    if is_filled:
        table.upsert(row("a"))
    return objects_of(storage), clock.now_ms()


def play(
    objects: Any, bodies: Mapping[str, Callable[[Actor], object]], *, switches: int
) -> Iterator[tuple[Played, list[End]]]:
    found, now_ms = objects
    with without_heartbeats():
        for played in every_schedule(found, now_ms, bodies, switches=switches):
            for end in played.ends.values():
                assert not isinstance(end, Exception), end
            yield played, [end for end in played.ends.values() if isinstance(end, End)]


def check_refusals(ends: Sequence[End], places: Mapping[str, str], planned: str | None = None) -> None:
    """Of two published writers of one place one began after the other's end; who was refused has met somebody there."""
    for one, other in itertools.combinations(ends, 2):
        if places[one.label] == places[other.label]:
            assert not one.met(other), (one, other)
    for end in ends:
        rivals = [o for o in ends if o is not end and places[o.label] == places[end.label] and o.completion is not None]
        met_plan = planned is not None and planned > end.request_time
        if end.completion is None:
            assert isinstance(end.error, WriteConflict)
            assert met_plan or any((rival.completion or "") > end.request_time for rival in rivals), end
        elif met_plan:
            assert planned is not None and planned > end.completion, (
                "it was planned before the write was published, and after it began"
            )


def check_rows(played: Played, ends: Sequence[End], keys: Mapping[str, str], before: Sequence[str] = ()) -> None:
    objects = tuple(sorted((name, data) for name, (data, _) in played.world.disk.objects.items()))
    wanted = {keys[end.label] for end in ends if end.completion is not None}
    assert list(rows_of(objects)) == sorted({*wanted, *before})


@lru_cache(1000)
def rows_of(objects: tuple[tuple[str, bytes], ...], column: str = "id") -> tuple[str, ...]:
    """A column of a table in the order of keys; many schedules leave the same behind."""
    clock = TickingClock(int(EPOCH_MS + 60_000))
    storage = MemoryStorage("memory://afterwards", clock)
    for name, data in objects:
        storage.create(name, data)
    found = table_on(storage, clock).to_arrow(columns=[*{"id": 1, column: 1}]).sort_by("id")
    return tuple(found.column(column).to_pylist())

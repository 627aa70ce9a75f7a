# SPDX-License-Identifier: Apache-2.0
"""Random histories of overlapping writers with real compactions between them: no answer ever changes.

What a table answers at every moment is compared with the same writes in a table that nobody ever compacted, and with
a naive model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lakebraid as lb
from lakebraid.model.keys.buckets import bucket_file_id, bucket_of
from tests.kit.effort import times
from tests.kit.models.oracle import Block, Gone, Group, Instant, Oracle, Put, Settings
from tests.kit.tables.builder import build_table, open_table
from tests.kit.tables.built_files import ORDER_TYPES, record_key, t
from tests.kit.tables.compacting import Bench
from tests.unit.reading.test_oracle import found_rows, model_rows

pytestmark = [pytest.mark.unit, pytest.mark.slow]

EXAMPLES = 25
KEYS = ("k0", "k1", "k2", "k3")
COLUMNS = ("id", "ts", "v", "w")


def thorough(share: float = 1.0) -> settings:
    return settings(
        max_examples=times(round(EXAMPLES * share)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )


@dataclass(frozen=True)
class Kind:
    """What the writers of a history do."""

    by_event: bool = True
    in_order: bool = False
    """Ordering values rise with the request times of writes. What arrives out of order is merged by Hudi's rule, logs first,
    where deletes without ordering value or partial updates are about (docs/decisions/0002)."""
    unconditional: bool = False
    """Deletes without ordering value happen."""
    partial: bool = False
    """Some keys get partial updates, and no deletes: by Hudi's rule a partial update of a deleted row brings back the
    other columns of a base file, but not of a log file."""


EVENT = Kind()
EVENT_ANY_DELETE = Kind(in_order=True, unconditional=True)
EVENT_PARTIAL = Kind(in_order=True, unconditional=True, partial=True)
COMMIT = Kind(by_event=False, unconditional=True)
COMMIT_PARTIAL = Kind(by_event=False, unconditional=True, partial=True)


class World:
    """A table as it comes to be, by draws."""

    def __init__(self, draw: st.DrawFn, kind: Kind) -> None:
        self.draw, self.kind = draw, kind
        self.flags = draw(st.booleans())
        two = draw(st.sampled_from([False, False, True]))
        told = Settings(
            ordering=("ts", "ts2") if two else ("ts",),
            by_event=kind.by_event,
            partitioned=False,
            buckets=draw(st.sampled_from([1, 1, 2])),
            complex_keys=draw(st.booleans()),
            order_type="long" if kind.in_order else draw(st.sampled_from(["long", *ORDER_TYPES])),
        )
        self.columns = (*COLUMNS, *(["ts2"] if two else []), *(["_hoodie_is_deleted"] if self.flags else []))
        self.bench = Bench(told, self.columns)
        self.open: list[Instant] = []
        self.plans: list[str] = []
        self.same: list[str] = []
        """The keys that all writes have at the moment."""

    def group_of(self, key: str) -> Group:
        told = self.bench.settings
        return "", bucket_file_id(bucket_of(record_key(key, told), ("id",), told.buckets or 1))

    def order(self, request_time: int) -> int:
        if self.kind.in_order:
            return request_time // self.draw(st.sampled_from([4, 4, 3]))
        return self.draw(st.sampled_from([0, 1, 1, 2]))

    def entries(self, keys: list[str], request_time: int) -> list[Put | Gone]:
        """A row or a delete for each key."""
        draw, told = self.draw, self.bench.settings
        found: list[Put | Gone] = []
        for key in keys:
            orders = {name: self.order(request_time) for name in told.ordering}
            if draw(st.sampled_from([False, False, True])):
                is_plain = self.kind.unconditional and draw(st.booleans())
                found.append(Gone(key, None if is_plain else tuple(orders.values())))
                continue
            row: dict[str, Any] = {"id": key, "v": draw(st.sampled_from("abc")), "w": draw(st.integers(0, 2)), **orders}
            row["_hoodie_is_deleted"] = self.flags and draw(st.sampled_from([None, False, False, True]))
            found.append(Put(key, {name: row[name] for name in self.columns}))
        return found

    def blocks(self, entries: list[Put | Gone]) -> tuple[Block, ...]:
        puts = tuple(e for e in entries if isinstance(e, Put))
        gone = tuple(e for e in entries if isinstance(e, Gone))
        form = self.draw(st.sampled_from(["parquet", "parquet", "avro"]))
        rows = [Block(form, puts, self.columns)] if puts else []
        return (*rows, *([Block("delete", gone)] if gone else []))

    def begin(self) -> Instant:
        draw = self.draw
        whole, partial = (KEYS[:2], KEYS[2:]) if self.kind.partial else (KEYS, ())
        request_time = int(self.bench.ledger.newest().state.last[-5:]) + 1
        if partial and draw(st.booleans()):
            return self.begin_partial(request_time, partial)
        keys = self.same or draw(st.lists(st.sampled_from(whole), min_size=1, max_size=3, unique=True))
        files = self.by_group(self.entries(keys, request_time))
        # Rows of partially updated keys are never deleted, see Kind.
        full = draw(st.lists(st.sampled_from(partial), max_size=2, unique=True)) if partial else []
        for group, blocks in self.by_group([self.row(key, request_time) for key in full]).items():
            files[group] = (*files.get(group, ()), *blocks)
        return self.begun(self.bench.begin(files))

    def begin_partial(self, request_time: int, keys: tuple[str, ...]) -> Instant:
        draw = self.draw
        chosen = draw(st.lists(st.sampled_from(keys), min_size=1, unique=True))
        some = draw(st.sets(st.sampled_from(["v", "w"]), min_size=1))
        columns = tuple(c for c in self.columns if c in {"id", *self.bench.settings.ordering, *some})
        files: dict[Group, tuple[Block, ...]] = {}
        for key in chosen:
            put = Put(key, {c: v for c, v in self.row(key, request_time).values.items() if c in columns})
            files[self.group_of(key)] = (*files.get(self.group_of(key), ()), Block("parquet", (put,), columns, True))
        return self.begun(self.bench.begin(files, columns))

    def row(self, key: str, request_time: int) -> Put:
        values: dict[str, Any] = {"id": key, "v": self.draw(st.sampled_from("abc")), "w": self.draw(st.integers(0, 2))}
        values |= {name: self.order(request_time) for name in self.bench.settings.ordering} | {
            "_hoodie_is_deleted": None
        }
        values.setdefault("ts", 0)
        return Put(key, {name: values[name] for name in self.columns})

    def by_group(self, entries: list[Put | Gone]) -> dict[Group, tuple[Block, ...]]:
        found: dict[Group, list[Put | Gone]] = {}
        for entry in entries:
            found.setdefault(self.group_of(entry.key), []).append(entry)
        return {group: self.blocks(own) for group, own in found.items()}

    def begun(self, instant: Instant) -> Instant:
        self.open.append(instant)
        return instant

    def finish(self, instant: Instant | None = None) -> None:
        if self.open:
            instant = instant or self.draw(st.sampled_from(self.open))
            self.open.remove(instant)
            self.bench.publish(instant)

    def write(self) -> None:
        self.finish(self.begin())

    def give_up(self) -> None:
        if self.open:
            instant = self.draw(st.sampled_from(self.open))
            self.open.remove(instant)
            self.bench.give_up(instant)

    def plan(self) -> None:
        request_time = self.bench.plan()
        if request_time is not None:
            self.plans.append(request_time)

    def run(self) -> None:
        if self.plans:
            self.bench.run(self.plans.pop(self.draw(st.integers(0, len(self.plans) - 1))))

    def compact(self) -> None:
        self.plan()
        self.run()

    def write_and_compact(self) -> None:
        self.write()
        self.compact()

    def finish_late(self) -> None:
        """A slow writer and fast ones on the same key; a compaction takes the fast ones' logs; the slow one finishes."""
        self.same = [self.draw(st.sampled_from(KEYS[:2]))]
        if self.draw(st.booleans()):
            self.write()
        slow = self.begin()
        self.same = self.same if self.draw(st.booleans()) else []
        self.write_and_compact()
        self.same = []
        if self.draw(st.sampled_from([True, True, False])):
            self.finish(slow)


STEPS = (
    "write", "write", "begin", "finish", "finish", "give_up", "plan", "run",
    *["write_and_compact"] * 3, *["finish_late"] * 4,
)  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn, kind: Kind, steps_max: int = 9) -> World:
    world = World(draw, kind)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=steps_max)):
        getattr(world, step)()
    while bool(world.plans) and draw(st.booleans()):
        world.run()
    for _ in range(draw(st.integers(0, 3))):
        world.finish()
    return world


def check(world: World) -> None:
    bench = world.bench
    compacted, plain = open_table(bench.storage), open_table(build_table(bench.history))
    oracle = Oracle(bench.history)
    for moment in bench.moments():
        seen = compacted.to_arrow(as_of=t(moment), meta_columns=True)
        unchanged = plain.to_arrow(as_of=t(moment), meta_columns=True)
        assert by_key(seen) == by_key(unchanged), (moment, bench.history, bench.compactions)
        modelled = model_rows(oracle.rows(moment).values(), bench.settings)
        assert found_rows(seen) == modelled, (moment, bench.history, bench.compactions)
    assert compacted.count() == len(oracle.rows(59_999))
    # Hudi merges the instants of a log in the order in which they lie there.
    assert all(instants == sorted(instants) for instants in bench.instants_of_own_logs()), bench.history
    writes = [i.completion for i in bench.history.instants if i.completion is not None]
    for after, until in {(min(writes), max(writes)), tuple(sorted(writes)[-2:])} if len(writes) > 1 else ():
        assert told(compacted, after, until) == told(plain, after, until), (after, until, bench.history)


def told(table: lb.Table, after: int, until: int) -> list[str]:
    """The changes, without their completion times: a delete has that of the last one who touched its group."""
    rows = table.changes(t(after), t(until)).to_arrow().drop_columns(["_commit_completion_time"])
    return sorted(repr(row) for row in rows.to_pylist())


def by_key(rows: pa.Table) -> dict[str, dict[str, str]]:
    """The rows, Hudi's columns included, save the one that names the file; as text, for NaN equals nothing."""
    found = rows.drop_columns(["_hoodie_file_name"]).to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key appears twice"
    return {row["id"]: {name: repr(value) for name, value in row.items()} for row in found}


@thorough(2)
@given(worlds(EVENT))
def test_compaction_changes_no_answer_by_event_time_whatever_the_order_of_arrival(world: World) -> None:
    check(world)


@thorough()
@given(worlds(EVENT_ANY_DELETE))
def test_compaction_changes_no_answer_by_event_time_with_deletes_that_have_no_ordering_value(world: World) -> None:
    check(world)


@thorough()
@given(worlds(COMMIT))
def test_compaction_changes_no_answer_by_commit_time(world: World) -> None:
    check(world)


@thorough()
@given(worlds(COMMIT_PARTIAL))
def test_compaction_changes_no_answer_by_commit_time_with_partial_updates(world: World) -> None:
    check(world)


@thorough()
@given(worlds(EVENT_PARTIAL))
def test_compaction_changes_no_answer_by_event_time_with_partial_updates_that_arrive_in_order(world: World) -> None:
    check(world)

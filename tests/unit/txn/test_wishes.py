# SPDX-License-Identifier: Apache-2.0
"""Wishes whose rules look at more than the state: what they looked at is told by masks, and held against what came since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakebraid.api.table import Table
from lakebraid.errors import ClaimLost, WriteConflict
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.services.merging.compaction import plan_compaction
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.loading import load_config
from lakebraid.txn.actions.batches import forget_writer
from lakebraid.txn.actions.plans import claim, publish_plan
from lakebraid.txn.ledger.asks import parse_asks
from lakebraid.txn.ledger.entries import (
    EVERYTHING,
    LEDGER,
    format_entry,
    parse_entry,
)
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.leases import advance_consumer, drop_consumer, drop_lease, register_consumer, take_lease
from tests.kit.races.far import FarCompany
from tests.kit.tables.scene import Call, Scene, TickingClock, WatchedStorage, make_table, once, row, table_on

pytestmark = pytest.mark.unit

T1, T2, T3 = (f"2026010100000000{n}" for n in (1, 2, 3))
ENDS = "EndTimestampBasedConcurrentFileWritesConflictResolutionStrategy"
REQUEST_TIMES = "SimpleConcurrentFileWritesConflictResolutionStrategy"
STRATEGY = "hoodie.write.lock.conflict.resolution.strategy"
by_both_strategies = pytest.mark.parametrize(
    "strategy", [REQUEST_TIMES, ENDS], ids=["by request time", "by completion"]
)


# What a wish makes of a state


def test_of_an_entry_without_masks_everything_counts_as_changed() -> None:
    on = _ledger(_founded("memory://old", buckets=1))
    text = format_entry(on.newest())
    start = text.index(b',"touched"')
    old = parse_entry(text[:start] + text[text.index(b"}", start) + 1 :], "entry")
    assert old.state.touched == {old.number: EVERYTHING}


# Processes


def _founded(url: str, **arguments: Any) -> MemoryStorage:
    storage = MemoryStorage(url, TickingClock())
    make_table(storage, storage.clock, **arguments)
    return storage


def _ledger(storage: Any) -> Ledger:
    return _asking(table_on(storage, storage.clock))._writing.ledger(load_config(storage)[0])


def _asking(table: Table) -> Table:
    """A table whose process takes calls to be slow, and so asks first."""
    table._writing._company = FarCompany()
    return table


def kinds_asked(storage: WatchedStorage) -> list[str]:
    asks = [one for call in storage.calls if call.name == "create" for one in parse_asks([call.target])]
    return [wish.kind for one in asks if (wish := one.wish()) is not None]


def asks_for(kind: str) -> Callable[[Call], bool]:
    def is_asked(call: Call) -> bool:
        is_ask = call.name == "create" and call.target.startswith(f"{LEDGER}/a.")
        return is_ask and any((wish := one.wish()) and wish.kind == kind for one in parse_asks([call.target]))

    return is_asked


class Pair:
    """A table, a process that asks, and another one that decides something as soon as the first has asked."""

    def __init__(self, **arguments: Any) -> None:
        self.scene = Scene(arguments={"concurrency": "occ", **arguments})
        self.watched = WatchedStorage(self.scene.storage)
        self.author = _asking(table_on(self.watched, self.scene.clock))
        self.other = self.scene.other()

    def meanwhile(self, kind: str, act: Callable[[], object]) -> None:
        self.watched.after = once(asks_for(kind), act)

    def keys(self) -> list[str]:
        return sorted(self.scene.table.to_arrow(columns=["id"]).column("id").to_pylist())


def test_an_optimistic_publication_is_decided_by_another_process_that_publishes_elsewhere() -> None:
    pair = Pair(buckets=4)
    ours, theirs = pair.author.begin(), pair.other.begin()
    ours.write([row("a", "a")])
    theirs.write([row("b", "b")])
    pair.meanwhile("publish", theirs.commit)
    done = ours.commit()
    assert kinds_asked(pair.watched) == ["begin", "publish"]
    newest = pair.author._writing.ledger(load_config(pair.watched)[0]).newest()
    assert newest.kind == "publish" and newest.state.last == done.completion_time
    assert pair.keys() == ["a", "b"]


@by_both_strategies
def test_an_optimistic_publication_that_was_asked_for_is_refused_if_the_same_entry_publishes_in_its_place(
    strategy: str,
) -> None:
    pair = Pair(buckets=1, properties={STRATEGY: f"org.apache.hudi.client.transaction.{strategy}"})
    ours, theirs = pair.author.begin(), pair.other.begin()
    ours.write([row("a", "a")])
    theirs.write([row("b", "b")])
    pair.meanwhile("publish", theirs.commit)
    with pytest.raises(WriteConflict, match=theirs.instant):
        ours.commit()
    assert pair.keys() == ["b"]


def test_an_optimistic_publication_that_was_asked_for_is_refused_if_a_compaction_of_its_place_was_planned() -> None:
    pair = Pair(buckets=1)
    with pair.other.begin() as first:
        first.write([row("b", "b")])
    ours = pair.author.begin()
    ours.write([row("a", "a")])
    planner = pair.other._writing.ledger(load_config(pair.scene.storage)[0])
    pair.meanwhile("publish", lambda: plan_compaction(planner))
    with pytest.raises(WriteConflict, match="pending compaction"):
        ours.commit()


@by_both_strategies
def test_a_write_minds_what_was_published_in_the_entry_that_began_it(strategy: str) -> None:
    """Both are asked for: it begins first, and does not see what is published after that."""
    pair = Pair(buckets=1, properties={STRATEGY: f"org.apache.hudi.client.transaction.{strategy}"})
    theirs = _asking(pair.other).begin()
    theirs.write([row("b", "b")])
    pair.meanwhile("begin", theirs.commit)
    ours = pair.author.begin()
    newest = pair.author._writing.ledger(load_config(pair.watched)[0]).newest()
    assert ours.instant < newest.time and newest.kind == "asks"
    ours.write([row("a", "a")])
    with pytest.raises(WriteConflict, match=theirs.instant):
        ours.commit()


@pytest.mark.parametrize("index", ["simple", "global_simple"])
def test_of_two_that_bring_one_new_key_in_groups_of_their_own_the_one_that_asked_is_refused(index: str) -> None:
    pair = Pair(index=index, table_type="cow")
    ours, theirs = pair.author.begin(), pair.other.begin()
    ours.write([row("a", "ours")])
    theirs.write([row("a", "theirs")])
    pair.meanwhile("publish", theirs.commit)
    with pytest.raises(WriteConflict, match="there twice"):
        ours.commit()
    assert "publish" in kinds_asked(pair.watched) and pair.keys() == ["a"]


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_an_executed_plan_is_published_by_asking_unless_another_executor_has_taken_it_over(
    is_taken_over: bool,
) -> None:
    storage = _founded("memory://plans", buckets=1)
    with table_on(storage, storage.clock).begin() as write:
        write.write([row("a", "a")])
    watched = WatchedStorage(storage)
    author, other = _ledger(watched), table_on(storage, storage.clock)._writing.ledger(load_config(storage)[0])
    request_time = plan_compaction(other)
    assert request_time is not None
    epoch = claim(author, "author", request_time, seen=0)

    def act() -> None:
        if is_taken_over:
            claim(other, "other", request_time, seen=epoch)
        else:
            table_on(storage, storage.clock).begin().abort()

    watched.after = once(asks_for("finish"), act)
    if is_taken_over:
        with pytest.raises(ClaimLost):
            publish_plan(author, "author", request_time, epoch, lambda _: CommitMetadata())
    else:
        completion = publish_plan(author, "author", request_time, epoch, lambda _: CommitMetadata())
        assert f".hoodie/timeline/{request_time}_{completion}.commit" in [
            i.name for i in storage.list(".hoodie/timeline")
        ]
    assert kinds_asked(watched) == ["claim", "finish"]


def test_leases_consumers_and_forgotten_writers_are_asked_for() -> None:
    storage = _founded("memory://light", buckets=1)
    with table_on(storage, storage.clock).begin(writer="w", batch=1) as write:
        write.write([row("a", "a")])
    watched = WatchedStorage(storage)
    on = _ledger(watched)
    position = register_consumer(on, "again", None)  # a name that is the word for another outcome
    assert advance_consumer(on, "again", on.newest().state.last) >= position
    take_lease(on, "r" * 16, "holder", position)
    state = on.newest().state
    assert set(state.consumers) == {"again"} and set(state.leases) == {"r" * 16}
    drop_lease(on, "r" * 16)
    assert drop_consumer(on, "again") and not drop_consumer(on, "again")
    assert forget_writer(on, "w") and not forget_writer(on, "w")
    state = on.newest().state
    assert (state.consumers, state.leases, state.batches) == ({}, {}, {})
    kinds = kinds_asked(watched)
    assert [k for at, k in enumerate(kinds) if kinds.index(k) == at] == ["consumer", "lease", "drop", "forget"]


HEAVY: dict[str, Callable[[Table, str], object]] = {
    "plan": lambda table, _: table.plan_compaction(),
    "savepoint": lambda table, _: table.savepoint(),
    "clean": lambda table, _: table.plan_clean(commits=1),
    "archive": lambda table, _: table.archive(keep_min=1, keep_max=2),
    "begin": lambda table, _: table.insert_overwrite_table([row("c", "c")]),
    "restore": lambda table, first: table.restore(first),
}


@pytest.mark.parametrize("kind", HEAVY)
def test_a_decision_that_its_own_process_has_to_make_decides_the_asks_of_others_along(kind: str) -> None:
    pair = Pair(buckets=1, concurrency="nbcc")
    request_times = []
    for number in range(4):
        with pair.other.begin() as write:
            write.write([row("b", f"{number}")])
        request_times.append(write.instant)
        pair.other.compact()
    with pair.other.begin() as write:
        write.write([row("b", "last")])
    pair.meanwhile("begin", lambda: HEAVY[kind](pair.other, request_times[0]))
    ours = pair.author.begin()
    ours.abort()
    on = _ledger(pair.scene.storage)
    deciding = {on.watch.read(told.number).kind for told in on.newest().state.decided.values()}
    assert kind in deciding
    assert not on.newest().state.open and not on.newest().state.rollbacks

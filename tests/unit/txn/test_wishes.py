# SPDX-License-Identifier: Apache-2.0
"""Wishes whose rules look at more than the state: what they looked at is told by masks, and held against what came since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.api.table import Table
from lakebraid.errors import ClaimLost, WriteConflict
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.conflicts import place_of
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.services.merging.compaction import plan_compaction
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.loading import load_config
from lakebraid.txn.actions.batches import forget_writer
from lakebraid.txn.actions.plans import claim, publish_plan
from lakebraid.txn.checks.rivalry import mask_of
from lakebraid.txn.ledger.asks import parse_asks
from lakebraid.txn.ledger.entries import (
    BEYOND,
    EVERYTHING,
    LEDGER,
    Lease,
    LedgerState,
    OpenWrite,
    PendingPlan,
    PublishedBatch,
    format_entry,
    parse_entry,
)
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.wishes import (
    AGAIN,
    DONE,
    Applied,
    Look,
    Wish,
    apply,
    cleaned_wish,
    consumer_wish,
    drop_lease_wish,
    finish_wish,
    forget_wish,
    lease_wish,
    publish_wish,
)
from lakebraid.txn.liveness.leases import advance_consumer, drop_consumer, drop_lease, register_consumer, take_lease
from tests.kit.races.far import FarCompany
from tests.kit.tables.scene import Call, Scene, TickingClock, WatchedStorage, make_table, once, row, table_on

pytestmark = pytest.mark.unit

T1, T2, T3 = (f"2026010100000000{n}" for n in (1, 2, 3))
WRITE = OpenWrite("d", "deltacommit", False, None, None, "w")
FULL = limits.ASK_ENTRIES_MAX
ENDS = "EndTimestampBasedConcurrentFileWritesConflictResolutionStrategy"
REQUEST_TIMES = "SimpleConcurrentFileWritesConflictResolutionStrategy"
STRATEGY = "hoodie.write.lock.conflict.resolution.strategy"
by_both_strategies = pytest.mark.parametrize(
    "strategy", [REQUEST_TIMES, ENDS], ids=["by request time", "by completion"]
)


def applied(state: LedgerState, number: int, wish: Wish) -> Applied:
    found = apply(state, number, wish, T3)
    assert found is not None
    return found


# Masks


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 9)), max_size=9), st.integers(0, 8), st.booleans())
def test_file_groups_with_a_place_in_common_have_a_bit_in_common(
    pairs: list[tuple[str, int]], cut: int, by_bucket: bool
) -> None:
    config = load_config(_founded("memory://masks", index="bucket" if by_bucket else "simple"))[0]
    groups = [GroupId(partition, f"{number:08d}-0000-0000-0000-000000000000-0") for partition, number in pairs]
    ours, theirs = groups[:cut], groups[cut:]
    meet = {place_of(g, by_bucket=by_bucket) for g in ours} & {place_of(g, by_bucket=by_bucket) for g in theirs}
    assert mask_of(config, ours) & mask_of(config, theirs) or not meet
    assert not mask_of(config, groups) & BEYOND


def _founded(url: str, **arguments: Any) -> MemoryStorage:
    storage = MemoryStorage(url, TickingClock())
    make_table(storage, storage.clock, **arguments)
    return storage


# What a wish makes of a state


@pytest.mark.parametrize(
    ("touched", "number", "outcome"),
    [
        ({}, 5, T3),
        ({4: 0b110}, 5, T3),  # seen by its rule
        ({5: 0b001}, 6, T3),  # another place
        ({5: 0b100}, 6, AGAIN),
        ({6: 0b100}, 6, AGAIN),  # in the same entry, before it
        ({5: 0b100, 6: 0b001}, 7, AGAIN),
        ({5: EVERYTHING}, 6, AGAIN),
        ({}, 4, AGAIN),  # it cannot have looked then
        ({}, 4 + FULL, T3),
        ({}, 5 + FULL, AGAIN),  # what came since is forgotten
    ],
)
def test_a_publication_is_looked_at_again_if_what_it_looked_at_has_changed_since(
    touched: dict[int, int], number: int, outcome: str
) -> None:
    state = LedgerState(last=T2, open={T1: WRITE}, plans={T2: PendingPlan("compaction", "p", 3)}, touched=touched)
    look = Look(4, 0b110)
    publish = publish_wish(state, T1, has_rows=True, touches=0b010, look=look)
    for wish in (publish, finish_wish(T2, 3, touches=0b010, look=look)):
        done = applied(state, number, wish)
        assert done.outcome == outcome
        assert done.state == state if outcome == AGAIN else done.state.touched[number] & 0b010


def test_a_publication_that_looked_at_the_state_alone_minds_nothing_and_leaves_what_it_touched() -> None:
    state = LedgerState(last=T2, open={T1: WRITE}, touched={5: EVERYTHING})
    done = applied(state, 99, publish_wish(state, T1, has_rows=True, touches=0b010))
    assert (done.outcome, done.state.touched) == (T3, {5: EVERYTHING, 99: 0b010})


def test_a_wish_to_finish_names_its_claim() -> None:
    state = LedgerState(last=T2, plans={T1: PendingPlan("compaction", "p", 3)}, is_fresh=True)
    done = applied(state, 7, finish_wish(T1, 3, touches=1))
    assert (done.outcome, done.files, done.state.plans) == (T3, ((0, f"{T1}_{T3}.commit"),), {})
    assert done.state.last == T3 and not done.state.is_fresh
    assert applied(state, 7, finish_wish(T1, 2, touches=1)).outcome == AGAIN
    assert applied(done.state, 8, finish_wish(T1, 3, touches=1)).outcome == AGAIN


def test_a_clean_is_reported_done_once() -> None:
    done = applied(LedgerState(last=T2, cleans={T1: "c"}), 7, cleaned_wish(T1))
    assert (done.outcome, done.files, done.state.cleans) == (T3, ((0, f"{T1}_{T3}.clean"),), {})
    assert applied(done.state, 8, cleaned_wish(T1)).outcome == AGAIN


def test_a_moment_is_held_unless_something_was_decided_since_that_could_make_it_unreadable() -> None:
    lease, consumer = lease_wish("r", Lease(T1, "h"), 4), consumer_wish("c", None, T1, 4)
    for wish in (lease, consumer):
        assert applied(LedgerState(touched={5: BEYOND - 1}), 6, wish).outcome == DONE
        for touched in ({5: EVERYTHING}, {6: BEYOND}):
            assert applied(LedgerState(touched=touched), 6, wish).outcome == AGAIN
        assert applied(LedgerState(), 5 + FULL, wish).outcome == AGAIN
    held = applied(LedgerState(), 5, lease).state
    assert held.leases == {"r": Lease(T1, "h")} and applied(held, 6, lease).outcome == AGAIN
    assert applied(held, 6, drop_lease_wish("r")).state.leases == {}
    assert applied(LedgerState(), 6, drop_lease_wish("r")).outcome == AGAIN


def test_a_consumer_is_moved_from_where_it_was_seen() -> None:
    state = LedgerState(consumers={"c": T1})
    assert applied(state, 5, consumer_wish("c", T1, T2)).state.consumers == {"c": T2}
    assert applied(state, 5, consumer_wish("c", T1, None)).state.consumers == {}
    for before in (None, T2):
        assert applied(state, 5, consumer_wish("c", before, T3)).outcome == AGAIN


def test_a_table_has_so_many_leases_and_consumers_whoever_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEASES_MAX", 1)
    monkeypatch.setattr(limits, "CONSUMERS_MAX", 1)
    state = LedgerState(leases={"q": Lease(T1, "h")}, consumers={"b": T1})
    assert applied(state, 5, lease_wish("r", Lease(T1, "h"), 4)).outcome == AGAIN
    assert applied(state, 5, consumer_wish("c", None, T1, 4)).outcome == AGAIN
    assert applied(state, 5, consumer_wish("b", T1, T2)).outcome == DONE


def test_a_writer_is_forgotten_once() -> None:
    done = applied(LedgerState(batches={"w": PublishedBatch(1, T1, T1)}), 5, forget_wish("w"))
    assert done.state.batches == {}
    assert applied(done.state, 6, forget_wish("w")).outcome == AGAIN


@pytest.mark.hostile
@pytest.mark.parametrize(
    "wish",
    [
        Wish("publish", [T1, True, "g", "no mask", None]),
        Wish("publish", [T1, True, "g", "-1", None]),
        Wish("publish", [T1, True, "g", "1" + "0" * 16, None]),
        Wish("publish", [T1, True, "g", "1", [4]]),
        Wish("publish", [T1, True, "g", "1", [4, 7]]),
        Wish("finish", [T1, 3, "1", ["4", "1"]]),
        Wish("finish", [["x"], 3, "1", None]),
        Wish("cleaned", [5]),
        Wish("lease", ["r", "never", "h", 4]),
        Wish("lease", ["r", T1, "h", None]),
        Wish("drop", [None]),
        Wish("consumer", ["c", None, "never", None]),
        Wish("consumer", ["c", None, T1, "4"]),
        Wish("forget", [{}]),
    ],
)
def test_a_wish_that_is_malformed_changes_nothing(wish: Wish) -> None:
    state = LedgerState(last=T1, plans={T1: PendingPlan("compaction", "p", 3)})
    assert apply(state, 7, wish, T2) is None


def test_of_an_entry_without_masks_everything_counts_as_changed() -> None:
    on = _ledger(_founded("memory://old", buckets=1))
    text = format_entry(on.newest())
    start = text.index(b',"touched"')
    old = parse_entry(text[:start] + text[text.index(b"}", start) + 1 :], "entry")
    assert old.state.touched == {old.number: EVERYTHING}


# Processes


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

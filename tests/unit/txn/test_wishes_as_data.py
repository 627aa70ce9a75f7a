# SPDX-License-Identifier: Apache-2.0
"""Wishes whose rules look at more than the state, as data: masks, and what a wish makes of a state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.model.conflicts import place_of
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.loading import load_config
from lakebraid.txn.checks.rivalry import mask_of
from lakebraid.txn.ledger.entries import (
    BEYOND,
    EVERYTHING,
    Lease,
    LedgerState,
    OpenWrite,
    PendingPlan,
    PublishedBatch,
)
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
from tests.kit.tables.scene import TickingClock, make_table

pytestmark = pytest.mark.unit

T1, T2, T3 = (f"2026010100000000{n}" for n in (1, 2, 3))


WRITE = OpenWrite("d", "deltacommit", False, None, None, "w")


FULL = limits.ASK_ENTRIES_MAX


def applied(state: LedgerState, number: int, wish: Wish) -> Applied:
    found = apply(state, number, wish, T3)
    assert found is not None
    return found


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


def test_what_was_begun_ahead_is_not_published_after_deletes_that_would_take_it() -> None:
    """In one entry, too: whichever of the two is published first."""
    state = LedgerState(last=T2, open={T1: WRITE, T2: WRITE})
    deleting = publish_wish(state, T2, has_rows=True, touches=0, takes_all=True)
    done = applied(state, 7, deleting)
    assert done.state.taken == T2
    for is_ahead in (True, False):
        wish = publish_wish(state, T1, has_rows=True, touches=0, is_ahead=is_ahead)
        assert (applied(done.state, 8, wish).outcome == AGAIN) == is_ahead
        assert applied(state, 8, wish).outcome == T3, "nothing is deleted yet"
    again = applied(done.state, 8, publish_wish(state, T1, has_rows=True, touches=0, takes_all=True))
    assert again.state.taken == T2, "the greatest"


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

# SPDX-License-Identifier: Apache-2.0
"""Asks and wishes as data: what their names say, which of them count, and what a wish makes of a state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.model.config import TableConfig
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.txn.ledger.asking import carry
from lakebraid.txn.ledger.asks import (
    Ask,
    counting,
    dead_names,
    is_dead,
    mark_name,
    parse_asks,
    parse_mark,
    wish_text,
)
from lakebraid.txn.ledger.entries import (
    LEDGER,
    Batch,
    Decided,
    LedgerState,
    OpenWrite,
    PendingPlan,
    PublishedBatch,
    Undoing,
    entry_name,
)
from lakebraid.txn.ledger.wishes import (
    AGAIN,
    Wish,
    apply,
    begin_wish,
    claim_wish,
    done_wish,
    publish_wish,
    release_wish,
    undo_wish,
)
from tests.kit.tables.scene import TickingClock, make_table

pytestmark = pytest.mark.unit

T1, T2, T3 = (f"2026010100000000{n}" for n in (1, 2, 3))


WRITE = OpenWrite("d", "deltacommit", False, None, None, "w")


BEGIN = begin_wish(WRITE)


def config() -> TableConfig:
    return make_table(MemoryStorage("memory://config", TickingClock()), TickingClock())._config


def ask_of(wish: Wish, seen: int = 0, id_: str = "w" * 16, token: str = "t" * 16, parts: int = 1) -> Ask:
    text = wish_text(wish)
    assert text is not None
    return Ask(seen, id_, token, text, parts)


@given(
    st.integers(0, 10**20 - 1),
    st.text("0123456789abcdef", min_size=16, max_size=16),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda v: st.lists(v, max_size=3)),
    st.integers(1, 9),
)
def test_the_name_of_an_ask_says_the_wish(seen: int, token: str, value: Any, parts: int) -> None:
    wish = Wish("begin", [value])
    text = wish_text(wish)
    if text is None:
        return
    ask = Ask(seen, token, token[::-1], text, parts)
    assert parse_asks(ask.name(part) for part in range(parts)) == (ask,)
    assert ask.wish() == wish


@pytest.mark.hostile
@given(st.text(max_size=60) | st.binary(max_size=40).map(lambda b: b.decode("latin-1")))
def test_whatever_lies_beside_the_entries_is_passed_over(text: str) -> None:
    good = ask_of(BEGIN).name()
    for name in (
        text,
        f"{LEDGER}/a.{text}",
        good + text,
        good.replace(".1", text) if text else "x",
        f"{LEDGER}/t.{text}",
    ):
        assert name == good or all(one.name() != name or one.wish() is not None for one in parse_asks([name]))
    assert Ask(0, "w" * 16, "t" * 16, text).wish() is None or text


@pytest.mark.hostile
@pytest.mark.parametrize(
    "wish",
    [
        Wish("unheard of", []),
        Wish("begin", []),
        Wish("begin", [1, 2, 3, 4, 5]),
        Wish("begin", ["d", "clean", None, None, "w"]),
        Wish("begin", ["d", "deltacommit", 7, None, "w"]),
        Wish("begin", ["d", "deltacommit", None, [1], "w"]),
        Wish("publish", [["x"], True, "g"]),
        Wish("claim", ["d", None, 1]),
        Wish("release", [{}, 1]),
        Wish("undo", [T1]),
        Wish("done", [5]),
    ],
)
def test_a_wish_that_is_malformed_changes_nothing(wish: Wish) -> None:
    assert apply(LedgerState(last=T1), 7, wish, T2) is None


def test_a_wish_that_is_too_long_for_a_name_is_not_asked_for() -> None:
    assert wish_text(begin_wish(replace(WRITE, columns=("c" * limits.ASK_WISH_CHARACTERS_MAX,)))) is None
    assert len(ask_of(BEGIN).name().rpartition("/")[2]) <= 255


def test_a_mark_is_read_back_and_other_names_are_not() -> None:
    assert parse_mark(mark_name(42)) == 42
    assert [parse_mark(name) for name in (entry_name(42), f"{LEDGER}/t.42", f"{LEDGER}/t." + "x" * 20)] == [None] * 3


@pytest.mark.parametrize(
    ("slot", "counts"), [(5, False), (6, True), (5 + limits.ASK_ENTRIES_MAX, True), (6 + limits.ASK_ENTRIES_MAX, False)]
)
def test_an_ask_counts_in_the_slots_after_the_entry_that_its_author_saw(slot: int, counts: bool) -> None:
    ask = ask_of(BEGIN, seen=5)
    assert counting([ask], LedgerState(), slot) == ([ask] if counts else [])
    assert is_dead(ask, LedgerState(), slot - 1) == (slot > 5 + limits.ASK_ENTRIES_MAX)


def test_of_two_tries_for_one_wish_the_older_counts_and_none_once_it_is_decided() -> None:
    first, second = ask_of(BEGIN, seen=1, token="b" * 16), ask_of(BEGIN, seen=2, token="a" * 16)
    assert counting([first, second], LedgerState(), 3) == [first]
    assert counting([first, second], LedgerState(decided={first.id: Decided(3, T1)}), 4) == []


def test_an_ask_of_two_parts_counts_when_both_are_there() -> None:
    ask = ask_of(undo_wish(Undoing(T1, "deltacommit", "d")), parts=2)
    assert parse_asks([ask.name(1)]) == ()
    assert parse_asks([ask.name(1), ask.name(0)]) == (ask,)


def test_an_ask_that_the_newest_entry_decides_is_dead_only_once_that_entry_is_applied() -> None:
    ask = ask_of(BEGIN, seen=3)
    state = LedgerState(decided={ask.id: Decided(4, T1)})
    assert dead_names([ask.name(), mark_name(3)], state, 3) == []
    assert dead_names([ask.name(), mark_name(3)], state, 4) == [ask.name(), mark_name(3)]


def test_an_entry_decides_so_many_asks_and_the_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ASKS_DECIDED_MAX", 2)
    wishes = [begin_wish(replace(WRITE, decider=f"d{n}")) for n in (1, 2, 3)]
    asks = [ask_of(wish, seen=n, id_=f"{n:016d}") for n, wish in zip((1, 2, 3), wishes, strict=True)]
    on = TableAt(MemoryStorage("memory://asks", TickingClock()), config(), TickingClock())
    state, _ = carry(on, LedgerState(), 4, [ask.name() for ask in asks])
    assert [write.decider for write in state.open.values()] == ["d1", "d2"]
    assert counting(asks, state, 5) == asks[2:]


def test_a_wish_to_begin_opens_a_write_once() -> None:
    applied = apply(LedgerState(last=T1), 7, BEGIN, T2)
    assert (
        applied is not None and applied.outcome == T2 and applied.state.open == {T2: WRITE} and applied.state.last == T2
    )
    assert applied.files == ((0, f"{T2}.deltacommit.requested"), (0, f"{T2}.deltacommit.inflight"))
    again = apply(applied.state, 8, BEGIN, T3)
    assert again is not None and (again.outcome, again.state, again.files) == (AGAIN, applied.state, ())


@pytest.mark.parametrize(
    ("batch", "known", "outcome"),
    [
        (Batch("s", 2, "x"), PublishedBatch(1, T1, T1, "x"), T2),
        (Batch("s", 1, "x"), PublishedBatch(1, T1, T1, "x"), AGAIN),
        (Batch("s", 2, "y"), PublishedBatch(1, T1, T1, "x"), AGAIN),
        (Batch("s", 1, "x"), None, T2),
    ],
)
def test_a_wish_to_begin_a_batch_that_is_not_the_next_is_looked_at_again(
    batch: Batch, known: PublishedBatch | None, outcome: str
) -> None:
    state = LedgerState(last=T1, batches={} if known is None else {"s": known})
    applied = apply(state, 7, begin_wish(replace(WRITE, batch=batch)), T2)
    assert applied is not None and applied.outcome == outcome


def test_a_wish_to_publish_completes_an_open_write_and_looks_again_if_a_guard_differs() -> None:
    state = LedgerState(last=T2, open={T1: WRITE}, schema_file="s1")
    wish = publish_wish(state, T1, has_rows=True, touches=0)
    applied = apply(state, 7, wish, T3)
    assert applied is not None and applied.outcome == T3 and applied.state.open == {} and not applied.state.is_fresh
    assert applied.files == ((0, f"{T1}_{T3}.deltacommit"),)
    for other in (replace(state, schema_file="s2"), replace(state, replaced_file="r"), replace(state, open={})):
        changed = apply(other, 7, wish, T3)
        assert changed is not None and (changed.outcome, changed.state) == (AGAIN, other)


def test_a_wish_to_claim_names_the_claim_that_was_judged() -> None:
    state = LedgerState(last=T2, plans={T1: PendingPlan("compaction", "d", 3, "old")})
    applied = apply(state, 7, claim_wish("new", T1, 3), T3)
    assert applied is not None and applied.outcome == "7"
    assert (applied.state.plans[T1].epoch, applied.state.plans[T1].claimant) == (7, "new")
    late = apply(applied.state, 8, claim_wish("other", T1, 3), T3)
    assert late is not None and late.outcome == AGAIN
    free = apply(applied.state, 8, release_wish(T1, 7), T3)
    assert free is not None and (free.state.plans[T1].epoch, free.state.plans[T1].claimant) == (8, "")


def test_a_wish_to_undo_ends_an_open_write_and_a_wish_done_ends_its_rollback() -> None:
    undo = undo_wish(Undoing(T1, "deltacommit", "r"))
    applied = apply(LedgerState(last=T1, open={T1: WRITE}), 7, undo, T2)
    assert applied is not None and applied.state.open == {} and T1 in applied.state.gone
    assert applied.files == ((0, f"{T2}.rollback.requested"), (1, f"{T2}.rollback.inflight"))
    ended = apply(applied.state, 8, done_wish(T2), T3)
    assert ended is not None and ended.state.rollbacks == {} and ended.files == ((0, f"{T2}_{T3}.rollback"),)
    for wish, state in ((undo, applied.state), (done_wish(T2), ended.state)):
        again = apply(state, 9, wish, T3)
        assert again is not None and again.outcome == AGAIN

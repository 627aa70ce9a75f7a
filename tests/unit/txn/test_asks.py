# SPDX-License-Identifier: Apache-2.0
"""Asks: wishes that any process decides along with its own decision."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.errors import OutcomeUnknown, RolledBack
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.config import TableConfig
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import begin_write, publish_write, write_status
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
    format_entry,
    parse_entry,
)
from lakebraid.txn.ledger.ledger import Ledger
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
from tests.kit.races.far import FarCompany
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage, make_table, once

pytestmark = pytest.mark.unit

T1, T2, T3 = (f"2026010100000000{n}" for n in (1, 2, 3))
WRITE = OpenWrite("d", "deltacommit", False, None, None, "w")
BEGIN = begin_wish(WRITE)


@pytest.fixture
def storage() -> MemoryStorage:
    storage = MemoryStorage("memory://asks", TickingClock())
    make_table(storage, storage.clock)
    return storage


def config() -> TableConfig:
    return make_table(MemoryStorage("memory://config", TickingClock()), TickingClock())._config


def alone(storage: Any, clock: Any = None) -> Ledger:
    """The ledger of a process for which calls are quick."""
    return Ledger(TableAt(storage, config(), clock or storage.clock))


def in_company(storage: Any, clock: Any = None) -> Ledger:
    """The ledger of a process for which calls take long, and which asks first."""
    return replace(alone(storage, clock), company=FarCompany())


def is_ask(call: Call) -> bool:
    return call.name == "create" and call.target.startswith(f"{LEDGER}/a.")


def asks_in(storage: Any) -> list[str]:
    return [info.name for info in storage.list(LEDGER) if "/a." in info.name or "/t." in info.name]


def publish(on: Ledger, decider: str, request_time: str) -> str:
    return publish_write(on, decider, request_time, lambda _: CommitMetadata())


def ask_of(wish: Wish, seen: int = 0, id_: str = "w" * 16, token: str = "t" * 16, parts: int = 1) -> Ask:
    text = wish_text(wish)
    assert text is not None
    return Ask(seen, id_, token, text, parts)


# Names


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
    "data", [b"[", b"[" * 120, b"{}", b'["begin"]', b"[1,[]]", b'["begin",{}]', b"\xff", b"null", b""]
)
def test_an_ask_that_cannot_be_read_is_not_decided_and_stops_nobody(storage: MemoryStorage, data: bytes) -> None:
    import base64

    text = base64.urlsafe_b64encode(data).decode().rstrip("=")
    on = alone(storage)
    storage.create(Ask(on.newest().number, "w" * 16, "t" * 16, text).name(), b"")
    request_time = begin_write(on, "a")
    assert on.newest().state.decided == {}
    assert list(on.newest().state.open) == [request_time]


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


# Which asks count


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


# What a wish makes of a state


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


def test_asks_of_one_entry_get_times_of_their_own_and_what_begins_comes_first(storage: MemoryStorage) -> None:
    state = LedgerState(last=T1, open={T1: WRITE})
    asks = [
        ask_of(publish_wish(state, T1, has_rows=True, touches=0), id_="a" * 16),
        ask_of(begin_wish(replace(WRITE, decider="e")), id_="b" * 16),
    ]
    after, files = carry(alone(storage).table, state, 1, [ask.name() for ask in asks])
    begun, published = after.decided["b" * 16], after.decided["a" * 16]
    assert begun.outcome < published.outcome == after.last
    assert [source for source, _ in files] == [asks[1].name(), asks[1].name(), asks[0].name()]


# Entries


def test_what_was_decided_is_remembered_in_entries_and_entries_of_version_1_are_read(storage: MemoryStorage) -> None:
    on = in_company(storage)
    entry = on.newest()
    remembered = replace(entry, state=replace(entry.state, decided={"w" * 16: Decided(3, T1)}))
    assert parse_entry(format_entry(remembered), "entry") == remembered
    old = (
        format_entry(entry)
        .replace(b'"version":2', b'"version":1')
        .replace(b'"decided":{},', b"")
        .replace(b',"decided":{}', b"")
        .replace(b',"touched":{"1":"ffffffffffffffff"}', b"")
    )
    assert b"decided" not in old and b"touched" not in old and b'"version":1' in old
    assert parse_entry(old, "entry") == entry


# Processes


def test_another_process_decides_what_is_asked_for_along_with_its_own_decision(storage: MemoryStorage) -> None:
    other, request_times = alone(storage), list[str]()
    before = other.newest().number
    watched = WatchedStorage(storage, after=once(is_ask, lambda: request_times.append(begin_write(other, "other"))))
    author = in_company(watched, storage.clock)
    request_time = begin_write(author, "author")
    assert other.newest().number == before + 1, "one entry for both"
    assert other.newest().kind == "begin" and set(other.newest().state.open) == {request_time, *request_times}
    assert author.entered is not None and author.entered.number == other.newest().number


def test_a_publication_that_was_asked_for_is_told_when_its_file_is_there(storage: MemoryStorage) -> None:
    other = alone(storage)
    watched = WatchedStorage(storage)
    author = in_company(watched, storage.clock)
    request_time = begin_write(author, "author")
    watched.after = once(is_ask, lambda: begin_write(other, "other"))
    completion = publish(author, "author", request_time)
    assert f".hoodie/timeline/{request_time}_{completion}.deltacommit" in [
        i.name for i in storage.list(".hoodie/timeline")
    ]
    assert write_status(other, request_time) == "published"


def test_nobody_else_comes_and_the_author_decides_its_ask_by_itself(storage: MemoryStorage) -> None:
    author = in_company(storage)
    request_time = begin_write(author, "author")
    publish(author, "author", request_time)
    assert author.newest().kind == "asks"
    assert asks_in(storage) == []


@pytest.mark.parametrize("lost", range(1, 7))
@pytest.mark.parametrize("has_effect", [True, False])
def test_a_lost_answer_does_not_have_a_wish_decided_twice(storage: MemoryStorage, lost: int, has_effect: bool) -> None:
    creates = list[Call]()

    def cut(call: Call) -> None:
        if call.name == "create" and call not in creates:
            creates.append(call)
            if len(creates) == lost:
                raise OutcomeUnknown("no answer", path=call.target)

    watched = WatchedStorage(storage, after=cut) if has_effect else WatchedStorage(storage, before=cut)
    author = in_company(watched, storage.clock)
    request_time = begin_write(author, "author")
    publish(author, "author", request_time)
    names = [info.name for info in storage.list(".hoodie/timeline")]
    assert sum(name.endswith(f"{request_time}.deltacommit.requested") for name in names) == 1
    assert sum(f"/{request_time}_" in name for name in names) == 1
    assert alone(storage).newest().state.open == {}
    asks = [call.target for call in creates if is_ask(call)]
    assert len(set(asks)) == len(asks), "no ask is put twice under its name"


def test_a_publication_is_refused_if_the_write_was_rolled_back_while_it_was_asked_for(storage: MemoryStorage) -> None:
    rescuer, watched = alone(storage), WatchedStorage(storage)
    author = in_company(watched, storage.clock)
    request_time = begin_write(author, "author")
    watched.before = once(is_ask, lambda: roll_back(rescuer, "r", request_time))
    with pytest.raises(RolledBack, match=request_time):
        publish(author, "author", request_time)
    assert not any(f"/{request_time}" in info.name for info in storage.list(".hoodie/timeline"))


def test_an_ask_whose_author_died_is_decided_and_its_write_is_rolled_back_as_any_other(storage: MemoryStorage) -> None:
    class Killed(BaseException):
        pass

    def die() -> None:
        raise Killed

    watched = WatchedStorage(storage, after=once(is_ask, die))
    with pytest.raises(Killed):
        begin_write(in_company(watched, storage.clock), "dead")
    other = alone(storage)
    mine = begin_write(other, "other")
    (dead,) = set(other.newest().state.open) - {mine}
    assert roll_back(other, "r", dead)
    assert asks_in(storage) == [mark_name(number) for number in sorted(int(n[-20:]) for n in asks_in(storage))]


def test_many_threads_that_ask_all_publish_and_share_entries() -> None:
    clock = SystemClock()
    storage = MemoryStorage("memory://many", clock)
    make_table(storage, clock)
    slow = WatchedStorage(storage, before=lambda _: clock.sleep(0.002))
    completions, before = list[str](), alone(storage).newest().number

    def write(name: str) -> None:
        ledger = in_company(slow, clock)
        for _ in range(3):
            completions.append(publish(ledger, name, begin_write(ledger, name)))

    threads = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(completions)) == 24
    entries = alone(storage).newest().number - before
    assert entries < 2 * 24, "each decision had an entry of its own"
    assert not alone(storage).newest().state.open

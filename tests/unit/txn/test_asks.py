# SPDX-License-Identifier: Apache-2.0
"""Asks: wishes that any process decides along with its own decision."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

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
    mark_name,
    wish_text,
)
from lakebraid.txn.ledger.entries import (
    LEDGER,
    STAGED,
    Decided,
    Entry,
    LedgerState,
    OpenWrite,
    format_entry,
    parse_entry,
    staged_name,
)
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.wishes import (
    Wish,
    begin_wish,
    publish_wish,
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


def test_a_process_that_lost_a_slot_removes_what_it_had_staged_for_it_and_no_ask(storage: MemoryStorage) -> None:
    on, staged = alone(storage), staged_name(9, "t" * 16)
    source = ask_of(BEGIN, seen=1, parts=2).name()  # half of it has appeared
    for name in (source, staged):
        storage.create(name, b"")
    files = ((staged, ".hoodie/timeline/x"), (source, ".hoodie/timeline/y"))
    on.leftovers.add(Entry(9, "loser", "asks", T1, 0, files))  # another process was faster, and decided other asks
    publish(on, "again", begin_write(on, "again"))
    assert source in [info.name for info in storage.list(LEDGER)], "the other half may come, and then it is decided"
    assert staged not in [info.name for info in storage.list(STAGED)]


# What a wish makes of a state


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

# SPDX-License-Identifier: Apache-2.0
"""What people see of asks: those that wait, those that are stale, and who decided an instant together with what."""

from __future__ import annotations

import pytest

from lakebraid import limits
from lakebraid.api.table import Table
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.inspect.asks import DecidedIn
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.actions.write import begin_write, publish_write
from lakebraid.txn.ledger.asks import Ask, wish_text
from lakebraid.txn.ledger.entries import LEDGER, OpenWrite
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.wishes import Wish, begin_wish, publish_wish
from lakebraid.web.gathering import load_facts
from lakebraid.web.picture import build_model
from tests.kit.present import present
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage, make_table, row, table_on

pytestmark = pytest.mark.unit
MINUTE_MS = 60_000


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def storage(clock: TickingClock) -> MemoryStorage:
    return MemoryStorage("memory://asked", clock)


@pytest.fixture
def table(storage: MemoryStorage, clock: TickingClock) -> Table:
    return make_table(storage, clock)


def ledger(table: Table) -> Ledger:
    return table._writing.ledger(table._config)


def put(table: Table, wish: Wish, *, seen: int | None = None, token: str = "t" * 16, id_: str = "w" * 16) -> None:
    """An ask of somebody who dies then."""
    at = ledger(table).newest().number if seen is None else seen
    table._storage.create(Ask(at, id_, token, present(wish_text(wish))).name(), b"")


def a_begin(writer: str) -> Wish:
    return begin_wish(OpenWrite(f"decider of {writer}", "deltacommit", writer=writer))


def test_a_status_says_what_waits_to_be_decided_of_whom_and_since_when(table: Table, clock: TickingClock) -> None:
    txn = table.begin(writer="nightly")
    put(table, a_begin("hourly"))
    clock.ms += 7_000
    put(table, publish_wish(ledger(table).newest().state, txn.instant, has_rows=True, touches=0), id_="v" * 16)
    status = table.status()
    assert [(a.kind, a.writer, a.instant, a.is_stale) for a in status.asks] == [
        ("begin", "hourly", None, False),
        ("publish", "nightly", txn.instant, False),
    ]
    assert status.asks[0].age_ms >= 7_000 > status.asks[1].age_ms
    assert "2 wishes to be decided" in repr(status)
    assert "waits to be decided" in repr(status) and "begin a write" in repr(status) and "hourly" in repr(status)
    assert status.is_well, "whoever decides next decides them"
    txn.abort()


def test_an_ask_that_waits_for_long_is_called_stale_until_it_is_decided(table: Table, clock: TickingClock) -> None:
    put(table, a_begin("dead"))
    clock.ms += 5 * MINUTE_MS
    status = table.status()
    assert status.asks[0].is_stale
    assert "1 of them stale" in repr(status) and "the next decision decides it" in repr(status)
    table.upsert([row("a", "1")])
    assert table.status().asks == ()


def test_an_ask_that_is_too_old_is_named_and_a_second_try_of_a_wish_is_no_second_wish(
    table: Table, clock: TickingClock
) -> None:
    for n in range(limits.ASK_ENTRIES_MAX // 2 + 1):
        table.upsert([row("a", str(n), ts=n)])
    put(table, a_begin("late"), seen=0)
    status = table.status()
    assert [a.is_expired for a in status.asks] == [True]
    assert "too old to be decided" in repr(status) and "0 wishes to be decided" in repr(status)
    clock.ms += MINUTE_MS
    put(table, a_begin("late"), token="u" * 16)
    assert [a.is_expired for a in table.status().asks] == [False]
    assert table.status().asks[0].age_ms >= MINUTE_MS, "since it was first asked for"


@pytest.mark.hostile
@pytest.mark.parametrize(
    "wish",
    [
        Wish("unheard \x1b[31mof", ["x"]),
        Wish("begin", []),
        Wish("begin", [1, 2, 3, 4, 5]),
        Wish("publish", [{}, []]),
        Wish("publish", ["2" * 17]),
    ],
)
def test_asks_that_no_release_of_ours_put_are_shown_without_trouble(table: Table, wish: Wish) -> None:
    put(table, wish)
    assert [a.writer for a in table.status().asks] == [None]
    assert "\x1b" not in repr(table.status())


def test_a_story_says_that_another_process_decided_an_instant_along_with_its_own(
    table: Table, storage: MemoryStorage, clock: TickingClock
) -> None:
    """Only the author's calls take long: so it asks, and the others need not."""
    request_times = list[str]()

    def others_come(call: Call) -> None:
        if call.name != "create" or not call.target.startswith(f"{LEDGER}/a."):
            return
        put(table, a_begin("third"), id_=f"v{call.number:015d}")
        if not request_times:
            request_times.append(begin_write(ledger(table), "the other process", writer="other"))

    watched = WatchedStorage(storage, before=lambda _: clock.sleep(1.0), after=others_come)
    author = ledger(table_on(watched, clock))
    request_time = begin_write(author, "author")
    completion = publish_write(author, "author", request_time, lambda _: CommitMetadata())
    (other,) = request_times
    story = table.why(request_time)
    entry = story.begun_in
    assert entry == DecidedIn(present(entry).entry, "begin", "the other process", (other,), was_asked=True, asks=2)
    assert f"for its writer, by the process the other process with its own begin ({other}), together with 1" in repr(
        story
    )
    assert (present(story.completed_in).kind, present(story.completed_in).others) == ("asks", 1)
    assert "together with 1 other wish: one of the writers that had asked decided for all" in repr(story)
    own = table.why(other)
    assert present(own.begun_in).others == 2
    assert "together with 2 other wishes: its own process decided for all" in repr(own)
    model = build_model(load_facts(storage, clock))
    assert {i["start"] for i in model["instants"] if i.get("completion") == completion} == {request_time}
    assert not any(i.get("problem") for i in model["instants"])
    assert list(table.audit()) == []


def test_a_story_says_that_the_entry_of_an_old_instant_is_removed(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEDGER_ENTRIES_KEPT", 3)
    old = table.upsert([row("a", "0")])
    for n in range(1, 6):
        new = table.upsert([row("a", str(n), ts=n)])
    assert table.why(old.instant).begun_in is None
    assert "are removed: which one decided it is not known any more" in repr(table.why(old.instant))
    told = table.why(new.instant)
    assert present(told.begun_in).kind == "begin" and present(told.completed_in).kind == "publish"
    assert "ledger" not in repr(told), "no ask, nothing to tell"

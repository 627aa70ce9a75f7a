# SPDX-License-Identifier: Apache-2.0
"""Where calls take long: wishes that are asked for before anything is looked at, and writes that go on before they are applied."""

from __future__ import annotations

from typing import Any

import pytest

from lakebraid import limits
from lakebraid.errors import BatchRepeated, EnvironmentProblem, ObjectExists
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.times import format_instant_time
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from lakebraid.txn.actions.write import begin_write, publish_write
from lakebraid.txn.ledger.asks import Ask, wish_text
from lakebraid.txn.ledger.entries import LEDGER, Batch, OpenWrite
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.ledger.watch import Watch
from lakebraid.txn.ledger.wishes import begin_wish
from lakebraid.writing.request import WriteRequest
from tests.kit.races.far import FarCompany
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage, make_table, once, row, table_on

pytestmark = pytest.mark.unit
SCHEMAS = [f'{{"type":"record","name":"r","fields":[{{"name":"id{n}","type":"string"}}]}}' for n in range(2)]


class Killed(BaseException):
    pass


class SkewedClock:
    """Ahead of the storage's by so much; a clock that only runs is not."""

    def __init__(self, clock: Any) -> None:
        self.clock, self.ahead_ms = clock, 0

    def now_ms(self) -> int:
        return int(self.clock.now_ms() + self.ahead_ms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.clock, name)


@pytest.fixture
def every_call_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ASK_CALL_SECONDS_MIN", 0.0)


@pytest.fixture
def storage() -> MemoryStorage:
    storage = MemoryStorage("memory://ahead", TickingClock())
    make_table(storage, storage.clock)
    return storage


def near(storage: Any) -> Ledger:
    return Ledger(TableAt(storage, load_config(storage)[0], storage.clock))


def far(storage: Any) -> Ledger:
    on = Ledger(TableAt(storage, load_config(storage)[0], storage.clock), company=FarCompany())
    on.newest()  # from now on it asks before it looks
    return on


def is_ask(call: Call) -> bool:
    return call.name == "create" and call.target.startswith(f"{LEDGER}/a.")


def test_what_was_decided_before_a_beginning_in_the_same_entry_is_there_for_those_who_read_after_it(
    storage: MemoryStorage,
) -> None:
    """A conditional change reads once it has begun, and is held against what was published after its beginning alone."""

    def die(call: Call) -> None:
        if call.name == "copy" and f"/{theirs.instant}_" in call.target:
            raise Killed

    def publish_and_die() -> None:
        watched.before = die
        with pytest.raises(Killed):
            theirs.commit()

    table_on(storage, storage.clock).upsert([row("a", "before")])
    watched = WatchedStorage(storage)
    theirs = table_on(watched, storage.clock).begin()
    theirs.write([{**row("a", "after", ts=2), "new": 1}])  # states a new schema, so its own process decides it
    watching = WatchedStorage(storage)
    author = table_on(watching, storage.clock)
    author._writing._company = FarCompany()
    author.upsert([row("b", "b")])
    watching.after = once(is_ask, publish_and_die)
    changing = author._destination.begin(WriteRequest("upsert", is_isolated=True))
    newest = near(storage).newest()
    assert (newest.kind, newest.time) == ("publish", changing.instant), "one entry has decided both"
    assert {r["v"] for r in author.to_arrow().to_pylist() if r["id"] == "a"} == {"after"}
    changing.abort()


def test_an_ask_that_the_store_has_put_twice_counts_as_asked_for(storage: MemoryStorage) -> None:
    """Its author is told that the object exists, and must not take that for nothing asked: it could be decided after a refusal."""
    watched = WatchedStorage(storage)
    author = far(watched)
    request_time = begin_write(author, "author")

    def tell_that_it_exists(call: Call) -> None:
        if is_ask(call):
            raise ObjectExists("exists", path=call.target)

    watched.after = tell_that_it_exists
    completion = publish_write(author, "author", request_time, lambda _: CommitMetadata())
    assert f".hoodie/timeline/{request_time}_{completion}.deltacommit" in [
        i.name for i in storage.list(".hoodie/timeline")
    ]


@pytest.mark.usefixtures("every_call_is_slow")
def test_a_process_whose_clock_has_been_set_ahead_gives_nobody_a_time(storage: MemoryStorage) -> None:
    clock = SkewedClock(storage.clock)
    on = Ledger(TableAt(storage, load_config(storage)[0], clock))
    for number in range(5):
        begin_write(on, f"right {number}")
    assert on.asks
    clock.ahead_ms = 10 * 60_000
    with pytest.raises(EnvironmentProblem, match="ahead of the storage"):
        begin_write(on, "wrong")
    newest = near(storage).newest()
    assert newest.state.last < format_instant_time(storage.clock.now_ms() + 60_000, on.config.zone)
    clock.ahead_ms = 0
    begin_write(on, "right again")


@pytest.mark.usefixtures("every_call_is_slow")
def test_a_process_asks_for_its_first_beginning_where_others_have_just_decided(storage: MemoryStorage) -> None:
    """The entries of others show that its clock is right; else it has to win a slot against all of them by itself."""
    begin_write(near(storage), "another")
    new = Ledger(TableAt(storage, load_config(storage)[0], storage.clock))
    new.newest()
    assert new.asks


@pytest.mark.usefixtures("every_call_is_slow")
@pytest.mark.parametrize("ahead_ms", [limits.CLOCK_AHEAD_MS_MAX + 10_000, -limits.CLOCK_AHEAD_MS_MAX])
def test_entries_of_others_never_show_that_a_clock_which_is_ahead_is_right(
    storage: MemoryStorage, ahead_ms: int
) -> None:
    begin_write(near(storage), "another")
    clock = SkewedClock(storage.clock)
    clock.ahead_ms = ahead_ms
    new = Ledger(TableAt(storage, load_config(storage)[0], clock))
    new.newest()
    assert new.asks == (ahead_ms < 0)


def test_that_a_beginning_means_nothing_stays_known_whatever_is_looked_at_before_it_is_asked_for(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else files of a write are put that has not begun (found by the simulator, seed 24)."""
    on = far(storage)
    begin_write(on, "author", lazily=True)
    assert on.counts()
    monkeypatch.setattr(Watch, "counts", lambda *_: False)
    begin_write(on, "slept", lazily=True)
    on.newest()
    assert not on.counts()


def test_asks_that_fill_an_entry_hold_up_nobody_who_asks_after_them(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their authors are dead, so it is up to the one that lives to decide them, one entry after the other."""
    monkeypatch.setattr(limits, "ASKS_DECIDED_MAX", 1)
    on = far(storage)
    for number in range(3):
        text = wish_text(begin_wish(OpenWrite(f"dead {number}", "deltacommit")))
        storage.create(Ask(on.newest().number, f"{number:016}", "t" * 16, text or "").name(), b"")
    request_time = begin_write(on, "alive")
    assert max(on.newest().state.open) == request_time and len(on.newest().state.open) == 4
    assert sum("/a." in info.name for info in storage.list(LEDGER)) <= 1


@pytest.mark.parametrize("is_older", [False, True])
def test_a_turn_that_a_dead_process_has_asked_for_holds_up_nobody_who_asks(
    storage: MemoryStorage, is_older: bool
) -> None:
    """Of those who asked each waited for the others to let it pass (found by the torture on S3: no decision for minutes)."""
    on = far(storage)
    storage.create(f"{LEDGER}/turn.05289.{'d' * 16}", b"")
    if is_older:
        storage.clock.sleep(60)
    began = storage.clock.monotonic()
    request_times = [begin_write(on, f"alive {number}") for number in range(3)]
    assert {*on.newest().state.open} == {*request_times}
    assert storage.clock.monotonic() - began < 60
    storage.clock.sleep(60)
    begin_write(on, "alive 4")
    assert not [info.name for info in storage.list(LEDGER) if "/turn." in info.name]


def test_a_commit_that_was_written_down_by_an_older_schema_is_written_down_anew(storage: MemoryStorage) -> None:
    author, other, written = far(storage), near(storage), list[str | None]()
    request_time = begin_write(author, "author")
    rival = begin_write(other, "other")
    publish_write(other, "other", rival, lambda _: CommitMetadata(extra={"schema": SCHEMAS[1]}), states_schema=True)

    def metadata(now: Round) -> CommitMetadata:
        written.append(now.state.schema_file)
        return CommitMetadata()

    publish_write(author, "author", request_time, metadata)
    current = author.newest().state.schema_file
    assert written[0] != current and written[-1] == current


def test_a_batch_that_another_process_has_published_begins_nothing_though_it_was_asked_for(
    storage: MemoryStorage,
) -> None:
    author, other, batch = far(storage), near(storage), Batch("w", 1)
    request_time = begin_write(other, "other", batch=batch)
    publish_write(other, "other", request_time, lambda _: CommitMetadata())
    with pytest.raises(BatchRepeated):
        begin_write(author, "author", batch=batch)
    begin_write(other, "another")  # decides what is asked for
    assert len(other.newest().state.open) == 1

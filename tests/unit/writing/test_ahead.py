# SPDX-License-Identifier: Apache-2.0
"""Writes that are begun ahead: what is used, what is not, and that nothing stays behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.api.inflow import Inflow
from lakebraid.clock import SystemClock
from lakebraid.errors import InvalidArgument, OutcomeUnknown
from lakebraid.format.names import State
from lakebraid.format.properties import format_properties, parse_properties
from lakebraid.reading.plan import Source
from lakebraid.storage import MemoryStorage
from lakebraid.table.loading import load_config
from lakebraid.txn.actions.rescue import rescue
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.ledger.entries import LEDGER
from lakebraid.writing.ahead import Series
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.retry import Destination
from tests.kit.races.ahead import NAME, begun_ahead, ended, ledger_of, state_of, warm
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage, answer, files, make_table, once, row, table_on
from tests.kit.waiting import until

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def every_call_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ASK_CALL_SECONDS_MIN", 0.0)


@pytest.fixture
def storage() -> MemoryStorage:
    storage = MemoryStorage("memory://ahead", TickingClock())
    make_table(storage, storage.clock)
    return storage


@pytest.fixture
def begun(storage: MemoryStorage) -> Iterator[tuple[lb.Table, lb.Writer]]:
    with begun_ahead(storage) as both:
        yield both


def test_the_next_write_is_the_one_that_was_begun(storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]) -> None:
    table, writer = begun
    (instant,) = state_of(storage).open
    assert writer.upsert([row("b", "b")]).instant == instant
    assert answer(table) == {"warm": "1", "a": "1", "b": "b"}


def test_what_was_begun_is_rolled_back_at_the_end_of_the_block(storage: MemoryStorage) -> None:
    with warm(storage).writer(NAME) as writer:
        for number in range(4):
            writer.upsert([row("a", f"{number}", ts=number)])
        (instant,) = state_of(storage).open
    ended(storage)
    told = table_on(storage, storage.clock).why(instant)
    assert "begun ahead" in str(told)


def test_plain_writes_leave_nothing_open(storage: MemoryStorage) -> None:
    table = warm(storage)
    for number in range(3):
        table.upsert([row("a", f"{number}", ts=number)], writer=NAME)
        ended(storage)


def test_a_single_write_of_a_writer_begins_nothing_ahead(storage: MemoryStorage) -> None:
    """Only a second one shows that it goes on."""
    with warm(storage).writer(NAME) as writer:
        writer.upsert([row("a", "a")])
        ended(storage)


def test_a_writer_that_comes_seldom_begins_nothing_ahead(storage: MemoryStorage) -> None:
    with warm(storage).writer(NAME) as writer:
        for number in range(4):
            writer.upsert([row("a", f"{number}", ts=number)])
            ended(storage)
            storage.clock.sleep(limits.AHEAD_IDLE_SECONDS + 1)


def test_on_a_local_disk_nothing_is_begun_ahead(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with warm(storage).writer(NAME) as writer:
        for number in range(4):
            writer.upsert([row("a", f"{number}", ts=number)])
            ended(storage)


def test_one_that_waits_for_too_long_is_rolled_back_by_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an idle writer holds up no archival, and no compaction carries deletes on for it."""
    monkeypatch.setattr(limits, "AHEAD_IDLE_SECONDS", 1.0)
    storage = MemoryStorage("memory://idle", SystemClock())
    make_table(storage, storage.clock)
    writer = warm(storage).writer(NAME)
    for number in range(2):
        writer.upsert([row("a", f"{number}", ts=number)])
    until(lambda: not state_of(storage).open, "the write that waits for rows is rolled back")
    writer.upsert([row("a", "later", ts=3)])
    assert answer(table_on(storage, storage.clock))["a"] == "later"


def test_one_whose_process_slept_is_not_used(storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]) -> None:
    table, writer = begun
    (instant,) = state_of(storage).open
    storage.clock.sleep(limits.AHEAD_IDLE_SECONDS + 1)
    assert writer.upsert([row("b", "b")]).instant > instant
    assert answer(table)["b"] == "b"
    ended(storage)


def test_one_that_another_process_has_rolled_back_is_begun_anew(
    storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]
) -> None:
    table, writer = begun
    (instant,) = state_of(storage).open
    assert roll_back(ledger_of(storage), "another", instant)
    assert writer.upsert([row("b", "b")]).instant > instant
    assert answer(table)["b"] == "b"


def test_one_of_a_dead_process_is_rolled_back_by_others(
    storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]
) -> None:
    (instant,) = state_of(storage).open
    assert f".hoodie/.heartbeat/{instant}" in [info.name for info in storage.list(".hoodie/.heartbeat")]
    assert rescue(ledger_of(storage), "another").rolled_back == ()
    storage.clock.sleep(limits.HEARTBEAT_TIMEOUT_MS / 1000 + 60)
    assert instant in rescue(ledger_of(storage), "another").rolled_back
    ended(storage)


def test_settings_that_changed_after_it_was_begun_count_for_the_next_write(
    storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]
) -> None:
    table, writer = begun
    (instant,) = state_of(storage).open
    name = ".hoodie/hoodie.properties"
    properties = parse_properties(storage.read(name, 1 << 20), name)
    storage.replace(name, format_properties({**properties, "hoodie.heartbeat.interval.in.ms": "45000"}))
    done = writer.upsert([row("b", "b")])
    assert done.instant > instant and not state_of(storage).open.keys() & {instant}
    assert answer(table)["b"] == "b"
    assert not [name for name in files(storage) if instant in name], "what it wrote by the older settings is gone"


def test_a_schema_that_changed_after_it_was_begun_is_that_of_the_next_write(
    storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]
) -> None:
    """Its caller had no rows yet, so there is no conflict of two writers."""
    _, writer = begun
    table_on(storage, storage.clock).upsert([{**row("c", "c"), "x": 1}])
    writer.upsert([{**row("b", "b"), "y": 2}])
    rows = table_on(storage, storage.clock).to_arrow().to_pylist()
    assert {r["id"]: (r["x"], r["y"]) for r in rows}["b"] == (None, 2)


def test_rows_that_do_not_fit_leave_nothing_open(storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]) -> None:
    _, writer = begun
    with pytest.raises(InvalidArgument):
        writer.upsert([row("b", "b") | {"ts": "no number"}])
    ended(storage)


def test_rows_that_can_be_taken_once_are_not_risked(storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]) -> None:
    """A write that was begun ahead may have to be done again though no other writer was in its way."""
    table, writer = begun
    (instant,) = state_of(storage).open
    roll_back(ledger_of(storage), "another", instant)
    rows = pa.Table.from_pylist([row("b", "b")])
    writer.upsert(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()))
    assert answer(table)["b"] == "b"


def test_a_forked_child_does_not_take_what_its_parent_has_begun(begun: tuple[lb.Table, lb.Writer]) -> None:
    """Both would publish one write, and one of them would lose its rows."""
    _, writer = begun
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        held = writer._series._held[0]
        held.let_go()
        os.write(write, b"no" if held.use(*held._settings) is None else b"yes")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 3) == b"no"
    assert writer._series._held[0].use(*writer._series._held[0]._settings) is not None


def test_two_threads_share_a_writer_and_each_write_is_there(storage: MemoryStorage) -> None:
    table = warm(storage)

    def work(writer: lb.Writer, name: str) -> None:
        for number in range(6):
            writer.upsert([row(f"{name}{number}", name, ts=number)])

    with table.writer(NAME) as writer:
        threads = [threading.Thread(target=work, args=(writer, name)) for name in "xyz"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answer(table)) == 19
    ended(storage)


@pytest.mark.parametrize("decided", [1, 2, 256])
def test_a_beginning_that_is_decided_later_than_what_it_was_asked_for_beside_is_used_or_rolled_back(
    storage: MemoryStorage, decided: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ASKS_DECIDED_MAX", decided)
    monkeypatch.setattr(limits, "ASK_ENTRIES_MAX", decided)
    table = warm(storage)
    with table.writer(NAME) as writer:
        for number in range(5):
            writer.upsert([row(f"{number}", "a", ts=number)])
            assert len(state_of(storage).open) <= 1
    assert len(answer(table)) == 6
    ended(storage)


def test_a_beginning_whose_ask_was_not_answered_is_used_or_rolled_back(storage: MemoryStorage) -> None:
    """It is there, but its author does not know it."""
    watched = WatchedStorage(storage)
    table = warm(watched)
    with table.writer(NAME) as writer:
        writer.upsert([row("a", "a")])
        watched.after = once(is_ahead, lose_the_answer)
        writer.upsert([row("b", "b")])
        writer.upsert([row("c", "c")])
    assert len(answer(table)) == 4
    ended(storage)


def is_ahead(call: Call) -> bool:
    return call.name == "create" and call.target.startswith(f"{LEDGER}/a.") and ".WyJhaGVhZCIs" in call.target


def lose_the_answer() -> None:
    raise OutcomeUnknown("no answer")


def test_a_batch_is_begun_by_its_number(storage: MemoryStorage) -> None:
    with warm(storage).writer(NAME) as writer:
        for number in (3, 4):
            writer.upsert([row("a", f"{number}", ts=number)], batch=number)
        ((instant, write),) = state_of(storage).open.items()
        assert write.batch is not None and write.batch.number == 5
        assert writer.upsert([row("a", "5", ts=5)], batch=5).instant == instant
        assert writer.upsert([row("a", "4", ts=9)], batch=4).is_repeated
        assert writer.upsert([row("a", "8", ts=8)], batch=8).instant > instant, "numbers may have gaps"
    ended(storage)
    assert table_on(storage, storage.clock).writers() == {NAME: 8}
    assert answer(table_on(storage, storage.clock))["a"] == "8"


def test_after_the_last_number_that_there_is_no_batch_is_begun(storage: MemoryStorage) -> None:
    with warm(storage).writer(NAME) as writer:
        for number in range(limits.BATCH_NUMBER_MAX - 2, limits.BATCH_NUMBER_MAX + 1):
            writer.upsert([row("a", "a")], batch=number)
        ended(storage)


def test_a_batch_that_another_driver_has_published_is_not_written_again(storage: MemoryStorage) -> None:
    with warm(storage).writer(NAME) as writer:
        for number in (3, 4):
            writer.upsert([row("a", f"{number}", ts=number)], batch=number)
        table_on(storage, storage.clock).upsert([row("a", "theirs", ts=5)], writer=NAME, batch=5)
        assert writer.upsert([row("a", "ours", ts=6)], batch=5).is_repeated
    assert answer(table_on(storage, storage.clock))["a"] == "theirs"
    ended(storage)


def test_a_stream_begins_its_next_batch_ahead(storage: MemoryStorage) -> None:
    table = warm(storage)
    inflow = Inflow(Source(storage.url), WriteRequest(writer="stream"))
    destination: Destination = table._destination
    series = Series(destination.writing)
    inflow._opened.append((table, destination, "id of the stream", series))
    for batch in range(3):
        inflow.write([row("a", f"{batch}", ts=batch)], batch)
    ((instant, write),) = state_of(storage).open.items()
    assert write.batch is not None and (write.batch.number, write.batch.stream) == (3, "id of the stream")
    assert inflow.write([row("a", "3", ts=3)], 3).instant == instant
    assert inflow.write([row("a", "3", ts=3)], 3).is_repeated
    series.close()  # as at the end of its process
    ended(storage)


WRITES: dict[str, tuple[dict[str, Any], Callable[[lb.Writer, lb.Table, int], object]]] = {
    "the commit time orders rows": ({"ordering_fields": None}, lambda w, t, n: w.upsert([row("a", f"{n}")])),
    "optimistic": ({"concurrency": "occ"}, lambda w, t, n: w.upsert([row("a", f"{n}", ts=n)])),
    "one writer at a time": ({"concurrency": "single"}, lambda w, t, n: w.upsert([row("a", f"{n}", ts=n)])),
    "keys are looked up": ({"index": "simple"}, lambda w, t, n: w.upsert([row("a", f"{n}", ts=n)])),
    "copy-on-write": ({"table_type": "cow"}, lambda w, t, n: w.upsert([row("a", f"{n}", ts=n)])),
    "changes are captured": (
        {"properties": {"hoodie.table.cdc.enabled": "true"}},
        lambda w, t, n: w.upsert([row("a", f"{n}", ts=n)]),
    ),
}


@pytest.mark.parametrize("kind", WRITES)
def test_where_it_could_make_a_difference_nothing_is_begun_ahead(kind: str) -> None:
    settings, write = WRITES[kind]
    storage = MemoryStorage("memory://different", TickingClock())
    make_table(storage, storage.clock, **settings)
    table = warm(storage)
    with table.writer(NAME) as writer:
        for number in range(2, 5):
            write(writer, table, number)
            assert state_of(storage).open == {}
    assert answer(table)["a"] == "4"


@pytest.mark.parametrize(
    "request_",
    [
        WriteRequest("upsert", columns=("id", "ts")),
        WriteRequest("upsert", is_isolated=True),
        WriteRequest("delete"),
        WriteRequest("bulk_insert"),
        WriteRequest("insert_overwrite"),
        WriteRequest("alter_schema"),
    ],
    ids=lambda request: f"{request.operation} {request.columns} {request.is_isolated}",
)
def test_writes_that_look_at_the_table_or_may_lose_to_older_ones_are_not_begun_ahead(
    storage: MemoryStorage, request_: WriteRequest
) -> None:
    from lakebraid.writing.ahead import can_begin_ahead

    settings = load_config(storage)
    assert can_begin_ahead(WriteRequest("insert"), settings)
    assert not can_begin_ahead(request_, settings)


def test_hudi_finds_nothing_on_the_timeline_that_it_could_take_for_a_commit(
    storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]
) -> None:
    (instant,) = state_of(storage).open
    found = [e.instant for e in begun[0].timeline() if e.instant.request_time == instant]
    assert [one.state for one in found] == [State.INFLIGHT]
    assert not [name for name in files(storage) if instant in name]


def test_a_writer_that_nobody_holds_any_more_leaves_nothing_open(storage: MemoryStorage) -> None:
    writer = warm(storage).writer(NAME)
    for number in range(2):
        writer.upsert([row("a", f"{number}", ts=number)])
    assert state_of(storage).open
    del writer
    until(lambda: not state_of(storage).open, "nothing is left when the writer is gone")

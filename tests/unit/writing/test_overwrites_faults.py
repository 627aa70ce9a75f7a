# SPDX-License-Identifier: Apache-2.0
"""Killed overwriters, lost answers, and writers that come in between: at every single call of an overwrite.

Afterwards the table reads as before or with the whole overwrite, `status` says which, others write on into the right file
groups, and nothing is left behind that nobody owns.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import pytest

from lakebraid.api.table import Table
from lakebraid.errors import CommitRefused, CommitUnknown, LakebraidError
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.checks.overwrite_maps import MAPS, request_time_of
from lakebraid.txn.liveness.heartbeat import Heartbeat
from tests.kit.races.faults import Attempt, Killed, killing, losing, not_owned
from tests.kit.tables.overwriting import BEFORE, rows, seen, table
from tests.kit.tables.scene import CHANGES, Call, TickingClock, WatchedStorage, once, table_on

pytestmark = [pytest.mark.unit, pytest.mark.slow]
AFTER = {"p/a": "over", "p/z": "over", "q/c": "1"}
NUMBERS = range(48)
"""Call numbers of an overwrite; more than it makes."""


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead processes do not beat, and the living ones here are quick."""
    monkeypatch.setattr(Heartbeat, "run", lambda self: None)


@cache
def prepared() -> tuple[tuple[str, bytes], ...]:
    """A table whose partition p was overwritten before, so that there is a map already."""
    made = table()
    made.insert_overwrite(rows("p", a="1", b="1"))
    storage = made._writing.storage
    return tuple((info.name, storage.read(info.name, info.size)) for info in storage.list())


def fresh() -> MemoryStorage:
    storage = MemoryStorage("memory://overwritten", TickingClock(1_767_225_700_000))
    for name, data in prepared():
        storage.create(name, data)
    return storage


def attempt(storage: Any, clock: Any) -> Attempt:
    made = Attempt()
    try:
        transaction = table_on(storage, clock).begin("insert_overwrite")
        made.instant = transaction.instant
        with transaction:
            transaction.write(rows("p", a="over", z="over"))
            transaction.commit()
    except BaseException as error:  # noqa: BLE001  a killed process, too
        made.error = error
    return made


@cache
def calls() -> tuple[Call, ...]:
    storage = fresh()
    watched = WatchedStorage(storage)
    made = attempt(watched, storage.clock)
    assert made.error is None and seen(table_on(storage, storage.clock)) == AFTER
    return tuple(watched.calls)


def test_the_numbers_reach_beyond_the_last_call_of_an_overwrite() -> None:
    assert 35 < len(calls()) <= len(NUMBERS)


def told(t: Table, made: Attempt) -> str:
    if made.instant is None:
        assert made.error is not None, "begun, and nobody knows"
        return "refused"
    ended = t.status(made.instant)
    if made.error is None:
        assert ended == "published"
    elif isinstance(made.error, CommitRefused):
        assert ended == "refused"
    elif not isinstance(made.error, CommitUnknown | Killed):
        assert ended in ("refused", "open"), f"published, though the writer was told {made.error!r}"
    return ended


def check_aftermath(storage: MemoryStorage, made: Attempt) -> None:
    t = table_on(storage, storage.clock)
    ended = told(t, made)
    expected = AFTER if ended == "published" else BEFORE
    assert seen(t) == expected
    t.upsert(rows("p", a="later", d="later"))
    t.rollback(timeout_seconds=0)
    t.upsert(rows("p", d="last"))
    if ended == "open":
        assert made.instant is not None and t.status(made.instant) == "refused", "it was taken back"
    assert seen(t) == expected | {"p/a": "later", "p/d": "last"}
    t.rollback(timeout_seconds=0)
    assert [name for name in not_owned(storage, t) if not is_kept_map(name, t)] == []


def is_kept_map(name: str, t: Table) -> bool:
    """Maps of published overwrites stay until they are archived, also those whose answer got lost."""
    return name.startswith(MAPS) and t.status(request_time_of(name.rpartition("/")[2])) == "published"


@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("number", NUMBERS)
def test_an_overwriter_killed_at_any_call_leaves_all_or_nothing(number: int, effect: str) -> None:
    storage = fresh()
    hooks, dead = killing(number, effect)
    made = attempt(WatchedStorage(storage, **hooks), storage.clock)
    assert effect == "done" or bool(dead) == (number < len(calls()))
    check_aftermath(storage, made)


@pytest.mark.parametrize("number", range(0, 60, 2))
def test_an_overwriter_killed_while_it_fills_empty_buckets_leaves_all_or_nothing(number: int) -> None:
    t = table(partition_by=None, buckets=4)
    storage = t._writing.storage
    hooks, _ = killing(number, "done")
    made = attempt(WatchedStorage(storage, **hooks), t._clock)
    ended = told(t, made)
    assert seen(t) == ({"p/a": "over", "p/z": "over"} if ended == "published" else BEFORE)
    t.rollback(timeout_seconds=0)
    t.upsert([*rows("p", a="last", b="last"), *rows("q", c="last")])
    assert {v for k, v in seen(t).items() if k != "p/z"} == {"last"}
    t.rollback(timeout_seconds=0)
    assert [name for name in not_owned(storage, t) if not is_kept_map(name, t)] == []


@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("number", [n for n in NUMBERS if n < len(calls()) and calls()[n].name in CHANGES])
def test_a_lost_answer_at_any_call_neither_overwrites_twice_nor_half(number: int, effect: str) -> None:
    storage = fresh()
    made = attempt(WatchedStorage(storage, **losing(number, effect)), storage.clock)
    assert made.error is None or isinstance(made.error, LakebraidError)
    check_aftermath(storage, made)


@pytest.mark.parametrize("other", ["append", "overwrite", "table", "delete", "restore", "compact", "late append"])
@pytest.mark.parametrize("number", [n for n in NUMBERS if n < len(calls()) and calls()[n].name in CHANGES])
def test_whatever_another_writer_does_between_two_calls_of_an_overwrite_no_rows_are_lost(
    number: int, other: str
) -> None:
    storage = fresh()
    t = table_on(storage, storage.clock)
    late = t.begin()
    late.write(rows("p", x="late"))

    def act() -> None:
        match other:
            case "append":
                t.upsert(rows("p", y="append"))
            case "overwrite":
                t.insert_overwrite(rows("p", y="other"))
            case "table":
                t.insert_overwrite_table(rows("p", y="other"))
            case "delete":
                t.delete_partitions(["p"])
            case "restore":
                t.restore(next(e.instant.request_time for e in t.timeline() if e.operation == "UPSERT"))
            case "compact":
                t.compact()
            case _:
                with contextlib.suppress(CommitRefused):
                    late.commit()

    made = attempt(WatchedStorage(storage, before=once(lambda call: call.number == number, act)), storage.clock)
    ended = "refused" if other == "restore" else told(t, made)
    found = seen(t)
    assert "p/y" in found or other not in ("append", "overwrite", "table") or ended == "published"
    if other == "append" and "p/y" not in found:
        completed = {e.instant.request_time: e.instant.completion_time or "" for e in t.timeline()}
        appended = next(
            e.instant for e in t.timeline() if e.operation == "UPSERT" and e.instant.request_time > late.instant
        )
        assert made.instant is not None and (appended.completion_time or "") < completed[made.instant]
        assert (appended.completion_time or "") < made.instant, "dropped unseen"
    before = seen(t)
    try:
        late.commit()
    except (CommitRefused, LakebraidError):
        assert seen(t) == before
    t.upsert(rows("p", a="later", b="later", x="later"))
    t.upsert(rows("p", a="last", b="last", x="last"))
    assert {k: v for k, v in seen(t).items() if k in ("p/a", "p/b", "p/x")} == {
        "p/a": "last",
        "p/b": "last",
        "p/x": "last",
    }

# SPDX-License-Identifier: Apache-2.0
"""Full disks, refused calls, lost answers, killed writers: at every single call of a write, one after the other.

Afterwards the table reads as before or with the whole commit, `status` says which, others write on, and nothing is left
behind that nobody owns.
"""

from __future__ import annotations

import errno

import pytest

from lakebraid.errors import CommitUnknown, OutcomeUnknown, StorageError
from lakebraid.txn.liveness.heartbeat import Heartbeat
from tests.kit.races.faults import (
    Killed,
    attempt,
    calls_of_a_write,
    check_aftermath,
    is_clear,
    killing,
    losing,
    not_owned,
    restored,
)
from tests.kit.tables.scene import CHANGES, Call, WatchedStorage, files, table_on

pytestmark = [pytest.mark.unit, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead processes do not beat, and the living ones here are quick."""
    monkeypatch.setattr(Heartbeat, "run", lambda self: None)


NUMBERS = range(36)
"""Call numbers of a write; more than it makes."""


def test_the_numbers_reach_beyond_the_last_call_of_a_write() -> None:
    assert 25 < len(calls_of_a_write()) <= len(NUMBERS)


# --- a full disk -----------------------------------------------------------------------------------------------------


def full(call: Call) -> None:
    raise StorageError(
        f"Creating {call.target} failed: the disk is full. Nothing was created.", path=call.target, errno=errno.ENOSPC
    )


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_full_disk_at_any_call_leaves_the_table_as_it_was_or_with_the_whole_commit(
    number: int, lasting: bool
) -> None:
    storage = restored()
    filled: list[Call] = []

    def fill(call: Call) -> None:
        is_hit = call.number >= number if lasting else call.number == number
        if is_hit and call.name in CHANGES - {"delete"}:
            filled.append(call)
            full(call)

    made = attempt(WatchedStorage(storage, before=fill), storage.clock)
    assert (made.error is None) or (filled and is_clear(made.error))
    check_aftermath(storage, storage.clock, made)


# --- refused and unanswered calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", NUMBERS)
def test_a_store_that_refuses_any_one_call_is_told_clearly_and_nothing_is_lost(number: int) -> None:
    storage = restored()

    def refuse(call: Call) -> None:
        if call.number == number:
            raise StorageError(f"{call.target}: 503. Nothing was changed.")

    made = attempt(WatchedStorage(storage, before=refuse), storage.clock)
    assert made.error is None or is_clear(made.error)
    check_aftermath(storage, storage.clock, made)


@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("number", NUMBERS)
def test_an_answer_that_is_lost_at_any_call_makes_no_writer_fail_or_write_twice(number: int, effect: str) -> None:
    storage = restored()
    made = attempt(WatchedStorage(storage, **losing(number, effect)), storage.clock)
    calls = calls_of_a_write()
    if number < len(calls) and calls[number].name in CHANGES:
        assert made.error is None, f"{calls[number].name} {calls[number].target} can be asked again"
    check_aftermath(storage, storage.clock, made)


@pytest.mark.parametrize("effect", ["done", "not done"])
def test_a_store_that_dies_when_the_commit_is_decided_leaves_it_unknown_until_somebody_looks(effect: str) -> None:
    storage = restored()
    dead: list[Call] = []

    def die(call: Call) -> None:
        if dead:
            raise StorageError(f"{call.target}: no route to host. Nothing was changed.")
        if call.is_entry() and b'"publish"' in call.args[1]:
            dead.append(call)
            raise OutcomeUnknown("no answer: nothing is known")

    hook = {"after": die} if effect == "done" else {"before": die}
    if effect == "done":
        hook["before"] = lambda call: die(call) if dead else None
    made = attempt(WatchedStorage(storage, **hook), storage.clock)
    assert isinstance(made.error, CommitUnknown)
    assert made.error.instant == made.instant
    assert f"table.status('{made.instant}')" in made.error.message
    table = table_on(storage, storage.clock)
    assert table.status(made.instant or "") == ("published" if effect == "done" else "open")
    check_aftermath(storage, storage.clock, made)


# --- killed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_writer_that_is_killed_at_any_call_leaves_nothing_or_a_whole_commit(number: int, effect: str) -> None:
    storage = restored()
    hooks, dead = killing(number, effect)
    made = attempt(WatchedStorage(storage, **hooks), storage.clock)
    assert isinstance(made.error, Killed) == bool(dead)
    check_aftermath(storage, storage.clock, made)


def test_what_nobody_owns_is_noticed() -> None:
    storage = restored()
    table = table_on(storage, storage.clock)
    assert not_owned(storage, table) == []
    storage.create("p/.00000000-0000-0000-0000-000000000000-0_20260101000000000.log.1_1000-0-0", b"")
    storage.delete([name for name in files(storage) if name.endswith("-0")][-1:])
    storage.create(".hoodie/.heartbeat/20260101000000000", b"")
    assert len(not_owned(storage, table)) >= 2

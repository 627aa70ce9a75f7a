# SPDX-License-Identifier: Apache-2.0
"""Full disks, refused calls, lost answers, killed writers: at every single call of a write, one after the other.

Afterwards the table reads as before or with the whole commit, `status` says which, others write on, and nothing is left
behind that nobody owns.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.api.table import Table
from lakebraid.errors import CommitRefused, CommitUnknown, InvalidArgument, LakebraidError, OutcomeUnknown, StorageError
from lakebraid.format.commit import parse_commit
from lakebraid.format.names import State
from lakebraid.storage import LocalStorage, Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.loading import load_timeline
from lakebraid.txn.heartbeat import Heartbeat
from tests.scene import CHANGES, Call, TickingClock, WatchedStorage, answer, files, make_table, row, table_on

pytestmark = pytest.mark.unit

SCHEMA = "id string, ts bigint, v string, w bigint, part string"
BEFORE = {"a": "0", "b": "0"}
AFTER = {"a": "new", "b": "0", "c": "new"}


def parted(key: str, v: str, part: str) -> dict[str, Any]:
    return row(key, v) | {"part": part}


ROWS = [parted("a", "new", "p"), parted("c", "new", "q")]


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead processes do not beat, and the living ones here are quick."""
    monkeypatch.setattr(Heartbeat, "run", lambda self: None)


# --- one write, and a look at what is left of it ---------------------------------------------------------------------


@cache
def prepared() -> tuple[tuple[str, bytes], ...]:
    """The objects of a table with two rows in a partition."""
    storage = MemoryStorage("memory://faults", TickingClock())
    table = make_table(storage, storage.clock, SCHEMA, partition_by="part")
    table.upsert([parted("a", "0", "p"), parted("b", "0", "p")])
    return tuple((info.name, storage.read(info.name, info.size)) for info in storage.list())


def restored() -> MemoryStorage:
    storage = MemoryStorage("memory://faults", TickingClock(1_767_225_700_000))
    for name, data in prepared():
        storage.create(name, data)
    return storage


@dataclass
class Attempt:
    """How a write ended for its user."""

    instant: str | None = None
    error: BaseException | None = None


def attempt(storage: Any, clock: Any) -> Attempt:
    made = Attempt()
    try:
        transaction = table_on(storage, clock).begin()
        made.instant = transaction.instant
        with transaction:
            transaction.write(ROWS)
            transaction.commit()
    except BaseException as error:  # noqa: BLE001  a killed process, too
        made.error = error
    return made


def calls_of_a_write() -> list[Call]:
    storage = restored()
    watched = WatchedStorage(storage)
    made = attempt(watched, storage.clock)
    assert made.error is None and answer(table_on(storage, storage.clock)) == AFTER
    return watched.calls


NUMBERS = range(45)
"""Call numbers of a write; more than it makes."""


def test_the_numbers_reach_beyond_the_last_call_of_a_write() -> None:
    assert 25 < len(calls_of_a_write()) <= len(NUMBERS)


def check_aftermath(storage: Storage, clock: Any, made: Attempt) -> None:
    table = table_on(storage, clock)
    assert answer(table) in (BEFORE, AFTER)
    ended = _told(table, made)
    table.upsert([parted("d", "another", "p")])
    table.rollback(timeout_seconds=0)
    if ended == "open":
        assert made.instant is not None
        assert table.status(made.instant) == "refused", "it was taken back"
    seen = AFTER if ended == "published" else BEFORE
    assert answer(table) == {**seen, "d": "another"}
    table.upsert([parted("d", "and another", "q")])
    table.rollback(timeout_seconds=0)
    assert not_owned(storage, table) == []


def _told(table: Table, made: Attempt) -> str:
    """What `status` says, which must fit what the writer was told and what is seen."""
    if made.instant is None:
        assert made.error is not None, "begun, and nobody knows"
        return "refused"
    ended = table.status(made.instant)
    assert answer(table) == (AFTER if ended == "published" else BEFORE)
    if made.error is None:
        assert ended == "published"
    elif isinstance(made.error, CommitRefused):
        assert ended == "refused"
    elif not isinstance(made.error, CommitUnknown | Killed):
        assert ended in ("refused", "open"), f"published, though the writer was told {made.error!r}"
    return ended


def not_owned(storage: Storage, table: Table) -> list[str]:
    """All objects that neither the table, a completed instant nor the ledger needs."""
    timeline = load_timeline(storage, table._config)
    owned = {".hoodie/hoodie.properties"}
    for instant in timeline.completed:
        owned |= {f".hoodie/timeline/{instant.file_name(s)}" for s in State}
        if instant.is_write:
            completed = f".hoodie/timeline/{instant.file_name(State.COMPLETED)}"
            owned |= {*parse_commit(storage.read(completed, 10**7), completed).file_paths}
    kept = ".hoodie/.lakebraid/ledger/"
    names = [i.name for i in storage.list() if not i.name.endswith(".hoodie_partition_metadata")]
    missing = sorted(owned - {*names})
    return missing + [n for n in names if n not in owned and not n.startswith(kept)]


def is_clear(error: BaseException | None) -> bool:
    """Whether a message says that data is safe, and is no riddle."""
    return isinstance(error, LakebraidError) and ("othing" in error.message or "as before" in error.message)


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

    def lose(call: Call) -> None:
        if call.number == number:
            raise OutcomeUnknown("no answer: nothing is known")

    hook = {"after": lose} if effect == "done" else {"before": lose}
    made = attempt(WatchedStorage(storage, **hook), storage.clock)
    calls = calls_cached()
    if number < len(calls) and calls[number].name in CHANGES:
        assert made.error is None, f"{calls[number].name} {calls[number].target} can be asked again"
    check_aftermath(storage, storage.clock, made)


@cache
def calls_cached() -> tuple[Call, ...]:
    return tuple(calls_of_a_write())


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
    dead: list[Call] = []

    def kill(call: Call) -> None:
        if call.number == number or dead:
            dead.append(call)
            raise Killed

    hook: dict[str, Callable[[Call], None]] = {"before": kill}
    if effect == "done":
        hook = {"before": lambda call: kill(call) if dead else None, "after": kill}
    made = attempt(WatchedStorage(storage, **hook), storage.clock)
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


# --- real folders ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of a table in which modes count, for root as well."""
    with _modes_count():
        yield tmp_path / "table"
    for inside, _, _ in os.walk(tmp_path):
        os.chmod(inside, 0o755)


@contextlib.contextmanager
def _modes_count() -> Iterator[None]:
    """Takes root's right to write everywhere (CAP_DAC_OVERRIDE) from this thread for a while."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    held, fewer = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    if libc.capget(header, held) != 0:
        pytest.skip("root cannot be stopped here; the same is simulated above")
    fewer[:] = held[:]
    fewer[0] &= ~(1 << 1)
    assert libc.capset(header, fewer) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0


PLACES = ["", ".hoodie/timeline", ".hoodie/.lakebraid/ledger", ".hoodie/.lakebraid/staged", ".hoodie/.temp", "part=p"]


@pytest.mark.parametrize("place", PLACES)
def test_a_folder_that_may_not_be_written_to_is_named_and_the_table_stays_as_it_is(folder: Path, place: str) -> None:
    table = lb.Table.create(
        folder, SCHEMA, record_keys="id", ordering_fields="ts", partition_by="part", buckets=1, hive_style_partitioning=True
    )
    table.upsert([parted("a", "0", "p"), parted("b", "0", "p")])
    os.chmod(folder / place, 0o555)
    with pytest.raises(LakebraidError) as caught:
        lb.Table.open(folder).upsert(ROWS)
    causes = [caught.value, *_causes(caught.value)]
    assert any("permission was denied" in str(cause) and str(folder / place) in str(cause) for cause in causes)
    assert answer(lb.Table.open(folder)) == BEFORE
    os.chmod(folder / place, 0o755)
    table.rollback(timeout_seconds=-1)
    made = attempt(LocalStorage(str(folder)), table._clock)
    assert made.error is None
    table.rollback(timeout_seconds=-1)
    assert answer(table) == AFTER
    assert not_owned(LocalStorage(str(folder)), table) == []


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    inner = error.__cause__ or error.__context__
    while inner is not None:
        assert inner is not error and inner not in found, "an error is its own cause"
        found.append(inner)
        inner = inner.__cause__ or inner.__context__
    return found


@pytest.mark.parametrize("when", ["begin", "write", "commit", "status", "rollback", "compact"])
def test_a_table_that_is_deleted_under_a_writer_is_an_error_and_no_commit_is_reported(tmp_path: Path, when: str) -> None:
    path = tmp_path / "table"
    table = lb.Table.create(path, SCHEMA, record_keys="id", ordering_fields="ts", buckets=1)
    table.upsert(ROWS)
    transaction = table.begin()
    if when == "commit":
        transaction.write(ROWS)
    shutil.rmtree(path)
    with pytest.raises(LakebraidError) as caught:
        match when:
            case "write" | "commit":
                if when == "write":
                    transaction.write(ROWS)
                transaction.commit()
            case "begin":
                table.upsert(ROWS)
            case "status":
                table.status(transaction.instant)
            case "rollback":
                table.rollback()
            case "compact":
                table.compact()
    assert str(path) in caught.value.message
    assert not isinstance(caught.value, CommitUnknown)
    assert not (path / ".hoodie/timeline").exists()
    with contextlib.suppress(LakebraidError):
        transaction.abort()


def test_a_table_that_was_deleted_and_made_anew_takes_no_commit_of_a_writer_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "table"
    arguments: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts", "buckets": 1}
    old = lb.Table.create(path, SCHEMA, **arguments)
    for _ in range(3):
        old.upsert(ROWS)
    transaction = old.begin()
    shutil.rmtree(path)
    new = lb.Table.create(path, SCHEMA, **arguments)
    new.upsert([parted("n", "new table", "p")])
    transaction.write(ROWS)
    with pytest.raises(LakebraidError, match="deleted while it was in use"):
        transaction.commit()
    assert answer(new) == {"n": "new table"}
    new.upsert([parted("m", "goes on", "p")])
    assert len(new.rollback(timeout_seconds=-1).removed) in (0, 1)
    assert answer(lb.Table.open(path)) == {"n": "new table", "m": "goes on"}


# --- rows that do not fit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"ts": 1, "part": "p"}], "'id'"),
        ([parted("a", "x", "p") | {"id": None}], "id"),
        ([parted("a", "x", "p") | {"ts": None}], "ts"),
        ([parted("a", "x", "p") | {"w": "no number"}], "w"),
        ([parted("a", "x", "p") | {"extra": 1}], "'extra'"),
        ([{"id": "a", "ts": 1}], "'part'"),
        (7, "int"),
    ],
    ids=["no key", "null key", "null order", "wrong type", "unknown column", "no partition", "no rows at all"],
)
def test_rows_that_do_not_fit_are_refused_by_name_and_leave_nothing_behind(rows: Any, says: str) -> None:
    storage = restored()
    table = table_on(storage, storage.clock)
    before = files(storage)
    with pytest.raises(InvalidArgument, match=says) as caught:
        table.upsert(rows)
    assert "Nothing was written" in caught.value.message
    assert files(storage) == before
    assert answer(table) == BEFORE
    table.rollback(timeout_seconds=0)
    assert not_owned(storage, table) == []


def test_a_transaction_goes_on_after_rows_that_did_not_fit() -> None:
    storage = restored()
    table = table_on(storage, storage.clock)
    with table.begin() as transaction:
        with pytest.raises(InvalidArgument):
            transaction.write([parted("x", "x", "p") | {"extra": 1}])
        transaction.write(pa.Table.from_pylist(ROWS))
    assert answer(table) == AFTER
    assert limits.TASKS_MAX > 0

# SPDX-License-Identifier: Apache-2.0
"""One write to which something happens, and a look at what is left of it.

Afterwards the table reads as before or with the whole commit, `status` says which, others write on, and nothing is left
behind that nobody owns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from lakebraid.api.table import Table
from lakebraid.clock import SystemClock
from lakebraid.errors import CommitRefused, CommitUnknown, LakebraidError, OutcomeUnknown
from lakebraid.format.names import State
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.model.writable import FILE_LOCK
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from tests.kit.tables.scene import Call, Hook, TickingClock, WatchedStorage, answer, make_table, row, table_on

SCHEMA = "id string, ts bigint, v string, w bigint, part string"
BEFORE = {"a": "0", "b": "0"}
AFTER = {"a": "new", "b": "0", "c": "new"}


def parted(key: str, v: str, part: str) -> dict[str, Any]:
    return row(key, v) | {"part": part}


ROWS = [parted("a", "new", "p"), parted("c", "new", "q")]


class Killed(BaseException):
    """The process is gone."""


@cache
def prepared(*, shared: bool) -> tuple[tuple[str, bytes], ...]:
    """The objects of a table with two rows in a partition; shared with writers of Hudi, it has a lock."""
    storage = MemoryStorage("memory://faults", TickingClock())
    properties = {"hoodie.write.lock.provider": FILE_LOCK} if shared else {}
    table = make_table(storage, storage.clock, SCHEMA, partition_by="part", properties=properties)
    table.upsert([parted("a", "0", "p"), parted("b", "0", "p")])
    return tuple((info.name, storage.read(info.name, info.size)) for info in storage.list())


def restored(*, shared: bool = False) -> MemoryStorage:
    storage = MemoryStorage("memory://faults", TickingClock(1_767_225_700_000))
    for name, data in prepared(shared=shared):
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


@cache
def calls_of_a_write(*, shared: bool = False) -> tuple[Call, ...]:
    storage = restored(shared=shared)
    watched = WatchedStorage(storage)
    made = attempt(watched, storage.clock)
    assert made.error is None and answer(table_on(storage, storage.clock)) == AFTER
    return tuple(watched.calls)


def killing(number: int, effect: str) -> tuple[dict[str, Hook], list[Call]]:
    """A store that kills its caller at that call, before or after it took effect, and never answers again."""
    dead: list[Call] = []

    def kill(call: Call) -> None:
        if call.number == number or dead:
            dead.append(call)
            raise Killed

    if effect == "done":
        return {"before": lambda call: kill(call) if dead else None, "after": kill}, dead
    return {"before": kill}, dead


def losing(number: int, effect: str) -> dict[str, Hook]:
    """A store that does not answer that call, and has done or not done what was asked."""

    def lose(call: Call) -> None:
        if call.number == number:
            raise OutcomeUnknown("no answer: nothing is known")

    return {"after" if effect == "done" else "before": lose}


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
    timeline = load_timeline(TableAt(storage, table._config, SystemClock()))
    owned = {".hoodie/hoodie.properties"}
    for instant in timeline.completed:
        states = (State.COMPLETED,) if instant.action == "savepoint" else State
        owned |= {f".hoodie/timeline/{instant.file_name(s)}" for s in states}
        if instant.is_write:
            completed = f".hoodie/timeline/{instant.file_name(State.COMPLETED)}"
            metadata = parse_commit(storage.read(completed, 10**7), completed)
            stats = [stat for found in metadata.write_stats.values() for stat in found]
            owned |= {*metadata.file_paths, *(path for stat in stats for path in stat.cdc_stats or ())}
    kept = ".hoodie/.lakebraid/ledger/"
    names = [i.name for i in storage.list() if not i.name.endswith(".hoodie_partition_metadata")]
    missing = sorted(owned - {*names})
    return missing + [n for n in names if n not in owned and not n.startswith(kept)]


def is_clear(error: BaseException | None) -> bool:
    """Whether a message says that data is safe, and is no riddle."""
    return isinstance(error, LakebraidError) and ("othing" in error.message or "as before" in error.message)

# SPDX-License-Identifier: Apache-2.0
"""A table with a long past, archivers to which something happens, and a look at what is left of its history."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lakebraid.api.table import Table
from lakebraid.clock import SystemClock
from lakebraid.format.names import parse_history_file, parse_manifest_name
from lakebraid.format.timeline.history import parse_manifest
from lakebraid.model.writable import FILE_LOCK
from lakebraid.services.archiving import Keep, choose
from lakebraid.storage import Storage
from lakebraid.storage.local import LocalStorage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config, load_timeline
from lakebraid.txn.actions.archive import decide_archive, finish_archive, tend_history
from lakebraid.txn.ledger.ledger import Ledger
from tests.kit.tables.scene import CHANGES, Call, TickingClock, answer, make_table, row, table_on

HISTORY = ".hoodie/timeline/history"
DAY_MS = 25 * 60 * 60_000
KEEP: dict[str, Any] = {"keep_min": 2, "keep_max": 3}


@dataclass(frozen=True)
class Past:
    """A table's objects, and what it must answer for ever."""

    objects: tuple[tuple[str, bytes], ...]
    now_ms: int
    answers: dict[str, dict[str, str]]
    """By completion time."""
    request_times: tuple[str, ...]
    """Of all completed instants, whatever their action."""
    published: tuple[str, ...]
    refused: str

    def storage(self) -> MemoryStorage:
        storage = MemoryStorage("memory://archived", TickingClock(self.now_ms))
        for name, data in self.objects:
            storage.create(name, data)
        return storage


@cache
def past(*, shared: bool = False) -> Past:
    """Nine writes, a compaction and, a day ago, a write that was rolled back."""
    clock = TickingClock()
    storage = MemoryStorage("memory://archived", clock)
    properties = {"hoodie.write.lock.provider": FILE_LOCK} if shared else {}
    table = make_table(storage, clock, properties=properties)
    results = [table.upsert([row("a", f"a{n}", n), row(f"k{n}", "x")]) for n in range(3)]
    dead = table.begin()
    dead.write([row("a", "dead", 99)])
    dead._heartbeat.stop()
    clock.ms += DAY_MS
    table.rollback(timeout_seconds=0)
    clock.ms += DAY_MS
    table.compact()
    results += [table.upsert([row("a", f"a{n}", n)]) for n in range(3, 9)]
    timeline = load_timeline(TableAt(storage, table._config, SystemClock()))
    return Past(
        tuple((info.name, storage.read(info.name, info.size)) for info in storage.list()),
        clock.ms,
        {result.completion_time: answer(table, result.completion_time) for result in results},
        tuple(i.request_time for i in timeline.completed),
        tuple(result.instant for result in results),
        dead.instant,
    )


def archive(storage: Any, clock: Any, **keep: int) -> Any:
    return table_on(storage, clock).archive(**(KEEP | keep))


def archive_all(path: Path) -> int:
    """Archives as much as may be, also of a table that we would not write rows to; gives how many instants that were."""
    storage = LocalStorage(str(path))
    ledger = Ledger(TableAt(storage, load_config(storage)[0], SystemClock()))
    decide_archive(ledger, "archiver", lambda now: choose(now, Keep(1, 1)))
    moved = finish_archive(ledger, "archiver")
    tend_history(ledger, "archiver")
    return moved


def check_past(storage: Storage, clock: Any, made: Past, *, every: int = 4) -> Table:
    """No answer has changed, every instant is found just once, and nothing is pending. Every so many are looked at."""
    table = table_on(storage, clock)
    times = sorted(made.answers)
    for time in times[::every]:
        assert answer(table, time) == made.answers[time], f"as of {time}"
    last, now = made.answers[times[-1]], answer(table)
    assert {key: now[key] for key in last} == last
    found = [entry.instant.request_time for entry in table.timeline(archived=True)]
    assert len(found) == len({*found}), "an instant is there twice"
    assert {*made.request_times} <= {*found}, "an instant is lost"
    assert {table.status(request_time) for request_time in made.published[::every]} == {"published"}
    assert table.status(made.refused) == "refused"
    assert not load_timeline(TableAt(storage, table._config, clock)).pending
    return table


def check_history_is_tidy(storage: Storage) -> None:
    """Only manifests that count, or just did, and files that they name; `_version_` points at the newest."""
    names = {info.name.rpartition("/")[2] for info in storage.list(HISTORY)}
    numbers = sorted(n for n in map(parse_manifest_name, names) if n is not None)
    assert 1 <= len(numbers) <= 3
    assert storage.read(f"{HISTORY}/_version_", 64) == str(numbers[-1]).encode()
    named = {f.name for n in numbers for f in parse_manifest(storage.read(f"{HISTORY}/manifest_{n}", 10**6), "m")}
    assert {n for n in names if parse_history_file(n)} == named
    assert not [i for i in storage.list(".hoodie/.lakebraid/staged") if i.modified_ms < 0]


def changes_of(calls: list[Call]) -> list[Call]:
    return [call for call in calls if call.name in CHANGES]

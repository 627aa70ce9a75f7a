# SPDX-License-Identifier: Apache-2.0
"""Writers on one table, step by step through the public API, beside a model that knows what must be seen when.

The store is in memory and its calls can be watched: something may happen before or after any of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lakebraid.api.table import Table
from lakebraid.clock import Clock
from lakebraid.model.creation.plan import plan_table
from lakebraid.reading.plan import Source
from lakebraid.services.merging.compaction import CompactionResult
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config, load_timeline
from lakebraid.txn.actions.create import create_table
from lakebraid.writing.result import WriteResult
from lakebraid.writing.transaction import Transaction

READS = frozenset({"read", "read_range", "info", "list", "list_folder", "list_names", "open_input"})
CHANGES = frozenset({"create", "replace", "copy", "delete"})
COLUMNS = "id string, ts bigint, v string, w bigint"
Rows = list[dict[str, Any]]


class TickingClock:
    """Every look at it is a millisecond later than the one before; waiting takes no time. Safe for threads."""

    def __init__(self, now_ms: int = 1_767_225_600_000, step_ms: int = 1) -> None:
        self.ms, self.step_ms, self.tokens = now_ms, step_ms, 0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        with self._lock:
            self.ms += self.step_ms
            return self.ms

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.ms += int(seconds * 1000)

    def monotonic(self) -> float:
        return self.ms / 1000

    def token(self) -> str:
        with self._lock:
            self.tokens += 1
            return f"{self.tokens:016x}"

    def random(self) -> float:
        return 0.5


@dataclass(frozen=True)
class Call:
    """One call of the store: the how manieth, which, with what."""

    number: int
    name: str
    args: tuple[Any, ...]

    @property
    def target(self) -> str:
        """The object that a call changes or looks at."""
        place = 1 if self.name == "copy" else 0
        return str(self.args[place]) if len(self.args) > place else ""

    def is_entry(self) -> bool:
        """Whether it is the moment of a decision."""
        return self.name == "create" and self.target.startswith(".hoodie/.lakebraid/ledger/")


Hook = Callable[[Call], object]


class WatchedStorage:
    """A store whose calls are counted, with something to do before and after each; either may raise."""

    def __init__(self, storage: Storage, before: Hook | None = None, after: Hook | None = None) -> None:
        self._storage, self.before, self.after = storage, before, after
        self._lock = threading.Lock()
        self.calls: list[Call] = []

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # Some locks are only for stores of a certain kind, and ask.
        return type(self._storage)

    @property
    def url(self) -> str:
        return self._storage.url

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._storage, name)
        if name not in READS | CHANGES:
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                made = Call(len(self.calls), name, args)
                self.calls.append(made)
            if self.before is not None:
                self.before(made)
            answer = attribute(*args, **kwargs)
            if self.after is not None:
                self.after(made)
            return answer

        return call


@dataclass
class once:  # noqa: N801  # reads as a function where it is used
    """Does something at the first call that `when` picks; the calls that it makes itself are passed over."""

    when: Callable[[Call], object]
    do: Callable[[], object]
    done: list[Call] = field(default_factory=list)

    def __call__(self, call: Call) -> None:
        if not self.done and self.when(call):
            self.done.append(call)
            self.do()


def make_table(storage: Storage, clock: Clock, schema: Any = COLUMNS, **arguments: Any) -> Table:
    """A new table on that very storage object."""
    arguments = {"record_keys": "id", "ordering_fields": "ts", "buckets": 1, **arguments}
    create_table(storage, clock, plan_table(storage.url, schema, **arguments))
    return table_on(storage, clock)


def table_on(storage: Storage, clock: Clock) -> Table:
    config, properties = load_config(storage)
    return Table(TableAt(storage, config, clock), Source(storage.url), properties)


def row(key: str, v: str | None, ts: int = 1, w: int = 0) -> dict[str, Any]:
    return {"id": key, "ts": ts, "v": v, "w": w}


def answer(table: Table, as_of: str | None = None) -> dict[str, str]:
    """What a reader sees: `v` by key."""
    rows = table.to_arrow(as_of=as_of).to_pylist()
    assert len({r["id"] for r in rows}) == len(rows), "a key appears twice"
    return {r["id"]: r["v"] for r in rows}


def files(storage: Storage) -> list[str]:
    """The data files."""
    names = [info.name for info in storage.list() if not info.name.startswith(".hoodie/")]
    return [name for name in names if not name.endswith(".hoodie_partition_metadata")]


# --- the model -------------------------------------------------------------------------------------------------------


@dataclass
class Write:
    """A write as its user sees it."""

    transaction: Transaction
    rows: Rows
    kind: str = "upsert"
    columns: tuple[str, ...] | None = None
    completion: str | None = None

    @property
    def request_time(self) -> str:
        return self.transaction.instant


@dataclass
class Scene:
    """One table, any number of writers, and what they wrote; `check` holds every past answer against the model."""

    by_event: bool = True
    arguments: dict[str, Any] = field(default_factory=dict)
    clock: TickingClock = field(default_factory=TickingClock)
    writes: list[Write] = field(default_factory=list)
    services: list[str] = field(default_factory=list)
    """Completions of compactions, which change no answer."""

    def __post_init__(self) -> None:
        self.storage = MemoryStorage("memory://scene", self.clock)
        ordering = "ts" if self.by_event else None
        self.table = make_table(self.storage, self.clock, **({"ordering_fields": ordering} | self.arguments))

    def other(self, clock: Clock | None = None, **hooks: Hook) -> Table:
        """The table as another process has it open; its calls may be watched."""
        storage = WatchedStorage(self.storage, **hooks) if hooks else self.storage
        return table_on(storage, clock or self.clock)

    def begin(self, *rows: dict[str, Any], table: Table | None = None, **how: Any) -> Write:
        """A writer begins and puts its files down."""
        table = table or self.table
        kind, columns = how.get("kind", "upsert"), how.get("columns")
        made = Write(table.begin(kind, columns=columns), list(rows), kind, columns)
        self.writes.append(made)
        made.transaction.write(made.rows)
        return made

    def commit(self, write: Write) -> WriteResult:
        result = write.transaction.commit()
        assert result.instant == write.request_time
        write.completion = result.completion_time
        return result

    def write(self, *rows: dict[str, Any], **how: Any) -> Write:
        write = self.begin(*rows, **how)
        self.commit(write)
        return write

    def compact(self, table: Table | None = None) -> list[CompactionResult]:
        done = (table or self.table).compact()
        self.services += [c.completion_time for c in done]
        return done

    def kill(self, write: Write) -> None:
        """The process of the writer is gone: no beat any more, no commit ever."""
        write.transaction._heartbeat.stop()
        self.writes.remove(write)

    def completions(self) -> list[str]:
        return sorted([*(w.completion for w in self.writes if w.completion), *self.services])

    def check(self) -> list[dict[str, str]]:
        """Every answer since the beginning is the model's; gives the answers of `v`, one for each completion."""
        found = []
        for moment in self.completions():
            rows = {r["id"]: r for r in self.table.to_arrow(as_of=moment).to_pylist()}
            assert rows == self.model(moment), f"as of {moment}"
            found.append({key: r["v"] for key, r in sorted(rows.items())})
        now = self.table.to_arrow().to_pylist()
        assert len({r["id"] for r in now}) == len(now), "a key appears twice"
        assert {r["id"]: r for r in now} == self.model("9")
        return found

    def instants(self) -> list[tuple[str, str, str | None]]:
        """Request time, action and completion of everything on the timeline."""
        return [
            (i.request_time, i.action, i.completion_time)
            for i in load_timeline(TableAt(self.storage, self.table._config, self.clock))
        ]

    def check_times(self) -> None:
        """No time was given twice, and every completion exceeds its own request time."""
        times = [t for request_time, _, completion in self.instants() for t in (request_time, completion) if t]
        assert len(set(times)) == len(times)
        assert all(completion is None or completion > request_time for request_time, _, completion in self.instants())

    def model(self, moment: str) -> dict[str, dict[str, Any]]:
        """The rows at a moment, from the rule alone: completed writes in the order of their request times, one key at a time."""
        done = [w for w in self.writes if w.completion is not None and w.completion <= moment]
        kept: dict[str, tuple[dict[str, Any], bool]] = {}
        for write in sorted(done, key=lambda w: w.request_time):
            for given in write.rows:
                key = given["id"]
                kept[key] = self._fold(kept.get(key), given, write)
        return {key: values for key, (values, is_gone) in kept.items() if not is_gone}

    def _fold(self, old: tuple[dict[str, Any], bool] | None, given: dict[str, Any], write: Write) -> Any:
        is_gone = write.kind == "delete"
        names = write.columns or ("id", "ts", "v", "w")
        new = {name: given.get(name) for name in names}
        if old is None:
            return ({"id": None, "ts": None, "v": None, "w": None} | new, is_gone)
        values, was_gone = old
        wins = not self.by_event or new["ts"] >= values["ts"]
        if is_gone or was_gone:
            return ({"id": None, "ts": None, "v": None, "w": None} | new, is_gone) if wins else old
        return (values | new if wins else {**new, **values}, False)

# SPDX-License-Identifier: Apache-2.0
"""One process of the torture: a writer, compactor, rescuer, reader or runner of services that notes what it did before and after it does it.

A note is one line, written before the next step begins; a killed process leaves at worst half a line behind.
"""

from __future__ import annotations

import json
import os
import random  # noqa: TID251 - a seeded generator that decides what to try, not part of the product's own choices
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import pyarrow as pa

import lakebraid as lb
from lakebraid.clock import SystemClock
from lakebraid.reading.plan import Source
from lakebraid.storage import open_storage
from lakebraid.txn.liveness.waiting import stand_aside
from lakebraid.txn.writer import Writing
from lakebraid.writing.begin import open_write
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.transaction import Transaction

_DELETES = 0.15
_ABORTS = 0.03
_ATTEMPTS_MAX = 200
ON_SPARK = "writer-spark"
"""The role of a writer that has a Spark of its own."""


class Notes:
    """Lines of JSON in a file of one's own."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - open for the life of the process

    def say(self, what: str, **facts: Any) -> None:
        self._file.write(json.dumps({"what": what, **facts}, default=str).encode() + b"\n")


def main(arguments: list[str]) -> None:
    role, number, path, log, keys, rows, seed, concurrency = arguments
    signal.signal(signal.SIGTERM, _leave)
    table, notes, chance = lb.Table.open(path), Notes(log), random.Random(int(seed))  # noqa: S311 - see above
    clock = SystemClock()
    frame = _spark_frames(int(number)) if role == ON_SPARK else pa.Table.from_pylist
    is_optimistic = concurrency == "occ"
    name = f"writer {number} on Spark" if role == ON_SPARK else f"writer {number}"
    writing = Writing(open_storage(path), clock)
    writer = Writer(writing, notes, chance, clock, int(number), int(keys), int(rows), frame, is_optimistic, name)
    notes.say("started")
    while True:
        if role in ("writer", ON_SPARK):
            writer.write()
        elif role == "compactor":
            _guarded(notes, "compacted", table.compact)
            clock.sleep(0.5 * chance.random())
        elif role == "services":
            _serve(table, notes)
            clock.sleep(chance.random())
        elif role == "rescuer":
            _guarded(notes, "rescued", table.rollback)
            clock.sleep(0.5)
        else:
            _read(table, notes)
            clock.sleep(0.2 * chance.random())


def _leave(_signal: int, _frame: FrameType | None) -> None:
    os._exit(0)  # at once: an exception could end up in the hands of whatever is running now


@dataclass(frozen=True)
class Writer:
    """Writes rows of random keys; if it is refused because another one was faster, the same keys again."""

    writing: Writing
    notes: Notes
    chance: random.Random
    clock: SystemClock
    number: int
    keys: int
    count: int
    frame: Callable[[list[dict[str, Any]]], Any]
    """From rows to what is written: an Arrow table, or a data frame of Spark."""
    is_optimistic: bool
    name: str

    def write(self) -> None:
        """One write, and in optimistic tables as many more as it takes."""
        deletes = self.chance.random() < _DELETES
        ids = self.chance.sample(range(self.keys), min(self.keys, self.chance.randint(1, self.count)))
        for _ in range(_ATTEMPTS_MAX if self.is_optimistic else 1):
            try:
                self._transact(ids, deletes=deletes)
            except lb.CommitRefused as error:
                self.notes.say("refused", instant=error.facts.get("instant"), why=type(error).__name__, rows=len(ids))
                self._stand_aside(error)
                continue
            except lb.CommitUnknown as error:
                self.notes.say("unknown", instant=error.facts.get("instant"))
            except lb.LakebraidError as error:
                self.notes.say("failed", error=f"{type(error).__name__}: {error}")
            return
        if self.is_optimistic:
            self.notes.say("failed", error=f"refused {_ATTEMPTS_MAX} times in a row")

    def _stand_aside(self, error: lb.CommitRefused) -> None:
        """As `Table.upsert` does, which cannot say between its attempts what it is about to write."""
        if isinstance(error, lb.WriteConflict):
            config, _ = self.writing.settings()
            stand_aside(self.writing.ledger(config), error)
        else:
            self.clock.sleep(0.05 * self.chance.random())

    def _transact(self, ids: list[int], *, deletes: bool) -> None:
        """One transaction. Its rows are noted before a reader can see them, its end after it is known."""
        begun = self.clock.monotonic()
        txn = self._begin("delete" if deletes else "upsert")
        number = self.clock.now_ms()
        rows: list[dict[str, Any]] = [{"id": i, "ts": self._event_time(number, txn.instant)} for i in ids]
        if not deletes:
            rows = [{**row, "writer": self.number, "number": number, "note": f"{txn.instant}"} for row in rows]
        self.notes.say("begun", instant=txn.instant, deletes=deletes, rows=[list(row.values()) for row in rows])
        txn.write(self.frame(rows))
        if self.chance.random() < _ABORTS:
            txn.abort()
            self.notes.say("refused", instant=txn.instant, why="aborted", rows=0)
            return
        result = txn.commit()
        seconds = round(self.clock.monotonic() - begun, 4)
        self.notes.say("published", instant=result.instant, completion=result.completion_time, seconds=seconds)

    def _begin(self, operation: Literal["upsert", "delete"]) -> Transaction:
        """As `Table.upsert` and `Table.delete` do, which do themselves again."""
        request = WriteRequest(operation, writer=self.name, repeats=True)
        return Transaction(open_write(self.writing, Source(self.writing.storage.url), request))

    def _event_time(self, now_ms: int, request_time: str) -> int:
        """Coarse and often late, so that versions of different writers tie and stale ones come.

        Optimistic writers of one key come one after the other, and so do their times: a copy-on-write table forgets a
        delete once it is done, so a late event would bring the row back, as it does in Apache Hudi.
        """
        return int(request_time) if self.is_optimistic else now_ms // 200 - self.chance.randint(0, 10)


def _spark_frames(number: int) -> Callable[[list[dict[str, Any]]], Any]:
    """Frames of a Spark of its own; each is made by a job, and written by one."""
    from lakebraid.spark.start.session import session  # noqa: PLC0415  only those who use Spark pay for it
    from lakebraid.spark.versions import frame_of  # noqa: PLC0415  as above

    config = {"spark.driver.memory": "512m", "spark.ui.enabled": "false"}
    spark = session(f"lakebraid writer {number}", master="local[1]", config=config)
    spark.range(1).count()  # the first job takes seconds, before anything is begun

    def frame(rows: list[dict[str, Any]]) -> Any:
        return frame_of(spark, pa.Table.from_pylist(rows)).repartition(1)

    return frame


def _guarded(notes: Notes, what: str, work: Any) -> None:
    try:
        notes.say(what, result=repr(work()))
    except (lb.CommitRefused, lb.CommitUnknown) as error:
        notes.say("gave way", error=f"{type(error).__name__}: {error}")
    except lb.LakebraidError as error:
        notes.say("failed", error=f"{type(error).__name__}: {error}")


def _serve(table: lb.Table, notes: Notes) -> None:
    """One round of all services; none of them raises, so what failed is noted from their results."""
    done = table.services.run(once=True)
    notes.say("served", result=str(done))
    for one in done.errors:
        notes.say("failed", error=str(one))


def _read(table: lb.Table, notes: Notes) -> None:
    """Notes which writes a reader saw: `note` of a row names the write that made it."""
    try:
        snapshot = table.snapshot()
        rows = snapshot.to_arrow(columns=["id", "note"])
    except lb.SnapshotExpired:
        return
    except lb.LakebraidError as error:
        notes.say("failed", error=f"{type(error).__name__}: {error}")
        return
    notes.say("read", time=snapshot.completion_time, rows=sorted(zip(*rows.to_pydict().values(), strict=True)))


if __name__ == "__main__":
    main(sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows may lie in any file group: writers that look for their rows' groups, and clusterings that move rows.

In a copy-on-write table they rewrite base files and fill small ones; else they append logs. Of the keys that writers fight
over most are there from the beginning; the others are brought by whoever comes first, and must not be there twice (F26).
Besides them a writer now and then appends a key that nobody else has: a clustering must neither lose it nor be hindered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lakebraid.errors import (
    ClusteringYielded,
    CommitRefused,
    CommitUnknown,
    OutcomeUnknown,
    SnapshotExpired,
    StorageError,
)
from lakebraid.reading.plan import Source
from lakebraid.services.merging import clustering
from lakebraid.services.settings import open_table
from lakebraid.txn.actions.write import write_status
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.retry import Destination, until_unhindered
from simulator.actors import writing
from simulator.oracle import Change
from simulator.stand_ins import product
from simulator.world.violation import Violation
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene

_RETRIES = 3


def found(scene: Scene, process: Process) -> None:
    """The table with a row for two keys of three."""
    writing.found(scene, process)
    for number in range(scene.setting.keys):
        if number % 3 < 2:
            changes = (Change(f"k{number}", 0, f"first-{number}"),)
            _write(scene, process, product.new_writing(scene, process), changes)


def work(scene: Scene, process: Process, rounds: int) -> None:
    own = product.new_writing(scene, process)
    for number in range(rounds):
        process.clock.sleep(process.rng.random() * 0.2)
        txn = f"{process.name}-{number}"
        write_once(scene, process, own, txn)


def write_once(scene: Scene, process: Process, own: product.SimWriting, txn: str) -> None:
    """Changes some keys, or appends one of its own."""
    appended = (Change(f"n-{txn}", 1, txn),) if process.rng.random() < 0.4 else ()
    changed = writing.drawn_changes(scene, process.rng, txn) if not appended or process.rng.random() < 0.5 else ()
    _write(scene, process, own, (*changed, *appended))


def _write(scene: Scene, process: Process, own: product.SimWriting, changes: tuple[Change, ...]) -> None:
    """Does what `Table.upsert` does: again, if another writer was in the way, when those are gone who are at its groups."""
    table = Destination(own, Source(process.storage.url), scene.table.config)
    attempts: list[_Attempt] = []

    def begin() -> Any:
        attempts.append(_Attempt(scene, process, own, changes))
        return attempts[-1]

    try:
        until_unhindered(begin, _RETRIES, table.wait)
    except _GivenUp:
        scene.mark("given up")
    except (CommitRefused, CommitUnknown, SnapshotExpired, StorageError) as error:
        scene.mark(f"placed write: {type(error).__name__}")
    else:
        scene.mark("placed" if len(attempts) == 1 else "placed after a conflict")


class _GivenUp(Exception):
    """The user did not want it any more."""


class _Attempt:
    """One `Transaction`, begun, filled and ended; whatever its user is told is told to the checkers."""

    is_repeated = False

    def __init__(self, scene: Scene, process: Process, own: product.SimWriting, changes: tuple[Change, ...]) -> None:
        self._scene, self._process, self._writing = scene, process, own
        self._txn = product.begun(own, WriteRequest("upsert"))
        self._intent = scene.oracle.intend(self._txn.instant, process.name, changes)
        self._txn.write(changes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        is_open = self._txn._end is None
        self._txn.__exit__(*error)  # type: ignore[arg-type]
        if is_open:
            self._scene.tell("resolved", self._txn.instant, "refused")  # its tasks failed, or it was given up

    def commit(self) -> Any:
        scene, request_time = self._scene, self._txn.instant
        self._intent.outcome = "aborting"  # a refused commit rolls itself back
        if scene.world.is_storm and self._process.rng.random() < scene.setting.aborts:
            raise _GivenUp
        try:
            done = self._txn.commit()
        except CommitRefused:
            scene.mark("refused")
            scene.tell("resolved", request_time, "refused")
            raise
        except (CommitUnknown, OutcomeUnknown):
            if self._txn._end is not None:
                self._ask(request_time)
            raise
        except StorageError:
            if self._txn._end is not None:
                # Neither "refused" nor "unknown": whoever reads that takes it for "not done".
                scene.tell("resolved", request_time, "refused")
            raise
        scene.tell("resolved", request_time, "published")
        return done

    def _ask(self, request_time: str) -> None:
        for _ in range(3):
            self._process.clock.sleep(0.1)
            try:
                answer = write_status(self._writing.ledger(self._scene.table.config), request_time)
            except StorageError:
                continue
            self._scene.mark(f"unknown became {answer}")
            if answer != "open":
                self._scene.tell("resolved", request_time, answer)
                return


def cluster_once(scene: Scene, process: Process, _txn: str) -> None:
    own = product.new_writing(scene, process)
    is_removable = process.rng.random() < scene.setting.removable
    try:
        for _ in clustering.cluster(open_table(own), is_removable=is_removable, engine=product.new_engine(scene)):
            scene.mark("clustered")
    except ClusteringYielded as error:
        scene.mark("clustering gave way")
        if not scene.setting.gives_way:
            raise Violation("20 protected clusterings", f"no writer may come before its end: {error}") from error


__all__ = ["cluster_once", "found", "work", "write_once"]

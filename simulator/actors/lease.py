# SPDX-License-Identifier: Apache-2.0
"""The protocol of the RFCs under a lock that is a lease: what lakebraid does *not* do, and why.

Request time and completion times are drawn, and timeline files created, while the lock is held. The lock is a file that
passes on when it is older than its lease. Whoever sleeps past his lease does not know it, and there it loses rows:
see `tests/simulator/test_lease.py`. Written here only, naively, to show that the simulator finds such holes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import TYPE_CHECKING

from lakebraid.clock import SystemClock
from lakebraid.errors import ObjectExists, ObjectNotFound
from lakebraid.format.names import parse_data_file
from lakebraid.format.timeline.commit import format_commit
from lakebraid.format.timeline.plans import CompactionPlan, format_compaction_plan
from lakebraid.format.timeline.rollbacks import InstantInfo, RollbackPlan, format_rollback_plan
from lakebraid.format.times import format_instant_time, next_instant_time
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.table.view import load_view
from simulator.oracle import TIMELINE
from simulator.stand_ins.tasks import Merging, by_group, run_merge, write_log
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene

LOCK = ".hoodie/lock"


@contextmanager
def locked(scene: Scene, process: Process) -> Iterator[None]:
    """Holds the lock, or believes so: its lease ends when it ends, whatever its holder is doing."""
    while not _taken(scene, process):
        process.clock.sleep(0.02)
    yield
    process.storage.delete([LOCK])


def _taken(scene: Scene, process: Process) -> bool:
    storage = process.storage
    try:
        storage.create(LOCK, process.name.encode())
    except ObjectExists:
        try:
            age_ms = process.clock.now_ms() - storage.info(LOCK).modified_ms
        except ObjectNotFound:
            return False
        if age_ms > scene.setting.timeout_ms:
            scene.mark("lease ran out")
            storage.delete([LOCK])
        return False
    return True


def fresh_time(scene: Scene, process: Process) -> str:
    """A time above every one on the timeline."""
    timeline = load_timeline(TableAt(process.storage, scene.table.config, process.clock))
    last = max((t for i in timeline for t in (i.request_time, i.completion_time) if t), default="0" * 17)
    return max(format_instant_time(process.clock.now_ms(), UTC), next_instant_time(last))


def found(scene: Scene, process: Process) -> None:
    from simulator.actors.writing import commit_of  # noqa: PLC0415  the two protocols share what they write

    with locked(scene, process):
        request_time = fresh_time(scene, process)
        for state in ("requested", "inflight"):
            process.storage.create(f"{TIMELINE}{request_time}.deltacommit.{state}", b"")
        completion = fresh_time(scene, process)
        process.storage.create(f"{TIMELINE}{request_time}_{completion}.deltacommit", format_commit(commit_of([])))


def write(scene: Scene, process: Process, rounds: int) -> None:
    from simulator.actors.writing import commit_of, drawn_changes  # noqa: PLC0415

    storage, setting = process.storage, scene.setting
    for number in range(rounds):
        changes = drawn_changes(scene, process.rng, f"{process.name}-{number}")
        with locked(scene, process):
            request_time = fresh_time(scene, process)
            storage.create(f"{TIMELINE}{request_time}.deltacommit.requested", b"")
            storage.create(f"{TIMELINE}{request_time}.deltacommit.inflight", b"")
        scene.oracle.intend(request_time, process.name, changes).outcome = "aborting"
        groups = by_group(changes, setting.partitions, setting.buckets)
        files = [write_log(storage, request_time, group, part) for group, part in groups]
        with locked(scene, process):
            inflight = [i.name for i in storage.list(TIMELINE.rstrip("/"))]
            if f"{TIMELINE}{request_time}.deltacommit.inflight" not in inflight:
                return
            completion = fresh_time(scene, process)
            storage.create(f"{TIMELINE}{request_time}_{completion}.deltacommit", format_commit(commit_of(files)))


def compact(scene: Scene, process: Process, rounds: int) -> None:
    from simulator.actors.compacting import compaction_of, operation_of  # noqa: PLC0415

    storage = process.storage
    for _ in range(rounds):
        process.clock.sleep(0.3)
        with locked(scene, process):
            view = load_view(TableAt(storage, scene.table.config, process.clock))
            operations = tuple(operation_of(part) for part in view.slices() if part.logs)
            request_time = fresh_time(scene, process)
            storage.create(
                f"{TIMELINE}{request_time}.compaction.requested", format_compaction_plan(CompactionPlan(operations))
            )
        files = []
        for o in operations:
            work = Merging(o.partition_path, o.file_id, o.data_file_name, o.delta_file_names)
            files += run_merge(storage, request_time, 1, work, by_event=scene.setting.by_event)
        with locked(scene, process):
            completion = fresh_time(scene, process)
            storage.create(f"{TIMELINE}{request_time}_{completion}.commit", format_commit(compaction_of(files)))


def rescue(scene: Scene, process: Process, rounds: int) -> None:
    """Rolls back whatever is pending for longer than a heartbeat; these writers do not beat."""
    storage = process.storage
    for _ in range(rounds):
        process.clock.sleep(scene.setting.timeout_ms / 1000)
        with locked(scene, process):
            timeline = load_timeline(TableAt(storage, scene.table.config, SystemClock()))
            pending = [i for i in timeline.pending if i.action == "deltacommit"]
            for instant in pending:
                request_time = fresh_time(scene, process)
                plan = RollbackPlan(InstantInfo(instant.request_time, "deltacommit"))
                storage.create(f"{TIMELINE}{request_time}.rollback.requested", format_rollback_plan(plan, storage.url))
                _remove(storage, instant.request_time)


def _remove(storage: object, request_time: str) -> None:
    names = [info.name for info in storage.list("")]  # type: ignore[attr-defined]
    parsed = [(name, parse_data_file(name.rpartition("/")[2])) for name in names if not name.startswith(".hoodie")]
    storage.delete([name for name, p in parsed if p is not None and p.request_time == request_time])  # type: ignore[attr-defined]
    pending = [f"{TIMELINE}{request_time}.deltacommit.{state}" for state in ("inflight", "requested")]
    storage.delete(pending)  # type: ignore[attr-defined]


def read(scene: Scene, process: Process, rounds: int) -> None:
    from simulator.actors.asking import read as read_product  # noqa: PLC0415  readers are the same

    read_product(scene, process, rounds)


def heal(scene: Scene, process: Process) -> None:
    """One last reader: this protocol is only here to fail before that."""
    read(scene, process, 1)


ACTORS = {"writer": write, "compactor": compact, "rescuer": rescue, "reader": read}

__all__ = ["ACTORS", "found", "heal"]

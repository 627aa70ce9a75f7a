# SPDX-License-Identifier: Apache-2.0
"""Who takes part: writers, compactors, rescuers, readers. They call the product's own control plane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from lakebraid.errors import CommitRefused, CommitUnknown, LakebraidError, ObjectNotFound, SchemaConflict, StorageError
from lakebraid.format.commit import CommitMetadata, WriteStat
from lakebraid.storage.protocol import Storage
from lakebraid.table.view import load_views
from lakebraid.txn.heartbeat import beat
from lakebraid.txn.ledger import Ledger
from lakebraid.txn.markers import forget
from lakebraid.txn.operations import begin, publish, status
from lakebraid.txn.rescue import rescue, sweep
from lakebraid.txn.rollback import roll_back
from simulator import product
from simulator.compacting import compact
from simulator.oracle import Change
from simulator.reading import Answer, read_hudi, read_product, rows_of_view
from simulator.tables import SCHEMA
from simulator.tasks import Written, by_group, write_log
from simulator.violation import Violation
from simulator.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene


def new_ledger(scene: Scene, process: Process) -> Ledger:
    return Ledger(process.storage, process.clock, scene.table.config)


def found(scene: Scene, process: Process) -> None:
    """Creating a table publishes an empty commit, so that no later write is the first."""
    ledger = new_ledger(scene, process)
    start = begin(ledger, "founding")
    publish(ledger, "founding", start, lambda _: CommitMetadata(extra={"schema": SCHEMA}, operation="UPSERT"))


# --- writers ----------------------------------------------------------------------------------------------------------


def write(scene: Scene, process: Process, rounds: int) -> None:
    ledger, writing = new_ledger(scene, process), product.new_writing(scene, process)
    for number in range(rounds):
        if process.rng.random() < 0.3:
            ledger, writing = new_ledger(scene, process), product.new_writing(scene, process)
        process.clock.sleep(process.rng.random() * 0.2)
        txn = f"{process.name}-{number}"
        if scene.setting.whole:
            changes = drawn_changes(scene, process.rng, txn)
            files = Writer(scene, process, ledger, txn)
            product.Session(scene, process, writing, txn).run(changes, files.write_files)
        else:
            Writer(scene, process, ledger, txn).run()


class Writer:
    """One write, from its beginning to whatever it is told."""

    def __init__(self, scene: Scene, process: Process, ledger: Ledger, txn: str) -> None:
        self._scene, self._process, self._ledger, self._txn = scene, process, ledger, txn
        self._is_over = False

    def run(self) -> None:
        storage = self._process.storage
        changes = drawn_changes(self._scene, self._process.rng, self._txn)
        try:
            start = begin(self._ledger, self._txn, beat=lambda s: _beat_once(storage, s))
        except StorageError:
            self._scene.mark("begin failed")
            return
        intent = self._scene.oracle.intend(start, self._process.name, changes)
        self._scene.world.spawn(self._process, f"{self._txn}.beat", lambda: self._beat(start))
        try:
            files = self.write_files(start, changes)
            if files is None or self._happens(self._scene.setting.aborts):
                intent.outcome = "aborting"
                self._abort(start)
            else:
                self._publish(start, files)
        finally:
            self._is_over = True

    def _beat(self, start: str) -> None:
        while not self._is_over:
            self._process.clock.sleep(self._scene.setting.timeout_ms / 5000)
            if not self._is_over:
                beat(self._process.storage, start)

    def write_files(self, start: str, changes: tuple[Change, ...]) -> list[Written] | None:
        setting = self._scene.setting
        work = [
            partial(write_log, start=start, group=group, changes=part)
            for group, part in by_group(changes, setting.partitions, setting.buckets)
        ]
        if setting.executors:
            return run_tasks(self._scene, self._process, self._txn, work)
        try:
            return [task(self._process.storage) for task in work]
        except StorageError:
            self._scene.mark("task failed")
            return None

    def _publish(self, start: str, files: list[Written]) -> None:
        metadata = commit_of(files)
        is_unknown = False
        for _ in range(4):
            self._scene.tell("resolved", start, "open")
            try:
                publish(self._ledger, self._txn, start, lambda _: self._checked(metadata))
            except SchemaConflict:
                if self._give_up(start):
                    return
                is_unknown = True
            except CommitRefused:
                self._scene.mark("refused")
                self._scene.tell("resolved", start, "refused")
                return
            except CommitUnknown:
                is_unknown = True
                if self._ask(start) != "open":
                    return
            except StorageError:
                self._scene.mark("publish failed")
                if not is_unknown:
                    # Whoever is not told that it is unknown may take it for not done.
                    self._scene.tell("resolved", start, "not done")
                self._process.clock.sleep(0.05)
            else:
                self._scene.tell("resolved", start, "published")
                forget(self._process.storage, start)
                return

    def _give_up(self, start: str) -> bool:
        """Rolls back before anybody is told: an unanswered publish of ours could still land (LEDGER, H12)."""
        self._scene.mark("refused by a check")
        self._scene.oracle.intents[start].outcome = "aborting"
        try:
            is_gone = roll_back(self._ledger, self._txn, start)
        except StorageError:
            return False
        self._scene.tell(
            "resolved", start, "refused" if is_gone or start not in self._scene.oracle.published else "published"
        )
        return True

    def _happens(self, probability: float) -> bool:
        return self._scene.world.is_storm and self._process.rng.random() < probability

    def _checked(self, metadata: CommitMetadata) -> CommitMetadata:
        """Stands in for the checks of a round: another writer may have changed the schema since the last one."""
        if self._happens(self._scene.setting.refusals):
            raise SchemaConflict("Another writer changed the schema first. Nothing was published.")
        return metadata

    def _ask(self, start: str) -> str:
        self._process.clock.sleep(0.05)
        try:
            answer = status(self._ledger, start)
        except StorageError:
            return "open"
        self._scene.mark(f"unknown became {answer}")
        if answer != "open":
            self._scene.tell("resolved", start, answer)
        return answer

    def _abort(self, start: str) -> None:
        try:
            if roll_back(self._ledger, self._txn, start):
                self._scene.tell("resolved", start, "refused")
        except StorageError:
            self._scene.mark("abort failed")


def _beat_once(storage: Storage, start: str) -> None:
    beat(storage, start)


def drawn_changes(scene: Scene, rng: Random, txn: str) -> tuple[Change, ...]:
    setting = scene.setting
    keys = sorted({f"k{rng.randrange(setting.keys)}" for _ in range(rng.randrange(1, 4))})
    changes = []
    for key in keys:
        is_delete = rng.random() < setting.deletes
        order = rng.randrange(1, setting.orders + 1)
        if is_delete:
            # By event time our deletes always have an ordering value; by commit time never.
            changes.append(Change(key, order if setting.by_event else None, None))
        else:
            changes.append(Change(key, order, f"{txn}-{key}"))
    return tuple(changes)


def commit_of(files: list[Written]) -> CommitMetadata:
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for file in files:
        stats[file.partition] = (*stats.get(file.partition, ()), file.stat())
    return CommitMetadata(write_stats=stats, extra={"schema": SCHEMA}, operation="UPSERT")


def run_tasks(
    scene: Scene, driver: Process, label: str, work: Sequence[Callable[[Storage], Written]]
) -> list[Written] | None:
    """Runs tasks in executors of their own: they go on when the driver dies, fail and are tried again, run twice."""
    results: dict[int, Written] = {}
    failures: dict[int, int] = {}

    def launch(at: int, attempt: int) -> None:
        executor = Process(scene.world, f"{label}.t{at}.{attempt}")

        def body() -> None:
            try:
                results[at] = work[at](executor.storage)
            except StorageError:
                failures[at] = failures.get(at, 0) + 1

        scene.world.spawn(executor, executor.name, body)
        running.append((at, executor))

    running: list[tuple[int, Process]] = []
    for at in range(len(work)):
        launch(at, 0)
        if driver.rng.random() < 0.2:
            launch(at, 1)
    attempts = 1
    for _ in range(60):
        if len(results) == len(work):
            return [results[at] for at in sorted(results)]
        driver.clock.sleep(0.02)
        alive = {at for at, executor in running if not executor.is_dead and not all(t.dead for t in executor.threads)}
        idle = [at for at in range(len(work)) if at not in results and at not in alive]
        if idle and attempts < 4:
            attempts += 1
            for at in idle:
                launch(at, attempts)
    scene.mark("tasks given up")
    return None


# --- rescuers ---------------------------------------------------------------------------------------------------------


def clear_up(scene: Scene, process: Process, rounds: int) -> None:
    """Rolls back the dead, finishes what others began; now and then removes files that nobody owns."""
    ledger = new_ledger(scene, process)
    for number in range(rounds):
        process.clock.sleep(scene.setting.timeout_ms / 1000 * (0.3 + process.rng.random()))
        try:
            clear_up_once(scene, process, ledger, f"{process.name}-{number}", swept=process.rng.random() < 0.4)
        except StorageError:
            scene.mark("rescue failed")


def clear_up_once(scene: Scene, process: Process, ledger: Ledger, txn: str, *, swept: bool) -> None:
    done = rescue(ledger, txn, timeout_ms=scene.setting.timeout_ms)
    for _ in done.rolled_back:
        scene.mark("rescued")
    for _ in done.finished:
        scene.mark("rollback finished for another")
    if swept:
        for _ in sweep(process.storage, process.clock, scene.table.config, ledger):
            scene.mark("swept")


# --- readers ----------------------------------------------------------------------------------------------------------


def read(scene: Scene, process: Process, rounds: int) -> None:
    for _ in range(rounds):
        process.clock.sleep(process.rng.random() * 0.3)
        ask(scene, process, "snapshot", None)


def travel(scene: Scene, process: Process, rounds: int) -> None:
    for _ in range(rounds):
        process.clock.sleep(process.rng.random() * 0.8)
        seen = [n.completion for n in scene.oracle.notes]
        ask(scene, process, "as_of", process.rng.choice(seen))


def ask(scene: Scene, process: Process, kind: str, as_of: str | None) -> None:
    began = scene.world.step
    try:
        completion, rows = read_product(
            process.storage, scene.table.config, process.clock, as_of, by_event=scene.setting.by_event
        )
    except ObjectNotFound as error:
        raise Violation("3 never half a commit", f"{process.name} found a file missing: {error}") from error
    except StorageError:
        scene.mark("read failed")
        return
    answer = Answer(kind, process.name, began, scene.world.step, as_of or completion, rows)
    scene.world.note("reads", kind, f"{completion} {rows}")
    scene.tell("answered", answer)


def mirror(scene: Scene, process: Process, rounds: int) -> None:
    """Keeps a copy up to date by reading changes only."""
    for _ in range(rounds):
        process.clock.sleep(process.rng.random() * 0.4)
        try:
            mirror_once(scene, process)
        except ObjectNotFound as error:
            raise Violation("3 never half a commit", f"{process.name} found a file missing: {error}") from error
        except StorageError:
            scene.mark("mirror failed")


def mirror_once(scene: Scene, process: Process) -> None:
    after, rows = scene.mirrored.get(process.name, ("0", {}))
    times = (after, None) if after != "0" else (None,)
    views = load_views(process.storage, scene.table.config, process.clock, times)
    by_event = scene.setting.by_event
    new = rows_of_view(process.storage, views[-1], by_event=by_event)
    old = rows_of_view(process.storage, views[0], by_event=by_event) if len(views) > 1 else {}
    changed = {k: v for k, v in new.items() if old.get(k) != v}
    rows = {k: v for k, v in {**rows, **changed}.items() if k in new or k not in old}
    until = views[-1].completion_time
    instants = (*views[-1].timeline.archived, *views[-1].timeline.writes)
    starts = [i.request_time for i in instants if after < (i.completion_time or "") <= until]
    scene.mirrored[process.name] = (until, rows)
    scene.tell("changes_read", process.name, after, until, starts, dict(sorted(rows.items())))


def read_as_hudi(scene: Scene, process: Process, rounds: int) -> None:
    for _ in range(rounds):
        process.clock.sleep(process.rng.random() * 0.5)
        try:
            answer = read_hudi(process.storage, by_event=scene.setting.by_event)
        except StorageError:
            scene.mark("hudi read failed")
            continue
        scene.tell("hudi_answered", process.name, answer)


# --- healing and audit ------------------------------------------------------------------------------------------------


def heal(scene: Scene, process: Process) -> None:
    """Faults have stopped and every lease has run out: one of each kind must bring all to an end."""
    ledger, writing = new_ledger(scene, process), product.new_writing(scene, process)
    for number in range(3):
        process.clock.sleep(scene.setting.timeout_ms / 1000 * 2)
        clear_up_once(scene, process, ledger, f"healing-{number}", swept=True)
        if scene.setting.whole:
            product.compact(scene, writing)
        else:
            compact(scene, process, ledger, f"healing-compaction-{number}")
    Writer(scene, process, ledger, "healing-write").run()
    ask(scene, process, "snapshot", None)


def audit(scene: Scene, process: Process) -> None:
    """Every completion time, read again; a mirror of everything from the beginning."""
    sweep(process.storage, process.clock, scene.table.config, new_ledger(scene, process))
    times = sorted({n.completion for n in scene.oracle.notes})
    for time in times[-6:]:
        ask(scene, process, "as_of", time)
    mirror_once(scene, process)


def compact_rounds(scene: Scene, process: Process, rounds: int) -> None:
    ledger, writing = new_ledger(scene, process), product.new_writing(scene, process)
    for number in range(rounds):
        process.clock.sleep(process.rng.random() * 0.6)
        try:
            if scene.setting.whole:
                product.compact(scene, writing)
            else:
                compact(scene, process, ledger, f"{process.name}-{number}")
        except LakebraidError as error:
            if isinstance(error, ObjectNotFound) or not isinstance(error, HONEST):
                raise
            scene.mark(f"compaction: {type(error).__name__}")


HONEST = (StorageError, CommitRefused, CommitUnknown)
"""What a user may be told when the weather is bad."""

ACTORS: dict[str, Callable[[Scene, Process, int], None]] = {
    "writer": write,
    "compactor": compact_rounds,
    "rescuer": clear_up,
    "reader": read,
    "traveller": travel,
    "mirror": mirror,
    "hudi": read_as_hudi,
}

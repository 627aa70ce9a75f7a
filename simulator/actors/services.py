# SPDX-License-Identifier: Apache-2.0
"""Table services as actors, on the product's own code: cleaner, archiver, log compactor, savepoints, restores, readers
that hold files back. Whatever they are told in bad weather is honest; what they hold must stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakebraid.errors import (
    CommitRefused,
    CommitUnknown,
    InvalidArgument,
    ObjectNotFound,
    SnapshotExpired,
    StorageError,
)
from lakebraid.services import archiving
from lakebraid.services.cleaning import clean, finish_cleans
from lakebraid.services.merging import log_compaction
from lakebraid.services.merging.scope import Scope
from lakebraid.services.retention import Retention
from lakebraid.services.savepoints import delete_savepoint, restore, set_savepoint
from lakebraid.services.settings import open_table
from lakebraid.txn.actions.archive import finish_archive
from lakebraid.txn.liveness.leases import LEASES, advance_consumer, drop_lease, register_consumer, take_lease
from simulator.actors import placing
from simulator.actors.asking import ask, mirror_once
from simulator.actors.writing import Writer, drawn_changes, new_ledger
from simulator.stand_ins import product
from simulator.world.violation import Violation
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene

Work = Callable[["Scene", Process, int], None]
HONEST = (StorageError, CommitRefused, CommitUnknown)


def _rounds(pause: float, once: Callable[[Scene, Process, str], None], what: str) -> Work:
    """An actor that does something again and again; in bad weather it may be told that it did not work."""

    def work(scene: Scene, process: Process, rounds: int) -> None:
        for number in range(rounds):
            process.clock.sleep(pause * process.rng.random())
            try:
                once(scene, process, f"{process.name}-{number}")
            except HONEST as error:
                if isinstance(error, ObjectNotFound) and not scene.was_cleaned(str(error)):
                    raise
                scene.mark(f"{what}: {type(error).__name__}")

    return work


def clean_once(scene: Scene, process: Process, _txn: str) -> None:
    done = clean(new_ledger(scene, process), Retention("KEEP_LATEST_COMMITS", scene.setting.retained))
    scene.mark("cleaned" if done.files else "nothing to clean")
    if done.finished:
        scene.mark("clean finished for another")


def archive_once(scene: Scene, process: Process, _txn: str) -> None:
    least = 1 + process.rng.randrange(2)
    opened = open_table(product.new_writing(scene, process), is_written=True)
    done = archiving.archive(opened, least, least + process.rng.randrange(2))
    scene.mark("archived" if done.instants else "nothing to archive")


def log_compact_once(scene: Scene, process: Process, _txn: str) -> None:
    writing, engine = product.new_writing(scene, process), product.new_engine(scene)
    is_removable = process.rng.random() < scene.setting.removable
    opened = open_table(writing, is_written=True)
    for _ in log_compaction.log_compact(opened, scope=Scope(logs_min=2), is_removable=is_removable, engine=engine):
        scene.mark("log-compacted")


def savepoint_once(scene: Scene, process: Process, _txn: str) -> None:
    ledger = new_ledger(scene, process)
    seen = [n for n in scene.oracle.writes() if n.request_time not in scene.oracle.undone]
    wanted = process.rng.choice([None, *(n.request_time for n in seen[-4:])])
    try:
        made = set_savepoint(ledger, wanted)
    except (SnapshotExpired, InvalidArgument):
        scene.mark("savepoint refused")
        return
    # Another one may have found the same savepoint there, and deleted it before we heard that it is set.
    if made.instant not in scene.oracle.undone and made.set_at not in scene.let_go:
        scene.savepoints[made.instant] = made.completion_time
    scene.mark("savepoint set")
    process.clock.sleep(process.rng.random() * 2)
    if process.rng.random() < 0.6:
        scene.savepoints.pop(made.instant, None)
        scene.let_go.add(made.set_at)
        delete_savepoint(ledger, made.instant)
        scene.mark("savepoint deleted")


def restore_once(scene: Scene, process: Process, _txn: str) -> None:
    seen = [n for n in scene.oracle.writes() if n.request_time not in scene.oracle.undone]
    aim = process.rng.choice(seen[-5:])
    try:
        done = restore(new_ledger(scene, process), process.rng.choice((aim.request_time, aim.completion)))
    except (SnapshotExpired, InvalidArgument):
        scene.mark("restore refused")
    else:
        scene.mark("restored" if done.instant else "nothing to restore")


def hold_once(scene: Scene, process: Process, txn: str) -> None:
    """Reads one moment several times under a lease: the answer stays."""
    ledger, token = new_ledger(scene, process), process.clock.token()
    time = process.rng.choice([n.completion for n in scene.oracle.notes[-8:]])
    try:
        take_lease(ledger, token, process.name, time)
    except SnapshotExpired:
        scene.mark("lease refused")
        return
    scene.held[token] = (process, time)
    scene.mark("leased")

    def beat() -> None:
        while token in scene.held:
            process.clock.sleep(scene.lease_ms / 5000)
            if token in scene.held:
                try:
                    process.storage.replace(f"{LEASES}/{token}", b"")
                except StorageError:
                    continue

    scene.world.spawn(process, f"{txn}.beat", beat)
    for _ in range(3):
        if scene.is_held(token):
            ask(scene, process, "held", time, still=lambda: scene.is_held(token))
        process.clock.sleep(process.rng.random())
    scene.held.pop(token, None)
    drop_lease(ledger, token)


def consume(scene: Scene, process: Process, rounds: int) -> None:
    """A named consumer: no clean takes the version at its position."""
    ledger = new_ledger(scene, process)
    for _ in range(rounds):
        process.clock.sleep(process.rng.random())
        try:
            position = register_consumer(ledger, process.name, None)
            if process.name not in scene.positions:
                scene.mirrored.pop(process.name, None)  # it begins now: with a copy of the table as of then
                scene.start_mirror(process.name, position)
            scene.positions[process.name] = position
            mirror_once(scene, process)
            after = scene.mirrored[process.name][0]
            if after > position:
                del scene.positions[process.name]  # which of the two is held nobody knows before the answer
                scene.positions[process.name] = advance_consumer(ledger, process.name, after)
            scene.mark("consumed")
        except SnapshotExpired as error:
            if not scene.oracle.may_be_refused(scene.positions.get(process.name, "0"), scene.world.step):
                raise Violation("14 time travel is stable", f"{process.name}: {error}") from error
            return
        except ObjectNotFound as error:
            if not any(request_time in str(error) for request_time in scene.oracle.undone):
                raise Violation("3 never half a commit", f"{process.name} found a file missing: {error}") from error
            scene.mark("consumer overtaken by a restore")
        except HONEST:
            scene.mark("consumer failed")


def overwrite_once(scene: Scene, process: Process, txn: str) -> None:
    """Replaces partitions by a few rows, or the whole table, or deletes a partition."""
    rng, setting = process.rng, scene.setting
    kind = rng.choice(("insert_overwrite", "insert_overwrite", "insert_overwrite_table", "delete_partition"))
    drawn = [c for c in drawn_changes(scene, rng, txn) if c.value is not None]
    deleted = frozenset({f"p{rng.randrange(setting.partitions)}"} if kind == "delete_partition" else ())
    session = product.Session(scene, process, product.new_writing(scene, process), txn)
    files = Writer(scene, process, new_ledger(scene, process), txn)
    session.overwrite(kind, () if deleted else tuple(drawn), deleted, files.write_files)


def heal(scene: Scene, process: Process) -> None:
    """Whoever left a clean or an archiving unfinished is helped out."""
    if not any(kind in ACTORS for kind, _ in scene.setting.actors):
        return
    ledger = new_ledger(scene, process)
    if not scene.setting.cow:
        log_compact_once(scene, process, "healing")
    if scene.setting.placed:
        placing.cluster_once(scene, process, "healing")
    finish_cleans(ledger, "healing")
    finish_archive(ledger, "healing")


ACTORS: dict[str, Work] = {
    "cleaner": _rounds(1.0, clean_once, "clean"),
    "archiver": _rounds(0.8, archive_once, "archive"),
    "logcompactor": _rounds(0.6, log_compact_once, "log compaction"),
    "clusterer": _rounds(0.6, placing.cluster_once, "clustering"),
    "savepointer": _rounds(1.0, savepoint_once, "savepoint"),
    "restorer": _rounds(3.0, restore_once, "restore"),
    "holder": _rounds(0.8, hold_once, "lease"),
    "consumer": consume,
    "overwriter": _rounds(0.8, overwrite_once, "overwrite"),
}

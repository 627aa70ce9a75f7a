# SPDX-License-Identifier: Apache-2.0
"""Who takes part: writers, readers, services, rescuers; and who heals and audits at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakebraid.errors import CommitRefused, CommitUnknown, LakebraidError, ObjectNotFound, StorageError
from lakebraid.services.cleaning import finish_cleans
from lakebraid.txn.actions.rescue import rescue, sweep
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Attempted
from simulator.actors import hudi, metadata, placing, services
from simulator.actors.asking import ask, mirror, mirror_once, read, read_as_hudi, travel
from simulator.actors.compacting import compact
from simulator.actors.looping import loop
from simulator.actors.streaming import stream
from simulator.actors.writing import Writer, drawn_changes, new_ledger, write
from simulator.stand_ins import product
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene


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
    timeout_ms = scene.setting.timeout_ms
    done = rescue(ledger, txn, timeout_ms=timeout_ms, plan_delay_ms=timeout_ms)
    for _ in done.plans:
        scene.mark("removable plan taken back")
    for _ in done.rolled_back:
        scene.mark("rescued")
    for _ in done.finished:
        scene.mark("rollback finished for another")
    if swept:
        for _ in sweep(ledger):
            scene.mark("swept")


def heal(scene: Scene, process: Process) -> None:
    """Faults have stopped and every lease has run out: one of each kind must bring all to an end."""
    ledger, writing = new_ledger(scene, process), product.new_writing(scene, process)
    if scene.setting.shared:
        hudi.unlock(scene)
        ledger.decide("healing", lambda _: Already(None))  # breaks the lock of whoever of ours died with it
        hudi.heal(scene, process)
    else:
        ledger.decide_asks(ledger.newest(), Attempted())  # so that what the dead asked for is rescued, too
    for number in range(3):
        process.clock.sleep(scene.setting.timeout_ms / 1000 * 2)
        clear_up_once(scene, process, ledger, f"healing-{number}", swept=True)
        if scene.setting.whole or scene.setting.shared:
            services.heal(scene, process)
            if not scene.setting.cow:
                product.compact(scene, writing)
        else:
            compact(scene, process, ledger, f"healing-compaction-{number}")
        if scene.setting.metadata:
            finish_cleans(ledger, "healing")
            metadata.tend_once(scene, process)
    healing = Writer(scene, process, ledger, "healing-write")
    if scene.setting.placed:
        placing.write_once(scene, process, writing, "healing-write")
    elif scene.setting.fixed:
        changes = drawn_changes(scene, process.rng, "healing-write")
        product.Session(scene, process, writing, "healing-write").run(changes, healing.write_files)
    else:
        healing.run()
    ask(scene, process, "snapshot", None)


def audit(scene: Scene, process: Process) -> None:
    """Every completion time, read again; a mirror of everything from the beginning."""
    sweep(new_ledger(scene, process))
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
            is_missing = isinstance(error, ObjectNotFound) and not scene.was_cleaned(str(error))
            if is_missing or not isinstance(error, HONEST):
                raise
            scene.mark(f"compaction: {type(error).__name__}")


HONEST = (StorageError, CommitRefused, CommitUnknown)
"""What a user may be told when the weather is bad."""

ACTORS: dict[str, Callable[[Scene, Process, int], None]] = {
    "writer": write,
    "placer": placing.work,
    "compactor": compact_rounds,
    "rescuer": clear_up,
    "reader": read,
    "traveller": travel,
    "mirror": mirror,
    "hudi": read_as_hudi,
    "job": hudi.work,
    "operator": hudi.operate,
    "streamer": stream,
    "looper": loop,
    "tender": metadata.tend,
    "lister": metadata.list_rounds,
    **services.ACTORS,
}

# SPDX-License-Identifier: Apache-2.0
"""Readers: of now, of the past, of changes, and one that reads as Apache Hudi does. What they see is told to checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lakebraid.errors import ObjectNotFound, SnapshotExpired, StorageError
from lakebraid.table.at import TableAt
from lakebraid.table.view import load_views
from simulator.reading import Answer, read_hudi, read_product, rows_of_view
from simulator.world.violation import Violation
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene


def read(scene: Scene, process: Process, rounds: int) -> None:
    for _ in range(rounds):
        process.clock.sleep(process.rng.random() * 0.3)
        ask(scene, process, "snapshot", None)


def travel(scene: Scene, process: Process, rounds: int) -> None:
    for _ in range(rounds):
        process.clock.sleep(process.rng.random() * 0.8)
        missing = scene.oracle.missing_at(scene.world.step + 1)
        seen = [n.completion for n in scene.oracle.notes if n.completion < missing]
        ask(scene, process, "as_of", process.rng.choice(seen))


def ask(scene: Scene, process: Process, kind: str, as_of: str | None, still: Callable[[], bool] = lambda: True) -> None:
    """Reads, and tells the checkers; `still` says whether what is held still protects."""
    began = scene.world.step
    try:
        completion, rows = read_product(
            process.storage, scene.table.config, process.clock, as_of, by_event=scene.setting.by_event
        )
    except SnapshotExpired as error:
        scene.mark("read expired")
        if kind != "held" or still():
            scene.tell("expired", process.name, kind, as_of or "", began, str(error))
        return
    except ObjectNotFound as error:
        # A restore ends the leases of the moments that it takes back.
        is_protected = kind == "held" and still() and not scene.oracle.is_lost(as_of or "", scene.world.step)
        if scene.was_cleaned(str(error)) and not is_protected:
            scene.mark("read overtaken by a clean")
            return
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
        except SnapshotExpired:
            scene.mirrored.pop(process.name, None)  # it reads the whole table once more
        except ObjectNotFound as error:
            if scene.was_cleaned(str(error)):
                scene.mark("mirror overtaken by a clean")
                continue
            raise Violation("3 never half a commit", f"{process.name} found a file missing: {error}") from error
        except StorageError:
            scene.mark("mirror failed")


def mirror_once(scene: Scene, process: Process) -> None:
    began = scene.world.step
    after, rows = scene.mirrored.get(process.name, ("0", {}))
    times = (after, None) if after != "0" else (None,)
    views = load_views(TableAt(process.storage, scene.table.config, process.clock), times)
    by_event = scene.setting.by_event
    new = rows_of_view(process.storage, views[-1], by_event=by_event)
    old = rows_of_view(process.storage, views[0], by_event=by_event) if len(views) > 1 else {}
    changed = {k: v for k, v in new.items() if old.get(k) != v}
    rows = {k: v for k, v in {**rows, **changed}.items() if k in new or k not in old}
    until = views[-1].completion_time
    instants = (*views[-1].timeline.archived, *views[-1].timeline.writes)
    request_times = [i.request_time for i in instants if after < (i.completion_time or "") <= until]
    scene.mirrored[process.name] = (until, rows)
    ended = scene.world.step
    scene.tell("changes_read", process.name, after, until, request_times, dict(sorted(rows.items())), began, ended)


def read_as_hudi(scene: Scene, process: Process, rounds: int) -> None:
    for _ in range(rounds):
        process.clock.sleep(process.rng.random() * 0.5)
        began = scene.world.step
        try:
            answer = read_hudi(process.storage, by_event=scene.setting.by_event)
        except StorageError:
            scene.mark("hudi read failed")
            continue
        scene.tell("hudi_answered", process.name, answer, began)

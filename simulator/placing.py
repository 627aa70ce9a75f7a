# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows may lie in any file group: writers that look for their rows' groups, and clusterings that move rows.

All keys that writers fight over are there from the beginning, each in a group of its own. Besides them a writer now and
then appends a key that nobody else has, in a new group: a clustering must neither lose it nor be hindered by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakebraid.errors import StorageError
from lakebraid.services import clustering
from lakebraid.services.clustering import ClusteringYielded
from lakebraid.table.view import load_view
from simulator import product, writing
from simulator.oracle import Change
from simulator.tasks import Written, group_of, read_versions, write_base, write_log
from simulator.violation import Violation
from simulator.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene


def found(scene: Scene, process: Process) -> None:
    """The table with a row for every key."""
    writing.found(scene, process)
    for number in range(scene.setting.keys):
        changes = (Change(f"k{number}", 0, f"first-{number}"),)
        _write(scene, process, product.new_writing(scene, process), f"founding-{number}", changes)


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
    _write(scene, process, own, txn, (*changed, *appended))


def _write(scene: Scene, process: Process, own: product.SimWriting, txn: str, changes: tuple[Change, ...]) -> None:
    product.Session(scene, process, own, txn).run(changes, _files(scene, process))


def _files(scene: Scene, process: Process) -> Callable[..., list[Written] | None]:
    def write(start: str, changes: tuple[Change, ...], _place: Any) -> list[Written] | None:
        try:
            return [*_placed(scene, process, start, changes)]
        except StorageError:
            scene.mark("task failed")
            return None

    return write


def _placed(scene: Scene, process: Process, start: str, changes: tuple[Change, ...]) -> list[Written]:
    """The files of these changes: a log for the group that has the key, a base file of a new group for a new key."""
    storage = process.storage
    view = load_view(storage, scene.table.config, process.clock)
    homes = {
        version.key: (part.group.partition, part.group.file_id)
        for part in view.slices()
        if part.base is not None
        for version in read_versions(storage.read(part.base.name, 1 << 20))
    }
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        partition = group_of(change.key, scene.setting.partitions, 1)[0]
        new = (partition, f"a{process.clock.token()[:7]}-0000-0000-0000-000000000000-0")
        groups.setdefault(homes.get(change.key, new), []).append(change)
    known = set(homes.values())
    return [
        write_log(storage, start, group, tuple(own)) if group in known else write_base(storage, start, group, own)
        for group, own in sorted(groups.items())
    ]


def cluster_once(scene: Scene, process: Process, _txn: str) -> None:
    own = product.new_writing(scene, process)
    is_removable = process.rng.random() < scene.setting.removable
    try:
        for _ in clustering.cluster(own, is_removable=is_removable):
            scene.mark("clustered")
    except ClusteringYielded as error:
        scene.mark("clustering gave way")
        if not scene.setting.gives_way:
            raise Violation("20 protected clusterings", f"no writer may come before its end: {error}") from error


__all__ = ["cluster_once", "found", "work", "write_once"]

# SPDX-License-Identifier: Apache-2.0
"""The simulator's engine: writes tiny files. Of a write that looks for its rows it looks keys up in tiny base files, rewrites
these, fills small ones, and makes new ones.

What decides stays the product's: the view, which groups are closed, how rows are shared out, and every check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from greenlet import getcurrent

from lakebraid.errors import ObjectNotFound, SnapshotExpired, StorageError
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.names import BaseFileName
from lakebraid.format.timeline.commit import WriteStat
from lakebraid.model.file_sizing import Room, share_out
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.engine import Gathered, Kept, Written
from lakebraid.tasks.lookup.assign import Ground
from lakebraid.tasks.lookup.changes import Piece
from lakebraid.tasks.merging.rewrite import Target
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan
from lakebraid.txn.checks.inserted_keys import SameKeys
from simulator.oracle import Change
from simulator.stand_ins.executors import run_tasks
from simulator.stand_ins.tasks import MARK, Version, create_once, merge, put, read_versions, write_log
from simulator.world.tables import SCHEMA

if TYPE_CHECKING:
    from simulator.scene import Scene

_ROW_BYTES = 45.0
"""About what a row takes."""
_COLUMNS = parse_avro_schema(SCHEMA, "the simulator's tables")
Changes = tuple[Change, ...]


class SimEngine:
    """The product's `Engine` for one write; its rows are changes of keys."""

    is_cancelled = False

    def __init__(self, scene: Scene, storage: Storage) -> None:
        self._scene, self._storage = scene, storage

    def at_hand(self, data: Changes, columns: pa.Schema | None) -> pa.Table | None:
        return None

    def pieces(self, data: Changes, columns: pa.Schema | None) -> list[Changes]:
        return [data]

    def schema_of(self, rows: Changes) -> pa.Schema:
        return _COLUMNS

    def write(self, plan: WritePlan, rows: Changes, task: int) -> Written:
        raise NotImplementedError("Files of writes that look for nothing come from `simulator.actors.writing.Writer`.")

    def keep(self, plan: WritePlan, rows: Changes) -> Piece | Kept | None:
        return Piece(plan.operation, rows) if rows else None

    def gather(self, plan: WritePlan, kept: Sequence[Piece | Kept], task: int) -> Gathered:
        changes = tuple(change for piece in kept if isinstance(piece, Piece) for change in piece.rows)
        return _Gathered(self._scene, self._storage, plan, changes, task)

    def seeds(self, plan: WritePlan, groups: Iterable[tuple[str, str]]) -> Iterator[StagedFile]:
        """The empty base files with which file groups begin."""
        for partition, file_id in groups:
            name = BaseFileName(file_id, "0-0-0", plan.request_time, ".parquet").format()
            put(self._storage, plan.request_time, partition, name, {"r": []})
            yield StagedFile(partition, file_id, name, 100, 0, 0, is_base=True)

    def cancel(self) -> None:
        """The next check of the write ends it."""


@dataclass(slots=True)
class _Gathered:
    """All changes of one write; once assigned, those of each target, and the keys that are new there."""

    scene: Scene
    storage: Storage
    plan: WritePlan
    changes: Changes
    task: int
    looks_again: bool = True
    places: _Places | None = None

    def assign(self, ground: Ground) -> Sequence[Target]:
        """Where each change goes. A delete of a key that is not there does nothing, and the oracle is told so."""
        oracle, places = self.scene.oracle, _Places(self.scene, self.storage, ground)
        for partition in sorted({oracle.partition_of(change.key) for change in self.changes}):
            own = [change for change in self.changes if oracle.partition_of(change.key) == partition]
            places.add(partition, own)
        intent = oracle.intents[self.plan.request_time]
        intent.changes = tuple(change for change in intent.changes if change not in places.void)
        self.places = places
        return tuple(places.targets)

    def write(self) -> Iterator[StagedFile]:
        if self.places is not None:
            yield from _write(self.scene, self.storage, self.plan.request_time, self.places, self.task)

    def release(self) -> None:
        pass


@dataclass(slots=True)
class _Places:
    scene: Scene
    storage: Storage
    ground: Any
    targets: list[Target] = field(default_factory=list)
    changes: list[list[Change]] = field(default_factory=list)
    new: set[str] = field(default_factory=set)
    void: list[Change] = field(default_factory=list)

    def add(self, partition: str, changes: list[Change]) -> None:
        groups = [target for target in self.ground.groups.get(partition, ()) if target.slice is not None]
        homes = {version.key: target for target in groups for version in _base(self.storage, target)}
        homes = self._log_homes(groups, set(homes)) | homes
        fresh = [change for change in changes if change.key not in homes]
        self.void += [change for change in fresh if change.value is None]
        fresh = [change for change in fresh if change.value is not None]
        for change in changes:
            if change.key in homes:
                self._put(homes[change.key], change)
        is_open = [t for t in groups if (partition, t.file_id) not in self.ground.closed]
        rooms = [Room(t.file_id, t.slice.base_size) for t in is_open] if self.scene.setting.cow else []
        known = {target.file_id: target for target in groups}
        left = iter(sorted(fresh, key=lambda change: change.key))
        for share in share_out(len(fresh), rooms, _ROW_BYTES, self.ground.sizes):
            target = known[share.file_id] if share.file_id else Target(partition, self.ground.new_id())
            for _ in range(share.rows):
                change = next(left)
                self.new.add(change.key)
                self._put(target, change)

    def _log_homes(self, groups: list[Target], known: set[str]) -> dict[str, Target]:
        """Where keys are at home that no base file has: where they live, or else where they died."""
        homes: dict[str, Target] = {}
        by_event = self.scene.setting.by_event
        for target in groups:
            logs = [] if target.slice is None else target.slice.log_names
            unsure = () if target.slice is None else target.slice.unsure_logs
            if not unsure:
                continue
            read = {name: _versions(self.storage, name) for name in logs}
            winners = merge([*_base(self.storage, target), *(v for vs in read.values() for v in vs)], by_event=by_event)
            for key in {v.key for name in unsure for v in read[name]} - known:
                is_alive = key in winners and winners[key].value is not None
                homes[key] = target if is_alive else homes.get(key, target)
                known |= {key} if is_alive else set()
        return homes

    def _put(self, target: Target, change: Change) -> None:
        if target not in self.targets:
            self.targets.append(target)
            self.changes.append([])
        self.changes[self.targets.index(target)].append(change)


def _write(scene: Scene, storage: Storage, request_time: str, places: _Places, task: int) -> list[StagedFile]:
    work: list[Callable[[Storage], Any]] = []
    for target, changes in zip(places.targets, places.changes, strict=True):
        if scene.setting.cow or target.slice is None:
            rewrite = partial(_rewrite, new=frozenset(places.new), by_event=scene.setting.by_event)
            work.append(partial(rewrite, request_time=request_time, target=target, changes=tuple(changes), task=task))
        else:
            work.append(partial(_append, request_time=request_time, target=target, changes=tuple(changes), task=task))
    if not scene.setting.executors:
        return [write(storage) for write in work]
    thread: Any = getcurrent()
    files: Any = run_tasks(scene, thread.process, f"{thread.label}.{request_time[10:]}", work)
    if files is None:
        raise StorageError("The tasks of a write failed. Nothing was published. Write again.")
    return list(files)


def _rewrite(
    storage: Storage,
    request_time: str,
    target: Target,
    changes: tuple[Change, ...],
    task: int,
    *,
    new: frozenset[str],
    by_event: bool,
) -> StagedFile:
    """The next base file of a group: its rows and the changes."""
    kept = [] if target.slice is None else _base(storage, target)
    mine = [Version(c.key, c.order, request_time, c.value, request_time) for c in changes]
    winners = merge([*kept, *mine], by_event=by_event)
    rows = [[v.key, v.order, v.request_time, v.value] for _, v in sorted(winners.items()) if v.value is not None]
    name = BaseFileName(target.file_id, f"{task}-0-0", request_time, ".parquet").format()
    create_once(storage, f"{target.partition}/.hoodie_partition_metadata", MARK)
    put(storage, request_time, target.partition, name, {"r": rows})
    inserts = sum(c.key in new for c in changes)
    deletes = len(kept) + inserts - len(rows)
    previous = "" if target.slice is None else target.slice.base_request_time
    return StagedFile(
        target.partition, target.file_id, name, 100, len(rows), deletes, is_base=True, previous=previous,
        inserts=inserts, updates=len(changes) - inserts - deletes,
    )  # fmt: skip


def _append(storage: Storage, request_time: str, target: Target, changes: tuple[Change, ...], task: int) -> StagedFile:
    made = write_log(storage, request_time, (target.partition, target.file_id), changes, task)
    return StagedFile(made.partition, made.file_id, made.name, 100, made.rows, made.deletes, is_base=False)


def _base(storage: Storage, target: Target) -> list[Version]:
    name = target.slice.base_name if target.slice is not None else None
    return [] if name is None else _versions(storage, name)


def _versions(storage: Storage, name: str) -> list[Version]:
    try:
        return read_versions(storage.read(name, 1 << 20))
    except ObjectNotFound as error:
        raise SnapshotExpired(f"{name} was cleaned away. Nothing was changed. Read again.", file=name) from error


class SimSameKeys(SameKeys):
    """Reads the keys of tiny base files."""

    def keys(self, storage: Storage, name: str, size: int, *, since: str | None = None) -> Iterator[pa.Array]:
        versions = read_versions(storage.read(name, 1 << 20))
        yield pa.array([v.key for v in versions if since in (None, v.request_time)], pa.string())

    def common_key(self, storage: Storage, stat: WriteStat, own: pa.Array) -> str | None:
        mine = set(own.to_pylist())
        found = [key for keys in self.keys(storage, stat.path or "", 0) for key in keys.to_pylist() if key in mine]
        return min(found, default=None)

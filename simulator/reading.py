# SPDX-License-Identifier: Apache-2.0
"""Three ways to read a simulated table: the product's, an all-seeing one, and Apache Hudi's, modelled naively."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from lakebraid.clock import Clock
from lakebraid.format.names import BaseFileName, LogFileName, parse_data_file
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.format.timeline.plans import parse_compaction_plan
from lakebraid.model.config import TableConfig
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.view import View, load_view
from simulator.oracle import TIMELINE, Note, Oracle, Rows
from simulator.stand_ins.tasks import Version, merge, read_origins, read_placed, read_versions, rows_of
from simulator.world.storage import Disk
from simulator.world.violation import Violation


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader says, and when it asked and answered (steps)."""

    kind: str
    reader: str
    began: int
    ended: int
    completion: str
    rows: Rows


def read_product(
    storage: Storage, config: TableConfig, clock: Clock, as_of: str | None, *, by_event: bool
) -> tuple[str, Rows]:
    """The product's timeline, listing, slicing; the simulator's merge."""
    view = load_view(TableAt(storage, config, clock), as_of)
    return view.completion_time, rows_of_view(storage, view, by_event=by_event)


def rows_of_view(storage: Storage, view: View, *, by_event: bool) -> Rows:
    versions: list[Version] = []
    check_buckets(part.group for part in view.slices())
    homes: dict[str, GroupId] = {}
    for part in view.slices():
        own = read_versions(storage.read(part.base.name, 1 << 20)) if part.base else []
        own += read_placed([storage.read(log.name, 1 << 20) for log in part.logs])
        for key in {version.key for version in own}:
            if homes.setdefault(key, part.group) != part.group:
                raise Violation("21 a key has one group", f"{key} is in {homes[key]} and in {part.group}")
        versions += own
    return rows_of(merge(versions, by_event=by_event))


def check_buckets(groups: Iterable[GroupId]) -> None:
    """A bucket has one file group at a time, or a key could have two rows."""
    found: dict[tuple[str, str], str] = {}
    for group in groups:
        other = found.setdefault((group.partition, group.file_id[:8]), group.file_id)
        if other != group.file_id:
            raise Violation("19 one group of a bucket", f"{group.partition} has both {other} and {group.file_id}")


def read_all_seeing(disk: Disk, oracle: Oracle, as_of: str = "9", without: Collection[str] = ()) -> Rows:
    """The state as of a time, straight from the disk: the newest published base of each group, and what completed since.

    `without` are files that are about to be removed.
    """
    groups: dict[tuple[str, str], list[tuple[str, BaseFileName | LogFileName, Note]]] = defaultdict(list)
    done = [
        n for n in oracle.writes(until=as_of) if n.action == "replacecommit" and n.request_time not in oracle.undone
    ]
    replaced = {group for note in done for group in _replaced(note.data)}
    for name in disk.names:
        if name.startswith(".hoodie") or name in without:
            continue
        folder, _, file = name.rpartition("/")
        parsed = parse_data_file(file)
        note = oracle.published.get(parsed.request_time) if parsed else None
        if parsed and (folder, parsed.file_id) in replaced:
            continue
        if parsed and note and note.completion <= as_of and note.request_time not in oracle.undone:
            groups[folder, parsed.file_id].append((name, parsed, note))
    versions: list[Version] = []
    for files in groups.values():
        bases = [
            (p.request_time, name) for name, p, note in files if isinstance(p, BaseFileName) and _names(note, name)
        ]
        barrier, base = max(bases, default=("", ""))
        chosen = [n for n, p, note in files if isinstance(p, LogFileName) and note.completion >= barrier]
        for name in (*([base] if base else []), *chosen):
            versions += read_versions(disk.objects[name][0])
    return rows_of(merge(versions, by_event=oracle.by_event))


@lru_cache(1000)
def _replaced(commit: bytes) -> tuple[tuple[str, str], ...]:
    replaced = parse_commit(commit, "the commit").replaced
    return tuple((partition, file_id) for partition, ids in replaced.items() for file_id in ids)


def _names(note: Note, name: str) -> bool:
    return not note.data or name.encode() in note.data


# --- Apache Hudi 1.2.0, as FORMAT, sections 9 to 11, describes it -----------------------------------------------------

_FILE = re.compile(r"(\d{17})(?:_(\d{17}))?\.([a-z]+)(?:\.(requested|inflight))?")


@dataclass(frozen=True, slots=True)
class HudiAnswer:
    rows: Rows
    hidden: frozenset[tuple[str, str]]
    """Groups that Hudi does not show because their oldest log is pending (trap 1)."""
    completions: frozenset[str]


def read_hudi(storage: Storage, *, by_event: bool) -> HudiAnswer:
    """Timeline first, then files; slices keyed by request times; logs applied in the order of request times, upon the base."""
    completed: dict[str, str] = {}
    pending: set[str] = set()
    plans: dict[str, str] = {}
    replaced: set[tuple[str, str]] = set()
    for info in storage.list_folder(TIMELINE.rstrip("/"))[0]:
        found = _FILE.fullmatch(info.name.rpartition("/")[2])
        if found is None or found[3] in ("rollback", "clean", "savepoint", "restore", "logcompaction"):
            continue
        if found[2]:
            completed[found[1]] = found[2]
            if found[3] == "replacecommit":
                replaced |= {*_replaced(storage.read(info.name, 1 << 20))}
        elif found[3] == "compaction" and found[4] == "requested":
            plans[found[1]] = info.name
        else:
            pending.add(found[1])
    pending -= completed.keys()
    planned = _planned(
        storage, {request_time: name for request_time, name in plans.items() if request_time not in completed}
    )
    first_active = min((*completed, *pending, *plans), default="")
    groups = _hudi_files(storage)
    rows: dict[str, Version] = {}
    hidden = set()
    for group, files in sorted(groups.items()):
        if group in replaced:
            continue
        found_slices = _hudi_slices(files, completed, first_active, planned.get(group, ()))
        shown = _hudi_shown(found_slices, completed, first_active, set(planned.get(group, ())))
        if shown is None:
            hidden.add(group)
            continue
        _hudi_merge(rows, _hudi_placed(shown, [storage.read(name, 1 << 20) for name in shown]), by_event=by_event)
    return HudiAnswer(rows_of(rows), frozenset(hidden), frozenset(completed.values()))


def _planned(storage: Storage, plans: dict[str, str]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for request_time, name in plans.items():
        for operation in parse_compaction_plan(storage.read(name, 1 << 20), name).operations:
            found[operation.partition_path, operation.file_id].append(request_time)
    return found


HudiFile = tuple[str, BaseFileName | LogFileName]


def _hudi_files(storage: Storage) -> dict[tuple[str, str], list[HudiFile]]:
    groups: dict[tuple[str, str], list[HudiFile]] = defaultdict(list)
    for folder in storage.list_folder("")[1]:
        if folder == ".hoodie":
            continue
        for info in storage.list(folder):
            parsed = parse_data_file(info.name.rpartition("/")[2])
            if parsed is not None:
                groups[folder, parsed.file_id].append((info.name, parsed))
    return groups


def _hudi_slices(
    files: list[HudiFile], completed: dict[str, str], first_active: str, planned: Iterable[str]
) -> dict[str, list[HudiFile]]:
    """Slice key to files. Every log joins, pending or not; which of them count is decided afterwards."""
    slices: dict[str, list[HudiFile]] = {request_time: [] for request_time in planned}
    for name, parsed in files:
        if isinstance(parsed, BaseFileName) and (
            parsed.request_time in completed or parsed.request_time < first_active
        ):
            slices.setdefault(parsed.request_time, []).append((name, parsed))
    logs = sorted((p.sort_key, n, p) for n, p in files if isinstance(p, LogFileName))
    for _, name, parsed in logs:
        done = completed.get(parsed.request_time, "9")
        keys = [key for key in slices if key <= done]
        key = max(keys) if keys else parsed.request_time
        slices.setdefault(key, []).append((name, parsed))
    return slices


def _hudi_shown(
    slices: dict[str, list[HudiFile]], completed: dict[str, str], first_active: str, planned: set[str]
) -> list[str] | None:
    """The files to merge, base first; None if the newest slice that could be shown hangs on a pending request time."""
    keys = sorted(slices)
    if not keys:
        return []
    chosen = list(slices[keys[-1]])
    is_plan = keys[-1] in planned
    if is_plan and len(keys) > 1:
        chosen = [*slices[keys[-2]], *chosen]
        key = keys[-2]
    else:
        key = keys[-1]
    if key not in completed and key not in planned and key >= first_active:
        return None
    counted = [(n, p) for n, p in chosen if p.request_time in completed or p.request_time < first_active]
    bases = [n for n, p in counted if isinstance(p, BaseFileName)]
    logs = sorted((p.sort_key, n) for n, p in counted if isinstance(p, LogFileName))
    return [*bases[-1:], *(n for _, n in logs)]


def _hudi_placed(names: list[str], contents: list[bytes]) -> list[list[Version]]:
    """A log-compacted file stands at the place of the newest instant that it names, and those it names are passed over."""
    stands: dict[str, tuple[str, ...]] = {}
    for name, data in zip(names, contents, strict=True):
        if not name.endswith(".parquet") and (times := read_origins(data)[0].compacted_times):
            stands[name] = times
    passed = {time for times in stands.values() for time in times}
    ordered = []
    for at, (name, data) in enumerate(zip(names, contents, strict=True)):
        parsed = parse_data_file(name.rpartition("/")[2])
        request_time = parsed.request_time if parsed else ""
        if name.endswith(".parquet"):
            ordered.append(("", at, data))
        elif request_time not in passed:
            place = max((t for t in stands.get(name, ()) if t not in _chained(stands)), default=request_time)
            ordered.append((place, at, data))
    return [read_versions(data) for _, _, data in sorted(ordered)]


def _chained(stands: dict[str, tuple[str, ...]]) -> set[str]:
    """Request times of log compactions among those that are stood for."""
    own = {p.request_time for p in (parse_data_file(name.rpartition("/")[2]) for name in stands) if p is not None}
    return own & {time for times in stands.values() for time in times}


def _hudi_merge(rows: dict[str, Version], files: list[list[Version]], *, by_event: bool) -> None:
    for versions in files:
        for new in versions:
            old = rows.get(new.key)
            is_plain_delete = new.value is None and (new.order is None or not by_event)
            if is_plain_delete or old is None or not by_event or old.order is None or (new.order or 0) >= old.order:
                rows[new.key] = new

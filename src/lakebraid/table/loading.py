# SPDX-License-Identifier: Apache-2.0
"""Loading a table: properties, timeline, archived history, files, in the order that makes the answer one moment's.

Timeline first, then files, then the timeline's names once more. A commit that completes in between is left out by its
completion time; a clean, rollback or restore that ran in between may have removed files under us, so we start again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CorruptFile, InvalidArgument, NotATable, ObjectNotFound, StorageError, UnsupportedTable
from lakebraid.format.commit import CommitMetadata, parse_commit
from lakebraid.format.names import BaseFileName, LogFileName, State, parse_data_file
from lakebraid.format.properties import choose_properties
from lakebraid.format.times import format_instant_time
from lakebraid.model.config import TableConfig, parse_config
from lakebraid.model.instant import Instant
from lakebraid.model.slicing import GroupId
from lakebraid.model.timeline import Timeline, build_timeline
from lakebraid.storage.protocol import ObjectInfo, Storage
from lakebraid.table.history import load_history

PROPERTIES = ".hoodie/hoodie.properties"
PARTITION_MARK = ".hoodie_partition_metadata"
_REMOVERS = frozenset({"clean", "rollback", "restore"})


@dataclass(frozen=True, slots=True)
class DataFile:
    """One base or log file found in a partition folder."""

    group: GroupId
    parsed: BaseFileName | LogFileName
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was found: one consistent pair of timeline and files."""

    timeline: Timeline
    files: tuple[DataFile, ...]
    partitions: tuple[str, ...]


def load_properties(storage: Storage) -> dict[str, str]:
    """hoodie.properties, or its backup while an update is under way (FORMAT, section 2)."""
    main, backup = _maybe(storage, PROPERTIES), _maybe(storage, PROPERTIES + ".backup")
    if main is None and backup is None:
        _explain_absence(storage)
    return choose_properties(main, backup, storage.url)


def load_config(storage: Storage) -> tuple[TableConfig, dict[str, str]]:
    properties = load_properties(storage)
    return parse_config(properties, storage.url), properties


def _maybe(storage: Storage, name: str) -> bytes | None:
    try:
        return storage.read(name, limits.PROPERTIES_BYTES_MAX)
    except ObjectNotFound:
        return None


def _explain_absence(storage: Storage) -> None:
    files, folders = storage.list_folder("")
    if not files and not folders:
        raise NotATable(f"There is nothing at {storage.url}. Check the path.", path=storage.url)
    what = "a Delta table" if "_delta_log" in folders else "an Iceberg table" if "metadata" in folders else "files"
    raise NotATable(
        f"{storage.url} holds {what}, but no Hudi table: {PROPERTIES} is missing. Nothing was changed. "
        "Give the folder that contains .hoodie.",
        path=storage.url,
    )


def load_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """The active timeline as one listing shows it."""
    return _timeline(_timeline_files(storage, config), config)


def load_table(storage: Storage, config: TableConfig, clock: Clock, prefixes: Iterable[str] = ("",)) -> Loaded:
    """Timeline and files of one moment; only partitions below one of the prefixes are listed."""
    for attempt in range(limits.READ_ATTEMPTS_MAX):
        before = _timeline_files(storage, config)
        files, partitions = _list_files(storage, list(prefixes))
        first = _timeline(before, config)
        archived = _archived(storage, config, first, files)
        after = _timeline_files(storage, config)
        if _removals(after, config) == _removals(before, config):
            # The first listing may show c2 and not c1 < c2 (its pages are of different moments); the second has c1.
            both = {f.name: f for f in (*before, *after)}
            # A late finisher may be archived and yet have completed after everything active.
            newest = max((i.completion_time or "" for i in (*first.completed, *archived)), default="0")
            return Loaded(_timeline(both.values(), config, archived).as_of(newest), files, partitions)
        clock.sleep(min(0.05 * 2**attempt, 2.0) * (0.5 + clock.random()))
    raise StorageError(
        f"{storage.url} was cleaned or rolled back during each of {limits.READ_ATTEMPTS_MAX} attempts to list it. "
        "Nothing was read or changed. Try again; if this persists, a maintenance job runs in a loop.",
        path=storage.url,
    )


def _timeline_files(storage: Storage, config: TableConfig) -> list[ObjectInfo]:
    files, _ = storage.list_folder(config.timeline_folder)
    if len(files) > limits.TIMELINE_FILES_MAX:
        raise CorruptFile(
            f"The timeline of {storage.url} has {len(files):,} files, more than {limits.TIMELINE_FILES_MAX:,}. "
            "Nothing was read. Archive it with Apache Hudi first.",
            path=storage.url,
        )
    return files


def _timeline(files: Iterable[ObjectInfo], config: TableConfig, archived: Iterable[Instant] = ()) -> Timeline:
    names = {}
    for file in files:
        name = file.name.rpartition("/")[2]
        names[name] = format_instant_time(file.modified_ms, config.zone)
    times = None if config.layout == 1 else names
    # Layout 1 has no completion times; instants never overlap there, so their order of start serves.
    return build_timeline(names, layout=config.layout, completion_times=times, archived=archived)


def _removals(files: Iterable[ObjectInfo], config: TableConfig) -> set[tuple[str, str, str]]:
    """Cleans, rollbacks and restores with their states: whatever may have deleted data files meanwhile."""
    timeline = _timeline(files, config)
    return {(i.request_time, i.action, i.state) for i in timeline if i.action in _REMOVERS}


def _archived(storage: Storage, config: TableConfig, timeline: Timeline, files: Iterable[DataFile]) -> list[Instant]:
    """Archived instants that wrote files still lying here (slicing needs their completion times) or replaced some."""
    known = {i.request_time for i in timeline}
    starts = {f.parsed.request_time for f in files} - known
    wanted = {s for s in starts if timeline.is_archived_start(s)}
    if not wanted or config.layout == 1:
        return []
    found = load_history(storage, config, min(wanted))
    return [a.instant for a in found if a.instant.request_time in wanted or a.instant.action == "replacecommit"]


def _list_files(storage: Storage, prefixes: list[str]) -> tuple[tuple[DataFile, ...], tuple[str, ...]]:
    """All base and log files in partition folders (those that carry Hudi's partition file), recursively."""
    marked: set[str] = set()
    found: dict[str, list[ObjectInfo]] = {}
    for info in _objects(storage, prefixes):
        folder, _, name = info.name.rpartition("/")
        if name.startswith(PARTITION_MARK):
            marked.add(folder)
        else:
            found.setdefault(folder, []).append(info)
    files = []
    for folder in sorted(marked):
        for info in found.get(folder, ()):
            parsed = parse_data_file(info.name.rpartition("/")[2])
            if parsed is not None:
                files.append(DataFile(GroupId(folder, parsed.file_id), parsed, info.name, info.size))
    return tuple(files), tuple(sorted(marked))


def _objects(storage: Storage, prefixes: list[str]) -> Iterable[ObjectInfo]:
    for prefix in prefixes:
        if prefix:
            yield from _below(storage, prefix)
            continue
        files, folders = storage.list_folder("")
        yield from files
        for folder in folders:
            if folder != ".hoodie":
                yield from _below(storage, folder)


def _below(storage: Storage, folder: str) -> list[ObjectInfo]:
    try:
        return storage.list(folder)
    except InvalidArgument as error:
        raise UnsupportedTable(
            f"{storage.url} has a folder whose name cannot be used. {error.message} Rename the folder, or move it out of "
            "the table.",
            path=storage.url,
        ) from None


def load_commit(storage: Storage, config: TableConfig, instant: Instant, clock: Clock) -> CommitMetadata:
    """The metadata of a completed write. A file that stays empty is a commit without metadata (FORMAT, trap 16)."""
    name = f"{config.timeline_folder}/{instant.file_name(State.COMPLETED, config.layout)}"
    data = b""
    for attempt in range(limits.EMPTY_COMPLETED_RETRIES):
        data = storage.read(name, limits.TIMELINE_FILE_BYTES_MAX)
        if data or clock.now_ms() - storage.info(name).modified_ms > limits.EMPTY_COMPLETED_MS_MAX:
            break
        clock.sleep(0.05 * 2**attempt)
    return parse_commit(data, f"{storage.url}/{name}")

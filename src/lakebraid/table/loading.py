# SPDX-License-Identifier: Apache-2.0
"""Loading a table: properties, timeline, archived history, files, in the order that makes the answer one moment's.

Timeline first, then files, then the timeline's names once more. A commit that completes in between is left out by its
completion time; a clean, rollback or restore that ran in between may have removed files under us, so we start again. Where
commits of one entry of the ledger appear side by side, the newest entry says which belong together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CorruptFile, NotATable, ObjectNotFound, StorageError
from lakebraid.format.names import (
    LEDGER,
    BaseFileName,
    LogFileName,
    State,
    entry_name,
    parse_data_file,
    parse_entry_name,
    parse_timeline_file,
)
from lakebraid.format.properties import choose_properties, needs_backup
from lakebraid.format.timeline.commit import CommitMetadata, parse_commit
from lakebraid.format.timeline.plans import CompactionPlan, parse_compaction_plan
from lakebraid.format.timeline.publication import Publication, parse_publication
from lakebraid.format.times import format_instant_time
from lakebraid.model.config import TableConfig, parse_config
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.timeline.timeline import Timeline, build_timeline, recent_names
from lakebraid.storage.parallel import map_calls, together
from lakebraid.storage.protocol import ObjectInfo, Storage
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_history
from lakebraid.table.restores import load_undone

PROPERTIES = ".hoodie/hoodie.properties"
PARTITION_MARK = ".hoodie_partition_metadata"
_PENDING = (".requested", ".inflight")
_REMOVERS = frozenset({"clean", "rollback", "restore"})
_Names = Mapping[str, str]
"""The timeline's file names, each with the completion time that it lacks; with nothing if it has one, or has none yet."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One base or log file found in a partition folder."""

    group: GroupId
    parsed: BaseFileName | LogFileName
    name: str
    size: int
    version: str = ""
    """As the listing has it: see `ObjectInfo`."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was found: one consistent pair of timeline and files."""

    timeline: Timeline
    files: tuple[DataFile, ...]
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a table, and the bytes that say so: None where a backup has a say."""

    data: bytes | None
    config: TableConfig
    properties: Mapping[str, str]


def load_settings(storage: Storage, known: Settings | None) -> Settings:
    """The table's settings as they are now: those that are `known`, if the same bytes are still there."""
    main = _maybe(storage, PROPERTIES)
    if known is not None and main is not None and main == known.data:
        return known
    properties = _properties(storage, main)
    data = None if needs_backup(main, storage.url) else main
    return Settings(data, parse_config(properties, storage.url), properties)


def load_properties(storage: Storage) -> dict[str, str]:
    """hoodie.properties, or its backup while an update is under way (FORMAT, section 2)."""
    return _properties(storage, _maybe(storage, PROPERTIES))


def _properties(storage: Storage, main: bytes | None) -> dict[str, str]:
    backup = _maybe(storage, PROPERTIES + ".backup") if needs_backup(main, storage.url) else None
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
        raise NotATable(
            f"There is nothing at {storage.url}: no folder, or an empty one. Check the path.", path=storage.url
        )
    what = "a Delta table" if "_delta_log" in folders else "an Iceberg table" if "metadata" in folders else "files"
    raise NotATable(
        f"{storage.url} holds {what}, but no Hudi table: {PROPERTIES} is missing. Nothing was changed. "
        "Give the folder that contains .hoodie.",
        path=storage.url,
    )


def load_timeline(table: TableAt) -> Timeline:
    """The active timeline, without what an unfinished restore removes: nothing is missing before what it shows last."""
    return _stable(table, _timeline_files if table.config.publishes_in_order else _whole_files)


def list_timeline(table: TableAt) -> Timeline:
    """The same as one listing shows it: for rules of the ledger, before which the newest entry was applied."""
    return _stable(table, _timeline_files)


def _stable(table: TableAt, load: Callable[[TableAt], _Names]) -> Timeline:
    for _ in range(limits.READ_ATTEMPTS_MAX - 1):
        files = load(table)
        with contextlib.suppress(ObjectNotFound):  # the restore was brought to its end, and archived: look again
            return _timeline(files, table.config, load_undone(table, files))
    files = load(table)
    return _timeline(files, table.config, load_undone(table, files))


def load_names(table: TableAt) -> list[str]:
    """The names of the active timeline's files, for `recent_timeline`."""
    names = table.storage.list_names(table.config.timeline_folder)
    _check_count(table.storage, len(names))
    return names


def names_beyond(table: TableAt, time: str) -> list[str]:
    """The timeline's files of instants that begin after a time."""
    folder = table.config.timeline_folder
    # '~' sorts after every character of a timeline file's name: what starts at that time is known.
    newer = table.storage.list(folder, after=f"{folder}/{time}~")
    names = (info.name for info in newer if info.name.count("/") == folder.count("/") + 1)
    return [name for name in names if parse_timeline_file(name.rpartition("/")[2]) is not None]


def recent_timeline(
    table: TableAt, names: Collection[str], since: str, request_times: Collection[str] = ()
) -> Timeline | None:
    """The timeline without writes, services and the like that had completed by then, save these; its first write stays.

    None if a restore is unfinished, or completion times are not in the names: then the whole must be looked at.
    """
    recent = recent_names(names, since, request_times)
    if table.config.layout == 1 or any(map(_lacks_completion, recent)):
        return None
    try:
        undone = load_undone(table, recent)
    except ObjectNotFound:  # it was brought to its end by another process
        return None
    return None if undone else build_timeline(recent)


def load_table(table: TableAt) -> Loaded:
    """Timeline and files of one moment."""
    for attempt in range(limits.READ_ATTEMPTS_MAX):
        before, entries = _first_look(table)
        (files, partitions), newest = together(
            table.storage, partial(_list_files, table.storage), partial(_newest_publication, table, entries)
        )
        after = _timeline_files(table)
        timeline = _settled(table, before, after, files, newest)
        if timeline is not None:
            return Loaded(timeline, files, partitions)
        pause(table.clock, attempt)
    raise StorageError(
        f"{table.storage.url} was cleaned or rolled back during each of {limits.READ_ATTEMPTS_MAX} attempts to list it. "
        "Nothing was read or changed. Try again; if this persists, a maintenance job runs in a loop.",
        path=table.storage.url,
    )


def pause(clock: Clock, attempt: int) -> None:
    """Waits a little, longer each time, before something is looked at again."""
    clock.sleep(min(0.05 * 2**attempt, 2.0) * (0.5 + clock.random()))


def _first_look(table: TableAt) -> tuple[_Names, list[str]]:
    """The names of the timeline, and those of the ledger where readers need its newest entry."""
    if table.config.publishes_in_order:
        return _timeline_files(table), []
    names, infos = together(table.storage, partial(_timeline_files, table), partial(table.storage.list, LEDGER))
    return names, [info.name for info in infos]


def _newest_publication(table: TableAt, names: Collection[str]) -> Publication | None:
    """What the newest entry publishes; `names` are those of a listing of the ledger that began with the first one of the
    timeline. Then no file that the first one shows is of a later entry, and the second one shows all entries before this.
    """
    storage, found, newest = table.storage, 0, None
    while numbers := [number for number in map(parse_entry_name, names) if number is not None and number > found]:
        # Between listing and reading it may be trimmed, and a sleeper may have put a dead one under its number: so
        # whatever was read counts only if nothing lies above it. (LEDGER, H3)
        with contextlib.suppress(ObjectNotFound):
            name = entry_name(max(numbers))
            newest = parse_publication(storage.read(name, limits.LEDGER_ENTRY_BYTES_MAX), f"{storage.url}/{name}")
            found = max(numbers)
        names = [info.name for info in storage.list(LEDGER, after=entry_name(found))]
    return newest


def _whole_files(table: TableAt) -> _Names:
    """The names of the timeline without completed files before which one of the same entry is missing (LEDGER, G6)."""
    before, entries = _first_look(table)
    newest = _newest_publication(table, entries) or Publication()
    after = _timeline_files(table)
    shown = newest.whole_until({**before, **after})
    last = newest.last if shown is None else shown
    known = before if shown is None else {}
    return {name: time for name, time in after.items() if name in known or _completion(name) <= last}


def _completion(name: str) -> str:
    """The completion time in a name of the timeline; empty if there is none."""
    return name[18:].partition(".")[0] if name[17:18] == "_" else ""


def _settled(
    table: TableAt, before: _Names, after: _Names, files: Iterable[DataFile], newest: Publication | None = None
) -> Timeline | None:
    """The timeline that the files were listed under, or None if something may have removed some of them since."""
    try:
        undone = load_undone(table, before)
    except ObjectNotFound:
        return None
    first = both = _timeline(before, table.config, undone)
    second = first if before == after else _timeline(after, table.config, undone)
    if _removals(first) != _removals(second):
        return None
    if second is not first:
        # The first listing may show c2 and not c1 < c2, since its parts are of different moments; the second has c1.
        both = _timeline({**before, **after}, table.config, undone)
    gone = {i.request_time for i in first} - {i.request_time for i in second}
    archived = _archived(table, both, files, gone)
    found = {i.request_time for i in archived}
    if any(i.is_write and i.request_time in gone - found for i in first.completed):
        return None  # neither active nor archived: it was rolled back, and some of its files may be gone
    # What was archived before our first look had completed before it, perhaps after everything active.
    old = [i for i in archived if first.write(i.request_time) is None]
    # A restore counts from its beginning: what it leaves is the answer of that moment, and of every one until the next.
    times = [*(i.completion_time or "" for i in (*first.completed, *old)), *_restores(first)]
    # Of the newest entry a later completion may be there and an earlier one still missing. (LEDGER, G6)
    whole = (newest and newest.whole_until({**before, **after})) or "9"
    active = tuple(i for i in both if i.request_time not in found)
    return Timeline(active, tuple(sorted(archived)), min(max(times, default="0"), whole), undone)


def _timeline_files(table: TableAt) -> _Names:
    names = load_names(table)
    if table.config.layout == 1 or not any(map(_lacks_completion, names)):
        # Layout 1 has no completion times; instants never overlap there, so the order of their request times serves.
        return dict.fromkeys(names, "")
    # Left from an upgrade: a completed file whose name has no completion time; the file's own takes its place.
    files = {file.name.rpartition("/")[2]: file for file in table.storage.list_folder(table.config.timeline_folder)[0]}
    times = {
        name: format_instant_time(files[name].modified_ms, table.config.zone)
        for name in files
        if _lacks_completion(name)
    }
    return {name: times.get(name, "") for name in files}


def _lacks_completion(name: str) -> bool:
    return "_" not in name and not name.endswith(_PENDING)


def _check_count(storage: Storage, count: int) -> None:
    if count > limits.TIMELINE_FILES_MAX:
        raise CorruptFile(
            f"The timeline of {storage.url} has {count:,} files, more than {limits.TIMELINE_FILES_MAX:,}. "
            "Nothing was read. Archive it with Apache Hudi first.",
            path=storage.url,
        )


def _timeline(names: _Names, config: TableConfig, undone: frozenset[str]) -> Timeline:
    times = {name: time for name, time in names.items() if time}
    return build_timeline(names, layout=config.layout, completion_times=times, undone=undone)


def _removals(timeline: Timeline) -> set[tuple[str, str, str]]:
    """Cleans, rollbacks and restores with their states: what may have deleted data files during the listing."""
    return {(i.request_time, i.action, i.state) for i in timeline if i.action in _REMOVERS}


def _restores(timeline: Timeline) -> list[str]:
    return [i.request_time for i in timeline if i.action == "restore"]


def _archived(table: TableAt, timeline: Timeline, files: Iterable[DataFile], gone: set[str]) -> list[Instant]:
    """Archived writes that we need: of files still lying here, of instants that vanished, and replacements."""
    if table.config.layout == 1:
        return []
    wanted = {f.parsed.request_time for f in files} - {i.request_time for i in timeline} | gone
    if not wanted:
        return []
    found = [a.instant for a in load_history(table, min(wanted), actions=WRITE_ACTIONS)]
    return [i for i in found if i.request_time in wanted or i.action == "replacecommit"]


def _list_files(storage: Storage) -> tuple[tuple[DataFile, ...], tuple[str, ...]]:
    """All base and log files in partition folders (those that carry Hudi's partition file), recursively."""
    marked: set[str] = set()
    found: dict[str, list[ObjectInfo]] = {}
    for info in _objects(storage):
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
                files.append(DataFile(GroupId(folder, parsed.file_id), parsed, info.name, info.size, info.version))
    return tuple(files), tuple(sorted(marked))


def _objects(storage: Storage) -> Iterable[ObjectInfo]:
    files, folders = storage.list_folder("")
    yield from files
    for below in map_calls(storage, storage.list, [folder for folder in folders if folder != ".hoodie"]):
        yield from below


def load_compaction_plan(table: TableAt, instant: Instant) -> CompactionPlan:
    """What a planned compaction or log compaction is to do; CorruptFile if the plan is torn."""
    name = f"{table.config.timeline_folder}/{instant.file_name(State.REQUESTED, table.config.layout)}"
    return parse_compaction_plan(table.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), name)


def load_commit(table: TableAt, instant: Instant) -> CommitMetadata:
    """The metadata of a completed write. A file that stays empty is a commit without metadata (FORMAT, trap 16)."""
    name = f"{table.config.timeline_folder}/{instant.file_name(State.COMPLETED, table.config.layout)}"
    data = b""
    for attempt in range(limits.EMPTY_COMPLETED_RETRIES):
        try:
            data = table.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX)
            is_old = (
                not data and table.clock.now_ms() - table.storage.info(name).modified_ms > limits.EMPTY_COMPLETED_MS_MAX
            )
        except ObjectNotFound:
            return _load_archived_commit(table, instant)
        if data or is_old:
            break
        table.clock.sleep(0.05 * 2**attempt)
    return parse_commit(data, f"{table.storage.url}/{name}")


def _load_archived_commit(table: TableAt, instant: Instant) -> CommitMetadata:
    """The same out of the history, where the archiver may just have put it; ObjectNotFound if it is not there either."""
    request_time = instant.request_time
    for row in load_history(table, request_time, actions=WRITE_ACTIONS, with_metadata=True):
        if row.instant.request_time == request_time:
            return parse_commit(row.metadata or b"", f"archived {request_time} of {table.storage.url}")
    raise ObjectNotFound(
        f"The write {request_time} of {table.storage.url} vanished: it was rolled back.", path=table.storage.url
    )

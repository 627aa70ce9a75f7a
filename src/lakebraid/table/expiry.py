# SPDX-License-Identifier: Apache-2.0
"""Whether the files of an older version are still there: a short answer is worse than an error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.errors import SnapshotExpired
from lakebraid.format.names import BaseFileName, LogFileName, State, parse_data_file
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.format.timeline.services import parse_clean_metadata, parse_clean_plan
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant
from lakebraid.model.timeline.slicing import GroupId, outlives
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_history
from lakebraid.table.loading import Loaded
from lakebraid.table.replaced import load_replacements


@dataclass(frozen=True, slots=True)
class _Gone:
    """A file that a clean removed."""

    group: GroupId
    parsed: BaseFileName | LogFileName
    by: Instant


def check_retained(
    table: TableAt,
    loaded: Loaded,
    time: str,
    replaced: Mapping[GroupId, Instant],
) -> None:
    """Raises SnapshotExpired if a clean removed a file that a read as of that completion time needs.

    `replaced` are the groups that had been replaced by then: what was removed of them is not missed.
    """
    cleaned = _still_owned(_cleaned(table, loaded.timeline, time), replaced)
    timeline = _with_archived(table, loaded.timeline, cleaned).as_of(time)
    missing = _first_missing(loaded, cleaned, timeline)
    if missing is not None:
        # An archived replacement is known only if files of its time still lie here. It may be why these are not needed.
        cleaned = _still_owned(cleaned, _archived_replaced(table, time))
        missing = _first_missing(loaded, cleaned, timeline)
    if missing is not None:
        oldest = _oldest_readable(table, loaded)
        hint = "Read a later time." if oldest is None else f"Everything from {oldest} on can be read: ask for that."
        raise SnapshotExpired(
            f"{table.storage.url} as of {time} can no longer be read: the clean {missing.by.request_time} "
            f"({missing.by.completion_time or 'unfinished'}) removed {missing.parsed.format()} in partition "
            f"{missing.group.partition or '(none)'!r}. Newer versions are safe. {hint}",
            path=table.storage.url,
            as_of=time,
            removed_by=missing.by.request_time,
            oldest_readable=oldest,
        )


def _oldest_readable(table: TableAt, loaded: Loaded) -> str | None:
    """The completion time from which on no clean has removed anything that is needed; None if that is not known.

    A removed file is missed no longer as soon as a base file that began after it has completed, or its group was
    replaced.
    """
    cleaned = [*_cleaned(table, loaded.timeline, "")]
    timeline = _with_archived(table, loaded.timeline, cleaned)
    replacements = load_replacements(table, timeline)
    archived = _archived_replaced(table, "9" * 17)
    bases: dict[GroupId, set[str]] = defaultdict(set)
    for group, parsed in [*((f.group, f.parsed) for f in loaded.files), *((f.group, f.parsed) for f in cleaned)]:
        if _base_done(parsed, timeline):
            bases[group].add(parsed.request_time)
    present = {(f.group, f.parsed) for f in loaded.files}
    ends = []
    for file in cleaned:
        request_time = file.parsed.request_time
        completion = timeline.completion_of(request_time)
        if completion is None or (file.group, file.parsed) in present:
            continue
        passed = request_time if isinstance(file.parsed, BaseFileName) else completion
        after = [timeline.completion_of(base) for base in bases[file.group] if base > passed]
        by = [*replacements.get(file.group, ()), *([archived[file.group]] if file.group in archived else [])]
        after += [i.completion_time for i in by if not outlives(request_time, i)]
        ends.append(min((end for end in after if end is not None), default=None))
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def _still_owned(cleaned: Iterable[_Gone], replaced: Mapping[GroupId, Instant]) -> list[_Gone]:
    """Those that had not been replaced."""
    return [f for f in cleaned if f.group not in replaced or outlives(f.parsed.request_time, replaced[f.group])]


def _archived_replaced(table: TableAt, time: str) -> dict[GroupId, Instant]:
    """The groups that archived replacements had taken away by then, each with the last one that did."""
    replaced: dict[GroupId, Instant] = {}
    rows = load_history(table, actions=frozenset({"replacecommit"}), with_metadata=True)
    for row in sorted(rows, key=lambda r: r.instant.completion_time or ""):
        if (row.instant.completion_time or "9") <= time:
            metadata = parse_commit(row.metadata or b"", f"archived {row.instant.request_time} of {table.storage.url}")
            for partition, file_ids in metadata.replaced.items():
                replaced |= {GroupId(partition, file_id): row.instant for file_id in file_ids}
    return replaced


def _with_archived(table: TableAt, timeline: Timeline, cleaned: Iterable[_Gone]) -> Timeline:
    """The timeline with the archived writers of removed files: when they completed decides whether they are missed."""
    request_times = {file.parsed.request_time for file in cleaned}
    unknown = {request_time for request_time in request_times if timeline.write(request_time) is None}
    if not unknown:
        return timeline
    found = [a.instant for a in load_history(table, min(unknown), actions=WRITE_ACTIONS)]
    known = [*timeline.archived, *(i for i in found if i.request_time in unknown)]
    return Timeline(timeline.active, tuple(sorted(known)), timeline.until, timeline.undone)


def _first_missing(loaded: Loaded, cleaned: Iterable[_Gone], timeline: Timeline) -> _Gone | None:
    """A cleaned file that a read as of the timeline's moment needs, or None."""
    present: dict[GroupId, list[BaseFileName | LogFileName]] = defaultdict(list)
    for found in loaded.files:
        present[found.group].append(found.parsed)
    gone: dict[GroupId, list[_Gone]] = defaultdict(list)
    for file in cleaned:
        # A clean also lists what it failed to delete; what still lies there is not gone.
        if file.parsed not in present[file.group]:
            gone[file.group].append(file)
    missing = (_missing(present[group], files, timeline) for group, files in gone.items())
    return next((file for file in missing if file is not None), None)


def _missing(
    present: Iterable[BaseFileName | LogFileName], gone: Collection[_Gone], timeline: Timeline
) -> _Gone | None:
    """A removed file that the slice of this moment needs, or None."""
    # A base file of the same request time as a removed one is a spare that its commit does not name.
    spares = {f.parsed.request_time for f in gone if isinstance(f.parsed, BaseFileName)}
    bases = (p.request_time for p in present if _base_done(p, timeline))
    newest = max((request_time for request_time in bases if request_time not in spares), default="")
    for file in gone:
        completion = timeline.completion_of(file.parsed.request_time)
        if completion is None:
            continue
        request_time = file.parsed.request_time
        if isinstance(file.parsed, BaseFileName) and request_time > newest:
            return file
        if isinstance(file.parsed, LogFileName) and not file.parsed.suffix and completion >= newest:
            return file
    return None


def _base_done(parsed: BaseFileName | LogFileName, timeline: Timeline) -> bool:
    return isinstance(parsed, BaseFileName) and timeline.completion_of(parsed.request_time) is not None


def _cleaned(table: TableAt, timeline: Timeline, time: str) -> Iterator[_Gone]:
    """The files that cleans removed or were to remove after that time: active ones, also unfinished, and archived."""
    for instant in timeline.active:
        if instant.action != "clean" or (instant.completion_time or "9") <= time:
            continue
        state = State.COMPLETED if instant.is_completed else State.REQUESTED
        name = f"{table.config.timeline_folder}/{instant.file_name(state, table.config.layout)}"
        yield from _removed(table.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), instant)
    for row in load_history(table, actions=frozenset({"clean"}), with_metadata=True):
        if row.metadata and (row.instant.completion_time or row.instant.request_time) > time:
            yield from _removed(row.metadata, row.instant)


def _removed(data: bytes, instant: Instant) -> Iterator[_Gone]:
    """The files in a clean's metadata; in its plan, if it has not finished: some of those may be gone already."""
    where = f"{instant.request_time}.clean"
    if instant.is_completed:
        files = parse_clean_metadata(data, where).deleted_files
    else:
        files = parse_clean_plan(data, where).files
    for partition, names in files.items():
        for name in names:
            parsed = parse_data_file(name.rpartition("/")[2])
            if parsed is not None:
                yield _Gone(GroupId(partition, parsed.file_id), parsed, instant)

# SPDX-License-Identifier: Apache-2.0
"""Whether the files of an older version are still there: a short answer is worse than an error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.errors import SnapshotExpired
from lakebraid.format.names import BaseFileName, LogFileName, State, parse_data_file
from lakebraid.format.services import parse_clean_metadata
from lakebraid.model.config import TableConfig
from lakebraid.model.instant import Instant
from lakebraid.model.slicing import GroupId
from lakebraid.model.timeline import Timeline
from lakebraid.storage.protocol import Storage
from lakebraid.table.history import load_history
from lakebraid.table.loading import Loaded


@dataclass(frozen=True, slots=True)
class _Gone:
    """A file that a clean removed."""

    group: GroupId
    parsed: BaseFileName | LogFileName
    by: Instant


def check_retained(storage: Storage, config: TableConfig, loaded: Loaded, time: str) -> None:
    """Raises SnapshotExpired if a clean removed a file that a read as of that completion time needs."""
    timeline = loaded.timeline.as_of(time)
    gone: dict[GroupId, list[_Gone]] = defaultdict(list)
    for file in _cleaned(storage, config, loaded.timeline, time):
        gone[file.group].append(file)
    present: dict[GroupId, list[BaseFileName | LogFileName]] = defaultdict(list)
    for found in loaded.files:
        present[found.group].append(found.parsed)
    for group, files in gone.items():
        # A clean also lists what it failed to delete; what still lies there is not gone.
        missing = _missing(present[group], [f for f in files if f.parsed not in present[group]], timeline)
        if missing is not None:
            raise SnapshotExpired(
                f"{storage.url} as of {time} can no longer be read: the clean {missing.by.request_time}, completed "
                f"{missing.by.completion_time}, removed {missing.parsed.format()} in partition "
                f"{group.partition or '(none)'!r}. Newer versions are safe. Read a later time.",
                path=storage.url,
                as_of=time,
                removed_by=missing.by.request_time,
            )


def _missing(
    present: Iterable[BaseFileName | LogFileName], gone: Iterable[_Gone], timeline: Timeline
) -> _Gone | None:
    """A removed file that the slice of this moment needs, or None."""
    newest = max((p.request_time for p in present if _base_done(p, timeline)), default="")
    for file in gone:
        completion = timeline.completion_of(file.parsed.request_time)
        if completion is None:
            continue
        start = file.parsed.request_time
        if isinstance(file.parsed, BaseFileName) and start > newest:
            return file
        if isinstance(file.parsed, LogFileName) and not file.parsed.suffix and completion >= newest:
            return file
    return None


def _base_done(parsed: BaseFileName | LogFileName, timeline: Timeline) -> bool:
    return isinstance(parsed, BaseFileName) and timeline.completion_of(parsed.request_time) is not None


def _cleaned(storage: Storage, config: TableConfig, timeline: Timeline, time: str) -> Iterator[_Gone]:
    """The files removed by cleans that completed after that time, active and archived."""
    for instant in timeline.active:
        if instant.action == "clean" and instant.is_completed and (instant.completion_time or "") > time:
            name = f"{config.timeline_folder}/{instant.file_name(State.COMPLETED, config.layout)}"
            yield from _removed(storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), instant)
    for row in load_history(storage, config, actions=frozenset({"clean"}), with_metadata=True):
        if row.metadata and (row.instant.completion_time or row.instant.request_time) > time:
            yield from _removed(row.metadata, row.instant)


def _removed(data: bytes, instant: Instant) -> Iterator[_Gone]:
    metadata = parse_clean_metadata(data, f"{instant.request_time}.clean")
    for partition, names in metadata.deleted_files.items():
        for name in names:
            parsed = parse_data_file(name.rpartition("/")[2])
            if parsed is not None:
                yield _Gone(GroupId(partition, parsed.file_id), parsed, instant)

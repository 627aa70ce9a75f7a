# SPDX-License-Identifier: Apache-2.0
"""Which files readers must take, from commit metadata alone: a second answer to what `slicing` says, found another way.

`slicing` sorts the files that lie in folders into slices. Here nothing is listed: a commit names its files, and a file is
needed as long as no newer base file, and no replacement of its group, has taken its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakebraid.format.names import BaseFileName, parse_data_file
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import GroupId, outlives

MOVES_ROWS = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
"""Operations that bring no rows of their own."""


@dataclass(frozen=True, slots=True)
class Named:
    """A file that a completed commit names."""

    path: str
    group: GroupId
    request_time: str
    """As in its name; in layout 1 that of the base file below it."""
    completion: str
    is_base: bool
    size: int | None
    rows: int | None
    deletes: int | None
    operation: str | None
    instant: str
    """The request time of the commit that names it."""


def named_files(instant: Instant, metadata: CommitMetadata, *, layout: int) -> Iterator[Named]:
    """The data files that a commit names; those whose names are none are passed over (`misnamed` tells of them)."""
    for partition, stats in metadata.write_stats.items():
        for stat in stats:
            parsed = parse_data_file((stat.path or "").rpartition("/")[2])
            if parsed is None or not stat.path:
                continue
            is_base = isinstance(parsed, BaseFileName)
            # Layout 1 appends to logs that bear the request time of their base file; so their place is at that request time.
            done = instant.completion_time or instant.request_time
            completion = parsed.request_time if layout == 1 and not is_base else done
            yield Named(
                stat.path, GroupId(partition, parsed.file_id), parsed.request_time, completion, is_base, _size(stat),
                stat.num_writes, stat.num_deletes, metadata.operation, instant.request_time,
            )  # fmt: skip


def change_files(instant: Instant, metadata: CommitMetadata) -> Iterator[Named]:
    """The files of change data that a commit names beside its base files; no snapshot reads them."""
    for partition, stats in metadata.write_stats.items():
        for stat in stats:
            for path, size in (stat.cdc_stats or {}).items():
                request_time, done = instant.request_time, instant.completion_time or instant.request_time
                group = GroupId(partition, stat.file_id or "")
                yield Named(path, group, request_time, done, False, size, None, None, metadata.operation, request_time)


def misnamed(instant: Instant, metadata: CommitMetadata, *, layout: int) -> Iterator[tuple[str, str]]:
    """Paths in a commit that are none of its own, each with what is wrong with it."""
    for partition, stats in metadata.write_stats.items():
        for stat in stats:
            if not stat.path:
                continue
            folder, _, name = stat.path.rpartition("/")
            parsed = parse_data_file(name)
            if parsed is None:
                yield stat.path, "it is no name of a data file"
            elif folder != partition:
                yield stat.path, f"the commit counts it to the partition {partition!r}"
            elif stat.file_id is not None and parsed.file_id != stat.file_id:
                yield stat.path, f"the commit counts it to the file group {stat.file_id}"
            elif layout == 2 and parsed.request_time != instant.request_time and isinstance(parsed, BaseFileName):
                yield stat.path, f"it bears the request time {parsed.request_time}"


def _size(stat: WriteStat) -> int | None:
    return stat.file_size_in_bytes if stat.file_size_in_bytes is not None else stat.total_write_bytes


@dataclass
class Floors:
    """Of each group the newest base file, and what replaced the group: what lies below is not needed."""

    bases: dict[GroupId, str] = field(default_factory=dict)
    replaced: dict[GroupId, Instant] = field(default_factory=dict)

    def add(self, instant: Instant, metadata: CommitMetadata, *, layout: int) -> None:
        """Takes a completed commit into account; in the order of completion, so that the last replacement counts."""
        for partition, file_ids in metadata.replaced.items():
            for file_id in file_ids:
                group = GroupId(partition, file_id)
                known = self.replaced.get(group)
                if known is None or (known.completion_time or "") <= (instant.completion_time or ""):
                    self.replaced[group] = instant
        for file in named_files(instant, metadata, layout=layout):
            if file.is_base and file.request_time > self.bases.get(file.group, ""):
                self.bases[file.group] = file.request_time

    def is_needed(self, file: Named) -> bool:
        """Whether a snapshot reads the file."""
        if self.is_replaced(file):
            return False
        newest = self.newest_base(file.group)
        return file.request_time == newest if file.is_base else file.completion >= newest

    def newest_base(self, group: GroupId) -> str:
        """The request time of the base file that counts, "" if there is none."""
        base = self.bases.get(group, "")
        by = self.replaced.get(group)
        return base if not base or by is None or outlives(base, by) else ""

    def is_replaced(self, file: Named) -> bool:
        by = self.replaced.get(file.group)
        return by is not None and not outlives(file.instant if not file.is_base else file.request_time, by)

    def is_lost(self, file: Named) -> bool:
        """Whether rows were written into a group that had been replaced when they completed (scenario F8)."""
        by = self.replaced.get(file.group)
        if by is None or not self.is_replaced(file) or file.operation in MOVES_ROWS:
            return False
        return file.completion > (by.completion_time or "")


def missed_logs(files: Iterable[Named], inputs: Mapping[GroupId, frozenset[str]], request_time: str) -> Iterator[Named]:
    """The logs that a compaction planned at `request_time` should have merged and did not.

    `inputs` are the names of its input files by group; `files` all that commits name. A log belongs to the slice that a
    compaction replaces if it completed before the plan, and not before the base file below it was begun.
    """
    floors = {group: _base_request_time(names) for group, names in inputs.items()}
    logs: list[Named] = []
    for file in files:
        if file.group not in inputs or file.request_time >= request_time:
            continue
        if file.is_base:
            floors[file.group] = max(file.request_time, floors[file.group])
        else:
            logs.append(file)
    for log in logs:
        if floors[log.group] <= log.completion < request_time and log.path.rpartition("/")[2] not in inputs[log.group]:
            yield log


def _base_request_time(names: Iterable[str]) -> str:
    found = (parse_data_file(name) for name in names)
    return max((parsed.request_time for parsed in found if isinstance(parsed, BaseFileName)), default="")

# SPDX-License-Identifier: Apache-2.0
"""File slices: which base file and which log files belong together (RFC-66, slicing by completion time).

The RFC's pseudocode anchors a group without base files on its *earliest* log. A dead first writer then hides what
others committed (scenario F1). Here only *committed* files open or join slices, so a pending first log hides nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakebraid.format.names import BaseFileName, LogFileName
from lakebraid.model.timeline.instant import Instant


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A committed base file."""

    name: str
    parsed: BaseFileName
    size: int
    completion_time: str
    version: str = ""
    """What tells its bytes from all others of this name, if the store says so."""

    @property
    def request_time(self) -> str:
        """The request time of the instant that wrote it."""
        return self.parsed.request_time


@dataclass(frozen=True, slots=True)
class LogFile:
    """A committed log file."""

    name: str
    parsed: LogFileName
    size: int
    completion_time: str
    version: str = ""
    """The same."""

    @property
    def request_time(self) -> str:
        """The request time of the instant that wrote it."""
        return self.parsed.request_time


@dataclass(frozen=True, slots=True)
class GroupId:
    """A file group: partition path and file id."""

    partition: str
    file_id: str

    def __lt__(self, other: GroupId) -> bool:
        return (self.partition, self.file_id) < (other.partition, other.file_id)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One base file, or none, and the log files on top of it, in the order in which they are merged."""

    group: GroupId
    barrier: str
    """The request time that opened the slice: of its base file, of a planned compaction, or of its first log."""
    base: BaseFile | None
    logs: tuple[LogFile, ...]

    @property
    def has_late_log(self) -> bool:
        """Whether a log may rank before a row of the base file: one that started before the base file was planned, or
        that of the compaction itself, which carries older blocks on.
        """
        return self.base is not None and any(log.request_time <= self.base.request_time for log in self.logs)

    @property
    def versions(self) -> dict[str, str]:
        """Those of its files, by name, as far as the store tells them."""
        files: list[BaseFile | LogFile] = [*self.logs, *([self.base] if self.base else [])]
        return {file.name: file.version for file in files if file.version}

    @property
    def size(self) -> int:
        """Bytes of the base file and the log files."""
        return (self.base.size if self.base else 0) + sum(log.size for log in self.logs)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """All slices of one file id, oldest first."""

    group: GroupId
    slices: tuple[FileSlice, ...]

    def latest(self) -> FileSlice | None:
        """What a snapshot reads: the newest slice; if a compaction is only planned, the one before it as well.

        A slice that a pending compaction opened has no base file yet, so it is read together with its elders down
        to the newest base file (old base + old logs + new logs).
        """
        if not self.slices:
            return None
        logs: list[LogFile] = []
        for file_slice in reversed(self.slices):
            logs = [*file_slice.logs, *logs]
            if file_slice.base is not None:
                return FileSlice(self.group, file_slice.barrier, file_slice.base, merge_order(logs))
        return FileSlice(self.group, self.slices[0].barrier, None, merge_order(logs)) if logs else None

    def latest_base(self) -> BaseFile | None:
        """What a read-optimised query reads."""
        return next((s.base for s in reversed(self.slices) if s.base is not None), None)


def merge_order(logs: Iterable[LogFile]) -> tuple[LogFile, ...]:
    """Logs by request time, version, token: the order of merging, which is not the order of completion."""
    return tuple(sorted(logs, key=lambda log: log.parsed.sort_key))


def build_group(
    group: GroupId,
    bases: Iterable[BaseFile],
    logs: Iterable[LogFile],
    planned: Iterable[str] = (),
) -> FileGroup:
    """The slices of a group out of its committed files and the request times of pending compactions that name it.

    The demo of RFC-66: base 10, logs [21,40] and [30,50], a compaction at 60, and the log [35,90] that finished late
    give the slices {10: two logs} and {60: the late one}.
    """
    by_request_time = {base.request_time: base for base in bases}
    ordered = merge_order(logs)
    barriers = sorted({*by_request_time, *planned})
    # Without any barrier the earliest committed log opens the one slice; logs older than every barrier (a planned
    # compaction, no base file yet) need one as well. "" sorts before every time and never shows.
    members: dict[str, list[LogFile]] = {barrier: [] for barrier in barriers}
    for log in ordered:
        at = bisect_right(barriers, log.completion_time)
        members.setdefault(barriers[at - 1] if at else "", []).append(log)
    slices = []
    for barrier in sorted(members):
        own = members[barrier]
        request_time = barrier or own[0].request_time
        slices.append(FileSlice(group, request_time, by_request_time.get(barrier), tuple(own)))
    return FileGroup(group, tuple(slices))


def build_groups(
    bases: Mapping[GroupId, list[BaseFile]],
    logs: Mapping[GroupId, list[LogFile]],
    planned: Mapping[GroupId, set[str]],
    replaced: Mapping[GroupId, Instant],
) -> dict[GroupId, FileGroup]:
    """All live groups. `replaced` names the groups that a completed replacement took away, and by what."""
    groups = {}
    for group in sorted({*bases, *logs}):
        own_bases, own_logs = bases.get(group, []), logs.get(group, [])
        if group in replaced:
            own_bases = [b for b in own_bases if outlives(b.request_time, replaced[group])]
            own_logs = [log for log in own_logs if outlives(log.request_time, replaced[group])]
        if own_bases or own_logs:
            groups[group] = build_group(group, own_bases, own_logs, planned.get(group, ()))
    return groups


def outlives(request_time: str, replacement: Instant) -> bool:
    """Whether a file of a replaced group still counts: the replacement's own, or one begun after it was visible.

    File ids of buckets are fixed, so an overwrite may put its rows into a group of the same name (scenario F8).
    """
    return request_time == replacement.request_time or request_time > (replacement.completion_time or "")

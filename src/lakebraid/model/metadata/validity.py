# SPDX-License-Identifier: Apache-2.0
"""Which instants of a metadata table count, and which of its files a reader takes (MDT, section 4).

A metadata table is completed before the data table, so an instant that is done there may still be pending here: it is not seen
then. One that the data table has completed and the metadata table has not means that some writer does not maintain it; what it
says would be too little, so it is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakebraid.errors import UnsupportedTable
from lakebraid.model.timeline.slicing import BaseFile, FileSlice, GroupId, LogFile, build_group
from lakebraid.model.timeline.timeline import Timeline

_FIRST_REAL_TIME: Final = "0001"
"""Hudi gives the instants that build a partition times of nearly nothing but zeros."""


@dataclass(frozen=True)
class Validity:
    """The two timelines beside each other; only completions up to `data.until` count, if it is set."""

    data: Timeline
    metadata: Timeline
    where: str
    _pending: frozenset[str] = field(init=False, repr=False, compare=False)
    _completed: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        others = (i for i in self.data.pending if i.action != "savepoint")  # which shares the time of its commit
        object.__setattr__(self, "_pending", frozenset(i.request_time for i in others))
        object.__setattr__(
            self, "_completed", frozenset(i.request_time for i in self.data.completed if i.action != "savepoint")
        )

    def check(self) -> None:
        """Raises UnsupportedTable if the metadata table may say less than it should."""
        for timeline in (self.data, self.metadata):
            if any(i.action == "restore" for i in timeline.pending):
                raise self.not_understood("a restore is under way")
        built = [i for i in self.metadata.writes if i.request_time < _FIRST_REAL_TIME]
        since = min(built, default=None, key=lambda i: i.request_time)
        for instant in self.data.writes:
            if since is not None and (instant.completion_time or "") <= (since.completion_time or ""):
                continue  # it was there when the metadata table was built
            if self.metadata.completion_of(instant.request_time) is None:
                raise self.not_understood(
                    f"the write {instant.request_time} is not in it, so a job writes without maintaining it"
                )

    def is_valid(self, request_time: str) -> bool:
        """Whether readers see what the instant has written into the metadata table."""
        if request_time in self._pending:
            return False
        completion = self.metadata.completion_of(request_time)
        if request_time in self._completed:
            if completion is None:
                raise self.not_understood(f"{request_time} is completed in the table, and not in its metadata")
            return True
        instant = self.metadata.write(request_time)
        if instant is None and completion is not None:
            raise self.not_understood(f"{request_time} has left both timelines, and its log is still needed")
        return completion is not None and (self.data.until is None or completion <= self.data.until)

    def slice(self, group: GroupId, bases: Iterable[BaseFile], logs: Iterable[LogFile]) -> FileSlice | None:
        """What readers take of a file group: the newest base file that counts, and the valid logs after it in the order of merging.

        None if there is nothing. The completion times of the files given do not matter.
        """
        known = [self._with_completion(base) for base in bases]
        done = [
            base
            for base in known
            if base is not None and (self.data.until is None or base.completion_time <= self.data.until)
        ]
        if not done and any(base is not None for base in known):
            raise self.not_understood(f"the base files of {group.file_id} are newer than what is asked for")
        found = build_group(group, done, self._completed_logs(logs)).latest()
        if found is None:
            return None
        valid = tuple(log for log in found.logs if self.is_valid(log.request_time))
        return FileSlice(group, found.barrier, found.base, valid)

    def _with_completion(self, base: BaseFile) -> BaseFile | None:
        completion = self.metadata.completion_of(base.request_time)
        return None if completion is None else BaseFile(base.name, base.parsed, base.size, completion)

    def _completed_logs(self, logs: Iterable[LogFile]) -> Sequence[LogFile]:
        found = []
        for log in logs:
            completion = self.metadata.completion_of(log.request_time)
            if completion is not None:
                found.append(LogFile(log.name, log.parsed, log.size, completion))
            elif log.request_time in self._completed:
                raise self.not_understood(f"{log.request_time} is completed in the table, and not in its metadata")
        return found

    def not_understood(self, reason: str) -> UnsupportedTable:
        """The error to raise when the metadata table must not be asked because of `reason`."""
        return UnsupportedTable(
            f"The metadata table of {self.where} is not used: {reason}. Nothing was changed. The table itself can be read without it: its "
            "folders say the same.",
            path=self.where,
            reason=reason,
        )

# SPDX-License-Identifier: Apache-2.0
"""Everything that the viewer shows, read from a table once. What cannot be read is said, and the rest is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import LakebraidError, ObjectNotFound
from lakebraid.format.names import State
from lakebraid.inspect.status import Status, load_status
from lakebraid.model.config import TableConfig
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_config, load_timeline
from lakebraid.table.view import View, load_view
from lakebraid.web.details import PLANNED, Contents, Details, parse_details

T = TypeVar("T")
Known = dict[Instant, Details]
"""What earlier looks have read. A completed instant never changes, so a live page reads each of them once."""

_TELLING = WRITE_ACTIONS | {"rollback", "restore", "clean", "savepoint"}


@dataclass(frozen=True, slots=True)
class DescribedInstant:
    """One instant with what it says."""

    instant: Instant
    details: Details
    is_archived: bool = False

    def by(self, writer: str | None) -> DescribedInstant:
        """The same with who has it open: its own files say so only at the end."""
        return self if writer is None else replace(self, details=replace(self.details, writer=writer))


@dataclass(frozen=True)
class Facts:
    """A table as it was at one look."""

    config: TableConfig
    path: str
    now_ms: int
    instants: tuple[DescribedInstant, ...] = ()
    left_out: int = 0
    """Older instants that are not among them."""
    view: View | None = None
    status: Status | None = None
    problems: tuple[str, ...] = field(default=())
    """Why a part is missing."""


def load_facts(storage: Storage, clock: Clock, known: Known | None = None, instants_max: int | None = None) -> Facts:
    """The newest instants of the active and the archived timeline, the files, and what is going on."""
    config, _ = load_config(storage)
    table = TableAt(storage, config, clock)
    reader = _Reader(table, known if known is not None else {}, instants_max or limits.VIEW_INSTANTS_MAX)
    problems: list[str] = []
    active = sorted(load_timeline(table))
    seen = [DescribedInstant(i, reader.details(i)) for i in active[-reader.instants_max :]]
    archived = _tried(problems, lambda: reader.archived(active)) or ([], 0)
    view = _tried(problems, lambda: load_view(table))
    status = _tried(problems, lambda: load_status(storage, clock))
    if status is not None:
        names = {writer.instant: writer.writer for writer in status.writers}
        seen = [s if s.instant.is_completed else s.by(names.get(s.instant.request_time)) for s in seen]
    left_out = len(active) - len(seen) + archived[1]
    return Facts(
        config,
        storage.url,
        clock.now_ms(),
        (*archived[0], *seen),
        left_out,
        view,
        status,
        tuple(dict.fromkeys(problems)),
    )


def _tried(problems: list[str], load: Callable[[], T]) -> T | None:
    try:
        return load()
    except LakebraidError as error:
        problems.append(error.message)
        return None


@dataclass(frozen=True, slots=True)
class _Reader:
    table: TableAt
    known: Known
    instants_max: int

    def archived(self, active: Iterable[Instant]) -> tuple[list[DescribedInstant], int]:
        """The newest of the archived ones, as many as there is room for, and how many are left out."""
        shown = {(i.request_time, i.action) for i in active}
        old = sorted(a.instant for a in load_history(self.table))
        old = [i for i in old if (i.request_time, i.action) not in shown]
        chosen = old[-room:] if (room := self.instants_max - len(shown)) > 0 else []
        if any(i not in self.known for i in chosen):
            for row in load_history(self.table, chosen[0].request_time, with_metadata=True):
                contents = Contents(row.metadata, row.plan)
                self.known[row.instant] = parse_details(row.instant, contents, f"archived {row.instant.request_time}")
        return [DescribedInstant(i, self.known.get(i, Details()), is_archived=True) for i in chosen], len(old) - len(
            chosen
        )

    def details(self, instant: Instant) -> Details:
        known = self.known.get(instant)
        if known is not None:
            return known
        found = parse_details(instant, self._contents(instant), self._name(instant, instant.state))
        if instant.is_completed:
            self.known[instant] = found
        return found

    def _contents(self, instant: Instant) -> Contents:
        completed = requested = None
        try:
            if instant.is_completed and instant.action in _TELLING:
                completed = self._read(instant, State.COMPLETED)
            if instant.kind in PLANNED or instant.action == "rollback":
                requested = self._read(instant, State.REQUESTED)
        except ObjectNotFound:
            return Contents(completed)  # archived or rolled back between the listing and this look
        except LakebraidError as error:
            return Contents(completed, problem=error.message)
        return Contents(completed, requested)

    def _read(self, instant: Instant, state: State) -> bytes:
        return self.table.storage.read(self._name(instant, state), limits.TIMELINE_FILE_BYTES_MAX)

    def _name(self, instant: Instant, state: State) -> str:
        return f"{self.table.config.timeline_folder}/{instant.file_name(state, self.table.config.layout)}"

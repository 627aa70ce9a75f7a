# SPDX-License-Identifier: Apache-2.0
"""One instant in full: its states, its metadata, its plan, and the files it is about."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument, ObjectNotFound
from lakebraid.format.names import State
from lakebraid.format.timeline.commit import CommitMetadata, parse_commit
from lakebraid.format.timeline.plans import parse_compaction_plan, parse_requested_replace
from lakebraid.format.timeline.rollbacks import (
    parse_restore_metadata,
    parse_restore_plan,
    parse_rollback_metadata,
    parse_rollback_plan,
)
from lakebraid.format.timeline.services import (
    parse_clean_metadata,
    parse_clean_plan,
    parse_index_metadata,
    parse_index_plan,
    parse_savepoint_metadata,
)
from lakebraid.model.timeline.instant import Instant
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.history import history_rows, load_manifest
from lakebraid.table.loading import load_timeline

Parse = Callable[[bytes, str], Any]
COMPLETED: Final[dict[str, Parse]] = {
    "commit": parse_commit,
    "deltacommit": parse_commit,
    "replacecommit": parse_commit,
    "clean": parse_clean_metadata,
    "rollback": parse_rollback_metadata,
    "restore": parse_restore_metadata,
    "savepoint": parse_savepoint_metadata,
    "indexing": parse_index_metadata,
}
"""How the completed file of each action is read."""
PLANS: Final[dict[str, Parse]] = {
    "compaction": parse_compaction_plan,
    "logcompaction": parse_compaction_plan,
    "clustering": parse_requested_replace,
    "clean": parse_clean_plan,
    "rollback": parse_rollback_plan,
    "restore": parse_restore_plan,
    "indexing": parse_index_plan,
}
"""How the requested file is read, of those actions that have a plan."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file that a commit names, as it lies there now."""

    path: str
    rows: int | None
    deletes: int | None
    bytes: int | None
    is_there: bool


@dataclass(frozen=True, slots=True)
class Detail:
    """What the files of an instant say."""

    instant: Instant
    is_archived: bool = False
    metadata: Any = None
    """The parsed content of its completed file, by its action; None if it is not completed."""
    plan: Any = None
    """The parsed plan; None if such actions have none, or it is gone."""
    files: tuple[WrittenFile, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be read."""
    states: tuple[str, ...] = field(default=())
    """The timeline files that are there."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        facts = {"action": self.instant.kind, "state": self.instant.state.value}
        times = {"request_time": self.instant.request_time, "completion_time": self.instant.completion_time}
        return {
            **times,
            **facts,
            "archived": self.is_archived,
            "states": list(self.states),
            "files": [asdict(file) for file in self.files],
            "metadata": None if self.metadata is None else asdict(self.metadata),
            "plan": None if self.plan is None else asdict(self.plan),
            "problems": list(self.problems),
        }


def load_details(table: TableAt, request_time: str) -> list[Detail]:
    """All that began at `request_time`: a write and its savepoint share it. InvalidArgument if there is nothing."""
    own = [i for i in load_timeline(table).active if i.request_time == request_time]
    found = [_active(table, instant) for instant in own]
    if not any(d.instant.action != "savepoint" for d in found):
        found += list(_archived(table, request_time))
    if not found:
        raise InvalidArgument(
            f"{table.storage.url} has no instant {request_time[:60]!r}, active or archived. Nothing was changed. `lakebraid timeline` "
            "lists them; `lakebraid why` also knows of those that were rolled back.",
            instant=request_time,
        )
    return found


def _active(table: TableAt, instant: Instant) -> Detail:
    names = {info.name.rpartition("/")[2] for info in table.storage.list_folder(table.config.timeline_folder)[0]}
    states, problems = [], []

    def read(state: State, parsers: dict[str, Parse], action: str) -> Any:
        with contextlib.suppress(InvalidArgument):
            name = instant.file_name(state, table.config.layout)
            if name not in names:
                return None
            states.append(name)
            parse = parsers.get(action)
            try:
                data = table.storage.read(f"{table.config.timeline_folder}/{name}", limits.TIMELINE_FILE_BYTES_MAX)
                return parse(data, name) if parse is not None and (data or state is State.COMPLETED) else None
            except (CorruptFile, ObjectNotFound) as error:
                problems.append(error.message)
        return None

    plan = read(State.REQUESTED, PLANS, instant.planned or instant.action)
    read(State.INFLIGHT, {}, instant.action)
    metadata = read(State.COMPLETED, COMPLETED, instant.action) if instant.is_completed else None
    files = tuple(_files(table.storage, metadata))
    return Detail(
        instant,
        metadata=metadata,
        plan=plan,
        files=files,
        problems=tuple(problems),
        states=tuple(dict.fromkeys(states)),
    )


def _archived(table: TableAt, request_time: str) -> Iterator[Detail]:
    for row in history_rows(table, load_manifest(table).files):
        if row.request_time != request_time:
            continue
        instant = Instant(request_time, row.action, State.COMPLETED, row.completion_time)
        metadata, parse = None, COMPLETED.get(row.action)
        problems = []
        try:
            metadata = parse(row.metadata or b"", f"archived {request_time}") if parse else None
        except CorruptFile as error:
            problems.append(error.message)
        plan = None
        for kind in (row.action, "compaction", "clustering") if row.plan else ():
            with contextlib.suppress(CorruptFile):
                plan = plan or (PLANS[kind](row.plan or b"", f"archived {request_time}") if kind in PLANS else None)
        files = tuple(_files(table.storage, metadata))
        yield Detail(instant, is_archived=True, metadata=metadata, plan=plan, files=files, problems=tuple(problems))


def _files(storage: Storage, metadata: Any) -> Iterator[WrittenFile]:
    if not isinstance(metadata, CommitMetadata):
        return
    for stat in (stat for stats in metadata.write_stats.values() for stat in stats if stat.path):
        size = stat.file_size_in_bytes if stat.file_size_in_bytes is not None else stat.total_write_bytes
        yield WrittenFile(stat.path or "", stat.num_writes, stat.num_deletes, size, _is_there(storage, stat.path or ""))


def _is_there(storage: Storage, path: str) -> bool:
    try:
        storage.info(path)
    except (ObjectNotFound, InvalidArgument):
        return False
    return True

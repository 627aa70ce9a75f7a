# SPDX-License-Identifier: Apache-2.0
"""Savepoints: a completed write whose moment stays readable, until the savepoint is deleted.

A savepoint is one timeline file, `<request time>_<when it was set>.savepoint`, and no inflight file beside it: its name would be
that of the next savepoint of the same write, and a late delete of this one would hit the next. Hudi needs none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument, ObjectNotFound, SnapshotExpired
from lakebraid.format.names import State, TimelineFileName, in_partition
from lakebraid.format.timeline.services import (
    SavepointMetadata,
    format_savepoint_metadata,
    parse_clean_plan,
    parse_savepoint_metadata,
)
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.view import View, load_view
from lakebraid.txn.ledger.entries import LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A moment that is kept."""

    instant: str
    """The request time of the write that it pins: the name of the savepoint."""
    completion_time: str
    """When that write completed: `as_of` this time the table is what the savepoint keeps."""
    set_at: str
    files: int
    comment: str = ""
    user: str = ""


def savepoints_on(timeline: Timeline, state: LedgerState) -> list[Instant]:
    """The savepoints of a timeline, without those that are deleted and whose file is still to go."""
    found = (i for i in timeline if i.action == "savepoint" and i.is_completed)
    return [i for i in found if (i.completion_time or "") not in state.unpinned]


def decide_savepoint(ledger: Ledger, decider: str, instant: str | None, *, comment: str, user: str) -> Savepoint:
    """The savepoint of a completed write, or of the last one; the one that is there already, if so.

    SnapshotExpired if a clean, finished or not, takes a file of that moment.
    """

    def rule(now: Round) -> Outcome[Savepoint]:
        pinned = _pinned(now, instant)
        known = next(
            (s for s in savepoints_on(now.timeline(), now.state) if s.request_time == pinned.request_time), None
        )
        if known is not None:
            return Already(describe_savepoint(ledger, now.timeline(), known))
        moment = pinned.completion_time or pinned.request_time
        view = check_kept(now, moment)
        files = {partition: tuple(names) for partition, names in _names(view).items()}
        set_at = now.time()
        metadata = SavepointMetadata(files, user, comment, ledger.clock.now_ms())
        made = Savepoint(pinned.request_time, moment, set_at, sum(map(len, files.values())), comment, user)
        return Decision(
            "savepoint",
            replace(now.state, last=now.time(), unpinned=_still_there(now)),
            ((format_savepoint_metadata(metadata), _file_name(pinned.request_time, set_at)),),
            value=made,
        )

    return ledger.decide(decider, rule)


def decide_unpinning(ledger: Ledger, decider: str, instant: str) -> str | None:
    """Decides that a savepoint is deleted: when it was set, or None if there is none. Its file goes with `remove_unpinned`.

    The decision comes first: a savepoint of the same write that is set from now on is another one.
    """

    def rule(now: Round) -> Outcome[str | None]:
        found = next((s for s in savepoints_on(now.timeline(), now.state) if s.request_time == instant), None)
        if found is None:
            return Already(None)
        set_at = found.completion_time or ""
        unpinned = {**_still_there(now), set_at: instant}
        return Decision("delete savepoint", replace(now.state, unpinned=unpinned), value=set_at)

    return ledger.decide(decider, rule)


def remove_unpinned(ledger: Ledger, decider: str) -> None:
    """Removes the files of savepoints that are deleted: anyone may, at any time, for no such name is used again."""

    def rule(now: Round) -> Already[None]:
        doomed = [_file_name(request_time, set_at) for set_at, request_time in now.state.unpinned.items()]
        if doomed:
            ledger.sweep_staged(now.number - 1)  # a late copy must find no source
            doomed += _foreign_inflights(now)
            ledger.storage.delete([f"{ledger.config.timeline_folder}/{name}" for name in doomed])
        return Already(None)

    ledger.decide(decider, rule)


def describe_savepoint(ledger: Ledger, timeline: Timeline, savepoint: Instant) -> Savepoint:
    """The savepoint with what its file says. ObjectNotFound if it was deleted since."""
    name = f"{ledger.config.timeline_folder}/{savepoint.file_name(State.COMPLETED)}"
    metadata = parse_savepoint_metadata(ledger.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), name)
    pinned = timeline.write(savepoint.request_time)
    return Savepoint(
        savepoint.request_time,
        (pinned.completion_time if pinned is not None else None) or savepoint.request_time,
        savepoint.completion_time or savepoint.request_time,
        sum(map(len, metadata.files.values())),
        metadata.comment,
        metadata.user,
    )


def check_kept(now: Round, moment: str) -> View:
    """The table as of that completion time; SnapshotExpired if a clean took, or is about to take, a file of it."""
    ledger = now.ledger
    view = load_view(ledger.table, moment)
    needed = {in_partition(partition, name) for partition, names in _names(view).items() for name in names}
    for clean, doomed in _doomed(now):
        lost = sorted(needed & doomed)
        if lost:
            raise SnapshotExpired(
                f"{ledger.storage.url} as of {moment} cannot be kept: the clean {clean}, which is not finished yet, "
                f"removes {lost[0]}. Nothing was changed. Everything from {now.state.horizon} on can be kept: choose that.",
                path=ledger.storage.url,
                as_of=moment,
                removed_by=clean,
                oldest_readable=now.state.horizon,
            )
    return view


def _pinned(now: Round, instant: str | None) -> Instant:
    timeline = now.timeline()
    found = timeline.writes[-1] if instant is None and timeline.writes else timeline.write(instant or "")
    if found is None or not found.is_completed or found.request_time <= now.state.archived:
        raise InvalidArgument(
            f"{now.ledger.storage.url} has no completed write {instant or ''} on its timeline to keep, or it is "
            "being archived. Nothing was changed. Name the instant of a later one that `table.timeline()` shows.",
            path=now.ledger.storage.url,
            instant=instant,
        )
    return found


def _names(view: View) -> dict[str, list[str]]:
    """The files of all slices, names per partition."""
    found: dict[str, list[str]] = {}
    for part in view.slices():
        paths = ([part.base.name] if part.base is not None else []) + [log.name for log in part.logs]
        found.setdefault(part.group.partition, []).extend(path.rpartition("/")[2] for path in paths)
    return found


def _doomed(now: Round) -> Iterator[tuple[str, set[str]]]:
    """The cleans that are decided and not done, each with the files it removes."""
    storage, config = now.ledger.storage, now.ledger.config
    for instant in now.timeline().pending:
        if instant.action == "clean":
            name = f"{config.timeline_folder}/{instant.file_name(State.REQUESTED)}"
            try:
                plan = parse_clean_plan(storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), name)
            except (ObjectNotFound, CorruptFile):
                continue  # a torn plan of Hudi's, which cannot be executed
            yield instant.request_time, {in_partition(p, file) for p, files in plan.files.items() for file in files}


def _still_there(now: Round) -> dict[str, str]:
    """Deleted savepoints whose file has not been seen to be gone; once it is, it cannot come back."""
    there = _listed(now)
    return {
        at: request_time for at, request_time in now.state.unpinned.items() if _file_name(request_time, at) in there
    }


def _foreign_inflights(now: Round) -> list[str]:
    """The inflight files that Hudi made for savepoints which are deleted, unless it has set one of that write again."""
    kept = {savepoint.request_time for savepoint in savepoints_on(now.timeline(), now.state)}
    request_times = {*now.state.unpinned.values()} - kept
    names = (
        TimelineFileName(request_time, None, "savepoint", State.INFLIGHT).format()
        for request_time in sorted(request_times)
    )
    return [name for name in names if name in _listed(now)]


def _listed(now: Round) -> set[str]:
    # The timeline tells one savepoint of a write; a deleted one and the next may lie there side by side.
    files, _ = now.ledger.storage.list_folder(now.ledger.config.timeline_folder)
    return {file.name.rpartition("/")[2] for file in files}


def _file_name(request_time: str, set_at: str) -> str:
    return TimelineFileName(request_time, set_at, "savepoint", State.COMPLETED).format()

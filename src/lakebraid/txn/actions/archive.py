# SPDX-License-Identifier: Apache-2.0
"""Archiving: finished instants leave the timeline for the history. Decided once, executed by anyone, any number of times.

The ledger says up to where completed instants never change again. What lies below is written to the history, and only
what is found there is removed from the timeline: so an archiver may die, sleep or be doubled at any call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lakebraid import limits
from lakebraid.errors import ObjectNotFound
from lakebraid.format.metadata.commits import TIMELINE
from lakebraid.format.names import State, parse_timeline_file
from lakebraid.format.timeline.commit import format_commit, parse_commit
from lakebraid.format.timeline.history import ArchivedInstant
from lakebraid.format.times import format_instant_time
from lakebraid.model.timeline.instant import Instant, action_family
from lakebraid.model.timeline.timeline import Timeline, build_timeline
from lakebraid.storage.protocol import ObjectInfo
from lakebraid.table.at import TableAt
from lakebraid.txn.actions.history import add_to_history, merge_layers, point_at_newest, tidy_history
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Listed:
    """A completed instant with its files, which in upgraded tables have names of their own."""

    instant: Instant
    files: Mapping[State, ObjectInfo]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())


@dataclass(frozen=True, slots=True)
class Archivable:
    """Which instants may leave the timeline."""

    instants: tuple[Instant, ...] = ()
    """Oldest first."""
    held_back_by: str = ""
    """Why no more of them may, for people; empty if nothing but the setting keeps them."""
    schema_file: str | None = None
    """The timeline file that states the table's schema, if the one that did so far leaves."""

    @property
    def until(self) -> str | None:
        return self.instants[-1].request_time if self.instants else None


def decide_archive(ledger: Ledger, decider: str, choose: Callable[[Round], Archivable]) -> Archivable:
    """Decides up to where instants are archived. `choose` is asked in every round anew."""

    def rule(now: Round) -> Outcome[Archivable]:
        chosen = choose(now)
        if chosen.until is None or chosen.until <= now.state.archived:
            return Already(chosen)
        file = chosen.schema_file or now.state.schema_file
        return Decision("archive", replace(now.state, archived=chosen.until, schema_file=file), value=chosen)

    return ledger.decide(decider, rule)


def finish_archive(ledger: Ledger, decider: str) -> int:
    """Moves everything that was decided to be archived, also by other processes; gives how many instants left the timeline."""
    moved = 0
    while True:
        count, is_done = _beside_hudi(
            ledger, decider, lambda archived, number: _move(ledger, ledger.table, archived, number)
        )
        moved += count
        if is_done:
            return moved


def archive_metadata(ledger: Ledger, until: str) -> int:
    """Moves the completed instants of the metadata table that began up to this time into its own history; gives how many left.

    What is completed there never changes again, so it needs no decision: any process may do so at any time.
    """
    at = replace(
        ledger.table, config=replace(ledger.config, timeline_folder=TIMELINE, history_folder=f"{TIMELINE}/history")
    )
    moved, _ = _move(ledger, at, until, ledger.settled().number)
    if moved:
        _tend(at)
    return moved


def tend_history(ledger: Ledger, decider: str) -> None:
    """Merges the history's files, points at its newest manifest and removes files that no reader needs."""
    _beside_hudi(ledger, decider, lambda *_: _tend(ledger.table))


def _tend(table: TableAt) -> None:
    merge_layers(table)
    point_at_newest(table)
    tidy_history(table)


def archivable(timeline: Timeline, archived: str) -> list[Instant]:
    """Completed instants up to that request time, oldest first, but not the newest clean: Hudi's cleaner and readers go by it."""
    done = sorted(i for i in timeline.completed)
    newest_clean = next((i for i in reversed(done) if i.action == "clean"), None)
    return [i for i in done if i.request_time <= archived and i is not newest_clean]


def _beside_hudi(ledger: Ledger, decider: str, do: Callable[[str, int], T]) -> T:
    """Does something with what is archived and the number of the newest entry, which is true; on a shared table under
    Hudi's lock, for Hudi archives as well.
    """
    if ledger.is_shared:
        return ledger.decide(decider, lambda now: Already(do(now.state.archived, now.number - 1)))
    entry = ledger.settled()
    return do(entry.state.archived, entry.number)


def _move(ledger: Ledger, table: TableAt, archived: str, number: int) -> tuple[int, bool]:
    """How many instants left the timeline, and whether that is all. Beside Hudi it is one batch, to let others in."""
    found = _find(table, archived)
    if not found:
        return 0, True
    ledger.sweep_staged(number)  # a late copy must find no source, or it would bring an instant back
    moved = 0
    for batch in _batches(found):
        rows = [row for entry in batch if (row := _row(ledger, entry)) is not None]
        known = add_to_history(table, rows) if rows else set()
        moved += _remove(ledger, [e for e in batch if (e.instant.request_time, e.instant.action) in known])
        if ledger.is_shared:
            return moved, batch[-1] is found[-1]
    return moved, True


def _find(table: TableAt, archived: str) -> list[_Listed]:
    """The instants that may leave, with their files, as one listing shows them."""
    listed, _ = table.storage.list_folder(table.config.timeline_folder)
    files: dict[tuple[str, str], dict[State, ObjectInfo]] = {}
    times = {}
    for file in listed:
        name = file.name.rpartition("/")[2]
        parsed = parse_timeline_file(name)
        if parsed is not None:
            files.setdefault((parsed.request_time, action_family(parsed.action)), {})[parsed.state] = file
            if parsed.completion_time is None:
                times[name] = format_instant_time(file.modified_ms, table.config.zone)
    timeline = build_timeline((file.name.rpartition("/")[2] for file in listed), completion_times=times)
    return [_Listed(i, files[i.request_time, action_family(i.action)]) for i in archivable(timeline, archived)]


def _batches(found: Sequence[_Listed]) -> Iterator[list[_Listed]]:
    batch: list[_Listed] = []
    size = 0
    for entry in found:
        size += entry.size
        if batch and (len(batch) == limits.ARCHIVE_BATCH_INSTANTS or size > limits.ARCHIVE_BATCH_BYTES):
            yield batch
            batch, size = [], entry.size
        batch.append(entry)
    yield batch


def _row(ledger: Ledger, entry: _Listed) -> ArchivedInstant | None:
    """The instant as the history has it; None if another archiver has just taken it away."""
    instant = entry.instant
    try:
        metadata, plan = (_content(ledger, entry.files.get(s)) for s in (State.COMPLETED, State.REQUESTED))
    except ObjectNotFound:
        return None
    if metadata is not None and instant.is_write and metadata.startswith(b"{"):
        # Left from an older version of the table; what is archived is Avro.
        metadata = format_commit(parse_commit(metadata, entry.files[State.COMPLETED].name))
    return ArchivedInstant(instant.request_time, instant.completion_time, instant.action, metadata, plan)


def _content(ledger: Ledger, file: ObjectInfo | None) -> bytes | None:
    if file is None or not file.size:
        return None
    return ledger.storage.read(file.name, limits.TIMELINE_FILE_BYTES_MAX)


def _remove(ledger: Ledger, archived: Sequence[_Listed]) -> int:
    """Removes timeline files of archived instants.

    First all pending ones: a completed write never turns into a pending one, which Hudi would roll back. Then the
    completed writes, oldest first and one by one: Hudi takes what is older than its first write for committed, and what
    is missing behind it for uncommitted.
    """
    storage = ledger.storage
    storage.delete([f.name for e in archived for state, f in e.files.items() if state is not State.COMPLETED])
    storage.delete([e.files[State.COMPLETED].name for e in archived if not e.instant.is_write])
    for entry in archived:
        if entry.instant.is_write:
            storage.delete([entry.files[State.COMPLETED].name])
    return len(archived)

# SPDX-License-Identifier: Apache-2.0
"""Archiving: old instants move from the timeline into the history, and no answer changes.

Which ones is a pure rule. Hudi takes every file that is older than the first write of the timeline for committed, so a
completed write stays that is older than everything which may still have uncommitted files (LEDGER, H8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lakebraid import limits
from lakebraid.errors import InvalidArgument, ObjectNotFound
from lakebraid.format.names import parse_timeline_file
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import GroupId, outlives
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.services.settings import Opened, ServiceSettings
from lakebraid.table.loading import load_commit, load_table
from lakebraid.table.metadata.layout import compacted_until, load_metadata_timeline
from lakebraid.txn.actions.archive import Archivable, archivable, decide_archive, finish_archive, tend_history
from lakebraid.txn.actions.rescue import sweep
from lakebraid.txn.actions.rollback import forgotten_before
from lakebraid.txn.checks.overwrite_maps import forget_maps
from lakebraid.txn.hudi.reconcile import victims_since
from lakebraid.txn.ledger.entries import LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round

_SCHEMAS_TRIED = 20
"""Commits that are asked whether they state the table's schema; every one of ours does."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How many completed writes stay on the timeline."""

    writes_min: int = 20
    """This many are left by an archiving (`hoodie.keep.min.commits`)."""
    writes_max: int = 30
    """Nothing is archived before there are more (`hoodie.keep.max.commits`)."""

    def __post_init__(self) -> None:
        if not 1 <= self.writes_min <= self.writes_max:
            raise InvalidArgument(
                f"At least {self.writes_min} and at most {self.writes_max} writes cannot be kept on a timeline. Nothing "
                "was changed. Keep at least one, and let the second number not be the smaller."
            )


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """What an archiving did, or, with `dry_run`, would do."""

    instants: int
    """Instants that left the timeline, those that others had begun to archive among them."""
    until: str | None
    """They began up to this time; None if there was nothing to decide."""
    held_back_by: str = ""
    """Why no more of them could leave; empty if nothing but the setting keeps them."""


def archive(
    opened: Opened, keep_min: int | None = None, keep_max: int | None = None, *, dry_run: bool = False
) -> ArchiveResult:
    """Moves old instants into the history, and first those that others decided to move and did not.

    Any number of processes may do so at once, and any of them may die on the way.
    """
    ledger, keep = opened.ledger, keep_of(opened.settings, keep_min, keep_max)
    if dry_run:
        return _planned(ledger, keep)
    decider = ledger.clock.token()
    ledger.may_ask = True
    swept = sweep_dead(ledger)
    chosen = decide_archive(ledger, decider, lambda now: choose(now, keep, swept))
    moved = finish_archive(ledger, decider)
    tend_history(ledger, decider)
    forget_maps(ledger, ledger.newest().state)
    opened.writing.remember(ledger)
    return ArchiveResult(moved, chosen.until, chosen.held_back_by)


def plan_archive(
    opened: Opened, keep_min: int | None = None, keep_max: int | None = None, *, dry_run: bool = False
) -> ArchiveResult | None:
    """Decides up to where instants are archived and moves none; None if there is nothing to do."""
    ledger, keep = opened.ledger, keep_of(opened.settings, keep_min, keep_max)
    if dry_run:
        planned = _planned(ledger, keep)
    else:
        swept = sweep_dead(ledger)
        chosen = decide_archive(ledger, ledger.clock.token(), lambda now: choose(now, keep, swept))
        opened.writing.remember(ledger)
        planned = ArchiveResult(len(chosen.instants), chosen.until, chosen.held_back_by)
    return planned if planned.instants else None


def _planned(ledger: Ledger, keep: Keep) -> ArchiveResult:
    chosen = choose(Round(ledger, ledger.newest().state, 0), keep)
    return ArchiveResult(len(chosen.instants), chosen.until, chosen.held_back_by)


def keep_of(settings: ServiceSettings, writes_min: int | None = None, writes_max: int | None = None) -> Keep:
    """What was asked for, then what the table's settings say; a cleaner of Hudi needs the writes that it retains."""
    found = Keep()
    try:
        least = int(settings.keep_min.text or found.writes_min)
        most = int(settings.keep_max.text or found.writes_max)
        retained = int(settings.clean_commits.text or 0)
    except ValueError as error:
        raise InvalidArgument(
            f"{settings.keep_min.name}, {settings.keep_max.name} or {settings.clean_commits.name} is no number. Nothing was "
            "changed. Correct it in the table's properties, or give the numbers.",
        ) from error
    least = max(least, retained + 1) if writes_min is None else writes_min
    return Keep(least, max(most, least) if writes_max is None else writes_max)


def sweep_dead(ledger: Ledger) -> str:
    """Removes what writes have left that were rolled back long ago, and gives the time before which that was.

    A writer that learns at its commit that it was rolled back has put its files down by then. No reader takes them while the
    timeline begins before it; archived past, they would pass for committed.
    """
    now = Round(ledger, ledger.newest().state, 0)
    state, since = now.state, forgotten_before(now)
    old = any(time <= since and request_time > state.archived for request_time, time in state.gone.items())
    if old or len(state.gone) >= limits.GONE_REQUEST_TIMES_MAX:
        sweep(ledger)
    return since


def choose(now: Round, keep: Keep, swept: str = "9") -> Archivable:
    """Which instants may leave the timeline, as it is in this round; those rolled back before `swept` left no files."""
    timeline, state, since = now.timeline(), now.state, min(swept, forgotten_before(now))
    if now.ledger.is_shared:  # what Apache Hudi rolled back, the ledger does not know
        victims = victims_since(now.ledger.table, timeline, since)
        state = replace(state, gone={**dict(victims), **state.gone})
    compacted = compacted_until(load_metadata_timeline(now.ledger.storage)) if now.config.metadata_partitions else None
    chosen = choose_instants(timeline, state, keep, since, compacted)
    chosen = _keeping_replacements(now, chosen)
    return _keeping_schema(now, chosen)


def choose_instants(
    timeline: Timeline, state: LedgerState, keep: Keep, since: str, compacted: str | None = None
) -> Archivable:
    """The oldest instants, up to the first that must stay. Writes that were rolled back before `since` are forgotten; what is newer
    than the last compaction of the metadata table, if that is given, stays (MDT, M9).
    """
    writes = sorted(i for i in timeline.completed if i.is_write)
    if len(writes) <= keep.writes_max:
        return Archivable()
    first, why = writes[-keep.writes_min].request_time, ""
    waiting = [] if compacted is None else [(compacted, "the metadata table was not compacted since")]
    for request_time, reason in (*waiting, *_obstacles(timeline, state, since)):
        # The write before it stays, and with it everything behind that.
        older = max((w.request_time for w in writes if w.request_time < request_time), default="")
        if older < first:
            first, why = older, reason
    instants = [i for i in archivable(timeline, "9") if i.request_time < first]
    return Archivable(tuple(instants[: limits.ARCHIVE_INSTANTS_MAX]), why)


def _obstacles(timeline: Timeline, state: LedgerState, since: str) -> Iterator[tuple[str, str]]:
    """Request times that must not become the oldest of the timeline, nor older than it; and why."""
    yield from _undone(state, since)
    for request_time in (*state.open, *state.plans, *state.rollbacks, *state.cleans):
        yield request_time, f"{request_time} is not completed"
    for instant in timeline.pending:
        yield instant.request_time, f"the {instant.kind} {instant.request_time} is not completed"
    for instant in timeline.completed:
        if instant.action == "savepoint":
            yield from _restorable(timeline, instant)


def _restorable(timeline: Timeline, savepoint: Instant) -> Iterator[tuple[str, str]]:
    """The savepoint, and what completed after its moment: a restore removes it from the timeline, also what began before."""
    moment = timeline.completion_of(savepoint.request_time) or savepoint.request_time
    later = (write.request_time for write in timeline.writes if (write.completion_time or "") > moment)
    for request_time in (savepoint.request_time, *later):
        yield request_time, f"the savepoint {savepoint.request_time}"


def _undone(state: LedgerState, since: str) -> Iterator[tuple[str, str]]:
    """The same of what was rolled back or withdrawn, whose files may still be there, or come."""
    if state.restores:
        yield "", "a restore is unfinished"
    if len(state.gone) >= limits.GONE_REQUEST_TIMES_MAX and min(state.gone.values()) > since:
        yield "", f"more than {limits.GONE_REQUEST_TIMES_MAX:,} writes were rolled back lately"
    for request_time, time in state.gone.items():
        if time > since:
            yield request_time, f"the write {request_time} was rolled back at {time}, late files of it may still appear"
    for undoing in state.rollbacks.values():
        yield undoing.victim, f"the rollback of {undoing.victim} is unfinished"


def _keeping_replacements(now: Round, chosen: Archivable) -> Archivable:
    """Without what replaced file groups of which files still lie there: Hudi would show them again."""
    replacing = [i for i in chosen.instants if i.action == "replacecommit"]
    if not replacing:
        return chosen
    request_times: dict[GroupId, list[str]] = {}
    for file in load_table(now.ledger.table).files:
        request_times.setdefault(file.group, []).append(file.parsed.request_time)
    for instant in replacing:
        replaced = load_commit(now.ledger.table, instant).replaced
        groups = (GroupId(partition, file_id) for partition, ids in replaced.items() for file_id in ids)
        if any(
            not outlives(request_time, instant) for group in groups for request_time in request_times.get(group, ())
        ):
            return _before(chosen, instant, f"files that {instant.request_time} replaced are not cleaned away yet")
    return chosen


def _keeping_schema(now: Round, chosen: Archivable) -> Archivable:
    """With another commit that states the table's schema if the one that did so leaves; without it if there is none."""
    if chosen.until is None:
        return chosen
    stating = parse_timeline_file(now.state.schema_file or "")
    if stating is not None and stating.request_time > chosen.until:
        return chosen
    leaving = sorted((i for i in chosen.instants if i.is_write), reverse=True)
    staying = [i for i in sorted(now.timeline().writes, reverse=True) if i.request_time > chosen.until]
    own = next((i for i in leaving if stating is not None and i.request_time == stating.request_time), None)
    text = None if own is None else _schema_of(now, own)
    later = _stating(now, staying[:_SCHEMAS_TRIED], text)
    if later is not None:
        return chosen if own is None else replace(chosen, schema_file=later.file_name())
    last = own or _stating(now, leaving, None)
    return chosen if last is None else _before(chosen, last, f"no later write states the schema of {last.request_time}")


def _stating(now: Round, writes: Iterable[Instant], text: str | None) -> Instant | None:
    """The first that states that schema; any, if None."""
    return next((i for i in writes if (schema := _schema_of(now, i)) and schema == (text or schema)), None)


def _schema_of(now: Round, instant: Instant) -> str | None:
    try:
        return load_commit(now.ledger.table, instant).schema
    except ObjectNotFound:
        return None


def _before(chosen: Archivable, instant: Instant, why: str) -> Archivable:
    kept = tuple(i for i in chosen.instants if i.request_time < instant.request_time)
    return replace(chosen, instants=kept, held_back_by=why)

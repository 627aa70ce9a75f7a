# SPDX-License-Identifier: Apache-2.0
"""The story of an instant: what it was, who wrote it, how it ended and why, and what hides its rows now.

Told from what timeline, ledger, rollbacks and history still know. Looking changes nothing.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CorruptFile, InvalidArgument, ObjectNotFound
from lakebraid.format.names import State, in_partition
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.rollbacks import parse_rollback_metadata, parse_rollback_plan
from lakebraid.format.times import is_instant_time
from lakebraid.inspect.asks import DecidedIn, find_entry
from lakebraid.inspect.audit.evidence import Evidence, load_evidence
from lakebraid.inspect.audit.reach import Reach, load_reach
from lakebraid.inspect.status_text import counted
from lakebraid.model.timeline.instant import COMPLETED_AS, Instant, action_family
from lakebraid.model.timeline.named_files import Named, named_files
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.grid import printable
from lakebraid.table.history import history_rows, load_manifest
from lakebraid.table.loading import load_config
from lakebraid.table.restores import find_restore
from lakebraid.txn.checks.file_groups import WRITER
from lakebraid.txn.checks.pending_plans import load_planned
from lakebraid.txn.liveness.heartbeat import heartbeat_name
from lakebraid.txn.refusals import parse_story


@dataclass(frozen=True, slots=True)
class Hiding:
    """Something later that took the place of rows of an instant."""

    instant: str
    how: str
    """Such as "merged by the compaction"."""
    files: int
    """Of the instant's files."""


@dataclass(frozen=True, slots=True)
class Story:
    """What is still known of an instant; prints well."""

    instant: str
    end: str
    """published, open, planned, rolled back, restored, or unknown."""
    action: str | None = None
    operation: str | None = None
    writer: str | None = None
    completion_time: str | None = None
    is_archived: bool = False
    rows: int | None = None
    deletes: int | None = None
    files: int | None = None
    read_files: int | None = None
    """How many of its files a snapshot reads now."""
    hidden_by: tuple[Hiding, ...] = ()
    undone_by: str | None = None
    """The rollback or restore that removed it."""
    why: Mapping[str, Any] = field(default_factory=dict)
    """Why it was rolled back, as far as its rollback says: kind, why, by, rule, other, other_writer, groups."""
    silent_ms: int | None = None
    """Of an open write: since its last heartbeat; None if it has shown none."""
    notes: tuple[str, ...] = ()
    begun_in: DecidedIn | None = None
    """The entry of the ledger that gave its request time; None if there is none, or it is not known any more."""
    completed_in: DecidedIn | None = None
    """The same of its completion time."""

    @property
    def is_known(self) -> bool:
        """Whether anything tells of the instant: the timeline, its history or the ledger."""
        return self.end != "unknown"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "why": dict(self.why)}

    def __repr__(self) -> str:
        return _text(self)


def load_story(storage: Storage, clock: Clock, request_time: str) -> Story:
    """The story of the instant that began at `request_time`. InvalidArgument if that is no instant time."""
    if not is_instant_time(request_time):
        raise InvalidArgument(
            f"{request_time[:60]!r} is no instant: give its 17 digits, as `lakebraid timeline` shows them. Nothing was changed."
        )
    config, properties = load_config(storage)
    evidence = load_evidence(TableAt(storage, config, clock), properties)
    story = _told_by_files(evidence, request_time)
    return story if evidence.entry is None else _decided(storage, story)


def _decided(storage: Storage, story: Story) -> Story:
    """The same, and which entries of the ledger decided it."""
    begun = find_entry(storage, story.instant)
    completed = None if story.completion_time is None else find_entry(storage, story.completion_time)
    notes = [_entry_text("Begun", begun), _entry_text("Completed", completed)]
    oldest = completed if isinstance(completed, int) else begun
    if isinstance(oldest, int):
        notes.append(f"Entries of the ledger below {oldest:,} are removed: which one decided it is not known any more.")
    return replace(
        story,
        begun_in=begun if isinstance(begun, DecidedIn) else None,
        completed_in=completed if isinstance(completed, DecidedIn) else None,
        notes=(*story.notes, *(note for note in notes if note)),
    )


def _entry_text(verb: str, decided: DecidedIn | int | None) -> str:
    """In which entry, if it was decided together with others, or by another process than its own."""
    if not isinstance(decided, DecidedIn) or not (decided.others or decided.is_by_another):
        return ""
    where = f"{verb} in entry {decided.entry:,} of the ledger"
    along = f"together with {counted(decided.others, 'other wish', 'other wishes')}" if decided.others else "alone"
    if decided.is_by_another:
        own = f" ({', '.join(decided.own)})" if decided.own else ""
        return f"{where}, for its writer, by the process {decided.decider} with its own {decided.kind}{own}, {along}."
    who = (
        "one of the writers that had asked decided for all" if decided.was_asked else "its own process decided for all"
    )
    return f"{where}, {along}: {who}."


def _told_by_files(evidence: Evidence, request_time: str) -> Story:
    own = [i for i in evidence.listed.active if i.request_time == request_time]
    notes = tuple(_noted(evidence, own))
    write = next((i for i in own if action_family(i.action) == "write"), None)
    if write is not None and not write.is_completed and request_time not in evidence.timeline.undone:
        return replace(_pending(evidence, write), notes=notes)
    found = _committed(evidence, request_time)
    if found is not None:
        return replace(_published(evidence, *found), notes=notes)
    service = next((i for i in own if action_family(i.action) != "write"), None) or _archived_service(
        evidence, request_time
    )
    if service is not None:
        end = "published" if service.is_completed else "open"
        return Story(request_time, end, service.kind, completion_time=service.completion_time, notes=notes)
    return _undone(evidence, request_time)


def _committed(evidence: Evidence, request_time: str) -> tuple[Instant, CommitMetadata] | None:
    return next((found for found in evidence.commits() if found[0].request_time == request_time), None)


def _published(evidence: Evidence, instant: Instant, metadata: CommitMetadata) -> Story:
    named = list(named_files(instant, metadata, layout=evidence.config.layout))
    reach = load_reach(evidence)
    read = [file for file in named if reach.floors.is_needed(file)]
    gone = [file for file in named if not reach.floors.is_needed(file)]
    return Story(
        instant.request_time,
        "published",
        instant.kind,
        metadata.operation,
        metadata.extra.get(WRITER) or ("Apache Hudi" if evidence.entry is None else None),
        instant.completion_time,
        is_archived=instant.request_time not in evidence.request_times,
        rows=metadata.rows_written,
        deletes=sum(file.deletes or 0 for file in named),
        files=len(named),
        read_files=len(read),
        hidden_by=tuple(_hidden(evidence, reach, gone)),
    )


def _hidden(evidence: Evidence, reach: Reach, files: list[Named]) -> Iterator[Hiding]:
    """What took the place of these files, and which cleans removed them."""
    by: Counter[tuple[str, str]] = Counter()
    cleaned = {
        in_partition(partition, name): clean.request_time
        for clean, metadata in evidence.cleans()
        for partition, names in metadata.deleted_files.items()
        for name in names
    }
    for file in files:
        if reach.floors.is_replaced(file):
            by[reach.floors.replaced[file.group].request_time, "replaced by"] += 1
        else:
            base = reach.floors.newest_base(file.group)
            by[base, "merged into the base files of" if not file.is_base else "rewritten by"] += 1
        if file.path in cleaned:
            by[cleaned[file.path], "removed by the clean"] += 1
    for (instant, how), count in sorted(by.items()):
        yield Hiding(instant, how, count)


def _pending(evidence: Evidence, instant: Instant) -> Story:
    request_time = instant.request_time
    is_plan = instant.kind in COMPLETED_AS
    silent_ms = None
    with contextlib.suppress(ObjectNotFound):
        silent_ms = max(evidence.now_ms - evidence.storage.info(heartbeat_name(request_time)).modified_ms, 0)
    undoing = None
    if evidence.entry is not None:
        rollbacks = evidence.entry.state.rollbacks
        undoing = next((r for r, u in rollbacks.items() if u.victim == request_time), None)
    if undoing is not None:
        told = _told(evidence, undoing)
        return Story(request_time, "rolled back", instant.kind, writer=told.get("writer"), undone_by=undoing, why=told)
    files = None
    if is_plan:
        with contextlib.suppress(CorruptFile, ObjectNotFound):
            files = sum(len(part.files) for part in load_planned(evidence.table, instant))
    writer = None if evidence.entry is None else evidence.entry.state.writer_of(request_time)
    end = "planned" if is_plan else "open"
    return Story(request_time, end, instant.kind, writer=writer, files=files, silent_ms=silent_ms)


def _undone(evidence: Evidence, request_time: str) -> Story:
    """An instant that is no longer on the timeline, nor in the history as one that completed."""
    restore = find_restore(evidence.table, evidence.timeline, request_time)
    for rollback, victims, story in _rollbacks(evidence):
        if request_time in victims:
            action = victims[request_time] or None
            return Story(request_time, "rolled back", action, writer=story.get("writer"), undone_by=rollback, why=story)
    if restore is not None:
        return Story(request_time, "restored", undone_by=restore)
    gone = {} if evidence.entry is None else evidence.entry.state.gone
    if request_time in gone:
        return Story(request_time, "rolled back", undone_by=gone[request_time])
    return Story(request_time, "unknown")


def _rollbacks(evidence: Evidence) -> Iterator[tuple[str, dict[str, str], dict[str, Any]]]:
    """All rollbacks, newest first: their request times, what they rolled back, and why."""
    for instant in sorted(evidence.listed.active, reverse=True):
        if instant.action == "rollback":
            victims = {}
            with contextlib.suppress(CorruptFile, ObjectNotFound):
                plan = parse_rollback_plan(evidence.read(instant, State.REQUESTED), instant.request_time)
                victims = {} if plan.instant is None else {plan.instant.request_time: plan.instant.action}
            with contextlib.suppress(CorruptFile, ObjectNotFound):
                if instant.is_completed:
                    done = parse_rollback_metadata(evidence.read(instant), instant.request_time)
                    victims |= {i.request_time: i.action for i in done.instants}
            yield instant.request_time, victims, _told(evidence, instant.request_time)
    with contextlib.suppress(CorruptFile, ObjectNotFound):
        for row in history_rows(evidence.table, load_manifest(evidence.table).files):
            if row.action == "rollback" and row.metadata:
                done = parse_rollback_metadata(row.metadata, row.request_time)
                story = parse_rollback_plan(row.plan, row.request_time).story if row.plan else ""
                yield row.request_time, {i.request_time: i.action for i in done.instants}, parse_story(story)


def _told(evidence: Evidence, rollback: str) -> dict[str, Any]:
    name = f"{evidence.config.timeline_folder}/{rollback}.rollback.requested"
    try:
        data = evidence.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX)
        return parse_story(parse_rollback_plan(data, name).story)
    except (CorruptFile, ObjectNotFound):
        return {}


def _archived_service(evidence: Evidence, request_time: str) -> Instant | None:
    with contextlib.suppress(CorruptFile, ObjectNotFound):
        for row in history_rows(evidence.table, load_manifest(evidence.table).files):
            if row.request_time == request_time:
                return Instant(request_time, row.action, State.COMPLETED, row.completion_time)
    return None


def _noted(evidence: Evidence, own: list[Instant]) -> Iterator[str]:
    for instant in own:
        if instant.action == "savepoint" and instant.is_completed:
            yield f"A savepoint has kept it since {instant.completion_time}."
        if instant.action == "rollback":
            for rollback, victims, _ in _rollbacks(evidence):
                if rollback == instant.request_time:
                    yield f"It rolled back {', '.join(sorted(victims)) or 'something that it does not name'}."
        if instant.action == "clean" and instant.is_completed:
            count = sum(len(n) for c, m in evidence.cleans() if c == instant for n in m.deleted_files.values())
            yield f"It removed {count:,} files."


def _text(story: Story) -> str:
    """What happened, one thing a line."""
    what = story.operation.lower().replace("_", " ") if story.operation else story.action or "instant"
    lines = [f"{what.capitalize()} {story.instant}: {story.end}"]
    lines += _beginning(story)
    lines += _end(story)
    lines += list(story.notes)
    return "\n".join([lines[0], *(f"  {printable(line)}" for line in lines[1:])])


def _beginning(story: Story) -> list[str]:
    verb = "Begun" if story.end == "open" else "Written"
    lines = [f"{verb} by {story.writer}."] if story.writer else []
    if story.rows is not None and story.files is not None:
        deletes = f" and {counted(story.deletes, 'delete')}" if story.deletes else ""
        lines.append(f"{counted(story.rows, 'row')}{deletes} in {counted(story.files, 'file')}.")
    return lines


def _end(story: Story) -> list[str]:
    match story.end:
        case "published":
            archived = " It is archived." if story.is_archived else ""
            return [f"Completed {story.completion_time}.{archived}", *_visible(story)]
        case "open":
            return [f"Nothing of it is visible yet. {_life(story)}"]
        case "planned":
            files = "" if story.files is None else f" Its plan names {counted(story.files, 'file')}."
            return [f"No process has executed it yet.{files} {_life(story)}"]
        case "rolled back":
            return [*_refusal(story), f"Rolled back by {story.undone_by}. Nothing of it is visible, now or later."]
        case "restored":
            return [f"Removed by the restore {story.undone_by}, as was everything after the moment it returned to."]
    return ["Neither timeline, history nor ledger know it. It may be of another table."]


def _visible(story: Story) -> list[str]:
    if not story.files:
        return []
    hidden = [f"{counted(h.files, 'file')} {h.how} {h.instant}." for h in story.hidden_by]
    return [f"Readers take {story.read_files:,} of its {counted(story.files, 'file')} now.", *hidden]


def _life(story: Story) -> str:
    if story.silent_ms is None:
        return "No heartbeat is there."
    return f"The last heartbeat was {story.silent_ms / 1000:,.1f} s ago."


def _refusal(story: Story) -> list[str]:
    """What the plan of its rollback says."""
    told = story.why
    if not told:
        return ["No reason is known: it was rolled back by Apache Hudi, or its rollback is long gone."]
    lines = [str(told.get("why", ""))[:2000]]
    if told.get("rule"):
        lines.append(
            f"The rule: {told['rule']}. The rival: {told.get('other')} by {told.get('other_writer') or 'unknown'}."
        )
    return [*lines, f"Told by {told.get('by', 'an unknown process')}."]

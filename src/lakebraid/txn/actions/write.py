# SPDX-License-Identifier: Apache-2.0
"""What a write decides: begin, publish, and roll back if it is refused. Each rule first asks whether it is so already."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

from lakebraid.errors import (
    AccessDenied,
    BatchRepeated,
    CommitUnknown,
    DecisionUnknown,
    InvalidArgument,
    LakebraidError,
    RestoreUnfinished,
    RolledBack,
    StorageError,
)
from lakebraid.format.names import State, TimelineFileName
from lakebraid.format.timeline.commit import CommitMetadata, format_commit
from lakebraid.format.timeline.plans import RequestedReplace, format_requested_replace
from lakebraid.format.times import next_instant_time
from lakebraid.model.timeline.instant import WRITE_ACTIONS
from lakebraid.table.history import load_history
from lakebraid.table.restores import find_restore
from lakebraid.txn.actions.batches import check_new, with_batch
from lakebraid.txn.actions.restore_files import check_no_restore, decide_after_restores
from lakebraid.txn.actions.rollback import decide_rollback, finish_rollback, roll_back
from lakebraid.txn.checks.rivalry import touched_by
from lakebraid.txn.ledger.asking import Beside
from lakebraid.txn.ledger.entries import EVERYTHING, Batch, OpenWrite, shown_name
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Ahead, Already, Attempted, Decision, Outcome, Round, Rule
from lakebraid.txn.ledger.wishes import begin_wish, begun, publish_wish, published
from lakebraid.txn.metadata.files import Tell, ahead_of_commit
from lakebraid.txn.refusals import refused

WriteStatus: TypeAlias = Literal["published", "refused", "open"]


def begin_write(
    ledger: Ledger,
    decider: str,
    *,
    action: str = "deltacommit",
    adds_base: bool = False,
    columns: tuple[str, ...] | None = None,
    batch: Batch | None = None,
    writer: str = "",
    beat: Callable[[str], object] | None = None,
    seen: Callable[[Round, str], None] | None = None,
    is_alone: bool = False,
    lazily: bool = False,
    attempted: Attempted | None = None,
) -> str:
    """The request time of a new write; BatchRepeated if it would bring a batch that is published. `beat` is called with
    it before it is seen on the timeline; `seen` in every round with a request time that it may have, to note what is under way at
    that moment or before. With `is_alone` it refuses by what is so at that very moment. If it may begin `lazily`,
    `ledger.counts()` is to be asked before the first data file is put. With `attempted` it goes on with what was asked for ahead.

    Requested and inflight come together: a writer creating its own inflight could resurrect it (LEDGER, H5).
    """

    def rule(now: Round) -> Outcome[str]:
        mine = next((request_time for request_time, write in now.state.open.items() if write.decider == decider), None)
        if mine is not None:
            return Already(mine)
        if batch is not None:
            check_new(now, batch)
        if adds_base and not (now.state.is_fresh and not any(w.adds_base for w in now.state.open.values())):
            raise InvalidArgument("Base files may only be added to a table without rows. Nothing was begun.")
        if now.state.restores:
            check_no_restore(now)
        request_time = now.time()
        if seen is not None:
            seen(now, request_time)
        write = OpenWrite(decider, action, adds_base, columns, batch, shown_name(writer))
        if not (is_alone or adds_base or action == "replacecommit"):
            return now.wished("begin", begin_wish(write), (b"",), str)
        names = (TimelineFileName(request_time, None, action, s).format() for s in (State.REQUESTED, State.INFLIGHT))
        files = tuple(zip(_pending_contents(action, ledger.storage.url), names, strict=True))
        return Decision("begin", begun(now.state, request_time, write), files, value=request_time, touches=0)

    try:
        return ledger.decide(decider, rule, before_applied=beat, lazily=lazily, attempted=attempted)
    except RestoreUnfinished:
        return decide_after_restores(ledger, decider, rule, before_applied=beat, lazily=lazily)


def _pending_contents(action: str, url: str) -> tuple[bytes, bytes]:
    """What requested and inflight hold: nothing, but Hudi reads those of a replacement (FORMAT, trap 14)."""
    if action != "replacecommit":
        return b"", b""
    return format_requested_replace(RequestedReplace(), url), format_commit(CommitMetadata(), replace=False)


def publish_write(
    ledger: Ledger,
    decider: str,
    request_time: str,
    metadata: Callable[[Round], CommitMetadata],
    *,
    states_schema: bool = False,
    beside: Beside | None = None,
    tell: Tell | None = None,
) -> str:
    """The completion time of the write; from this moment on all readers see it. RolledBack if it was rolled back,
    BatchRepeated if another process has published its batch.

    `metadata` is asked in every round anew: it may look at the schema of that moment, may refuse, and says in the round
    whether it brings a new one. Readers take the schema of the commit with the greatest request time (FORMAT, trap 33): if
    another write began later and is completed, an empty commit with a fresh request time carries the new schema past it.
    `tell`, asked in every round as well, gives what the metadata table is told, if the table has one.
    """

    def rule(now: Round) -> Outcome[str]:
        if request_time not in now.state.open:
            return Already(completed_at(now, request_time))
        write = now.state.open[request_time]
        action, batch = write.action, write.batch
        if batch is not None:
            check_new(now, batch)
        content = metadata(now) if batch is None else with_batch(now, batch, metadata(now))
        is_new = content.schema is not None and (states_schema or now.states_schema or now.state.schema_file is None)
        is_replacing = action == "replacecommit"
        data, has_rows = format_commit(content, replace=is_replacing), bool(content.write_stats)
        touches = EVERYTHING if is_replacing else touched_by(ledger.config, content)
        if not (is_new or is_replacing):
            ahead = ahead_of_publication(now, request_time, now.time(), content, tell)
            wish = publish_wish(
                now.state,
                request_time,
                has_rows=has_rows,
                touches=touches,
                look=now.look,
                takes_all=now.takes_all,
                is_ahead=now.is_ahead,
            )
            return now.wished("publish", wish, (data,), str, ahead)
        is_late = is_new and any(i.request_time > request_time for i in now.since(request_time).writes)
        plain = ledger.config.write_action if is_replacing else action
        carried, file, time = _carrying(now, plain, content) if is_late else ((), None, now.time())
        ahead = ahead_of_publication(now, request_time, time, content, tell)
        completion = ahead.time
        name = TimelineFileName(request_time, completion, action, State.COMPLETED).format()
        state = replace(
            published(now.state, request_time, completion, has_rows=has_rows, takes_all=now.takes_all),
            schema_file=(file or name) if is_new else now.state.schema_file,
            replaced_file=now.replaced_file or now.state.replaced_file,
        )
        return Decision("publish", state, (*carried, *ahead.files, (data, name)), value=completion, touches=touches)

    return decide_publishing(ledger, decider, request_time, rule, beside)


def ahead_of_publication(now: Round, request_time: str, time: str, content: CommitMetadata, tell: Tell | None) -> Ahead:
    """What the metadata table is told before a commit is completed, if the table has one; `time` is free."""
    if now.config.metadata_partitions:
        return ahead_of_commit(now, request_time, time, content, tell)
    return Ahead(time)


def publish_or_roll_back(
    ledger: Ledger,
    decider: str,
    request_time: str,
    writer: str,
    metadata: Callable[[Round], CommitMetadata],
    beside: Beside | None = None,
    tell: Tell | None = None,
) -> str:
    """The completion time of the write. A refusal is raised after the write was rolled back. What is wanted `beside` is asked for
    at the same time.
    """
    try:
        return publish_write(ledger, decider, request_time, metadata, beside=beside, tell=tell)
    except (RolledBack, CommitUnknown):
        raise
    except StorageError:
        # Nothing was decided, and no other process publishes this write: all that is left to do is to clear up.
        with contextlib.suppress(StorageError):
            roll_back(ledger, decider, request_time)
        raise
    except BatchRepeated as error:
        with contextlib.suppress(RolledBack):  # another process rolled it back: that is all that is to be done
            roll_back_refused(ledger, decider, request_time, refused(error, writer))
        raise
    except LakebraidError as error:
        completion = roll_back_refused(ledger, decider, request_time, refused(error, writer))
        if completion is None:
            raise
        return completion


def roll_back_refused(ledger: Ledger, decider: str, request_time: str, story: str) -> str | None:
    """Rolls a refused write back before the caller is told, so that no request of ours that is still on its way can land
    (LEDGER, H12). If one has landed, the write is published: its completion time.
    """
    try:
        rollback = decide_rollback(ledger, decider, request_time, story=story)
        if rollback is None:
            return write_completion(ledger, request_time)
    except StorageError as error:
        raise unknown(ledger, request_time) from error
    with contextlib.suppress(StorageError):  # it is refused; others can remove its files, too
        finish_rollback(ledger, decider, rollback)
    return None


def _carrying(now: Round, action: str, content: CommitMetadata) -> tuple[tuple[tuple[bytes, str], ...], str, str]:
    """The files of an empty commit that states the schema, the last one's name, and the next time after it.

    It comes before the rows, so no reader ever meets them without their columns.
    """
    request_time = now.time()
    stating = CommitMetadata(extra={"schema": content.schema or ""}, operation="ALTER_SCHEMA")
    ahead = ahead_of_publication(now, request_time, next_instant_time(request_time), stating, None)
    name = TimelineFileName(request_time, ahead.time, action, State.COMPLETED).format()
    pending = (
        TimelineFileName(request_time, None, action, state).format() for state in (State.REQUESTED, State.INFLIGHT)
    )
    empty = ((b"", file) for file in pending)
    return (*empty, *ahead.files, (format_commit(stating), name)), name, next_instant_time(ahead.time)


def write_status(ledger: Ledger, request_time: str) -> WriteStatus:
    """How a write ended, or that it has not; the newest decision is applied on the way.

    A process that may only read gets the same answer, once others have applied it: AccessDenied before.
    """

    def rule(now: Round) -> Already[WriteStatus]:
        if request_time in now.state.open or request_time in now.state.plans:
            return Already("open")
        return Already("refused" if find_completion(now, request_time) is None else "published")

    try:
        return ledger.decide("", rule)
    except AccessDenied:
        now = ledger.looked()
        if now is None:
            raise
        return rule(now).value


def write_completion(ledger: Ledger, request_time: str) -> str:
    """When the write completed; RolledBack if it never will."""
    return ledger.decide("", lambda now: Already(completed_at(now, request_time)))


def find_completion(now: Round, request_time: str) -> str | None:
    """When the write completed: by the timeline, then by the history; None if neither has it."""
    instant = now.timeline().write(request_time)
    if instant is not None and instant.is_completed:
        return instant.completion_time
    for row in load_history(now.ledger.table, request_time, actions=WRITE_ACTIONS):
        if row.instant.request_time == request_time:
            return row.instant.completion_time or request_time
    return None


def completed_at(now: Round, request_time: str) -> str:
    """When the write completed; RolledBack if it is neither open nor anywhere to be found."""
    found = find_completion(now, request_time)
    if found is None:
        _check_not_restored(now, request_time)
        raise RolledBack(
            f"The write {request_time} of {now.ledger.storage.url} was rolled back before it could be published: its owner gave "
            "up, or another process found its heartbeat expired. Nothing of it is visible, now or later. Write again; "
            "if this process was paused or very slow, raise the heartbeat timeout.",
            instant=request_time,
        )
    return found


def _check_not_restored(now: Round, request_time: str) -> None:
    ledger = now.ledger
    restore = find_restore(ledger.table, now.timeline(), request_time)
    if restore is not None:
        raise RolledBack(
            f"The write {request_time} of {ledger.storage.url} was removed by the restore {restore}, as was everything that "
            "had not completed by the moment to which the table returned. Nothing of it is visible, now or later. Write "
            "again, if it is still wanted.",
            instant=request_time,
            restore=restore,
        )


def decide_publishing(
    ledger: Ledger, decider: str, request_time: str, rule: Rule[str], beside: Beside | None = None
) -> str:
    """The completion time that the rule decides; CommitUnknown if the store does not tell whether it did."""
    try:
        return ledger.decide(decider, rule, beside=beside)
    except DecisionUnknown as error:
        raise unknown(ledger, request_time) from error


def unknown(ledger: Ledger, request_time: str) -> CommitUnknown:
    """What to tell if it is not known whether a write was published."""
    return CommitUnknown(
        f"Whether the write {request_time} of {ledger.storage.url} was published is not known: the store stopped answering. "
        f"Nothing was removed, and it will not be half visible. Ask `table.status({request_time!r})` before writing again.",
        instant=request_time,
    )

# SPDX-License-Identifier: Apache-2.0
"""A table's status as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebraid.table.grid import Grid, printable, text_bytes

if TYPE_CHECKING:
    from lakebraid.inspect.asks import WaitingStatus
    from lakebraid.inspect.status import HolderStatus, PlanStatus, Status, WriterStatus

_INDENT = "  "
_TOO_OLD = "too old to be decided: a rollback removes it"


def status_text(status: Status) -> str:
    """What matters in a few lines, then who is at work, then what to run."""
    parts = [f"Status of {printable(status.table)!r} at {printable(status.path)}", _facts(status)]
    if status.writers:
        rows = [_writer(w) for w in status.writers]
        parts.append(_block(Grid(("open write", "by", "action", "age", "last beat", ""), rows, right={3, 4})))
    if status.plans:
        rows = [_plan(p) for p in status.plans]
        parts.append(_block(Grid(("pending plan", "kind", "age", "last beat", "groups", ""), rows, right={2, 3, 4})))
    if status.asks:
        rows = [_ask(a) for a in status.asks]
        parts.append(_block(Grid(("waits to be decided", "by", "instant", "age", ""), rows, right={3})))
    if status.leases or status.consumers:
        rows = [_holder("reader", h) for h in status.leases] + [_holder("consumer", h) for h in status.consumers]
        parts.append(_block(Grid(("held back by", "name", "version", "age"), rows, right={3})))
    if status.advice:
        rows = [(a.command, a.reason) for a in status.advice]
        parts.append(_block(Grid(("to run", "because"), rows)))
    else:
        parts.append(f"{_INDENT}Nothing to do.")
    return "\n\n".join(parts)


def text_age(milliseconds: int) -> str:
    """A length of time a person can read.

    >>> text_age(400), text_age(90_000), text_age(3 * 3_600_000), text_age(50 * 3_600_000)
    ('0.4 s', '90 s', '3.0 h', '2.1 d')
    """
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:,.1f} d"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun.

    >>> counted(1, "log file"), counted(1200, "log file")
    ('1 log file', '1,200 log files')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def _facts(status: Status) -> str:
    lag, archival = status.compaction, status.archival
    silent = sum(w.is_silent for w in status.writers)
    facts = [
        ("as of", status.completion_time or "its creation"),
        ("writers", counted(len(status.writers), "open write") + (f", {silent} of them silent" if silent else "")),
        ("plans", f"{len(status.plans):,} pending"),
        ("compaction", _lag_text(status) if lag.groups else "no log files wait"),
        ("timeline", f"{counted(archival.writes, 'write')}; archived when more than {archival.writes_max:,}"),
    ]
    if status.asks:
        facts.append(("asks", _asks_text(status)))
    if archival.held_back_by:
        facts.append(("archiving", f"held back: {printable(archival.held_back_by)}"))
    unfinished = [(len(status.rollbacks), "rollback"), (len(status.cleans), "clean"), (len(status.restores), "restore")]
    if any(number for number, _ in unfinished):
        facts.append(("unfinished", ", ".join(counted(number, noun) for number, noun in unfinished if number)))
    if status.lock is not None:
        facts.append(("Hudi's lock", f"held by {printable(status.lock)}"))
    width = max(len(name) for name, _ in facts)
    return "\n".join(f"{_INDENT}{name:<{width}}  {value}" for name, value in facts)


def _asks_text(status: Status) -> str:
    living = [ask for ask in status.asks if not ask.is_expired]
    stale = sum(ask.is_stale for ask in living)
    text = f"{counted(len(living), 'wish', 'wishes')} to be decided" + (f", {stale:,} of them stale" if stale else "")
    expired = len(status.asks) - len(living)
    return text + (f"; {counted(expired, 'ask')} left that no process decides any more" if expired else "")


def _lag_text(status: Status) -> str:
    lag = status.compaction
    text = f"{counted(lag.logs, 'log file')} ({text_bytes(lag.bytes)}) in {counted(lag.groups, 'file group')}"
    return f"{text}, the oldest {text_age(lag.oldest_ms)}; {lag.due_groups:,} due"


def _writer(writer: WriterStatus) -> tuple[object, ...]:
    note = "silent: may be rolled back" if writer.is_silent else ""
    return writer.instant, writer.writer, writer.action, text_age(writer.age_ms), _beat(writer.beat_age_ms), note


def _plan(plan: PlanStatus) -> tuple[object, ...]:
    # While no executor works on it a removable plan waits for its one executor or its end, any other for the next executor.
    notes = ["removable"] * plan.is_removable
    if plan.is_claimed:
        notes.append("its executor is silent" if plan.is_silent else "being executed")
    else:
        notes.append("waits for an executor")
    notes += [f"stops {plan.blocks}"] * bool(plan.blocks)
    return plan.instant, plan.kind, text_age(plan.age_ms), _beat(plan.beat_age_ms), plan.groups, ", ".join(notes)


def _ask(ask: WaitingStatus) -> tuple[object, ...]:
    note = "stale: the next decision decides it" if ask.is_stale else ""
    return ask.what, ask.writer, ask.instant, text_age(ask.age_ms), _TOO_OLD if ask.is_expired else note


def _holder(kind: str, holder: HolderStatus) -> tuple[object, ...]:
    return kind, holder.name, holder.time, text_age(holder.age_ms)


def _beat(age_ms: int | None) -> str:
    return "none" if age_ms is None else text_age(age_ms)


def _block(grid: Grid) -> str:
    return "\n".join(f"{_INDENT}{line}" for line in str(grid).splitlines())

# SPDX-License-Identifier: Apache-2.0
"""What the table must hold by the writers' notes, merged a second time, naively; and what it does hold."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import lakebraid as lb
from lakebraid.cli.torture.actor import ON_SPARK
from lakebraid.clock import SystemClock
from lakebraid.inspect.audit.findings import Severity
from lakebraid.storage import open_storage
from lakebraid.table.loading import load_config

_HEALING_SECONDS_MAX = 60.0
_COLUMNS = ("id", "ts", "writer", "number", "note")
"""Those that writers write; others may be added while they do."""
Row = tuple[int, int, int | None, int | None, str | None]


@dataclass
class Verdict:
    """The end of the story."""

    problems: list[str] = field(default_factory=list)
    published: int = 0
    unanswered: int = 0
    """Published writes whose writer died before it could note so."""
    refused: int = 0
    rows_written: int = 0
    rows_redone: int = 0
    """Written in vain, by writers that another one got in the way of."""
    compactions: int = 0
    reads: int = 0
    rows: int = 0
    findings: int = 0
    """Of the table's audit, whatever their severity."""
    seconds: float = 0
    commit_seconds: list[float] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.problems

    def lines(self) -> list[tuple[str, str]]:
        times = sorted(self.commit_seconds) or [0.0]
        return [
            ("commits", f"{self.published:,} ({self.published / self.seconds:.1f} per second)"),
            ("of them unanswered", f"{self.unanswered:,}"),
            ("refused or aborted", f"{self.refused:,}"),
            ("rows written again", f"{self.rows_redone / max(self.rows_written, 1):.1%} of {self.rows_written:,}"),
            ("compactions", f"{self.compactions:,}"),
            ("reads checked", f"{self.reads:,}"),
            ("p50, p99 of a write", f"{times[len(times) // 2]:.3f} s, {times[int(len(times) * 0.99)]:.3f} s"),
            ("rows at the end", f"{self.rows:,}"),
            ("findings of the audit", f"{self.findings:,}"),
        ]


@dataclass
class _Write:
    deletes: bool
    rows: list[Row]
    completion: str | None = None


def audit(table: lb.Table, folder: Path, seconds: float) -> Verdict:
    """Heals the table (dead writers are rolled back), then compares: at the end, at every read, and by the changes."""
    verdict = Verdict(seconds=seconds)
    _heal(table, verdict)
    instants = [entry.instant for entry in table.timeline(archived=True)]
    completed = {i.request_time: i.completion_time for i in instants if i.is_completed and i.is_write}
    writes = _writes(folder, completed, verdict)
    config, _ = load_config(open_storage(table.path))
    in_turn = partial(_in_turn, writes, may_miss=config.buckets is None)
    model = in_turn if config.is_placed else partial(_by_rank, writes)
    _compare("at the end", verdict, model(), _rows(table))
    verdict.rows = table.count()
    _check_reads(folder, model, verdict)
    leftovers = table.rollback(timeout_seconds=0)
    if leftovers.rolled_back or leftovers.finished:
        verdict.problems.append(f"healing did not end: {leftovers}")
    _check_errors(folder, verdict)
    _check_table(table, verdict)
    return verdict


def _check_table(table: lb.Table, verdict: Verdict) -> None:
    """The table itself, whatever the notes say: what `lakebraid audit --deep` finds."""
    found = table.audit(deep=True)
    verdict.findings = len(found)
    verdict.problems += [f"audit: {f.kind} {f.where}: {f.what}" for f in found if f.severity is Severity.DAMAGE]


def _heal(table: lb.Table, verdict: Verdict) -> None:
    """Rolls dead writers back and executes their plans; a plan is taken over when its executor was silent for a while."""
    clock = SystemClock()
    table.rollback(timeout_seconds=0)
    until = clock.monotonic() + _HEALING_SECONDS_MAX
    while any(not entry.instant.is_completed for entry in table.timeline()):
        if clock.monotonic() > until:
            verdict.problems.append("a plan or rollback is still pending after healing")
            return
        clock.sleep(0.5)
        table.compact()
        table.rollback(
            timeout_seconds=0
        )  # also what a dead process had asked to begin, which is begun by the next decision
    table.compact()


def _writes(folder: Path, completed: dict[str, str | None], verdict: Verdict) -> dict[str, _Write]:
    """All writes that were begun, with their completion if the timeline has it; the notes must agree with it."""
    writes: dict[str, _Write] = {}
    for note in _notes(folder, "writer-*.jsonl"):
        instant = note.get("instant") or ""
        if note["what"] == "begun":
            rows = [(*row, *[None] * (5 - len(row))) for row in note["rows"]]
            verdict.rows_written += len(rows)
            writes[instant] = _Write(note["deletes"], rows, completed.get(instant))
        elif note["what"] == "published":
            verdict.commit_seconds.append(note["seconds"])
            if completed.get(instant) != note["completion"]:
                verdict.problems.append(
                    f"{instant} was acknowledged as {note['completion']}, timeline: {completed.get(instant)}"
                )
        elif note["what"] == "refused":
            verdict.refused += 1
            verdict.rows_redone += note.get("rows", 0)
            if completed.get(instant) is not None:
                verdict.problems.append(f"{instant} was refused ({note['why']}) and is on the timeline")
    verdict.published = sum(w.completion is not None for w in writes.values())
    verdict.unanswered = verdict.published - len(verdict.commit_seconds)
    return writes


@dataclass
class _Told:
    """What the notes say that the table holds."""

    rows: dict[int, Row]
    unsure: set[int] = field(default_factory=set)
    """Keys whose row may be there or not."""


def _by_rank(writes: dict[str, _Write], until: str = "9") -> _Told:
    """The row with the greatest (ts, request time) of each key, unless that is a delete."""
    best: dict[int, tuple[tuple[int, str], bool, Row]] = {}
    for request_time, write in writes.items():
        if write.completion is None or write.completion > until:
            continue
        for row in write.rows:
            rank = (row[1], request_time)
            if row[0] not in best or best[row[0]][0] < rank:
                best[row[0]] = (rank, write.deletes, row)
    return _Told({key: row for key, (_, deleted, row) in best.items() if not deleted})


def _in_turn(writes: dict[str, _Write], until: str = "9", *, may_miss: bool) -> _Told:
    """The row of the last writer of each key: where keys are looked up, writers of a row come in turn.

    Without buckets a delete that finds nothing leaves no trace, so no other write is in its way: it `may_miss` a row that came
    while it was under way.
    """
    pasts: dict[int, list[tuple[str, Row | None]]] = defaultdict(list)
    unsure: set[int] = set()
    done = [
        (w.completion, request_time, w)
        for request_time, w in writes.items()
        if w.completion is not None and w.completion <= until
    ]
    for completion, request_time, write in sorted(done, key=lambda one: one[:2]):
        for row in write.rows:
            key, past = row[0], pasts[row[0]]
            before = [found for time, found in past if time < request_time]
            is_late = bool(past) and past[-1][0] > request_time and past[-1][1] is not None
            if may_miss and write.deletes and is_late and not (before and before[-1]):
                unsure.add(key)
                continue
            unsure.discard(key)
            past.append((completion, None if write.deletes else row))
    return _Told({key: past[-1][1] for key, past in pasts.items() if past and past[-1][1] is not None}, unsure)


def _rows(table: lb.Table) -> list[Row]:
    return [tuple(row.values()) for row in table.to_arrow(columns=_COLUMNS).to_pylist()]


def _compare(when: str, verdict: Verdict, told: _Told, found: list[Row]) -> None:
    doubled = [key for key, times in Counter(row[0] for row in found).items() if times > 1]
    verdict.problems += [f"{when}: key {key} is there twice" for key in doubled]
    seen, wanted = {row[0]: row for row in found}, told.rows
    for key in sorted({*wanted, *seen} - told.unsure):
        if wanted.get(key) != seen.get(key):
            verdict.problems.append(f"{when}: key {key} must be {wanted.get(key)} and is {seen.get(key)}")


def _check_reads(folder: Path, model: Callable[[str], _Told], verdict: Verdict) -> None:
    """Every answer that a reader got in between must be the table as of the time it claims: never half a commit."""
    for note in _notes(folder, "reader-*.jsonl"):
        if note["what"] != "read" or note["time"] is None:
            continue
        verdict.reads += 1
        told = model(note["time"])
        wanted = sorted((row[0], row[4]) for row in told.rows.values() if row[0] not in told.unsure)
        if wanted != [tuple(row) for row in note["rows"] if row[0] not in told.unsure]:
            verdict.problems.append(f"a read as of {note['time']} saw other rows than were published then")


def _check_errors(folder: Path, verdict: Verdict) -> None:
    for note in _notes(folder, "*.jsonl"):
        if note["what"] == "failed":
            verdict.problems.append(f"an actor failed: {note['error']}")
        elif note["what"] == "compacted" and note["result"] != "[]":
            verdict.compactions += 1
    for path in sorted(folder.glob("*.err")):
        text = path.read_text(errors="replace").strip()
        # Java has something to say about every start; what matters comes from Python.
        if "Traceback" in text if path.name.startswith(ON_SPARK) else text:
            verdict.problems.append(f"{path.name}: {text[-400:]}")


def _notes(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob(pattern)):
        for line in path.read_bytes().split(b"\n"):
            try:
                yield json.loads(line)
            except ValueError:
                continue  # half a line of a killed process: what it was about to say had not happened yet

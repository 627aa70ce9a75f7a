# SPDX-License-Identifier: Apache-2.0
"""How a table is: who writes, what waits, what is due, who holds what back, and what to run. Looking changes nothing."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CorruptFile, InvalidArgument, ObjectNotFound
from lakebraid.format.times import parse_instant_time
from lakebraid.inspect.asks import WaitingStatus, load_waiting
from lakebraid.inspect.status_text import counted, status_text
from lakebraid.model.timeline.instant import COMPLETED_AS
from lakebraid.services.archiving import Keep, choose, keep_of
from lakebraid.services.due import due_groups, group_lags, parse_triggers
from lakebraid.services.merging.choose_groups import open_writes_of
from lakebraid.services.rollback import plan_delay_ms
from lakebraid.services.settings import parse_settings
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from lakebraid.table.view import View, load_view
from lakebraid.txn.checks.pending_plans import load_planned, planned_parts
from lakebraid.txn.hudi.file_lock import LOCK as FILE_LOCK
from lakebraid.txn.hudi.lease_lock import LOCK as LEASE_LOCK
from lakebraid.txn.hudi.lock_owner import parse_owner
from lakebraid.txn.ledger.entries import LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.heartbeat import heartbeat_name, silence_ms_max


@dataclass(frozen=True, slots=True)
class WriterStatus:
    """A write that has begun and not ended."""

    instant: str
    action: str
    age_ms: int
    beat_age_ms: int | None
    """Since its last heartbeat; None if it has shown none."""
    is_silent: bool
    """Whether it may be rolled back: silent for longer than the table allows."""
    is_hudi: bool = False
    writer: str | None = None
    """Who writes, as far as that is told."""


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """A plan that is not completed."""

    instant: str
    kind: str
    age_ms: int
    is_claimed: bool
    beat_age_ms: int | None
    is_silent: bool
    """Whether no process works on it, so that the next executor may claim it."""
    is_removable: bool
    groups: int | None
    """File groups that no other plan may name, and whose files stay, until it is done; None if it cannot be read."""
    blocks: str = ""
    """Whom it stops besides, for people."""


@dataclass(frozen=True, slots=True)
class CompactionLag:
    """What lies on top of base files."""

    groups: int = 0
    logs: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    """Age of the oldest log file."""
    due_groups: int = 0


@dataclass(frozen=True, slots=True)
class HolderStatus:
    """A reader that holds versions back from cleaning."""

    name: str
    time: str
    age_ms: int


@dataclass(frozen=True, slots=True)
class ArchivalLag:
    """The completed writes on the timeline, and how many instants an archiving would move now."""

    writes: int
    writes_max: int
    """With more than these, archiving begins."""
    instants: int = 0
    held_back_by: str = ""
    """Why no more of them could leave."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A command, and why to run it."""

    command: str
    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    """Everything about a table that its operator wants to see; prints well."""

    table: str
    path: str
    completion_time: str | None
    writers: tuple[WriterStatus, ...] = ()
    plans: tuple[PlanStatus, ...] = ()
    compaction: CompactionLag = CompactionLag()
    rollbacks: Mapping[str, str] = field(default_factory=dict)
    """Unfinished ones, and what each rolls back."""
    cleans: tuple[str, ...] = ()
    restores: tuple[str, ...] = ()
    leases: tuple[HolderStatus, ...] = ()
    consumers: tuple[HolderStatus, ...] = ()
    archival: ArchivalLag = ArchivalLag(0, 30)
    asks: tuple[WaitingStatus, ...] = ()
    """What waits to be decided, the oldest first; whichever process makes the next decision decides it."""
    lock: str | None = None
    """Who holds Hudi's lock, on a table that is shared with Apache Hudi; None if no process does, or there is none."""
    advice: tuple[Advice, ...] = ()
    """What to run, the most pressing first; `lakebraid services` does all of it."""

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to do."""
        return not self.advice

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        return status_text(self)


def load_status(storage: Storage, clock: Clock) -> Status:
    """The table as it is now, by this machine's clock."""
    config, properties = load_config(storage)
    settings = parse_settings(properties)
    table = TableAt(storage, config, clock)
    ledger = Ledger(table)
    entry = ledger.newest()
    look = _Look(table, entry.state, clock.now_ms(), settings.allows_updates)
    view = load_view(table)
    lags = group_lags(view, config.zone)
    completed = [i for i in view.timeline.completed if i.is_write]
    lag = CompactionLag(
        groups=len(lags),
        logs=sum(lag.logs for lag in lags),
        bytes=sum(lag.log_bytes for lag in lags),
        oldest_ms=max((look.now_ms - lag.oldest_ms for lag in lags), default=0),
        due_groups=len(
            due_groups(lags, parse_triggers(settings), look.now_ms)
            - {part.group for part in planned_parts(ledger.table, view.timeline)}
        ),
    )
    status = Status(
        table=config.name,
        path=storage.url,
        completion_time=view.timeline.until,
        writers=look.writers(view),
        plans=look.plans(view, ledger),
        compaction=lag,
        rollbacks={request_time: undoing.victim for request_time, undoing in sorted(look.state.rollbacks.items())},
        cleans=tuple(sorted(look.state.cleans)),
        restores=tuple(sorted(look.state.restores)),
        leases=tuple(HolderStatus(v.holder, v.time, look.age_ms(v.time)) for v in look.state.leases.values()),
        consumers=tuple(HolderStatus(n, time, look.age_ms(time)) for n, time in look.state.consumers.items()),
        archival=_archival(ledger, look.state, keep_of(settings), len(completed)),
        asks=load_waiting(storage, config, entry, look.now_ms),
        lock=None if config.lock_provider is None else look.lock_owner(),
    )
    return _advised(status, plan_delay_ms(settings))


def _archival(ledger: Ledger, state: LedgerState, keep: Keep, writes: int) -> ArchivalLag:
    if writes <= keep.writes_max:
        return ArchivalLag(writes, keep.writes_max)
    chosen = choose(Round(ledger, state, 0), keep)
    return ArchivalLag(writes, keep.writes_max, len(chosen.instants), chosen.held_back_by)


@dataclass(frozen=True, slots=True)
class _Look:
    table: TableAt
    state: LedgerState
    now_ms: int
    gives_way: bool
    """Whether clusterings give way to writers."""

    def writers(self, view: View) -> tuple[WriterStatus, ...]:
        found = []
        for request_time, write in sorted(open_writes_of(view, self.state).items()):
            beat = self.beat_age_ms(request_time)
            is_hudi = request_time not in self.state.open
            found.append(
                WriterStatus(
                    request_time,
                    write.action,
                    self.age_ms(request_time),
                    beat,
                    self.is_silent(request_time),
                    is_hudi,
                    "Apache Hudi" if is_hudi else self.state.writer_of(request_time),
                )
            )
        return tuple(found)

    def plans(self, view: View, ledger: Ledger) -> tuple[PlanStatus, ...]:
        found = []
        for instant in view.timeline.pending:
            request_time = instant.request_time
            if instant.kind not in COMPLETED_AS or request_time in self.state.gone:
                continue
            plan = self.state.plans.get(request_time)
            groups = None
            with contextlib.suppress(CorruptFile, ObjectNotFound):
                groups = len({part.group for part in load_planned(ledger.table, instant)})
            found.append(
                PlanStatus(
                    request_time,
                    instant.kind,
                    self.age_ms(request_time),
                    is_claimed=bool(plan.claimant) if plan else instant.state.value == "INFLIGHT",
                    beat_age_ms=self.beat_age_ms(request_time),
                    is_silent=self.is_silent(request_time),
                    is_removable=plan is not None and plan.is_removable,
                    groups=groups,
                    blocks="writers of its groups" if instant.kind == "clustering" and not self.gives_way else "",
                )
            )
        return tuple(found)

    def age_ms(self, request_time: str) -> int:
        try:
            return max(self.now_ms - parse_instant_time(request_time, self.table.config.zone), 0)
        except InvalidArgument:
            return 0  # a mark of Hudi's, or "never", which no calendar has

    def beat_age_ms(self, request_time: str) -> int | None:
        try:
            return max(self.now_ms - self.table.storage.info(heartbeat_name(request_time)).modified_ms, 0)
        except ObjectNotFound:
            return None

    def is_silent(self, request_time: str) -> bool:
        beat = self.beat_age_ms(request_time)
        return (self.age_ms(request_time) if beat is None else beat) >= silence_ms_max(self.table.config)

    def lock_owner(self) -> str | None:
        for name in (FILE_LOCK, LEASE_LOCK):
            with contextlib.suppress(ObjectNotFound):
                data = self.table.storage.read(name, limits.LOCK_FILE_BYTES_MAX)
                owner = parse_owner(data)
                return str(owner) if owner is not None else f"an Apache Hudi writer ({name})"
        return None


_EXECUTED_BY: Final = {"compact": "compaction", "log-compact": "logcompaction", "cluster": "clustering"}


def _waiting(status: Status, kind: str) -> list[str]:
    """Why to execute plans of that kind: no process does."""
    plans = [p for p in status.plans if p.kind == kind and p.is_silent and not p.is_removable]
    blocking = sorted({p.blocks for p in plans if p.blocks})
    waiting = "".join(f", for which {whom} wait" for whom in blocking)
    return [f"{counted(len(plans), 'plan')} without an executor{waiting}"] * bool(plans)


def _advised(status: Status, delay_ms: int) -> Status:
    """The status with what to run, most pressing first."""
    silent = [w for w in status.writers if w.is_silent]
    dead = [p for p in status.plans if p.is_removable and p.is_silent and p.age_ms >= delay_ms]
    waiting = {c: _waiting(status, kind) for c, kind in _EXECUTED_BY.items()}
    lag, archival = status.compaction, status.archival
    reasons = {
        "rollback": [
            text
            for text, count in (
                (
                    counted(len(status.restores), "unfinished restore") + ", for which writers wait",
                    len(status.restores),
                ),
                (counted(len(silent), "silent writer"), len(silent)),
                (counted(len(dead), "dead plan"), len(dead)),
                (counted(len(status.rollbacks), "unfinished rollback"), len(status.rollbacks)),
            )
            if count
        ],
        "compact": [f"{counted(lag.due_groups, 'file group')} due"] * bool(lag.due_groups) + waiting["compact"],
        "log-compact": waiting["log-compact"],
        "cluster": waiting["cluster"],
        "clean": [counted(len(status.cleans), "clean") + " not ended"] * bool(status.cleans),
        "archive": [f"{counted(archival.instants, 'instant')} may leave the timeline"] * bool(archival.instants),
    }
    path = shlex.quote(status.path.removeprefix("file://"))
    advice = tuple(Advice(f"lakebraid {command} {path}", "; ".join(why)) for command, why in reasons.items() if why)
    return replace(status, advice=advice)

# SPDX-License-Identifier: Apache-2.0
"""Entries of the ledger: one decision each, with the whole state after it, so that only the newest is ever needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakebraid import limits
from lakebraid.digits import whole_number
from lakebraid.errors import CommitRefused
from lakebraid.format.damage import damaged
from lakebraid.format.names import LEDGER, entry_name, parse_entry_name
from lakebraid.format.timeline.publication import ENTRY_VERSION, ENTRY_VERSIONS, unknown_version
from lakebraid.format.times import is_instant_time

__all__ = ["LEDGER", "entry_name", "parse_entry_name"]
FOLDER: Final = ".hoodie/.lakebraid"
STAGED: Final = f"{FOLDER}/staged"
_DIGITS: Final = 20
_NEVER: Final = "0" * 17
BEYOND: Final = 1 << 63
"""The bit of a mask for decisions that change more than file groups: overwrites, plans, cleans, restores and the like."""
EVERYTHING: Final = (1 << 64) - 1
"""The mask of a decision that changes what any rule may have looked at."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A numbered batch of a named writer, which is published once at most: batches.py."""

    writer: str
    number: int
    stream: str = ""
    """The stream that numbered it, if that is known: the numbers of another one mean other rows."""


@dataclass(frozen=True, slots=True)
class PublishedBatch:
    """The newest batch that a writer has published, and the write that brought it."""

    number: int
    request_time: str
    completion: str
    stream: str = ""


@dataclass(frozen=True, slots=True)
class OpenWrite:
    """A write that has begun and is neither published nor rolled back."""

    decider: str
    action: str
    adds_base: bool = False
    """Whether it may publish base files: no compaction may be planned before it is done."""
    columns: tuple[str, ...] | None = None
    """The only columns it writes; None for whole rows."""
    batch: Batch | None = None
    """Which batch it brings, if batches are told apart."""
    writer: str = ""
    """The name of the writer, seen from the beginning, so that people can ask after one that is slow or dead."""


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """A plan of a service that is not published yet."""

    action: str
    planner: str
    epoch: int = 0
    """The number of the entry that claimed it last; 0 if it was never claimed."""
    claimant: str = ""
    is_removable: bool = False
    """Whether it is executed once at most, and withdrawn if that fails or no executor comes (RFC-79)."""
    claimed_at: str = _NEVER
    """The last time that was given when it was claimed: a rollback of Hudi's that began later was of this very claim."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """A rollback that was decided and has not been reported done."""

    victim: str
    action: str
    decider: str
    removes_plan: bool = False
    """Whether the victim is a plan that goes as a whole; else of a plan only the attempt to execute it."""


@dataclass(frozen=True, slots=True)
class Restoring:
    """A restore that was decided and has not been reported done."""

    until: str
    """Completions after this time, and before the restore, never were."""
    decider: str


@dataclass(frozen=True, slots=True)
class Lease:
    """A reader that still needs the files of one completion time; its holder beats, or it expires."""

    time: str
    holder: str


@dataclass(frozen=True, slots=True)
class Decided:
    """How an ask was decided, and in which entry."""

    number: int
    outcome: str


@dataclass(frozen=True, slots=True)
class LedgerState:
    """What is so after a decision."""

    last: str = _NEVER
    """The greatest time ever given."""
    open: Mapping[str, OpenWrite] = field(default_factory=dict)
    plans: Mapping[str, PendingPlan] = field(default_factory=dict)
    rollbacks: Mapping[str, Undoing] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)
    """Request times that were rolled back lately, and when: late files of theirs may still appear."""
    cleans: Mapping[str, str] = field(default_factory=dict)
    """Cleans that were decided and not reported done, and who decided them."""
    restores: Mapping[str, Restoring] = field(default_factory=dict)
    restored: Mapping[str, Restoring] = field(default_factory=dict)
    """The last restores that are done: a restorer that lost the answer must not restore twice."""
    unpinned: Mapping[str, str] = field(default_factory=dict)
    """Savepoints that are deleted though their file may still lie there: when they were set, and the request time they pin."""
    leases: Mapping[str, Lease] = field(default_factory=dict)
    """By the token of the reader."""
    consumers: Mapping[str, str] = field(default_factory=dict)
    """Named readers of changes, and up to which completion time they have read."""
    batches: Mapping[str, PublishedBatch] = field(default_factory=dict)
    """The newest batch of every writer that numbers its batches."""
    archived: str = _NEVER
    """Instants that began up to this time and are completed never change again: they may move into the history."""
    horizon: str = _NEVER
    """As of earlier completion times than this, files are missing: a clean removed them."""
    schema_file: str | None = None
    """The timeline file of the commit that carries the table's schema; None if none is known to have been stated."""
    is_fresh: bool = False
    """Whether nothing was ever published but the table's creation."""
    taken: str = _NEVER
    """The greatest request time of a published write with deletes that take every row which began before it."""
    replaced_file: str | None = None
    """The map of which overwrite gave a partition its file ids (overwrite_maps.py); None: there was none."""
    decided: Mapping[str, Decided] = field(default_factory=dict)
    """How the asks were decided that the last entries decided, by their wishes (asks.py)."""
    touched: Mapping[int, int] = field(default_factory=dict)
    """What the last entries changed, by their numbers, as masks (LEDGER, G10); one that is not named changed nothing."""

    @property
    def oldest_open(self) -> str | None:
        return min(self.open, default=None)

    def writer_of(self, request_time: str) -> str | None:
        """Who has this write open, as far as that is told."""
        write = self.open.get(request_time)
        return None if write is None else write.writer or None


@dataclass(frozen=True, slots=True)
class Entry:
    """Decision number `number`: who, what, when; the timeline files that apply it; the state after it."""

    number: int
    decider: str
    kind: str
    time: str
    floor: int
    """Entries below this number may be gone; a create down there means nothing."""
    files: tuple[tuple[str, str], ...] = ()
    """Staged object and timeline file, in the order in which they are to appear."""
    state: LedgerState = LedgerState()
    voids: int | None = None
    """The number of an entry before this one that is void (beside Apache Hudi only)."""
    since: str | None = None
    """The time of the entry before, where completed files appear side by side (LEDGER, G6); None: one after the other."""


def staged_name(number: int, token: str) -> str:
    return f"{STAGED}/{number:020d}.{token}"


def parse_staged_name(name: str) -> int | None:
    """The slot for which an object was staged."""
    folder, _, rest = name.rpartition("/")
    digits, dot, _ = rest.partition(".")
    return whole_number(digits, _DIGITS) if folder == STAGED and dot and len(digits) == _DIGITS else None


def without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in mapping.items() if k != key}


def shown_name(writer: str) -> str:
    """A writer's name as it stands in every entry while its write is open: not longer than it need be to know it by."""
    longest = limits.WRITER_NAME_CHARACTERS_MAX
    return writer if len(writer) <= longest else f"{writer[: longest - 1]}…"


def format_entry(entry: Entry) -> bytes:
    state = entry.state
    record = {
        "version": ENTRY_VERSION,
        "number": entry.number,
        "txn": entry.decider,
        "kind": entry.kind,
        "time": entry.time,
        "floor": entry.floor,
        "files": entry.files,
        "voids": entry.voids,
        "since": entry.since,
        "state": {
            "last": state.last,
            "open": {
                s: [w.decider, w.action, w.adds_base, w.columns, _plain(w.batch), w.writer]
                for s, w in state.open.items()
            },
            "plans": {
                s: [p.action, p.planner, p.epoch, p.claimant, p.is_removable, p.claimed_at]
                for s, p in state.plans.items()
            },
            "rollbacks": {s: [u.victim, u.action, u.decider, u.removes_plan] for s, u in state.rollbacks.items()},
            "gone": dict(state.gone),
            "cleans": dict(state.cleans),
            "restores": {s: [r.until, r.decider] for s, r in state.restores.items()},
            "restored": {s: [r.until, r.decider] for s, r in state.restored.items()},
            "unpinned": dict(state.unpinned),
            "leases": {token: [lease.time, lease.holder] for token, lease in state.leases.items()},
            "consumers": dict(state.consumers),
            "batches": {w: [b.number, b.request_time, b.completion, b.stream] for w, b in state.batches.items()},
            "archived": state.archived,
            "horizon": state.horizon,
            "schema_file": state.schema_file,
            "is_fresh": state.is_fresh,
            "taken": state.taken,
            "replaced_file": state.replaced_file,
            "decided": {wish: [d.number, d.outcome] for wish, d in state.decided.items()},
            "touched": {str(number): f"{mask:x}" for number, mask in state.touched.items()},
        },
    }
    data = json.dumps(record, separators=(",", ":")).encode()
    if len(data) > limits.LEDGER_ENTRY_BYTES_MAX:
        raise CommitRefused(
            f"The next entry of the ledger would take {len(data):,} bytes; {limits.LEDGER_ENTRY_BYTES_MAX:,} are the limit. Nothing "
            f"was decided. {len(state.open):,} writes are open: let them end, or end those of dead writers with `rollback`.",
        )
    return data


def parse_entry(data: bytes, where: str) -> Entry:
    """The entry in these bytes; CorruptFile if it is none, or of a newer release that knows more."""
    try:
        record = json.loads(data)
        if record["version"] not in ENTRY_VERSIONS:
            raise unknown_version(record["version"], where)
        entry = _entry(record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError) as error:
        raise damaged(where, f"it is no entry of the ledger ({type(error).__name__}: {error!s:.100})") from None
    wrong = next((t for t in _times(entry) if not is_instant_time(t)), None)
    if wrong is not None:
        raise damaged(where, f"it has {wrong[:40]!r} in the place of a time")
    return entry


def _entry(record: dict[str, Any]) -> Entry:
    state = record["state"]
    return Entry(
        number=_number(record["number"]),
        decider=_text(record["txn"]),
        kind=_text(record["kind"]),
        time=_text(record["time"]),
        floor=_number(record["floor"]),
        files=tuple((_text(source), _text(target)) for source, target in record["files"]),
        voids=None if record["voids"] is None else _number(record["voids"]),
        since=None if record.get("since") is None else _text(record["since"]),
        state=LedgerState(
            last=_text(state["last"]),
            open={_text(s): _open_write(w) for s, w in state["open"].items()},
            plans={
                _text(s): PendingPlan(_text(p[0]), _text(p[1]), _number(p[2]), _text(p[3]), p[4] is True, _text(p[5]))
                for s, p in state["plans"].items()
            },
            rollbacks={
                _text(s): Undoing(_text(u[0]), _text(u[1]), _text(u[2]), u[3] is True)
                for s, u in state["rollbacks"].items()
            },
            gone={_text(s): _text(t) for s, t in state["gone"].items()},
            cleans={_text(s): _text(t) for s, t in state["cleans"].items()},
            restores={_text(s): Restoring(_text(r[0]), _text(r[1])) for s, r in state["restores"].items()},
            restored={_text(s): Restoring(_text(r[0]), _text(r[1])) for s, r in state["restored"].items()},
            unpinned={_text(set_at): _text(s) for set_at, s in state["unpinned"].items()},
            leases={_text(token): Lease(_text(v[0]), _text(v[1])) for token, v in state["leases"].items()},
            consumers={_text(name): _text(time) for name, time in state["consumers"].items()},
            batches={
                _text(w): PublishedBatch(_number(b[0]), _text(b[1]), _text(b[2]), _text(b[3]))
                for w, b in state["batches"].items()
            },
            archived=_text(state["archived"]),
            horizon=_text(state["horizon"]),
            schema_file=None if state["schema_file"] is None else _text(state["schema_file"]),
            is_fresh=state["is_fresh"] is True,
            taken=_text(state.get("taken", _NEVER)),
            replaced_file=None if state.get("replaced_file") is None else _text(state["replaced_file"]),
            decided={_text(w): Decided(_number(d[0]), _text(d[1])) for w, d in state.get("decided", {}).items()},
            # The process that made an entry without masks may have changed anything up to it.
            touched={int(n): mask_of_text(m) for n, m in state.get("touched", {record["number"]: "f" * 16}).items()},
        ),
    )


def _open_write(value: list[Any]) -> OpenWrite:
    # Entries of earlier releases do not say who writes.
    writer = _text(value[5]) if len(value) > 5 else ""
    return OpenWrite(_text(value[0]), _text(value[1]), value[2] is True, texts_of(value[3]), batch_of(value[4]), writer)


def _times(entry: Entry) -> list[str]:
    state = entry.state
    named = [*state.open, *state.plans, *state.rollbacks, *state.gone, *(u.victim for u in state.rollbacks.values())]
    named += [plan.claimed_at for plan in state.plans.values()]
    named += [*state.cleans, *state.restores, *(r.until for r in state.restores.values())]
    named += [*state.restored, *(r.until for r in state.restored.values()), *state.unpinned, *state.unpinned.values()]
    named += [*(lease.time for lease in state.leases.values()), *state.consumers.values()]
    named += [time for b in state.batches.values() for time in (b.request_time, b.completion)]
    since = [] if entry.since is None else [entry.since]
    return [entry.time, *since, state.last, state.archived, state.horizon, state.taken, *named, *state.gone.values()]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, {type(value).__name__} found")
    return value


def texts_of(value: Any) -> tuple[str, ...] | None:
    """Texts, or none, as JSON has them; TypeError if it has something else."""
    return None if value is None else tuple(_text(v) for v in value)


def mask_of_text(value: Any) -> int:
    """A mask, as it stands in entries and wishes; TypeError or ValueError if it is none."""
    mask = int(_text(value), 16)
    if not 0 <= mask <= EVERYTHING:
        raise ValueError("a mask has 64 bits")
    return mask


def _plain(batch: Batch | None) -> list[str | int] | None:
    return None if batch is None else [batch.writer, batch.number, batch.stream]


def batch_of(value: Any) -> Batch | None:
    """A batch, or none, as JSON has it; TypeError if it has something else."""
    return None if value is None else Batch(_text(value[0]), _number(value[1]), _text(value[2]))


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("a number expected")
    return value

# SPDX-License-Identifier: Apache-2.0
"""A naive model of a table: plain values in, rows out, no cleverness. What a reader must answer, from the rules alone.

Times are small integers. A history is a list of instants and the files they wrote; whether a file counts at a moment
follows from the completion of its instant and from nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

UNAVAILABLE = "__not_there__"
AT = "_hoodie_commit_time"

Group = tuple[str, str]
"""Partition folder and file id."""
Row = dict[str, Any]
Rows = dict[tuple[str, str], Row]
"""Rows by partition and key."""


@dataclass(frozen=True)
class Settings:
    """What the table's properties say."""

    ordering: tuple[str, ...] = ("ts",)
    by_event: bool = True
    partitioned: bool = True
    buckets: int | None = 2
    fill: str = ""
    """hoodie.table.partial.update.mode."""
    complex_keys: bool = False
    """Record keys are written `id:k0` and not `k0`."""
    meta: bool = True
    """hoodie.populate.meta.fields: without them nobody knows who wrote a base row, so logs always come after it."""
    order_type: str = "long"
    """The type of the ordering columns; their values here are small integers in the same order."""

    def order_of(self, values: Row) -> tuple[int, ...]:
        return tuple(values.get(name) or 0 for name in self.ordering)

    def is_filler(self, value: Any) -> bool:
        """Whether a value means 'keep what was there'."""
        if self.fill == "IGNORE_DEFAULTS":
            return value is None
        return self.fill == "FILL_UNAVAILABLE" and value == UNAVAILABLE


@dataclass(frozen=True)
class Put:
    key: str
    values: Row


@dataclass(frozen=True)
class Gone:
    key: str
    order: tuple[int, ...] | None = None
    """None: removes whatever came before."""


@dataclass(frozen=True)
class Block:
    """A block of a log file: rows ("avro" or "parquet") or deletes ("delete")."""

    form: str
    entries: tuple[Put | Gone, ...]
    columns: tuple[str, ...] = ()
    partial: bool = False
    compacted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Log:
    group: Group
    request_time: int
    blocks: tuple[Block, ...]
    version: int = 1
    token: str = "1-0-1"


@dataclass(frozen=True)
class Base:
    group: Group
    request_time: int
    rows: tuple[tuple[int, Row], ...]
    """The request time of each row's writer, and its values."""
    token: str = "1-0-1"
    columns: tuple[str, ...] = ()
    named: bool = True
    """Whether the commit's metadata names it; a spare file of a second attempt is not named."""


@dataclass
class Instant:
    request_time: int
    action: str
    """As on the pending file: deltacommit, compaction, logcompaction, replacecommit, clustering, clean."""
    completion: int | None = None
    columns: tuple[str, ...] = ()
    replaces: tuple[Group, ...] = ()
    inputs: tuple[Log | Base, ...] = ()
    """What a compaction's plan names."""
    removed: tuple[Log | Base, ...] = ()
    """What a clean deletes, from its request time on."""
    rolled_back_at: int | None = None
    leaves_files: bool = True

    def done(self, now: int) -> bool:
        return self.completion is not None and self.completion <= now


class History:
    """What was done to a table. Prints as one line per instant and file, so that a failure can be read."""

    def __init__(
        self,
        settings: Settings | None = None,
        instants: Iterable[Instant] = (),
        logs: Iterable[Log] = (),
        bases: Iterable[Base] = (),
    ) -> None:
        self.settings = settings or Settings()
        self.instants, self.logs, self.bases = list(instants), list(logs), list(bases)

    @property
    def files(self) -> list[Log | Base]:
        return [*self.logs, *self.bases]

    def instant(self, request_time: int) -> Instant:
        return next(i for i in self.instants if i.request_time == request_time and i.action != "clean")

    def __repr__(self) -> str:
        lines = [f"{self.settings}"]
        for i in self.instants:
            end = i.completion or (f"rolled back at {i.rolled_back_at}" if i.rolled_back_at else "pending")
            more = [
                f"replaces {i.replaces}" if i.replaces else "",
                f"inputs {sorted({f.request_time for f in i.inputs})}" if i.inputs else "",
            ]
            more += [f"removes {[(f.group, f.request_time) for f in i.removed]}" if i.removed else ""]
            lines.append(
                " ".join(
                    [
                        f"{i.action}[{i.request_time}, {end}]",
                        *filter(None, more),
                        "wide" if "extra" in i.columns else "",
                    ]
                )
            )
        for log in self.logs:
            lines.append(f"log {log.group} request time {log.request_time} v{log.version} {log.token}")
            for b in log.blocks:
                marks = f"{'partial ' if b.partial else ''}{f'compacts {b.compacted}' if b.compacted else ''}"
                told = [e.values if isinstance(e, Put) else (e.key, e.order) for e in b.entries]
                lines.append(f"    {b.form} {marks}{told}")
        for base in self.bases:
            spare = "" if base.named else " NOT NAMED"
            lines.append(f"base {base.group} request time {base.request_time} {base.token}{spare}: {list(base.rows)}")
        return "\n  ".join(lines)


@dataclass(frozen=True)
class Version:
    """One version of a row on its way through a fold."""

    values: Row
    at: int
    order: tuple[int, ...] | None
    deleted: bool = False


def live_files(history: History, group: Group, now: int) -> tuple[Base | None, list[Log]]:
    """The base file and the logs that make up the group at a moment, logs in merging order."""

    def counts(file: Log | Base) -> bool:
        if file.group != group or not history.instant(file.request_time).done(now):
            return False
        if isinstance(file, Base) and not file.named:
            return False
        for other in history.instants:
            if group in other.replaces and other.done(now):
                assert other.completion is not None
                if file.request_time != other.request_time and file.request_time < other.completion:
                    return False
        return True

    bases = [b for b in history.bases if counts(b)]
    logs = [log for log in history.logs if counts(log)]
    base = max(bases, key=lambda b: b.request_time, default=None)
    if base is not None:
        logs = [log for log in logs if (history.instant(log.request_time).completion or 0) > base.request_time]
    return base, sorted(logs, key=lambda log: (log.request_time, log.version, log.token))


def versions_of(logs: Iterable[Log], settings: Settings, columns: tuple[str, ...]) -> list[tuple[str, Version]]:
    """Every version in the logs with its key, in sequence; log-compacted blocks stand for the instants they name."""
    blocks = [(log, block) for log in logs for block in log.blocks]
    names = {log.request_time: block.compacted for log, block in blocks if block.compacted}
    superseded = {request_time for request_times in names.values() for request_time in request_times}

    def plain(request_time: int) -> set[int]:
        return {s for name in names[request_time] for s in plain(name)} if request_time in names else {request_time}

    placed = [(max(plain(log.request_time)), log, block) for log, block in blocks if log.request_time not in superseded]
    placed.sort(key=lambda p: p[0])  # stable: files and blocks of one instant stay in their order
    return [
        (entry.key, _version(entry, block, log.request_time, place, settings, columns))
        for place, log, block in placed
        for entry in block.entries
    ]


def _version(
    entry: Put | Gone, block: Block, request_time: int, place: int, settings: Settings, columns: tuple[str, ...]
) -> Version:
    if isinstance(entry, Gone):
        return Version({}, place, entry.order, deleted=True)
    brought = block.columns if block.partial else columns
    values = {name: entry.values.get(name) for name in brought} | {AT: request_time}
    deleted = bool(entry.values.get("_hoodie_is_deleted"))
    return Version(values, place, settings.order_of(entry.values), deleted)


def merged(base: Version | None, logs: list[Version], settings: Settings) -> Version | None:
    """The visible version of a key, or a deleted one: of each column the highest rank among the versions that name it.

    A delete with an ordering value takes what ranks below it, one without whatever began before it.
    """
    every = [*([] if base is None else [base]), *logs]
    began = {id(version): (version.at, number) for number, version in enumerate(every)}

    def rank(version: Version) -> tuple[Any, ...]:
        return ((version.order or ()) if settings.by_event else (), *began[id(version)])

    without = [v for v in every if v.deleted and (v.order is None or not settings.by_event)]
    last = max((began[id(v)] for v in without), default=None)
    left = [v for v in every if last is None or began[id(v)] > last]
    line = max((rank(v) for v in left if v.deleted), default=None)
    live = [v for v in left if not v.deleted and (line is None or rank(v) > line)]
    if not live:
        gone = [v for v in left if v.deleted] or [v for v in every if began[id(v)] == last]
        return max(gone, key=rank, default=None)
    top = max(live, key=rank)
    values = dict(top.values)
    for name in {name for v in live for name in v.values} - {AT}:
        naming = [v for v in live if name in v.values and not settings.is_filler(v.values[name])]
        values[name] = max(naming, key=rank).values[name] if naming else top.values.get(name)
    return Version(values, top.at, top.order)


def merge_files(base: Base | None, logs: Iterable[Log], settings: Settings, columns: tuple[str, ...]) -> dict[str, Row]:
    """The rows of a slice by key, each with its writer's request time."""
    own = {
        row["id"]: Version(
            {n: row.get(n) for n in columns} | {AT: at}, at if settings.meta else 0, settings.order_of(row)
        )
        for at, row in (base.rows if base else ())
    }
    by_key: dict[str, list[Version]] = {}
    for key, version in versions_of(logs, settings, columns):
        by_key.setdefault(key, []).append(version)
    rows = {}
    for key in {*own, *by_key}:
        shown = merged(own.get(key), by_key[key], settings) if key in by_key else own[key]
        if shown is not None and not shown.deleted:
            rows[key] = {name: shown.values.get(name) for name in (*columns, AT)}
    return rows


class Oracle:
    """The right answers about a history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.groups = sorted({f.group for f in history.files})

    def columns(self, now: int) -> tuple[str, ...]:
        """The table's columns: those of the completed write with the greatest request time."""
        stated = [i for i in self.history.instants if i.columns and i.done(now)]
        own = [i for i in stated if i.action not in ("compaction", "logcompaction", "clustering")] or stated
        return max(own, key=lambda i: i.request_time).columns if own else ()

    def rows(self, now: int, columns: tuple[str, ...] | None = None) -> Rows:
        columns = self.columns(now) if columns is None else columns
        found: Rows = {}
        for group in self.groups:
            base, logs = live_files(self.history, group, now)
            rows = merge_files(base, logs, self.history.settings, columns)
            assert not {(group[0], k) for k in rows} & {*found}, "the history itself has a key in two groups"
            # The folder says in which partition a row is, also where a partial update leaves the column out.
            place = {"part": group[0]} if "part" in columns else {}
            found |= {(group[0], key): row | place for key, row in rows.items()}
        return found

    def base_rows(self, now: int) -> list[Row]:
        """What a read-optimised query gives; stale rows of a log-only past may be missing, so keys need not be unique."""
        columns = self.columns(now)
        found = []
        for group in self.groups:
            base, _ = live_files(self.history, group, now)
            found += [{n: row.get(n) for n in columns} | {AT: at} for at, row in (base.rows if base else ())]
        return found

    def rows_without_services(self, now: int) -> Rows:
        """The same if nobody had ever compacted: every version that a completed write wrote takes part."""
        columns = self.columns(now)
        services = {i.request_time for i in self.history.instants if i.action in ("compaction", "logcompaction")}
        history = self.history
        bare = History(
            history.settings,
            history.instants,
            [log for log in history.logs if log.request_time not in services],
            [base for base in history.bases if base.request_time not in services],
        )
        return Oracle(bare).rows(now, columns)

    def files(self, now: int) -> set[int]:
        """Every file that a snapshot of this moment reads, by identity."""
        found: set[int] = set()
        for group in self.groups:
            base, logs = live_files(self.history, group, now)
            found |= {id(f) for f in (*([base] if base else []), *logs)}
        return found

    def is_cleaned(self, moment: int, now: int) -> bool:
        """Whether a clean that had begun by `now` took away a file that a read of `moment` needs."""
        removed = {
            id(f) for i in self.history.instants if i.action == "clean" and i.request_time <= now for f in i.removed
        }
        return bool(removed & self.files(moment))

    def changes(self, after: int | None, until: int) -> set[tuple[str, tuple[tuple[str, Any], ...]]]:
        """(kind, row) for every key whose visible row differs, told with the columns of the later moment."""
        columns = self.columns(until)
        old = self.rows(after, columns) if after is not None else {}
        new = self.rows(until, columns)
        found = set()
        for key in {*old, *new}:
            before, now = _shown(old.get(key)), _shown(new.get(key))
            if before is None and now is not None:
                found.add(("insert", now))
            elif before is not None and now is None:
                found.add(("delete", before))
            elif before is not None and now is not None and before != now:
                found.add(("update_preimage", before))
                found.add(("update_postimage", now))
        return found


def _shown(row: Row | None) -> tuple[tuple[str, Any], ...] | None:
    return None if row is None else tuple(sorted((k, v) for k, v in row.items() if k != AT))

# SPDX-License-Identifier: Apache-2.0
"""From facts to the model that the page draws: plain values, small, ready for JSON. Pure.

- `instants`: each with its times, kind, state and lane; `late` is the barrier that it began before and completed after
- `lanes`: one for each writer, one for each kind of service
- `groups`: [partition, file id]
- `files`: [group, instant (its place, or its request time if it is not shown), base or log, rest of name, bytes, rows]
- `slices`: [group, barrier, base file or null, [log files]], with files by their place
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import tzinfo
from typing import Any

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.names import BaseFileName, LogFileName, parse_data_file
from lakebraid.format.times import parse_instant_time
from lakebraid.model.config import TableConfig
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.table.grid import printable
from lakebraid.web.details import PLANNED, kind_of
from lakebraid.web.gathering import DescribedInstant, Facts

SERVICES = (*sorted(PLANNED), "clean", "rollback", "restore", "savepoint", "indexing")
_ENDS = {None: "rolled back", "RolledBack": "rolled back", "Aborted": "aborted"}
_NAMELESS, _OPEN, _ROLLED_BACK, _CREATION = "(unnamed writer)", "(open writes)", "(rolled back)", "(creation)"


def build_model(facts: Facts, files_max: int = limits.VIEW_FILES_MAX) -> dict[str, Any]:
    """Everything the page shows."""
    instants = [_instant(seen, facts.config.zone) for seen in facts.instants]
    instants += list(_taken_back(instants, facts))
    instants.sort(key=lambda i: (i["start"], i["kind"]))
    _mark_late(instants, facts)
    lanes = _lanes(instants)
    places = {(i["start"], i["family"]): at for at, i in enumerate(instants)}
    files = _Files({request_time: at for (request_time, family), at in places.items() if family == "write"}, files_max)
    slices = list(_slices(facts, files))
    by_key = {(s.instant.request_time, s.instant.action): s.details for s in facts.instants}
    for instant in reversed(instants):
        details = by_key.get((instant["start"], instant.pop("action")))
        instant["plan"] = [] if details is None else [[files.group(p.group), p.logs, p.has_base] for p in details.plan]
        for file in () if details is None else details.files:
            files.add(file.group, file.name, file.bytes, file.rows)
    model = {
        "table": _table(facts.config, facts.path),
        "now": facts.now_ms,
        "lanes": lanes,
        "instants": [_short(i) for i in instants],
        "groups": files.groups,
        "status": None if facts.status is None else facts.status.to_dict(),
        "left_out": {"instants": facts.left_out, "files": files.left_out},
        "problems": list(facts.problems),
    }
    return {**_shown(model), "files": files.rows, "slices": slices}


def _shown(value: Any) -> Any:
    """The same without control characters and marks that turn the direction of text: names come out of files."""
    match value:
        case str():
            return value if value.isprintable() else "\n".join(map(printable, value.split("\n")))
        case dict():
            return {key: _shown(item) for key, item in value.items()}
        case list() | tuple():
            return [_shown(item) for item in value]
    return value


def _short(instant: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing: there may be thousands."""
    return {
        k: v for k, v in instant.items() if v is not None and v is not False and v not in ("", [], {}) and k != "family"
    }


def _table(config: TableConfig, path: str) -> dict[str, Any]:
    kept = (
        "name",
        "version",
        "record_keys",
        "ordering_fields",
        "partition_fields",
        "buckets",
        "concurrency",
        "timezone",
    )
    known = asdict(config)
    return {"path": path, "type": config.table_type.replace("_", " ").lower(), **{name: known[name] for name in kept}}


def _instant(seen: DescribedInstant, zone: tzinfo) -> dict[str, Any]:
    instant, details = seen.instant, seen.details
    kind = kind_of(instant, details)
    is_service = kind in SERVICES
    lane = kind if is_service else details.writer or _nameless(seen)
    partitions = sorted({f.group.partition for f in details.files})
    return {
        "start": instant.request_time,
        "completion": instant.completion_time,
        "t0": _ms(instant.request_time, zone),
        "t1": _ms(instant.completion_time, zone),
        "kind": kind,
        "action": instant.action,
        "family": "write" if instant.is_write or not is_service or kind in PLANNED else kind,
        "state": instant.state.lower(),
        "lane": lane,
        "service": is_service,
        "operation": details.operation,
        "rows": details.rows,
        "files": len(details.files) or None,
        "bytes": sum(f.bytes for f in details.files) or None,
        "partitions": partitions[:20],
        "partition_count": len(partitions) or None,
        "replaced": details.replaced or None,
        "removed": details.removed,
        "victims": [victim.request_time for victim in details.victims],
        "archived": seen.is_archived,
        "note": details.note,
        "problem": details.problem,
    }


def _nameless(seen: DescribedInstant) -> str:
    """The lane of a write that names no writer: those of Hudi, and the empty one with which our tables begin."""
    if not seen.instant.is_completed:
        return _OPEN
    is_first = seen.details.operation == "BULK_INSERT" and not seen.details.files
    return _CREATION if is_first else _NAMELESS


def _taken_back(instants: list[dict[str, Any]], facts: Facts) -> Iterator[dict[str, Any]]:
    """The writes and plans that rollbacks and restores removed: their own files are gone, so these tell of them."""
    known = {i["start"] for i in instants if i["family"] == "write"}
    for undoing in facts.instants:
        story = undoing.details.story
        for victim in undoing.details.victims:
            if victim.request_time not in known:
                known.add(victim.request_time)
                writer = story.get("writer")
                is_service = victim.action in PLANNED
                yield {
                    "start": victim.request_time,
                    "t0": _ms(victim.request_time, facts.config.zone),
                    "t1": _ms(undoing.instant.request_time, facts.config.zone),
                    "kind": victim.action if is_service else "write",
                    "action": "",
                    "family": "write",
                    "state": _ENDS.get(story.get("kind"), "refused"),
                    "lane": victim.action if is_service else writer if isinstance(writer, str) else _ROLLED_BACK,
                    "service": is_service,
                    "by": undoing.instant.request_time,
                    "why": {name: str(story[name]) for name in ("why", "other", "other_writer") if story.get(name)},
                }


def _mark_late(instants: list[dict[str, Any]], facts: Facts) -> None:
    """Names, for each write that spans the request time of a compaction of one of its groups, that barrier (RFC-66)."""
    touched = {s.instant.request_time: {f.group for f in s.details.files} for s in facts.instants if s.instant.is_write}
    plans = {
        s.instant.request_time: {p.group for p in s.details.plan}
        for s in facts.instants
        if kind_of(s.instant, s.details) == "compaction"
    }
    barriers = sorted(plans)
    for instant in instants:
        if instant["kind"] not in ("deltacommit", "write") or "by" in instant:
            continue
        first = bisect_left(barriers, instant["start"])
        last = bisect_left(barriers, instant.get("completion") or "9")
        own = touched.get(instant["start"])
        spanned = [b for b in barriers[first:last] if not own or not plans[b] or own & plans[b]]
        if spanned:
            instant["late"] = spanned[-1]


def _lanes(instants: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lanes, writers by their first request time and then services; each instant's `lane` becomes its place."""
    order: dict[tuple[int, str], None] = {}
    ranks = {_NAMELESS: 1, _OPEN: 2, _ROLLED_BACK: 3, _CREATION: 4}
    for instant in instants:
        name = instant["lane"]
        rank = 10 + SERVICES.index(name) if instant.get("service") else ranks.get(name, 0)
        order[rank, name] = None
        instant["lane"] = (rank, name)
    lanes = sorted(order, key=lambda lane: lane[0])
    places = {lane: at for at, lane in enumerate(lanes)}
    for instant in instants:
        instant["lane"] = places[instant["lane"]]
    return [{"name": name, "service": rank >= 10} for rank, name in lanes]


@dataclass
class _Files:
    """Files and groups by their places; each file once, up to the limit."""

    instants: dict[str, int]
    files_max: int
    groups: list[list[str]] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    left_out: int = 0
    _groups: dict[GroupId, int] = field(default_factory=dict)
    _files: dict[tuple[int, str], int] = field(default_factory=dict)

    def group(self, group: GroupId) -> int:
        at = self._groups.setdefault(group, len(self.groups))
        if at == len(self.groups):
            self.groups.append([group.partition, group.file_id])
        return at

    def add(self, group: GroupId, name: str, size: int, rows: int | None = None) -> int | None:
        """The place of the file; None if there is no room."""
        key = self.group(group), name
        at = self._files.get(key)
        if at is not None:
            if rows is not None:
                self.rows[at][5] = rows
            return at
        parsed = parse_data_file(name)
        if parsed is None or len(self.rows) >= self.files_max:
            self.left_out += 1
            return None
        self._files[key] = len(self.rows)
        request_time = parsed.request_time
        self.rows.append([key[0], self.instants.get(request_time, request_time), *_parts(parsed), size, rows])
        return self._files[key]


def _parts(name: BaseFileName | LogFileName) -> tuple[str, str]:
    if isinstance(name, BaseFileName):
        return "base", name.write_token
    return "log", f"{name.version}" + ("" if name.write_token is None else f"_{name.write_token}") + name.suffix


def _slices(facts: Facts, files: _Files) -> Iterator[list[Any]]:
    for group in facts.view.groups.values() if facts.view is not None else ():
        for part in group.slices:
            base = None if part.base is None else files.add(group.group, _last(part.base.name), part.base.size)
            logs = [files.add(group.group, _last(log.name), log.size) for log in part.logs]
            yield [files.group(group.group), part.barrier, base, [log for log in logs if log is not None]]


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _ms(time: str | None, zone: tzinfo) -> int | None:
    if time is None:
        return None
    try:
        return parse_instant_time(time, zone)
    except InvalidArgument:
        return None  # Hudi uses times that are in no calendar as marks

# SPDX-License-Identifier: Apache-2.0
"""Small histories by hand: a few words to spell them, what a table then shows, and the demo of RFC-66."""

from __future__ import annotations

from typing import Any

import lakebraid as lb
from tests.kit.models.oracle import Base, Block, Gone, Group, History, Instant, Log, Oracle, Put, Settings
from tests.kit.tables.built_files import t

COLUMNS = ("id", "ts", "v", "w")
G: Group = ("", "00000000-0000-0000-0000-000000000000-0")
BY_EVENT = Settings(partitioned=False, buckets=1)
BY_COMMIT = Settings(partitioned=False, buckets=1, by_event=False)


def row(key: str, v: str, ts: int = 1) -> dict[str, Any]:
    return {"id": key, "ts": ts, "v": v, "w": 0}


def put(key: str, v: str, ts: int = 1) -> Put:
    return Put(key, row(key, v, ts))


def log(request_time: int, *entries: Put | Gone, group: Group = G, version: int = 1, form: str = "avro") -> Log:
    blocks = []
    for entry in entries:
        deletes = isinstance(entry, Gone)
        blocks.append(Block("delete" if deletes else form, (entry,), () if deletes else COLUMNS))
    return Log(group, request_time, tuple(blocks), version)


def base(
    request_time: int, *rows: tuple[int, dict[str, Any]], group: Group = G, token: str = "1-0-1", named: bool = True
) -> Base:
    return Base(group, request_time, rows, token, COLUMNS, named)


def write(request_time: int, completion: int | None = None, **facts: Any) -> Instant:
    return Instant(request_time, "deltacommit", completion, COLUMNS, **facts)


def compaction(request_time: int, completion: int | None, *inputs: Log | Base) -> Instant:
    return Instant(request_time, "compaction", completion, inputs=inputs)


def history(*parts: Instant | Log | Base, settings: Settings = BY_EVENT) -> History:
    return History(
        settings,
        [p for p in parts if isinstance(p, Instant)],
        [p for p in parts if isinstance(p, Log)],
        [p for p in parts if isinstance(p, Base)],
    )


def shown(table: lb.Table, as_of: int | None = None) -> dict[str, str]:
    rows = table.to_arrow(as_of=None if as_of is None else t(as_of)).to_pylist()
    assert len({r["id"] for r in rows}) == len(rows), "a key appears twice"
    return {r["id"]: r["v"] for r in rows}


def told(table: lb.Table, after: int | None, until: int | None = None) -> list[tuple[str, str, str]]:
    found = table.changes(None if after is None else t(after), None if until is None else t(until)).to_arrow()
    return sorted((r["_change_type"], r["id"], r["v"]) for r in found.to_pylist())


def compacted(made: History, request_time: int, completion: int) -> History:
    """The same history with a compaction of all that had completed before `request_time`."""
    oracle = Oracle(made)
    rows = oracle.rows(request_time - 1)
    files = tuple(f for f in made.files if made.instant(f.request_time).done(request_time - 1))
    merged = tuple((r["_hoodie_commit_time"], {c: r[c] for c in COLUMNS}) for _, r in sorted(rows.items()))
    instants = [*made.instants, compaction(request_time, completion, *files)]
    return History(made.settings, instants, made.logs, [*made.bases, base(request_time, *merged)])


L1, L2, L3 = log(21, put("a", "l1")), log(30, put("b", "l2")), log(35, put("a", "l3", ts=2), put("c", "l3"))
B10 = base(10, (10, row("a", "base")), (10, row("z", "base")))
B60 = base(60, (21, row("a", "l1")), (30, row("b", "l2")), (10, row("z", "base")))
DEMO = history(
    write(1, 2), write(10, 20), write(21, 40), write(30, 50), compaction(60, 80, B10, L1, L2), write(35, 90), B10, B60, L1, L2, L3
)  # fmt: skip
DEMO_ANSWERS = {
    2: {},
    20: {"a": "base", "z": "base"},
    40: {"a": "l1", "z": "base"},
    50: {"a": "l1", "b": "l2", "z": "base"},
    55: {"a": "l1", "b": "l2", "z": "base"},
    80: {"a": "l1", "b": "l2", "z": "base"},
    85: {"a": "l1", "b": "l2", "z": "base"},
    90: {"a": "l3", "b": "l2", "c": "l3", "z": "base"},
    95: {"a": "l3", "b": "l2", "c": "l3", "z": "base"},
}

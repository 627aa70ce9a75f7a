# SPDX-License-Identifier: Apache-2.0
"""A partitioned table that writers overwrite, and what a reader sees of it."""

from __future__ import annotations

from typing import Any

from lakebraid.api.table import Table
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.checks.overwrite_maps import MAPS
from tests.kit.tables.scene import COLUMNS, TickingClock, WatchedStorage, make_table, row, table_on

SCHEMA = f"{COLUMNS}, part string"


def rows(part: str, **values: str) -> list[dict[str, Any]]:
    """Rows of one partition: the values of `v` by key."""
    return [row(key, v) | {"part": part} for key, v in values.items()]


def table(**arguments: Any) -> Table:
    """A table with two buckets; `a` and `b` in partition p, `c` in q."""
    clock = TickingClock()
    storage = MemoryStorage("memory://overwritten", clock)
    made = make_table(storage, clock, SCHEMA, **({"partition_by": "part", "buckets": 2} | arguments))
    made.upsert([*rows("p", a="1", b="1"), *rows("q", c="1")])
    return made


def another(of: Table, **hooks: Any) -> Table:
    """The table as another process has it open."""
    storage = of._writing.storage
    return table_on(WatchedStorage(storage, **hooks) if hooks else storage, of._clock)


def seen(of: Table, as_of: str | None = None) -> dict[str, str]:
    """`v` by partition and key: `{"p/a": "1"}`."""
    found = of.to_arrow(as_of=as_of).to_pylist()
    assert len({r["id"] for r in found}) == len(found), "a key appears twice"
    return {f"{r['part']}/{r['id']}": r["v"] for r in found}


BEFORE = {"p/a": "1", "p/b": "1", "q/c": "1"}


def maps(of: Table) -> list[str]:
    """The maps of overwrites that are there."""
    return [info.name.rpartition("/")[2] for info in of._writing.storage.list(MAPS)]


def groups(of: Table, partition: str) -> set[str]:
    """File ids that readers use."""
    return {s.group.file_id for s in of.snapshot().slices if s.group.partition == partition}

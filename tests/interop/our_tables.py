# SPDX-License-Identifier: Apache-2.0
"""Tables as we write them, each with the rows that it must hold; the judges read them in test_hudi_reads_our_writes.py.

The definitions are in our_tables_types.py, our_tables_merging.py and our_tables_writers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebraid as lb
from lakebraid.services.merging import compaction
from lakebraid.services.settings import Opened

Definition = Callable[[Path], "Written"]
DEFINITIONS: dict[str, Definition] = {}
ROW = "id bigint, name string, ts bigint"


@dataclass(frozen=True)
class Written:
    """A table of ours. `names` tells the rows by their column `name`."""

    table: lb.Table
    names: list[str]
    hidden: dict[str, str] = field(default_factory=dict)
    """Rows that Hudi does not show, by record key (FORMAT, trap 1)."""
    hold: Any = None
    """What must live as long as the table is judged: an open transaction."""


def written(definition: Definition) -> Definition:
    DEFINITIONS[definition.__name__] = definition
    return definition


def rows(name: str, times: Mapping[Any, Any], **more: Any) -> list[dict[str, Any]]:
    """One row for each key: its name is `name` and the key, its ordering value the one given."""
    return [{"id": key, "name": f"{name}{key}", "ts": time, **more} for key, time in times.items()]


def keys(times: Mapping[Any, Any]) -> list[dict[str, Any]]:
    return [{"id": key, "ts": time} for key, time in times.items()]


def create(path: Path, ddl: str = ROW, **options: Any) -> lb.Table:
    defaults: dict[str, Any] = {"record_keys": ["id"], "ordering_fields": ["ts"], "buckets": 2}
    return lb.Table.create(path, ddl, **defaults | options)


def arrow(table: lb.Table, given: list[dict[str, Any]], columns: tuple[str, ...] | None = None) -> pa.Table:
    schema = pa.schema([field for field in table.schema if columns is None or field.name in columns])
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in given], schema)


def plan(table: lb.Table) -> str:
    """A plan of ours that nobody executes."""
    config, _ = table._writing.settings()
    request_time = compaction.plan_compaction(table._writing.ledger(config))
    assert request_time is not None
    return request_time


def run_plan(table: lb.Table, request_time: str) -> None:
    """Executes a plan at once, whoever made it; `compact` would wait whether its maker comes back to it."""
    config, _ = table._writing.settings()
    compaction.COMPACTION.run(Opened(table._writing, table._writing.ledger(config)), request_time)

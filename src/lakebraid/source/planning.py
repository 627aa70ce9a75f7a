# SPDX-License-Identifier: Apache-2.0
"""What a read of the format gives: its columns, and the parts that tasks read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lakebraid.api.by_options import existing
from lakebraid.api.table import Table
from lakebraid.errors import InvalidArgument, NotATable
from lakebraid.model.predicate.parse import And, Predicate, parse_where
from lakebraid.model.schema.conform import with_meta
from lakebraid.options import ReadOptions, read_options
from lakebraid.reading.plan import Mode
from lakebraid.spark.read import packed
from lakebraid.spark.versions import spark_schema
from lakebraid.storage import open_storage
from lakebraid.storage.parallel import map_ahead
from lakebraid.tasks.changes.cdc_form import CDC_SCHEMA, cdc_rows
from lakebraid.tasks.changes.diff import CHANGE_FIELDS, CHANGE_TYPE, ChangeTask, changes_schema, read_changes
from lakebraid.tasks.reading.key_filter import read_lookup
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

_EMPTY: Final = "0"
"""The moment before the first commit."""
_CHANGE_COLUMNS: Final = tuple(field.name for field in CHANGE_FIELDS)


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What all tasks of one read have in common."""

    plan: ReadPlan
    said: ReadOptions
    columns: tuple[str, ...]
    """The columns to give back, in this order."""

    @property
    def schema(self) -> pa.Schema:
        """What they are in the table."""
        known = (
            _changes_schema(changes_schema(self.plan), self.said)
            if self.said.query == "incremental"
            else self.plan.schema
        )
        return pa.schema([known.field(name) for name in self.columns])


Part = list[SliceTask] | list[ChangeTask]


def look(options: Mapping[str, str], moment: str | None) -> tuple[str, StructType]:
    """The moment that is looked at, the newest if it is not given, and the columns then."""
    said = read_options(options)
    table = open_table(said)
    snapshot = table.snapshot(_as_of(said, moment))
    has_meta = said.meta_columns and table.properties.get("hoodie.populate.meta.fields", "true").lower() != "false"
    schema = with_meta(snapshot.schema) if has_meta else snapshot.schema
    if said.query == "incremental":
        schema = _changes_schema(pa.schema([*schema, *CHANGE_FIELDS]), said)
    return moment or snapshot.completion_time or _EMPTY, spark_schema(schema)


def plan_source(
    options: Mapping[str, str], wanted: Sequence[str], moment: str | None, where: Predicate | None = None
) -> tuple[SourcePlan, list[Part]]:
    """The plan of a read of these columns, and its parts, each for one Spark task."""
    said = read_options(options)
    table = open_table(said)
    if said.query == "incremental":
        return _plan_changes(table, said, wanted, moment)
    as_of = _as_of(said, moment)
    mode: Mode = "read_optimized" if said.query == "read_optimized" else "snapshot"
    plan, tasks = table.snapshot(as_of).plan(wanted, _both(said.where, where), mode=mode)
    if moment == _EMPTY and as_of is None:
        tasks = []  # what was written since is not of that moment
    _check_names(plan.columns, wanted)
    shared = SourcePlan(plan, said, tuple(wanted))
    parts = [tasks] if plan.keys is not None else packed(tasks, [task.size for task in tasks])
    return shared, list(parts)


def read_part(shared: SourcePlan, part: Part) -> Iterator[pa.Table]:
    """The rows of one part."""
    plan, said = shared.plan, shared.said
    storage = open_storage(plan.url, dict(plan.options))
    if said.query != "incremental":
        tasks = [task for task in part if isinstance(task, SliceTask)]
        if plan.keys is not None:
            yield from read_lookup(storage, plan, tasks)
            return
        yield from map_ahead(storage, partial(read_slice, storage, plan), tasks, lambda task: task.held_bytes)
        return

    def changed(change: ChangeTask) -> Iterator[pa.Table]:
        kinds = said.form != "latest_state"
        rows = read_changes(storage, plan, change, images=said.form == "cdc", kinds=kinds)
        for table in cdc_rows(rows) if said.form == "cdc" else rows:
            found = table if said.form != "latest_state" else _latest(table)
            yield found.select(list(shared.columns))

    changes = [change for change in part if isinstance(change, ChangeTask)]
    yield from map_ahead(storage, changed, changes, lambda change: change.held_bytes)


def open_table(said: ReadOptions) -> Table:
    if said.path is None:
        raise InvalidArgument("No path was given. Nothing was read. Use `.load(path)` or the option `path`.")
    table = existing(said.path, dict(said.storage))
    if table is None:
        raise NotATable(f"There is no table at {said.path}. Nothing was read.", path=said.path)
    return table


def _plan_changes(
    table: Table, said: ReadOptions, wanted: Sequence[str], moment: str | None
) -> tuple[SourcePlan, list[Part]]:
    columns = None if said.form == "cdc" else [name for name in wanted if name not in _CHANGE_COLUMNS]
    changes = table.changes(said.begin, _as_of(said, moment), images=said.form == "cdc", columns=columns)
    plan, tasks = changes.plan()
    _check_names(_changes_schema(changes_schema(plan), said).names, wanted)
    parts = packed(tasks, [task.size for task in tasks])
    return SourcePlan(plan, said, tuple(wanted)), list(parts)


def _as_of(said: ReadOptions, moment: str | None) -> str | None:
    return said.as_of or said.end or (None if moment == _EMPTY else moment)


def _both(text: str | None, where: Predicate | None) -> Predicate | None:
    parts = tuple(part for part in (parse_where(text), where) if part is not None)
    return None if not parts else parts[0] if len(parts) == 1 else And(parts)


def _changes_schema(schema: pa.Schema, said: ReadOptions) -> pa.Schema:
    match said.form:
        case "cdc":
            return CDC_SCHEMA
        case "changes":
            return schema
        case _:
            return pa.schema([field for field in schema if field.name not in _CHANGE_COLUMNS])


def _latest(table: pa.Table) -> pa.Table:
    """New and changed rows: a delete is nothing that is there."""
    is_deleted = (
        table.num_rows > 0 and table.column(CHANGE_TYPE)[0].as_py() == "delete"
    )  # a table holds changes of one kind
    return table.slice(0, 0) if is_deleted else table


def _check_names(known: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InvalidArgument(
            f"The schema names the column {missing[0]!r:.100}, which this read does not give. Nothing was read. It has: "
            f"{', '.join(known)[:1000]}.",
            column=missing[0],
        )

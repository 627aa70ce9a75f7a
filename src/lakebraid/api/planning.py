# SPDX-License-Identifier: Apache-2.0
"""From what the caller wants to what the tasks do: columns, filter and mode become a plan and a list of slices."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.evolution import with_meta
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.partitions import partition_values
from lakebraid.model.predicate import Predicate, bind, parse_where
from lakebraid.model.slicing import FileSlice
from lakebraid.table.pruning import prune
from lakebraid.table.view import View
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

Where = str | Predicate | Sequence[tuple[str, str, object]] | Sequence[Sequence[tuple[str, str, object]]]
Mode = Literal["snapshot", "read_optimized"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a table lies: what a task needs to open its storage again."""

    url: str
    options: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Source({self.url!r})"  # options may hold credentials


def plan_read(
    view: View,
    source: Source,
    *,
    columns: Iterable[str] | None = None,
    where: Where | None = None,
    mode: Mode = "snapshot",
    meta_columns: bool = False,
) -> tuple[ReadPlan, list[SliceTask]]:
    """The plan that all tasks share, and one task per slice that may hold a matching row, largest first."""
    plan = read_plan(view, source, columns=columns, where=where, meta_columns=meta_columns)
    if mode == "snapshot":
        slices = view.slices()
    elif mode == "read_optimized":
        slices = view.base_slices()
    else:
        raise InvalidArgument(f"mode={mode!r} is not known; use 'snapshot' or 'read_optimized'.", mode=mode)
    kept = prune(slices, plan.where, view.config, plan.schema)
    kept.sort(key=lambda s: (-s.size, s.group))
    return plan, [slice_task(s, view.config) for s in kept]


def read_plan(
    view: View,
    source: Source,
    *,
    columns: Iterable[str] | None = None,
    where: Where | None = None,
    meta_columns: bool = False,
) -> ReadPlan:
    schema = with_meta(view.schema)
    predicate = parse_where(where)
    return ReadPlan(
        url=source.url,
        options=source.options,
        rules=merge_rules(view.config, view.schema),
        schema=schema,
        columns=_columns(columns, view.schema, schema, meta_columns=meta_columns),
        where=None if predicate is None else bind(predicate, schema),
        layout=view.config.layout,
        completed=_completed(view) if view.config.layout == 1 else frozenset(),
    )


def _completed(view: View) -> frozenset[str]:
    return frozenset(i.request_time for i in view.timeline.writes)


def slice_task(file_slice: FileSlice, config: TableConfig) -> SliceTask:
    base = file_slice.base
    return SliceTask(
        partition=file_slice.group.partition,
        base_name=base.name if base else None,
        base_size=base.size if base else 0,
        base_request_time=base.request_time if base else "",
        log_names=tuple(log.name for log in file_slice.logs),
        log_request_times=tuple(log.request_time for log in file_slice.logs),
        constants=_constants(file_slice.group.partition, config),
    )


def _constants(partition: str, config: TableConfig) -> tuple[tuple[str, str | None], ...]:
    if not config.drop_partition_columns:
        return ()
    values = partition_values(partition, config.partition_fields, config.hive_style, config.url_encode)
    return tuple(zip(config.partition_fields, values or (), strict=False))


def _columns(
    columns: Iterable[str] | None, visible: pa.Schema, schema: pa.Schema, *, meta_columns: bool
) -> tuple[str, ...]:
    """The columns to give back: all visible ones, or those asked for, by their exact or case-insensitive names."""
    if columns is None:
        return tuple(schema.names if meta_columns else visible.names)
    if isinstance(columns, str):
        raise InvalidArgument(f"columns={columns!r} is text; give a list of column names, such as [{columns!r}].")
    by_lower = {name.lower(): name for name in schema.names}
    chosen = []
    for name in columns:
        exact = name if name in schema.names else by_lower.get(str(name).lower())
        if exact is None:
            close = difflib.get_close_matches(str(name), schema.names, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise InvalidArgument(
                f"There is no column {name!r}.{hint} The table has: {', '.join(visible.names)}.", column=name
            )
        chosen.append(exact)
    return tuple(dict.fromkeys(chosen))

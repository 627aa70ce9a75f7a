# SPDX-License-Identifier: Apache-2.0
"""From what the caller wants to what the tasks do: columns, filter and mode become a plan and a list of slices."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.keys.partitions import partition_values
from lakebraid.model.merge_rules import KeyForm, MergeRules, merge_rules
from lakebraid.model.predicate.parse import Predicate, bind, parse_where
from lakebraid.model.schema.conform import with_meta
from lakebraid.model.timeline.slicing import FileSlice
from lakebraid.model.timeline.timeline import Visibility
from lakebraid.table.pruning import pinned_keys, prune
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
    visible = view.timeline.visibility()
    return plan, [slice_task(s, view.config, visible) for s in kept]


def read_plan(
    view: View,
    source: Source,
    *,
    columns: Iterable[str] | None = None,
    where: Where | None = None,
    meta_columns: bool = False,
) -> ReadPlan:
    schema = with_meta(view.schema) if view.config.populate_meta else view.schema
    predicate = parse_where(where)
    bound = None if predicate is None else bind(predicate, schema)
    rules = merge_rules(view.config, view.schema)
    return ReadPlan(
        url=source.url,
        options=source.options,
        rules=rules,
        schema=schema,
        columns=_columns(columns, view.schema, schema, meta_columns=meta_columns),
        where=bound,
        keys=None if bound is None else _pinned_keys(bound, rules, view.config, schema),
        layout=view.config.layout,
    )


def _pinned_keys(where: Predicate, rules: MergeRules, config: TableConfig, schema: pa.Schema) -> pa.Array | None:
    texts = pinned_keys(where, config, schema)
    if texts is None or rules.key_form is not KeyForm.COLUMN:
        return texts
    return texts.cast(schema.field(rules.key_columns[0]).type)


def slice_task(file_slice: FileSlice, config: TableConfig, visible: Visibility) -> SliceTask:
    base = file_slice.base
    constants, fillings = _folder_values(file_slice.group.partition, config)
    return SliceTask(
        partition=file_slice.group.partition,
        base_name=base.name if base else None,
        base_size=base.size if base else 0,
        base_request_time=base.request_time if base else "",
        log_names=tuple(log.name for log in file_slice.logs),
        log_request_times=tuple(log.request_time for log in file_slice.logs),
        visible=visible,
        size=file_slice.size,
        bucket=bucket_of_file_id(file_slice.group.file_id),
        constants=constants,
        fillings=fillings,
        versions=file_slice.versions,
    )


def _folder_values(
    partition: str, config: TableConfig
) -> tuple[tuple[tuple[str, str | None], ...], tuple[tuple[str, str], ...]]:
    """Partition columns whose value is the folder's, and those it could fill in.

    The first are dropped columns, and what the default folder means: an empty text lies there too, and every reader of
    the folder takes it for NULL; so do we.
    """
    values = partition_values(partition, config.partition_fields, config.hive_style, config.url_encode)
    if values is None or not config.has_text_partitions:
        return (), ()
    pairs = list(zip(config.partition_fields, values, strict=True))
    constants = tuple((f, v) for f, v in pairs if v is None or config.drop_partition_columns)
    return constants, tuple((f, v) for f, v in pairs if v is not None and not config.drop_partition_columns)


def _columns(
    columns: Iterable[str] | None, visible: pa.Schema, schema: pa.Schema, *, meta_columns: bool
) -> tuple[str, ...]:
    """The columns to give back: all visible ones, or those asked for, by their exact or case-insensitive names."""
    if columns is None:
        return tuple(schema.names if meta_columns else visible.names)
    if isinstance(columns, str):
        raise InvalidArgument(f"columns={columns!r} is text; give a list of column names, such as [{columns!r}].")
    exact = set(schema.names)
    by_lower: dict[str, list[str]] = defaultdict(list)
    for name in schema.names:
        by_lower[name.lower()].append(name)
    chosen = []
    for wanted in map(str, columns):
        same = [wanted] if wanted in exact else by_lower.get(wanted.lower(), [])
        if len(same) != 1:
            raise _no_such_column(wanted, same, visible.names)
        chosen.append(same[0])
    return tuple(dict.fromkeys(chosen))


def _no_such_column(wanted: str, same: list[str], names: list[str]) -> InvalidArgument:
    if same:
        return InvalidArgument(f"{wanted[:100]!r} could be {' or '.join(same)}; write its exact case.", column=wanted)
    shown = names[: limits.NAMES_SHOWN_MAX]
    close = difflib.get_close_matches(wanted[:100], shown, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    rest = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return InvalidArgument(
        f"There is no column {wanted[:100]!r}.{hint} The table has: {', '.join(shown)}{rest}.", column=wanted
    )

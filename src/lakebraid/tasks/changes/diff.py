# SPDX-License-Identifier: Apache-2.0
"""What changed in some file groups between two moments: both states are merged for the keys in question, and compared.

A stale event that lost the merge changed nothing visible, so it is not a change; a delete is one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import CorruptFile
from lakebraid.model.config import META_COLUMNS
from lakebraid.model.ordering import Bools, Ints
from lakebraid.storage.parallel import calls_at_once, map_calls, together
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.changes.base_side import ChangesWanted, rows_beneath
from lakebraid.tasks.changes.layers import Logs, load_layers
from lakebraid.tasks.reading.base_rows import OpenBase, base_of
from lakebraid.tasks.reading.blocks import Known, ordered_blocks
from lakebraid.tasks.reading.read import merge_slice, read_slice
from lakebraid.tasks.reading.versions import row_keys
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

CHANGE_TYPE = "_change_type"
COMPLETION = "_commit_completion_time"
Found = tuple[str, pa.Table, pa.Array]
"""A kind of change, the rows, and when each of them came about."""
CHANGE_FIELDS = (pa.field(CHANGE_TYPE, pa.string()), pa.field(COMPLETION, pa.string()))


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """One unit of comparison: slices before and after, which together hold the same keys."""

    before: tuple[SliceTask, ...]
    after: tuple[SliceTask, ...]
    new_logs: SliceTask | None
    """The log files that make all the difference, if that is known: only their keys can have changed."""
    completions: tuple[tuple[str, str], ...]
    """Request and completion times of the writes in range."""
    last_completion: str
    """The last of them that touched these groups, for rows that do not say who wrote them."""
    others: tuple[ChangeTask, ...] = ()
    """Further groups of the same partition: a key that was deleted in one of them may have come back in another."""

    @property
    def units(self) -> tuple[ChangeTask, ...]:
        """Itself alone, and each of the others."""
        return (replace(self, others=()), *self.others) if self.others else (self,)

    @property
    def likeness(self) -> Hashable | None:
        """Equal for units of different buckets that may be compared together; None for those that are compared alone."""
        if self.others or self.new_logs is None or self.after[0].bucket is None:
            return None
        old, new = self.before[0], self.after[0]
        return new.partition, old.has_late_log, new.has_late_log, self.last_completion

    @property
    def size(self) -> int:
        """File bytes to read, at most about: of a base file that both states have little more than the keys is read."""
        if self.others:
            return sum(unit.size for unit in self.units)
        if self.new_logs is None:
            return sum(s.size for s in (*self.before, *self.after))
        base = self.after[0].base_size
        return self.after[0].size - base + base // 4

    @property
    def held_bytes(self) -> int:
        """What a comparison holds in memory, about."""
        return limits.SLICE_UNFOLDS * self.size


def changes_schema(plan: ReadPlan) -> pa.Schema:
    """The plan's columns, then what happened and when."""
    return pa.schema([*plan.output_schema, *CHANGE_FIELDS])


def read_changes(
    storage: Storage, plan: ReadPlan, task: ChangeTask, *, images: bool, kinds: bool = True
) -> Iterator[pa.Table]:
    """The changes of one unit, one row per key (two per update with images).

    Without `kinds` new and changed rows are upserts: then most base files need not be read.
    """
    whole, how = plan.of_columns(_compared_columns(plan)), ChangesWanted(images=images, kinds=kinds)
    found = _found(storage, whole, task, how)
    return _told(rejoined(found, whole, images=images) if task.others else found, plan, how)


def read_changes_together(
    storage: Storage, plan: ReadPlan, tasks: Sequence[ChangeTask], *, images: bool, kinds: bool = True
) -> Iterator[pa.Table]:
    """The changes of `batches`: merged and compared at once if they can be, which takes little more than one of them."""
    whole, how = plan.of_columns(_compared_columns(plan)), ChangesWanted(images=images, kinds=kinds)
    states = None
    if len(tasks) > 1:
        with suppress(CorruptFile):  # each for itself says which file that is
            states = _same_base(storage, whole, tasks, how)
    if states is not None:
        yield from _told(_compared(*states, whole, tasks[0], images=images), plan, how)
        return
    for task in tasks:
        yield from read_changes(storage, plan, task, images=images, kinds=kinds)


def batches(tasks: Iterable[ChangeTask], plan: ReadPlan) -> list[list[ChangeTask]]:
    """Small units that may be compared together; all others alone."""
    found: list[list[ChangeTask]] = []
    open_ones: dict[Hashable, tuple[list[ChangeTask], set[int | None]]] = {}
    for task in tasks:
        likeness = None if plan.rules.groups else task.likeness
        batch, buckets = open_ones.get(likeness, ([], set()))
        bucket, size = task.after[0].bucket if task.after else None, sum(t.size for t in (task, *batch))
        if (
            likeness is None
            or not batch
            or bucket in buckets
            or len(batch) == limits.CHANGES_TOGETHER_MAX
            or size > limits.CHANGES_TOGETHER_BYTES
        ):
            found.append(batch := [])
            open_ones[likeness] = (batch, buckets := set())
        batch.append(task)
        buckets.add(bucket)
    return found


def _told(found: Iterable[Found], plan: ReadPlan, how: ChangesWanted) -> Iterator[pa.Table]:
    for kind, rows, times in found:
        if rows.num_rows:
            told = kind if how.kinds or kind == "delete" else "upsert"
            columns = [*rows.select(list(plan.columns)).columns, pa.repeat(told, rows.num_rows), times]
            yield pa.Table.from_arrays(columns, schema=changes_schema(plan))


def _found(storage: Storage, plan: ReadPlan, task: ChangeTask, how: ChangesWanted) -> Iterator[Found]:
    """The changes of each unit for itself."""
    for unit in task.units:
        states = _states(storage, plan, unit) if unit.new_logs is None else _same_base(storage, plan, [unit], how)
        if states is not None:
            yield from _compared(*states, plan, unit, images=how.images)


def rejoined(found: Iterable[Found], plan: ReadPlan, *, images: bool) -> Iterator[Found]:
    """The changes of several file groups: what went away in one and came in another is one row that changed, or did not.

    Told as two, a reader that applies them in the wrong order would lose the row.
    """
    inserts, deletes = [], []
    for kind, rows, times in found:
        match kind:
            case "insert":
                inserts.append(rows.append_column(COMPLETION, times))
            case "delete":
                deletes.append(rows.append_column(COMPLETION, times))
            case _:
                yield kind, rows, times
    if not inserts:
        return
    came, went = (pa.concat_tables(tables).combine_chunks() for tables in (inserts, deletes))
    came_keys, went_keys = row_keys(came, plan.rules), row_keys(went, plan.rules)
    at = pc.index_in(came_keys, value_set=went_keys)
    stayed = went.filter(pc.invert(pc.is_in(went_keys, value_set=came_keys)))
    yield _timed("insert", came.filter(at.is_null()))
    yield _timed("delete", stayed)
    new, old = came.filter(at.is_valid()), went.take(at.drop_null())
    differs = pa.array(differing(old.drop_columns(COMPLETION), new.drop_columns(COMPLETION)))
    times = new.filter(differs).column(COMPLETION)
    if images:
        yield "update_preimage", old.filter(differs).drop_columns(COMPLETION), times
    yield "update_postimage" if images else "update", new.filter(differs).drop_columns(COMPLETION), times


def _timed(kind: str, rows: pa.Table) -> Found:
    return kind, rows.drop_columns(COMPLETION), rows.column(COMPLETION)


def _states(storage: Storage, plan: ReadPlan, task: ChangeTask) -> tuple[pa.Table, pa.Table]:
    """All rows before and after."""
    before, after = (
        [rows for s in side for rows in read_slice(storage, plan, s)] for side in (task.before, task.after)
    )
    return _one_table(before, plan), _one_table(after, plan)


def _same_base(
    storage: Storage, plan: ReadPlan, units: Sequence[ChangeTask], how: ChangesWanted
) -> tuple[pa.Table, pa.Table] | None:
    """The rows before and after of the keys in the new logs: both states have the same base files, and most of their logs.

    None if nothing is new, or several units cannot be looked at together.
    """
    old, new = units[0].before[0], units[0].after[0]
    schema = plan.read_schema((*plan.columns, *plan.rules.key_columns), new)
    known = Known()
    bases = map_calls(storage, lambda unit: _fetched(storage, plan, unit.after[0], known), units)
    if len(units) > 1 and any(base is not None and base.has_ranks for base in bases):
        return None
    logs = [Logs(unit.before[0], unit.after[0], unit.new_logs or unit.after[0]) for unit in units]
    layers = load_layers(storage, plan, logs, schema, known)
    if layers is None or not len(layers.keys):
        return None
    beneath = list(rows_beneath(bases, plan, [unit.after[0] for unit in units], schema, layers, how))
    if len(units) > 1 and beneath:
        beneath = [pa.concat_tables(beneath).combine_chunks()]
    sides = ((layers.earlier, old), (layers.later, new))
    before, after = (merge_slice(beneath, versions, plan, side) for versions, side in sides)
    return _one_table(before, plan), _one_table(after, plan)


def _fetched(storage: Storage, plan: ReadPlan, task: SliceTask, known: Known) -> OpenBase | None:
    """The base file of a slice, if it has one; on an object store its logs are read at the same time, if they are small enough to stay."""
    is_ahead = calls_at_once(storage) > 1 and task.size - task.base_size <= limits.KEPT_BLOCK_BYTES_MAX
    logs = [lambda: ordered_blocks(storage, plan, task, known)] if is_ahead else []
    base: OpenBase | None = together(storage, lambda: base_of(storage, task), *logs)[0]
    return base


def _one_table(tables: Iterable[pa.Table], plan: ReadPlan) -> pa.Table:
    found = list(tables)
    return pa.concat_tables(found).combine_chunks() if found else plan.output_schema.empty_table()


def _compared_columns(plan: ReadPlan) -> tuple[str, ...]:
    """All columns take part in the comparison, not only those the caller wants to see; of Hudi's own the key and who wrote."""
    needed = {*plan.columns, *plan.rules.key_columns, "_hoodie_commit_time"}
    return tuple(name for name in plan.schema.names if name not in META_COLUMNS or name in needed)


def _compared(before: pa.Table, after: pa.Table, plan: ReadPlan, task: ChangeTask, *, images: bool) -> Iterator[Found]:
    old_keys, new_keys = row_keys(before, plan.rules), row_keys(after, plan.rules)
    found = pc.index_in(new_keys, value_set=old_keys)
    is_known = np.asarray(found.is_valid())
    inserted = after.filter(pa.array(~is_known))
    yield "insert", inserted, _times(inserted, task)
    vanished = before.filter(pc.invert(pc.is_in(old_keys, value_set=new_keys)))
    yield "delete", vanished, pa.repeat(task.last_completion, vanished.num_rows)
    kept_new = after.filter(pa.array(is_known))
    kept_old = before.take(found.drop_null())
    differs = pa.array(differing(kept_old, kept_new))
    new, old = kept_new.filter(differs), kept_old.filter(differs)
    times = _times(new, task)
    if images:
        yield "update_preimage", old, times
    yield "update_postimage" if images else "update", new, times


def _times(rows: pa.Table, task: ChangeTask) -> pa.Array:
    """When the write that made each row completed."""
    at = rows.schema.get_field_index("_hoodie_commit_time")
    if at < 0:
        return pa.repeat(task.last_completion, rows.num_rows)
    request_times = pa.array([request_time for request_time, _ in task.completions], pa.string())
    completions = pa.array([done for _, done in task.completions], pa.string())
    found = pc.index_in(rows.column(at).combine_chunks(), value_set=request_times)
    return pc.fill_null(completions.take(found), task.last_completion)


def differing(old: pa.Table, new: pa.Table) -> Bools:
    """Row by row: whether any visible column differs; two nulls are equal, and so are two NaN."""
    differs = np.zeros(old.num_rows, np.bool_)
    for name in old.column_names:
        if differs.all():
            break  # there are no rows, or nothing is left to find out
        if name in META_COLUMNS:
            continue
        a, b = old.column(name).combine_chunks(), new.column(name).combine_chunks()
        if pa.types.is_nested(a.type):
            # Arrow compares no nested values; only rows not yet known to differ are worth the detour.
            rows: Ints = np.flatnonzero(~differs)
            index = pa.array(rows)
            pairs = zip(a.take(index), b.take(index), strict=True)
            differs[rows] = [not _is_same(x, y) for x, y in pairs]
        else:
            differs |= _flat_differs(a, b)
    return differs


def _is_same(a: pa.Scalar, b: pa.Scalar) -> bool:
    """Whether two values are equal, NaN inside of them included, which Arrow takes for different from itself."""
    if a.equals(b):
        return True
    if not (a.is_valid and b.is_valid):
        return False
    if pa.types.is_floating(a.type):
        return math.isnan(a.as_py()) and math.isnan(b.as_py())
    if pa.types.is_struct(a.type):
        return all(_is_same(a[at], b[at]) for at in range(a.type.num_fields))
    if pa.types.is_nested(a.type):  # the pairs of a map are structs
        return len(a.values) == len(b.values) and all(map(_is_same, a.values, b.values))
    return False


def _flat_differs(a: pa.Array, b: pa.Array) -> Bools:
    unequal: Bools = np.asarray(pc.fill_null(pc.not_equal(a, b), False))
    if pa.types.is_floating(a.type):
        unequal &= ~np.asarray(pc.fill_null(pc.and_(pc.is_nan(a), pc.is_nan(b)), False))
    one_null: Bools = np.asarray(a.is_null()) != np.asarray(b.is_null())
    return unequal | one_null

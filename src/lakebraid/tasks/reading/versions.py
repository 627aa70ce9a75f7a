# SPDX-License-Identifier: Apache-2.0
"""All row versions that the log files of one slice hold, in sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.format.damage import damaged
from lakebraid.format.log.delete_list import DeletedKeys
from lakebraid.memory import check_held
from lakebraid.model.config import RECORD_KEY, PartialMode
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.merge_rules import KeyForm, MergeRules, marked_deleted
from lakebraid.model.ordering import Bools, Ints, OrderKeys, compare, order_keys
from lakebraid.model.schema.avro_text import states_skeletons
from lakebraid.model.schema.conform import conform, widen
from lakebraid.model.values.arrow_numpy import filled, flagged, take_rows, to_arrow, to_bools, to_ints
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.blocks import (
    Decoded,
    Known,
    OrderedBlock,
    decoded_together,
    kept_or_decoded,
    ordered_blocks,
)
from lakebraid.tasks.reading.ranks import OTHERS
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


@dataclass(frozen=True, slots=True)
class Versions:
    """Row versions in sequence: later rows come later in (request time, log version, token, position)."""

    keys: pa.Array
    rows: pa.Table
    """The columns of the plan's read schema; all null for deletes."""
    order: OrderKeys
    ordering: tuple[pa.Array, ...]
    """The ordering values themselves, also those of deletes, whose rows hold nothing."""
    deleted: Bools
    unconditional: Bools
    request_times: Ints
    present: dict[str, Bools] | None
    """For partial updates: whether a column's value counts, by row; None if all do. `OTHERS` stands for columns to come."""


Buried = Callable[[Versions, Ints], object]
"""Is told versions and which of them, by row, are deletes that nothing outranks."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The versions out of one block."""

    keys: pa.Array
    rows: pa.Table
    order: list[pa.Array]
    deleted: Bools
    unconditional: Bools
    present: dict[str, bool] | None


def load_versions(
    storage: Storage,
    plan: ReadPlan,
    task: SliceTask,
    schema: pa.Schema,
    keys: pa.Array | None = None,
    known: Known | None = None,
) -> Versions | None:
    """The versions in the slice's logs, with the columns of `schema`, of all keys or of `keys`; None if there are none.

    `known` is what was read before for the same columns and keys; what is new is added.
    """
    known = Known() if known is None else known
    blocks = counted_blocks(storage, plan, task, known)
    decoded = [found for found in decoded_blocks(blocks, plan, schema, keys, known) if len(found[0].rows)]
    versions = join_decoded(decoded, plan.rules, schema)
    return versions if versions is None or keys is None else _only_keys(versions, keys)


def counted_blocks(storage: Storage, plan: ReadPlan, task: SliceTask, known: Known) -> list[OrderedBlock]:
    """The blocks of the slice's logs whose versions count, in sequence."""
    # The partial rows after skeletons say the same, and do not hide what others wrote in the meantime.
    found = ordered_blocks(storage, plan, task, known)
    return [block for block in found if not states_skeletons(block.block.schema_text)]


def decoded_blocks(
    blocks: list[OrderedBlock], plan: ReadPlan, schema: pa.Schema, keys: pa.Array | None, known: Known
) -> Iterator[tuple[Decoded, int]]:
    """What each block holds, and the time at which it ranks."""
    held = 0
    known.decoded.update(decoded_together([block for block in blocks if block.where not in known.decoded]))
    for block in blocks:
        found = known.decoded.get(block.where) or kept_or_decoded(block, plan.rules, schema, keys)
        known.decoded[block.where] = found
        held += found.rows.nbytes if isinstance(found.rows, pa.Table) else 0
        check_held(2 * held, f"Merging the logs from {blocks[0].where} on")  # they are put together twice
        yield found, int(block.request_time)


def join_decoded(decoded: Iterable[tuple[Decoded, int]], rules: MergeRules, schema: pa.Schema) -> Versions | None:
    """The versions in blocks that stand in sequence, each with the time at which it ranks; None if there are none."""
    # Neighbours of one kind and schema are handled at once: a slice may have very many small blocks.
    parts, times = [], []
    for _, group in groupby(decoded, key=lambda pair: pair[0].likeness):
        members = list(group)
        parts.append(_part([found for found, _ in members], rules, schema))
        times.append(np.repeat([time for _, time in members], [len(found.rows) for found, _ in members]))
    return _joined(parts, times, rules, schema) if parts else None


def _only_keys(versions: Versions, keys: pa.Array) -> Versions | None:
    """The versions of these keys alone."""
    rows = np.flatnonzero(to_bools(pc.is_in(versions.keys, value_set=keys)))
    return take(versions, rows) if len(rows) else None


def take(versions: Versions, rows: Ints) -> Versions:
    """These rows of the versions, which must stay in sequence."""
    index = to_arrow(rows)
    present = versions.present
    # Columns that the same versions name go on sharing one array.
    taken = {id(flags): flags[rows] for flags in (present or {}).values()}
    return Versions(
        keys=versions.keys.take(index),
        rows=take_rows(versions.rows, rows),
        order=versions.order.take(rows),
        ordering=tuple(values.take(index) for values in versions.ordering),
        deleted=versions.deleted[rows],
        unconditional=versions.unconditional[rows],
        request_times=versions.request_times[rows],
        present=None if present is None else {name: taken[id(flags)] for name, flags in present.items()},
    )


def _part(found: list[Decoded], rules: MergeRules, schema: pa.Schema) -> _Part:
    """The versions out of blocks that are alike."""
    where, is_partial = found[0].where, found[0].is_partial
    if isinstance(found[0].rows, DeletedKeys):
        return _deletes(found[0].rows, rules, schema, where)
    rows = pa.concat_tables([f.rows for f in found])
    own_names = set(rows.column_names)
    conformed = conform(rows, schema, where).combine_chunks()
    part = _Part(
        keys=_block_keys(rows, conformed, rules),
        rows=conformed,
        order=[_one(conformed.column(c)) for c in rules.order_columns],
        deleted=marked_deleted(conformed, rules),
        unconditional=np.zeros(len(rows), np.bool_),
        present={n: n in own_names for n in schema.names} if is_partial else None,
    )
    if part.keys.null_count:
        raise damaged(f"One of the log blocks from {where} on", "a row of it has no record key")
    return part


def _block_keys(rows: pa.Table, conformed: pa.Table, rules: MergeRules) -> pa.Array:
    """The keys of a block's rows; a partial block may lack the key column, but always has the key's text."""
    if rules.key_form is KeyForm.COLUMN and rules.key_columns[0] not in rows.column_names:
        kind = conformed.schema.field(rules.key_columns[0]).type
        if RECORD_KEY not in rows.column_names:
            return pa.nulls(rows.num_rows, kind)
        return _one(widen(rows.column(RECORD_KEY), kind, "a record key"))
    return row_keys(conformed, rules)


def _deletes(gone: DeletedKeys, rules: MergeRules, schema: pa.Schema, where: str) -> _Part:
    count = len(gone.record_keys)
    rows = pa.Table.from_arrays([pa.nulls(count, f.type) for f in schema], schema=schema)
    unconditional = np.asarray(gone.unconditional)
    order = [pa.nulls(count, schema.field(c).type) for c in rules.order_columns]
    if gone.ordering is not None and len(gone.ordering) == len(order):
        order = [ordering_like(v, o.type, where) for v, o in zip(gone.ordering, order, strict=True)]
    keys = gone.record_keys
    if rules.key_form is KeyForm.COLUMN:
        keys = widen(keys, schema.field(rules.key_columns[0]).type, f"a deleted key in {where}")
    return _Part(keys, rows, order, np.ones(count, np.bool_), unconditional, None)


def row_keys(rows: pa.Table, rules: MergeRules) -> pa.Array:
    """The keys of data rows, as the rules read them."""
    if rules.key_form is KeyForm.RENDERED:
        return record_keys(rows, rules.key_columns, rules.complex_keys)
    return _one(rows.column(rules.key_columns[0]))


def outranks(
    versions: Versions, log_rows: Ints, base: pa.Table, base_rows: Ints, rules: MergeRules, *, late: bool
) -> Bools:
    """Pair by pair: whether the logs' best version of a key ranks above its row in the base file.

    A delete without ordering value, if it is still the best, ranks above whatever is older.
    """
    own = order_keys([base.column(c) for c in rules.order_columns], base.num_rows).take(base_rows)
    greater, equal = compare(versions.order.take(log_rows), own)
    no_order = versions.unconditional[log_rows]
    base_times = request_times(base, base_rows) if late else np.zeros(len(base_rows), np.int64)
    newer = versions.request_times[log_rows] >= base_times  # of one write the log file is the later
    return (greater & ~no_order) | ((equal | no_order) & newer)


def request_times(batch: pa.Table, rows: Ints) -> Ints:
    """The request times of base rows; 0, before everything, where a table keeps none."""
    at = batch.schema.get_field_index("_hoodie_commit_time")
    if at < 0:
        return np.zeros(len(rows), np.int64)
    texts = batch.column(at).combine_chunks().take(to_arrow(rows))
    numbers = widen(texts, pa.int64(), "_hoodie_commit_time of a base file")
    return to_ints(filled(numbers, 0))


def ordering_like(values: pa.Array, target: pa.DataType, where: str) -> pa.Array:
    """A delete's ordering values in the type of the ordering column; times may come as plain numbers of micros."""
    if pa.types.is_timestamp(target) and pa.types.is_integer(values.type):
        return values.cast(pa.int64()).cast(pa.timestamp("us", tz=target.tz)).cast(target)
    if pa.types.is_date32(target) and pa.types.is_integer(values.type):
        return values.cast(pa.int32()).cast(target)
    return widen(values, target, f"a delete's ordering value in {where}")


def _joined(parts: list[_Part], times: list[Ints], rules: MergeRules, schema: pa.Schema) -> Versions:
    rows = pa.concat_tables([p.rows for p in parts]).combine_chunks()
    order = [pa.concat_arrays([p.order[i] for p in parts]) for i in range(len(rules.order_columns))]
    return Versions(
        keys=pa.concat_arrays([_one(p.keys) for p in parts]),
        rows=rows,
        order=order_keys(order, len(rows)),
        ordering=tuple(order),
        deleted=np.concatenate([p.deleted for p in parts]),
        unconditional=np.concatenate([p.unconditional for p in parts]),
        request_times=np.concatenate(times),
        present=_present(parts, rows, rules, schema),
    )


def _present(parts: list[_Part], rows: pa.Table, rules: MergeRules, schema: pa.Schema) -> dict[str, Bools] | None:
    if rules.partial_mode is PartialMode.NONE and all(p.present is None for p in parts):
        return None
    present = {}
    alike: dict[tuple[bool, ...], Bools] = {}
    for name in schema.names:
        by_block = tuple(p.present is None or p.present[name] for p in parts)
        if by_block not in alike:
            alike[by_block] = np.repeat(by_block, [len(p.keys) for p in parts])
        # Columns that the same blocks name share one array, and are merged together.
        by_value = rules.partial_mode is not PartialMode.NONE
        present[name] = alike[by_block] & counts(rows.column(name), rules) if by_value else alike[by_block]
    are_whole = tuple(p.present is None for p in parts)
    present[OTHERS] = alike.get(are_whole, np.repeat(are_whole, [len(p.keys) for p in parts]))
    return present


def counts(column: pa.ChunkedArray, rules: MergeRules) -> Bools:
    """Which values of full rows count, by the table's partial update mode: the others mean 'keep what was there'."""
    if rules.partial_mode is PartialMode.IGNORE_DEFAULTS:
        return ~flagged(pc.is_null(column))
    if rules.partial_mode is PartialMode.FILL_UNAVAILABLE and rules.unavailable_value is not None:
        if pa.types.is_string(column.type):
            return ~flagged(pc.equal(column, rules.unavailable_value))
        if pa.types.is_binary(column.type):
            return ~flagged(pc.equal(column, rules.unavailable_value.encode()))
    return np.ones(len(column), np.bool_)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column

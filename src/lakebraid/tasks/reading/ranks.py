# SPDX-License-Identifier: Apache-2.0
"""Ranks of values, row by row, and how a base file keeps those that are not the rank of the row.

A row in a base file tells one ordering value and one commit time: those of its newest version. After partial updates some
of its values come from older versions. A later write of such a column must be compared with the version that brought
the value, not with the row; so base files keep these ranks in a column of their own, which is in no table schema and
which Apache Hudi's readers therefore pass over. Each row has a list: which columns, the request time of their version
(`NEVER` if no version has named them), and its ordering values. `OTHERS` among the columns stands for those that the
table has got since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import CorruptFile
from lakebraid.format.damage import damaged
from lakebraid.model.merge_rules import MergeRules
from lakebraid.model.ordering import Bools, Ints, OrderKeys, compare, order_keys
from lakebraid.model.schema.conform import widen
from lakebraid.model.values.arrow_numpy import filled, to_arrow, to_ints, to_mask

RANKS: Final = "_lakebraid_ranks"
NEVER: Final = -1
OTHERS: Final = "*"


@dataclass(frozen=True, slots=True)
class Ranks:
    """How high values rank, one entry for each row."""

    order: OrderKeys
    values: tuple[pa.Array, ...]
    """The ordering values as they lie in files; `order` has them in a form that can be compared."""
    times: Ints
    known: Bools
    """Whether there is a value at all: what no version has named ranks below everything."""

    def take(self, rows: Ints) -> Ranks:
        index = to_arrow(rows)
        values = tuple(v.take(index) for v in self.values)
        return Ranks(self.order.take(rows), values, self.times[rows], self.known[rows])

    def then(self, other: Ranks) -> Ranks:
        """These rows followed by the other's."""
        return Ranks(
            self.order.then(other.order),
            tuple(pa.concat_arrays([a, b]) for a, b in zip(self.values, other.values, strict=True)),
            np.concatenate([self.times, other.times]),
            np.concatenate([self.known, other.known]),
        )


def ranks_of(values: Sequence[pa.Array | pa.ChunkedArray], times: Ints) -> Ranks:
    """The ranks of versions with these ordering values and request times."""
    own = tuple(v.combine_chunks() if isinstance(v, pa.ChunkedArray) else v for v in values)
    return Ranks(order_keys(own, len(times)), own, times, np.ones(len(times), np.bool_))


def is_above(upper: Ranks, lower: Ranks, *, late: bool) -> Bools:
    """Row by row: whether what a log brings ranks above what lies in the base file.

    Of equal ordering values the later request time wins, and of one write the log file. Unless `late`, every log began
    after all rows of the base file.
    """
    greater, equal = compare(upper.order, lower.order)
    newer = upper.times >= lower.times if late else np.ones(len(upper.times), np.bool_)
    return greater | (equal & newer) | ~lower.known


@dataclass(frozen=True, slots=True)
class KeptRanks:
    """What a base file keeps of some rows: the rank of their values in these columns."""

    columns: frozenset[str]
    rows: Ints
    order_names: tuple[str, ...]
    order: tuple[pa.Array, ...]
    times: Ints

    def over(self, own: Ranks, clock: tuple[str, ...]) -> Ranks:
        """The ranks of all rows, `own` where nothing else is kept; `clock` are the columns that order them."""
        by_name = dict(zip(self.order_names, self.order, strict=True))
        kept = ranks_of([by_name[name] for name in clock], self.times)
        kept = Ranks(kept.order, kept.values, kept.times, self.times != NEVER)
        places = np.arange(len(own.times))
        places[self.rows] = len(own.times) + np.arange(len(self.rows))
        return own.then(kept).take(places)


def ranks_type(rules: MergeRules, schema: pa.Schema) -> pa.DataType:
    """The type of the column in which base files keep ranks."""
    order = [pa.field(name, schema.field(name).type) for name in rules.every_order_column]
    entry = [pa.field("columns", pa.string()), pa.field("time", pa.int64())]
    return pa.list_(pa.struct([*entry, *([pa.field("order", pa.struct(order))] if order else [])]))


def without_ranks(rows: pa.Table) -> pa.Table:
    """The rows as the table has them."""
    return rows.drop_columns(RANKS) if RANKS in rows.column_names else rows


def with_column(rows: pa.Table, kind: pa.DataType) -> pa.Table:
    """The rows with a column of kept ranks: what they have, or nothing."""
    if RANKS in rows.column_names:
        return rows
    return rows.append_column(pa.field(RANKS, kind), pa.nulls(rows.num_rows, kind))


def with_ranks_of(rows: pa.Table, stored: pa.Table) -> pa.Table:
    """The rows with the column of kept ranks that the same rows have in `stored`, if they have one.

    Columns that `stored` lacks are those that the table got later.
    """
    if RANKS not in stored.column_names:
        return rows
    kept, known = stored.column(RANKS), {*stored.column_names}
    later = [name for name in rows.column_names if name not in known]
    return rows.append_column(RANKS, _of_later_columns(kept, later) if later else kept)


def _of_later_columns(kept: pa.ChunkedArray, later: list[str]) -> pa.Array:
    """The same ranks; what is said of other columns is said of these."""
    column = kept.combine_chunks()
    entries = pc.list_flatten(column)
    if not pa.types.is_struct(entries.type) or entries.type.get_field_index("columns") < 0:
        raise _broken(f"it has the type {kept.type!s:.200}")
    fields = [*entries.type]
    texts = pc.replace_substring(entries.field("columns"), OTHERS, ",".join([OTHERS, *later]))
    parts = [texts if f.name == "columns" else entries.field(f.name) for f in fields]
    lengths = to_ints(filled(pc.list_value_length(column), 0))
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(parts, fields=fields), type=column.type)


def kept_ranks(batch: pa.Table, rules: MergeRules) -> list[KeptRanks]:
    """What the rows of a base file say of their older values; CorruptFile if that cannot be."""
    if RANKS not in batch.column_names:
        return []
    column = batch.column(RANKS).combine_chunks()
    kind = ranks_type(rules, batch.schema)
    if column.type != kind:
        column = widen(column, kind, f"the column {RANKS} of a base file")
    parents, entries = to_ints(pc.list_parent_indices(column)), pc.list_flatten(column)
    if not len(entries):
        return []
    if entries.null_count or entries.field("columns").null_count or entries.field("time").null_count:
        raise _broken("an entry of it is null")
    return list(_kept(entries, parents, rules.every_order_column))


def _kept(entries: pa.StructArray, parents: Ints, names: tuple[str, ...]) -> Iterator[KeptRanks]:
    texts = entries.field("columns").dictionary_encode()
    codes, times = to_ints(texts.indices), to_ints(entries.field("time"))
    order = entries.field("order").flatten() if names else []
    for code, text in enumerate(texts.dictionary.to_pylist()):
        at = np.flatnonzero(codes == code)
        index = to_arrow(at)
        yield KeptRanks(frozenset(text.split(",")), parents[at], names, tuple(o.take(index) for o in order), times[at])


def _broken(why: str) -> CorruptFile:
    return damaged(f"The column {RANKS} of a base file", why)


@dataclass(frozen=True, slots=True)
class Noted:
    """Ranks to keep, of the values of some rows in some columns."""

    columns: tuple[str, ...]
    rows: Ints
    clock: tuple[str, ...]
    ranks: Ranks
    """Of those rows."""


def format_ranks(noted: Sequence[Noted], count: int, kind: pa.DataType) -> pa.Array:
    """The column that keeps these ranks, for `count` rows."""
    parts = [note for note in noted if len(note.rows)]
    if not parts:
        return pa.nulls(count, kind)
    rows = np.concatenate([note.rows for note in parts])
    by_row = np.argsort(rows, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    entries = pa.concat_arrays([_entries(note, kind.value_type) for note in parts]).take(to_arrow(by_row))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries, type=kind)


def _entries(note: Noted, kind: pa.StructType) -> pa.StructArray:
    count, ranks = len(note.rows), note.ranks
    columns: list[Any] = [
        pa.repeat(",".join(sorted(note.columns)), count),
        to_arrow(np.where(ranks.known, ranks.times, NEVER)),
    ]
    if kind.get_field_index("order") >= 0:
        fields = kind.field("order").type
        own = dict(zip(note.clock, ranks.values, strict=True))
        nothing = to_mask(~ranks.known)
        orders = [
            pc.if_else(nothing, pa.scalar(None, f.type), own[f.name]) if f.name in own else pa.nulls(count, f.type)
            for f in fields
        ]
        columns.append(pa.StructArray.from_arrays(orders, fields=list(fields)))
    return pa.StructArray.from_arrays(columns, fields=list(kind))

# SPDX-License-Identifier: Apache-2.0
"""The rows of a placed write, all of them together, in the sequence in which they came: what its file groups merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.config import META_COLUMNS, RECORD_KEY
from lakebraid.model.incoming import prepare
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.keys.partitions import partition_paths
from lakebraid.model.merge_rules import MergeRules, marked_deleted, merge_rules
from lakebraid.model.ordering import Bools, Ints, order_keys
from lakebraid.model.schema.conform import with_meta
from lakebraid.model.values.arrow_numpy import take_rows
from lakebraid.tasks.reading.ranks import OTHERS
from lakebraid.tasks.reading.versions import Versions, row_keys
from lakebraid.tasks.writing.rows import WritePlan


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows that came together."""

    operation: str
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Rows and deletes in sequence; of equal ones the later wins."""

    rows: pa.Table
    """With Hudi's five columns first; of a delete only the columns that it needs."""
    rules: MergeRules
    deleted: Bools
    unconditional: Bools
    """Deletes that came without ordering values."""
    present: frozenset[str] | None
    """The columns that a partial update brings; None if all are."""
    identity: tuple[str, ...]
    """The columns of keys and partitions."""
    pieces: tuple[Piece, ...]
    """The same rows as they came, with the columns that they have."""

    @property
    def keys(self) -> pa.Array:
        """The keys' texts."""
        return self.rows.column(RECORD_KEY).combine_chunks()

    @property
    def partitions(self) -> pa.Array:
        return self.rows.column("_hoodie_partition_path").combine_chunks()

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def only(self, at: Ints) -> RowChanges:
        """Those at these places, which rise."""
        ends = np.cumsum([0, *(piece.rows.num_rows for piece in self.pieces)])
        cuts = np.searchsorted(at, ends)
        pieces = [
            Piece(piece.operation, take_rows(piece.rows, at[first:last] - start))
            for piece, start, first, last in zip(self.pieces, ends[:-1], cuts[:-1], cuts[1:], strict=True)
        ]
        return replace(
            self,
            rows=take_rows(self.rows, at),
            deleted=self.deleted[at],
            unconditional=self.unconditional[at],
            pieces=tuple(pieces),
        )

    def with_deletes(self, at: Ints) -> RowChanges:
        """The same, and behind them deletes of the keys at these places, whatever the ordering value of their rows."""
        gone = np.ones(len(at), np.bool_)
        identity = [name for name in self.identity if name in self.rows.column_names]
        rows = take_rows(self.rows, at)
        return replace(
            self,
            rows=pa.concat_tables([self.rows, rows]),
            deleted=np.concatenate([self.deleted, gone]),
            unconditional=np.concatenate([self.unconditional, gone]),
            pieces=(*self.pieces, Piece("delete", rows.select(identity))),
        )

    def versions(self, at: Ints, request_time: str) -> Versions:
        """Those at these places, as a merge takes them."""
        rows = take_rows(self.rows, at).combine_chunks()
        ordering = tuple(rows.column(name).combine_chunks() for name in self.rules.order_columns)
        present = None
        if self.present is not None:
            named, others = np.ones(len(at), np.bool_), self.deleted[at]
            present = {n: named if n in self.present else others for n in (*rows.column_names, OTHERS)}
        return Versions(
            keys=row_keys(rows, self.rules),
            rows=rows,
            order=order_keys(list(ordering), len(at)),
            ordering=ordering,
            deleted=self.deleted[at],
            unconditional=self.unconditional[at],
            request_times=np.full(len(at), int(request_time), np.int64),
            present=present,
        )


def gather(plan: WritePlan, pieces: Sequence[Piece], task: int) -> RowChanges:
    """All rows of a write with the columns that it has in the end; InvalidArgument if one does not fit."""
    rules = merge_rules(plan.config, plan.schema)
    parts = [_part(plan, piece, rules) for piece in pieces]
    rows = pa.concat_tables([part[0] for part in parts])
    texts = pc.cast(pa.array(np.arange(rows.num_rows)), pa.string())
    numbers = pc.binary_join_element_wise(f"{plan.request_time}_{task}_", texts, "")
    rows = rows.set_column(1, rows.schema.field(1), numbers)
    return RowChanges(
        rows,
        rules,
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
        None if plan.columns is None else frozenset((*META_COLUMNS, *plan.columns)),
        tuple(dict.fromkeys(f.split(".")[0] for f in (*plan.config.record_keys, *plan.config.partition_fields))),
        tuple(pieces),
    )


def _part(plan: WritePlan, piece: Piece, rules: MergeRules) -> tuple[pa.Table, Bools, Bools]:
    config = plan.config
    ready = prepare(piece.rows, plan.schema, config, operation=piece.operation, columns=plan.columns)
    count = ready.num_rows
    keys = record_keys(ready, config.record_keys, config.has_complex_keys)
    paths = partition_paths(ready, config.partition_fields, config.hive_style, config.url_encode)
    given = {*ready.column_names}
    meta = [
        pa.repeat(plan.request_time, count),
        pa.nulls(count, pa.string()),
        keys,
        paths,
        pa.nulls(count, pa.string()),
    ]
    values = [ready.column(f.name) if f.name in given else pa.nulls(count, f.type) for f in plan.schema]
    stored = with_meta(plan.schema)
    rows = pa.Table.from_arrays([*meta, *values], schema=stored)
    is_delete = piece.operation == "delete"
    deleted = np.ones(count, np.bool_) if is_delete else marked_deleted(ready, merge_rules(config, ready.schema))
    has_order = {*rules.order_columns} <= given
    return rows, deleted, np.full(count, is_delete and not has_order, np.bool_)

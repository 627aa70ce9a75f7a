# SPDX-License-Identifier: Apache-2.0
"""Merging column by column: a version may bring only some columns, and absent is not NULL.

Of each column the value with the highest rank wins, among the versions that name the column. A delete takes every value
that ranks below it; one without ordering value takes whatever began before it. A row is there if one of its versions
lives. This is a join: it does not matter in which order versions come, how often, or which of them were merged before
(docs/decisions/0022-columns-by-event-time.md). For that a base file keeps the ranks of values that are older than
their row (`tasks.reading.ranks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.config import PartialMode
from lakebraid.model.merge_rules import MergeRules
from lakebraid.model.ordering import Bools, Ints, OrderKeys, compare, ranks
from lakebraid.model.values.arrow_numpy import take_rows, to_bools, to_ints, to_mask
from lakebraid.tasks.reading.ranks import (
    NEVER,
    OTHERS,
    RANKS,
    KeptRanks,
    Noted,
    Ranks,
    format_ranks,
    is_above,
    kept_ranks,
    ranks_of,
    ranks_type,
    with_column,
    without_ranks,
)
from lakebraid.tasks.reading.versions import Buried, Versions, counts, request_times, row_keys

_COMMIT_TIME = "_hoodie_commit_time"


@dataclass(slots=True)
class Keeping:
    """That a merge gives the ranks of older values along with its rows, and what it has to tell besides."""

    oldest_open: str = ""
    """When the oldest write began that may still be published; empty if there is none. A value that is newer than it
    may yet meet an older one, so that its request time counts.
    """
    has_outrun: bool = False
    """Set by the merge if a version that began after that write lost to one that began earlier: if the open write is a
    delete without ordering value, it takes the winner, and the loser would have to be there.
    """

    @classmethod
    def of(cls, rules: MergeRules, oldest_open: str = "") -> Keeping | None:
        """For a table in which values of one row can be of different age and order; None for others."""
        return cls(oldest_open) if rules.every_order_column else None

    @property
    def since(self) -> int:
        return int(self.oldest_open or np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class _Lot:
    """Columns whose values always come from the same version: named by the same ones, and ordered alike.

    `OTHERS` among them stands for columns that the table may get later: whole rows name them as well.
    """

    columns: tuple[str, ...]
    clock: tuple[str, ...]
    naming: Ints
    """The live versions that name them, in sequence."""
    supplier: Ints
    """Of each key the one of these with the highest rank; -1 for none."""
    ranks: Ranks
    """Of all versions, by the lot's clock."""


@dataclass(frozen=True, slots=True)
class _Logs:
    """What the logs say of each key, by its place in `keys`; -1 stands for none."""

    versions: Versions
    rules: MergeRules
    keys: pa.Array
    codes: Ints
    ranks: Ranks
    places: Ints
    """Of each version, by that rank."""
    lives: Bools
    """Which versions no delete takes."""
    top: Ints
    """The live version with the highest rank."""
    line: Ints
    """The delete with the highest rank: what lies below it is gone."""
    cut: Ints
    """The last delete without ordering value: what began before it is gone."""

    def takes(self, below: Ranks, at: Ints, *, late: bool) -> Bools:
        """Row by row: whether a delete of the key takes a value of the base file with that rank."""
        gone = np.zeros(len(at), np.bool_)
        has_same_clock = len(below.order.fields) == len(self.rules.order_columns)
        for found, with_order in ((self.line[at], has_same_clock), (self.cut[at], False)):
            rows = np.flatnonzero(found >= 0)
            deletes, own = self.ranks.take(found[rows]), below.take(rows)
            if with_order:
                gone[rows] |= is_above(deletes, own, late=late)
            else:
                gone[rows] |= (deletes.times >= own.times) if late else True
        return gone


def merge_columns(
    base: Iterable[pa.Table],
    versions: Versions,
    rules: MergeRules,
    *,
    late: bool,
    buried: Buried | None = None,
    keeping: Keeping | None = None,
) -> Iterator[pa.Table]:
    """As `merge.merge`; the batches of `base` may have the column of kept ranks, and with `keeping` what is given has it."""
    logs = _logs(versions, rules)
    lots = _lots(logs, (*versions.rows.column_names, *(() if keeping is None else (OTHERS,))))
    kind = ranks_type(rules, versions.rows.schema)
    settled = logs.top >= 0
    unmatched = np.ones(len(logs.keys), np.bool_)
    for batch in base:
        found = pc.index_in(row_keys(batch, rules), value_set=logs.keys)
        is_matched = to_bools(found.is_valid())
        yield _as_asked(batch.filter(to_mask(~is_matched)) if is_matched.any() else batch, kind, keeping)
        if is_matched.any():
            at = to_ints(found.drop_null())
            unmatched[at] = False
            own = _Own(batch.filter(to_mask(is_matched)), at, late, keeping)
            rows, lives = _over_base(own, logs, lots)
            settled[at[lives]] = True
            yield rows
    if buried is not None:
        graves = np.where(logs.line >= 0, logs.line, logs.cut)[~settled]
        buried(versions, graves[graves >= 0])
    yield _alone(np.flatnonzero(unmatched & (logs.top >= 0)), logs, lots, keeping)


@dataclass(frozen=True, slots=True)
class _Own:
    """Rows of the base file whose keys the logs have, and where these stand in `_Logs.keys`."""

    rows: pa.Table
    at: Ints
    late: bool
    keeping: Keeping | None


def _logs(versions: Versions, rules: MergeRules) -> _Logs:
    encoded = versions.keys.dictionary_encode()
    codes, count = to_ints(encoded.indices), len(encoded.dictionary)
    times = versions.request_times
    own = Ranks(versions.order, versions.ordering, times, np.ones(len(times), np.bool_))
    rank, sequence = _places(versions.order), np.arange(len(codes))
    without_order = versions.unconditional & bool(rules.order_columns)
    cut = _last(np.flatnonzero(without_order), sequence, codes, count)
    stays = sequence >= cut[codes]
    line = _last(np.flatnonzero(stays & versions.deleted & ~without_order), rank, codes, count)
    lives = stays & ~versions.deleted & ((line[codes] < 0) | (rank > rank[line[codes]]))
    top = _last(np.flatnonzero(lives), rank, codes, count)
    return _Logs(versions, rules, encoded.dictionary, codes, own, rank, lives, top, line, cut)


def _places(order: OrderKeys) -> Ints:
    """The place of each version in the one order of all: by ordering values, then in sequence."""
    columns = ranks(order)
    if not columns:
        return np.arange(order.length)
    places = np.empty(order.length, np.int64)
    places[np.lexsort(list(reversed(columns)))] = np.arange(order.length)  # lexsort is stable
    return places


def _last(rows: Ints, rank: Ints, codes: Ints, count: int) -> Ints:
    """Of each key the one of these rows with the highest rank; -1 for none."""
    best = np.full(count, -1, np.int64)
    rows = rows[np.argsort(rank[rows], kind="stable")]
    best[codes[rows]] = rows  # numpy keeps the last of equal indices
    return best


def _lots(logs: _Logs, names: Iterable[str]) -> list[_Lot]:
    versions, rules = logs.versions, logs.rules
    columns: dict[tuple[tuple[str, ...], int], list[str]] = {}
    for name in names:
        named = None if versions.present is None else versions.present[name]
        columns.setdefault((rules.clock(name), id(named)), []).append(name)
    return [_lot(logs, alike, clock) for (clock, _), alike in columns.items()]


def _lot(logs: _Logs, columns: list[str], clock: tuple[str, ...]) -> _Lot:
    versions, count = logs.versions, len(logs.keys)
    named = True if versions.present is None else versions.present[columns[0]]
    rows = np.flatnonzero(logs.lives & named)
    own, places = logs.ranks, logs.places
    if clock != logs.rules.order_columns:
        own = ranks_of([versions.rows.column(name) for name in clock], versions.request_times)
        places = _places(own.order)
    return _Lot(tuple(columns), clock, rows, _last(rows, places, logs.codes, count), own)


def _split(lots: Iterable[_Lot], kept: list[KeptRanks]) -> Iterator[tuple[_Lot, list[KeptRanks]]]:
    """The lots in parts of columns that the base file speaks of together, with what it says of each."""
    for lot in lots:
        parts: dict[tuple[int, ...], list[str]] = {}
        for name in lot.columns:
            parts.setdefault(tuple(n for n, said in enumerate(kept) if name in said.columns), []).append(name)
        for numbers, names in parts.items():
            yield replace(lot, columns=tuple(names)), [kept[n] for n in numbers]


def _over_base(own: _Own, logs: _Logs, lots: list[_Lot]) -> tuple[pa.Table, Bools]:
    """The rows of the keys after the merge, and which rows of the base file are still there."""
    rules, count, at = logs.rules, own.rows.num_rows, own.at
    kept = kept_ranks(own.rows, rules)
    base = without_ranks(own.rows)
    times = request_times(base, np.arange(count))
    row_ranks = ranks_of([base.column(name) for name in rules.order_columns], times)
    stays = ~logs.takes(row_ranks, at, late=own.late)
    lives = np.flatnonzero(stays | (logs.top[at] >= 0))
    on_top = _on_top(row_ranks, stays, own, logs)
    rows = pa.concat_tables([base, logs.versions.rows, _nothing(base.schema)])
    columns: dict[str, pa.ChunkedArray] = {}
    winners: list[tuple[_Lot, Ranks]] = []
    for lot, said in _split(lots, kept):
        is_rows_own = not said and lot.clock == rules.order_columns
        below = row_ranks if is_rows_own else _base_ranks(base, lot, times, said, rules)
        supplier = lot.supplier[at]
        has = stays if is_rows_own else below.known & ~logs.takes(below, at, late=own.late)
        has = has & _counted(base, lot, rules)
        upper = lot.ranks.take(np.maximum(supplier, 0))
        wins = (supplier >= 0) & (~has | is_above(upper, below, late=own.late))
        places = np.where(wins, supplier + count, np.where(has, np.arange(count), on_top))[lives]
        columns |= _taken(rows, lot, np.where(places < 0, rows.num_rows - 1, places))
        if own.keeping is not None:
            found = _winning(below, upper, wins, has, at, logs, lot.clock)
            _watch(own.keeping, lot, at, found, logs)
            winners.append((lot, found.take(lives)))
    merged = pa.Table.from_arrays([columns[name] for name in base.column_names], schema=base.schema)
    return _with_ranks(merged, winners, rules, own.keeping), stays


def _nothing(schema: pa.Schema) -> pa.Table:
    """One row of nulls: what a column has that no version names."""
    return pa.Table.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)


def _taken(rows: pa.Table, lot: _Lot, places: Ints) -> dict[str, pa.ChunkedArray]:
    return {name: take_rows(rows.select([name]), places).column(0) for name in lot.columns if name != OTHERS}


def _watch(keeping: Keeping, lot: _Lot, at: Ints, found: Ranks, logs: _Logs) -> None:
    """Takes note of versions that are newer than the winner and than an open write."""
    newest = np.full(len(logs.keys), -1, np.int64)
    newest[logs.codes[lot.naming]] = lot.naming  # numpy keeps the last of equal indices
    newest = newest[at]
    times = np.where(newest >= 0, logs.versions.request_times[np.maximum(newest, 0)], NEVER)
    keeping.has_outrun |= bool(((times > keeping.since) & (times > found.times)).any())


def _on_top(row_ranks: Ranks, stays: Bools, own: _Own, logs: _Logs) -> Ints:
    """Where a value comes from that no version has: none, or what stands for "unchanged" in the newest version."""
    count = len(own.at)
    if logs.rules.partial_mode is PartialMode.NONE:
        return np.full(count, -1, np.int64)
    top = logs.top[own.at]
    upper = logs.ranks.take(np.maximum(top, 0))
    above = (top >= 0) & (~stays | is_above(upper, row_ranks, late=own.late))
    return np.where(above, top + count, np.arange(count))


def _base_ranks(base: pa.Table, lot: _Lot, times: Ints, said: list[KeptRanks], rules: MergeRules) -> Ranks:
    """The ranks of the base file's values in the columns of a lot: the row's own, or what is kept of them."""
    own = ranks_of([base.column(name) for name in lot.clock], times)
    if lot.clock != rules.order_columns:
        # A group of columns that no version has named yet.
        own = Ranks(own.order, own.values, own.times, to_bools(own.values[0].is_valid()))
    for kept in said:
        own = kept.over(own, lot.clock)
    return own


def _counted(base: pa.Table, lot: _Lot, rules: MergeRules) -> Bools:
    """Which values of the base file count, by the table's partial update mode: then each column is a lot of its own."""
    if rules.partial_mode is PartialMode.NONE or OTHERS in lot.columns:
        return np.ones(base.num_rows, np.bool_)
    return counts(base.column(lot.columns[0]), rules)


def _winning(
    below: Ranks, upper: Ranks, wins: Bools, has: Bools, at: Ints, logs: _Logs, clock: tuple[str, ...]
) -> Ranks:
    """The ranks of the merged values; that of the delete where it left none."""
    count = len(at)
    line = logs.line[at] if clock == logs.rules.order_columns else np.full(count, -1, np.int64)
    deletes = logs.ranks.take(np.maximum(line, 0)) if clock == logs.rules.order_columns else upper
    places = np.arange(count) + count * np.where(wins, 1, np.where(has, 0, 2))
    found = below.then(upper).then(deletes).take(places)
    return replace(found, known=wins | has | (line >= 0))


def _alone(keys: Ints, logs: _Logs, lots: list[_Lot], keeping: Keeping | None) -> pa.Table:
    """The rows of keys that the base file does not have."""
    columns: dict[str, pa.ChunkedArray] = {}
    winners: list[tuple[_Lot, Ranks]] = []
    rows = logs.versions.rows
    for lot in lots:
        supplier = lot.supplier[keys]
        # What no version names is null, or the mark for "unchanged" that the newest one holds.
        columns |= _taken(rows, lot, np.where(supplier >= 0, supplier, logs.top[keys]))
        if keeping is not None:
            nothing = np.zeros(len(keys), np.bool_)
            upper = lot.ranks.take(np.maximum(supplier, 0))
            found = _winning(upper, upper, supplier >= 0, nothing, keys, logs, lot.clock)
            _watch(keeping, lot, keys, found, logs)
            winners.append((lot, found))
    merged = pa.Table.from_arrays([columns[name] for name in rows.column_names], schema=rows.schema)
    return _with_ranks(merged, winners, logs.rules, keeping)


def _as_asked(batch: pa.Table, kind: pa.DataType, keeping: Keeping | None) -> pa.Table:
    """Rows that no version of the logs concerns, with or without their ranks."""
    return without_ranks(batch) if keeping is None else with_column(batch, kind)


def _with_ranks(
    rows: pa.Table, winners: list[tuple[_Lot, Ranks]], rules: MergeRules, keeping: Keeping | None
) -> pa.Table:
    """The rows, and with them the ranks that they do not tell themselves."""
    if keeping is None:
        return rows
    times = request_times(rows, np.arange(rows.num_rows))
    may_meet_older = times > keeping.since
    others = [(lot, found) for lot, found in winners if _COMMIT_TIME not in lot.columns]
    noted = [_noted(lot, found, rows, times, may_meet_older, rules) for lot, found in others]
    kind = ranks_type(rules, rows.schema)
    return rows.append_column(pa.field(RANKS, kind), format_ranks(noted, rows.num_rows, kind))


def _noted(lot: _Lot, found: Ranks, rows: pa.Table, times: Ints, may_meet_older: Bools, rules: MergeRules) -> Noted:
    """What must be kept of the ranks of a lot: those that are not what the row tells."""
    told = ranks_of([rows.column(name) for name in lot.clock], times)
    differs = may_meet_older & (~found.known | (found.times != times))
    if lot.clock:
        _, equal = compare(found.order, told.order)
        is_told = told.values[0].is_valid() if lot.clock != rules.order_columns else None
        never = ~found.known if is_told is None else ~found.known & to_bools(is_told)
        differs |= never | (found.known & ~equal)
    places = np.flatnonzero(differs)
    return Noted(lot.columns, places, lot.clock, found.take(places))

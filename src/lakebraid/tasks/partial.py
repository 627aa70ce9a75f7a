# SPDX-License-Identifier: Apache-2.0
"""Merging partial updates: a version may bring only some columns, and absent is not NULL.

First the logs' versions of a key are folded in sequence: of two, the one with the higher ordering value (or equal and
later) is above; its columns win, and columns it does not bring come from the one below. A delete brings nothing and
lets nothing through. Then the result meets the base row by the same rule. This is Hudi's order of folding, logs
first. No values move while folding: for each key and column the fold keeps the row that supplies the value.

By commit time a partial update that comes upon a delete opens the row anew: its other columns are NULL, whatever the
base file still holds of the deleted row (docs/decisions/0009-partial-updates.md).

Writes that began before a base row's and finished after the compaction are the exception: they are merged with the
base row before the other logs come, as if the compaction had met them. Else a later partial update, folded with them
first, would carry their columns over newer ones of the base.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.config import PartialMode
from lakebraid.model.cutting import take_rows
from lakebraid.model.merge_rules import MergeRules
from lakebraid.model.ordering import Bools, Ints, OrderKeys, ranks
from lakebraid.tasks.versions import Buried, Versions, counts, outranks, request_times, row_keys, take


@dataclass(frozen=True, slots=True)
class _Fold:
    """What the logs say of each key: the version on top, and for each column the row that supplies it (-1: none)."""

    keys: pa.Array
    codes: Ints
    """Of each version, its key's place in `keys`."""
    top: Ints
    suppliers: dict[str, Ints]


def merge_partial(
    base: Iterable[pa.Table], versions: Versions, rules: MergeRules, *, late: bool, buried: Buried | None = None
) -> Iterator[pa.Table]:
    """As `merge.merge`, for slices in which some versions are partial."""
    fold = _fold(versions, rules)
    keys = fold.keys
    begins = _begins(fold, versions)
    unmatched = np.ones(len(keys), np.bool_)
    settled = np.zeros(len(keys), np.bool_)
    for batch in base:
        found = pc.index_in(row_keys(batch, rules), value_set=keys)
        is_matched = np.asarray(found.is_valid())
        if not is_matched.any():
            yield batch
            continue
        matched = np.asarray(found.drop_null()).astype(np.int64)
        unmatched[matched] = False
        yield batch.filter(pa.array(~is_matched))
        own = batch.filter(pa.array(is_matched))
        if late:
            overtaken = begins[matched] < request_times(own, np.arange(own.num_rows))
            settled[matched[overtaken]] = True
            late_own = own.filter(pa.array(overtaken))
            yield from _merge_late_first(late_own, matched[overtaken], fold.codes, versions, rules, buried)
            own, matched = own.filter(pa.array(~overtaken)), matched[~overtaken]
        above = outranks(versions, fold.top[matched], own, np.arange(own.num_rows), rules, late=late)
        settled[matched[~above]] = True
        yield _over_base(own, matched, fold, versions, rules, above)
    if buried is not None:
        top = fold.top[~settled]
        buried(versions, top[versions.deleted[top]])
    rest = np.flatnonzero(unmatched & ~versions.deleted[fold.top])
    # A value that nobody supplies is what the version on top holds: null, or the marker that stands for "unchanged".
    suppliers = {n: np.where(s[rest] >= 0, s[rest], fold.top[rest]) for n, s in fold.suppliers.items()}
    columns = [take_rows(versions.rows.select([n]), suppliers[n]).column(0) for n in versions.rows.column_names]
    yield pa.Table.from_arrays(columns, schema=versions.rows.schema)


def _begins(fold: _Fold, versions: Versions) -> Ints:
    """When the first version of each key began, if one of them is partial; else never."""
    codes, count, never = fold.codes, len(fold.keys), np.iinfo(np.int64).max
    begins = np.full(count, never, np.int64)
    np.minimum.at(begins, codes, versions.request_times)
    is_partial = np.zeros(count, np.bool_)
    is_partial[codes[versions.partial]] = True
    return np.where(is_partial, begins, never)


def _merge_late_first(
    base: pa.Table, keys: Ints, codes: Ints, versions: Versions, rules: MergeRules, buried: Buried | None
) -> Iterator[pa.Table]:
    """The rows of these keys, some of whose versions began before their rows in `base`."""
    if len(keys) == 0:
        return
    until = np.full(int(codes.max()) + 1, -1, np.int64)
    until[keys] = request_times(base, np.arange(base.num_rows))
    is_own = until[codes] >= 0
    is_late = is_own & (versions.request_times < until[codes])
    late = take(versions, np.flatnonzero(is_late))
    fold = _fold(late, rules)
    at = np.asarray(pc.index_in(row_keys(base, rules), value_set=fold.keys)).astype(np.int64)
    above = outranks(late, fold.top[at], base, np.arange(base.num_rows), rules, late=True)
    below = _over_base(base, at, fold, late, rules, above)
    # Of a key that a late delete has emptied nothing lies below: its versions meet among themselves, the delete too.
    emptied = np.zeros(len(until), np.bool_)
    emptied[keys[above & late.deleted[fold.top[at]]]] = True
    others = np.flatnonzero(is_own & (~is_late | emptied[codes]))
    if len(others):
        yield from merge_partial([below], take(versions, others), rules, late=False, buried=buried)
    else:
        yield below


def _fold(versions: Versions, rules: MergeRules) -> _Fold:
    """Folds all keys at once: one round for the first version of each key, one for the second, and so on."""
    encoded = versions.keys.dictionary_encode()
    codes, count = np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary)
    rank = _single_rank(versions.order)
    present = versions.present or {}
    opens_anew = not rules.order_columns and rules.partial_mode is PartialMode.NONE
    top = np.full(count, -1, np.int64)
    suppliers = {name: np.full(count, -1, np.int64) for name in present}
    for rows in _rounds(codes):
        at = codes[rows]
        below = top[at]
        # Nothing below, or only a delete without ordering value: whatever comes now is on top.
        fresh = (below < 0) | versions.unconditional[rows] | versions.unconditional[below]
        above = fresh | (rank[rows] >= rank[below])
        dead_below = fresh | versions.deleted[below]
        dead = versions.deleted[rows]
        opens = (below >= 0) & versions.deleted[below] if opens_anew else np.zeros(len(rows), np.bool_)
        for name, supplier in suppliers.items():
            old = supplier[at]
            new = np.where((present[name][rows] | opens) & ~dead, rows, -1)
            on_top = np.where(dead | (new >= 0) | dead_below, new, old)
            beneath = np.where(dead_below | (old >= 0), old, new)
            supplier[at] = np.where(above, on_top, beneath)
        top[at] = np.where(above, rows, below)
    return _Fold(encoded.dictionary, codes, top, suppliers)


def _over_base(
    base: pa.Table, keys: Ints, fold: _Fold, versions: Versions, rules: MergeRules, above: Bools
) -> pa.Table:
    """The rows of these keys, whose base rows stand in `base` in the same order, and are outranked where `above`."""
    top = fold.top[keys]
    alive = np.flatnonzero(~(above & versions.deleted[top]))
    rows = pa.concat_tables([base, versions.rows])
    dead_log = versions.deleted[top]
    on_top = np.where(above, top + base.num_rows, np.arange(base.num_rows))
    columns = []
    for name in base.column_names:
        log = fold.suppliers[name][keys]
        log_row = np.where(dead_log | (log < 0), -1, log + base.num_rows)
        base_row = np.where(counts(base.column(name), rules), np.arange(base.num_rows), -1)
        first, second = np.where(above, log_row, base_row), np.where(above, base_row, log_row)
        supplier = np.where(first >= 0, first, np.where(second >= 0, second, on_top))
        columns.append(take_rows(rows.select([name]), supplier[alive]).column(0))
    return pa.Table.from_arrays(columns, schema=base.schema)


def _rounds(codes: Ints) -> Iterator[Ints]:
    """The first version of every key, then the second of every key that has one, and so on."""
    by_key = np.argsort(codes, kind="stable")
    ordered = codes[by_key]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(by_key)])
    for turn in range(int(lengths.max(initial=0))):
        yield by_key[starts[lengths > turn] + turn]


def _single_rank(order: OrderKeys) -> Ints:
    """One integer per row, equal where all ordering values are equal."""
    columns = ranks(order)
    by_order = np.lexsort(list(reversed(columns))) if columns else np.arange(order.length)
    changes = np.zeros(order.length, np.int64)
    for column in columns:
        changes[1:] |= np.diff(column[by_order]) != 0
    rank = np.empty(order.length, np.int64)
    rank[by_order] = np.cumsum(changes)
    return rank

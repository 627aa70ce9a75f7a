# SPDX-License-Identifier: Apache-2.0
"""Merging: the base file's batches stream by, the logs stay in memory.

The logs are deduplicated once; each batch of the base is matched by key. Memory holds the logs and one batch, however
large the base is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.merge_rules import MergeRules
from lakebraid.model.ordering import Bools, Ints, winners
from lakebraid.model.values.arrow_numpy import take_pieces, to_bools, to_ints, to_mask
from lakebraid.tasks.reading.columns import Keeping, merge_columns
from lakebraid.tasks.reading.ranks import RANKS
from lakebraid.tasks.reading.versions import Buried, Versions, outranks, request_times, row_keys


def merge(
    base: Iterable[pa.Table],
    versions: Versions | None,
    rules: MergeRules,
    *,
    late: bool,
    buried: Buried | None = None,
    keeping: Keeping | None = None,
) -> Iterator[pa.Table]:
    """The rows of a slice. `base` yields tables with the columns of the versions' rows, perhaps with kept ranks beside
    them; keys are unique in it.

    `late` says that some version may rank before a row of the base, so that request times must be compared. `buried`
    is told, when the base is through, which versions are deletes that nothing outranks. With `keeping` the ranks of
    values that are older than their rows are given along, if there are such.
    """
    if versions is None:
        yield from base
        return
    batches = iter(base)
    first = next(batches, None)
    has_ranks = first is not None and RANKS in first.column_names
    whole = batches if first is None else chain([first], batches)
    if versions.present is not None or rules.groups or has_ranks:
        yield from merge_columns(whole, versions, rules, late=late, buried=buried, keeping=keeping)
    else:
        yield from _merge_whole(whole, versions, rules, late=late, buried=buried, keeping=keeping)


def _merge_whole(
    base: Iterable[pa.Table],
    versions: Versions,
    rules: MergeRules,
    *,
    late: bool,
    buried: Buried | None,
    keeping: Keeping | None,
) -> Iterator[pa.Table]:
    encoded = versions.keys.dictionary_encode()
    keys, codes = encoded.dictionary, to_ints(encoded.indices)
    best = winners(codes, versions.order, versions.unconditional, len(keys))
    cut = _cut_times(codes, versions, len(keys))
    base_won = np.zeros(len(keys), np.bool_)
    for batch in base:
        found = pc.index_in(row_keys(batch, rules), value_set=keys)
        rows = np.flatnonzero(to_bools(found.is_valid()))
        if len(rows) == 0:
            yield batch
            continue
        matched = to_ints(found.drop_null())
        log_wins = outranks(versions, best[matched], batch, rows, rules, late=late)
        log_wins |= cut[matched] >= (request_times(batch, rows) if late else 0)
        base_won[matched[~log_wins]] = True
        yield _without(batch, rows[log_wins])
    top = best[~base_won]
    if buried is not None:
        buried(versions, top[versions.deleted[top]])
    if keeping is not None and rules.order_columns:
        keeping.has_outrun |= _has_outrun(codes, versions, best, base_won, keeping)
    yield from take_pieces(versions.rows, top[~versions.deleted[top]])


def _cut_times(codes: Ints, versions: Versions, count: int) -> Ints:
    """Of each key the request time of the last delete without ordering value: what began before it is gone."""
    times = np.full(count, -1, np.int64)
    plain = np.flatnonzero(versions.unconditional)
    times[codes[plain]] = versions.request_times[plain]  # numpy keeps the last of equal indices
    return times


def _has_outrun(codes: Ints, versions: Versions, best: Ints, base_won: Bools, keeping: Keeping) -> bool:
    """Whether the last version of some key began after the oldest open write, and lost."""
    newest = np.empty(len(best), np.int64)
    newest[codes] = np.arange(len(codes))
    is_young = versions.request_times[newest] > keeping.since
    return bool((is_young & (base_won | (best != newest))).any())


def _without(batch: pa.Table, rows: Ints) -> pa.Table:
    if len(rows) == 0:
        return batch
    keep: Bools = np.ones(batch.num_rows, np.bool_)
    keep[rows] = False
    return batch.filter(to_mask(keep))

# SPDX-License-Identifier: Apache-2.0
"""Merging: the base file's batches stream by, the logs stay in memory.

The logs are deduplicated once; each batch of the base is matched by key. Memory holds the logs and one batch, however
large the base is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.merge_rules import MergeRules
from lakebraid.model.ordering import Bools, Ints, OrderKeys, compare, order_keys, winners
from lakebraid.tasks.partial import merge_partial
from lakebraid.tasks.versions import Versions, request_times, row_keys


def merge(base: Iterable[pa.Table], versions: Versions | None, rules: MergeRules, *, late: bool) -> Iterator[pa.Table]:
    """The rows of a slice. `base` yields tables with the columns of the versions' rows; keys are unique in it.

    `late` says that some version may rank before a row of the base, so that request times must be compared.
    """
    if versions is None:
        yield from base
    elif versions.present is not None:
        yield from merge_partial(base, versions, rules, late=late)
    else:
        yield from _merge_whole(base, versions, rules, late=late)


def _merge_whole(base: Iterable[pa.Table], versions: Versions, rules: MergeRules, *, late: bool) -> Iterator[pa.Table]:
    encoded = versions.keys.dictionary_encode()
    keys, codes = encoded.dictionary, np.asarray(encoded.indices).astype(np.int64)
    best, cut = winners(codes, versions.order, versions.unconditional, len(keys))
    base_won = np.zeros(len(keys), np.bool_)
    for batch in base:
        found = pc.index_in(row_keys(batch, rules), value_set=keys)
        rows = np.flatnonzero(np.asarray(found.is_valid()))
        if len(rows) == 0:
            yield batch
            continue
        matched = np.asarray(found.drop_null()).astype(np.int64)
        own = order_keys([batch.column(c).combine_chunks() for c in rules.order_columns], batch.num_rows).take(rows)
        if late:
            log_row = _rematch(batch, rows, matched, own, codes, versions)
            best[matched] = np.where(log_row >= 0, log_row, best[matched])
            log_wins = log_row >= 0
        else:
            greater, equal = compare(versions.order.take(best[matched]), own)
            log_wins = greater | equal | cut[matched]
        base_won[matched[~log_wins]] = True
        yield _without(batch, rows[log_wins])
    alive = best[~base_won]
    yield versions.rows.take(pa.array(alive[~versions.deleted[alive]]))


def _rematch(batch: pa.Table, rows: Ints, matched: Ints, own: OrderKeys, codes: Ints, versions: Versions) -> Ints:
    """For each matched base row: the log row that wins over it, or -1, with the base row at its own request time."""
    local = np.full(int(codes.max()) + 1, -1, np.int64)
    local[matched] = np.arange(len(matched))
    log_rows = np.flatnonzero(local[codes] >= 0)
    base_times = request_times(batch, rows)
    times = np.concatenate([base_times, versions.request_times[log_rows]])
    # Stable, so that log rows keep their sequence; a base row and a log row never share a request time.
    sequence = np.argsort(times, kind="stable")
    both = own.then(versions.order.take(log_rows)).take(sequence)
    local_codes = np.concatenate([np.arange(len(matched)), local[codes[log_rows]]])[sequence]
    cuts = np.concatenate([np.zeros(len(rows), np.bool_), versions.unconditional[log_rows]])[sequence]
    best, _ = winners(local_codes, both, cuts, len(matched))
    origin = np.concatenate([np.full(len(rows), -1, np.int64), log_rows])[sequence]
    return origin[best]


def _without(batch: pa.Table, rows: Ints) -> pa.Table:
    if len(rows) == 0:
        return batch
    keep: Bools = np.ones(batch.num_rows, np.bool_)
    keep[rows] = False
    return batch.filter(pa.array(keep))

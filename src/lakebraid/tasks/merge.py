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

from lakebraid.model.arrow_numpy import to_bools, to_ints, to_mask
from lakebraid.model.cutting import take_pieces
from lakebraid.model.merge_rules import MergeRules
from lakebraid.model.ordering import Bools, Ints, winners
from lakebraid.tasks.partial import merge_partial
from lakebraid.tasks.versions import Buried, Versions, outranks, row_keys


def merge(
    base: Iterable[pa.Table],
    versions: Versions | None,
    rules: MergeRules,
    *,
    late: bool,
    buried: Buried | None = None,
) -> Iterator[pa.Table]:
    """The rows of a slice. `base` yields tables with the columns of the versions' rows; keys are unique in it.

    `late` says that some version may rank before a row of the base, so that request times must be compared. `buried`
    is told, when the base is through, which versions are deletes that nothing outranks.
    """
    if versions is None:
        yield from base
    elif versions.present is not None:
        yield from merge_partial(base, versions, rules, late=late, buried=buried)
    else:
        yield from _merge_whole(base, versions, rules, late=late, buried=buried)


def _merge_whole(
    base: Iterable[pa.Table], versions: Versions, rules: MergeRules, *, late: bool, buried: Buried | None
) -> Iterator[pa.Table]:
    encoded = versions.keys.dictionary_encode()
    keys, codes = encoded.dictionary, to_ints(encoded.indices)
    best = winners(codes, versions.order, versions.unconditional, len(keys))
    base_won = np.zeros(len(keys), np.bool_)
    for batch in base:
        found = pc.index_in(row_keys(batch, rules), value_set=keys)
        rows = np.flatnonzero(to_bools(found.is_valid()))
        if len(rows) == 0:
            yield batch
            continue
        matched = to_ints(found.drop_null())
        log_wins = outranks(versions, best[matched], batch, rows, rules, late=late)
        base_won[matched[~log_wins]] = True
        yield _without(batch, rows[log_wins])
    top = best[~base_won]
    if buried is not None:
        buried(versions, top[versions.deleted[top]])
    yield from take_pieces(versions.rows, top[~versions.deleted[top]])


def _without(batch: pa.Table, rows: Ints) -> pa.Table:
    if len(rows) == 0:
        return batch
    keep: Bools = np.ones(batch.num_rows, np.bool_)
    keep[rows] = False
    return batch.filter(to_mask(keep))

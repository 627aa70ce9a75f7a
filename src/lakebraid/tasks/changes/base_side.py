# SPDX-License-Identifier: Apache-2.0
"""The rows of a base file beneath the versions in its logs, as far as a comparison of two states needs them.

Most rows of a commit are newer, by their ordering value, than anything in the base file: the greatest one stands in its
footer. Whatever the base file has for such a key, it lost against the logs, and it differs. So it need not be read: at
most the key column tells whether there was a row at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.keys.keys import render_values
from lakebraid.model.ordering import Bools, order_keys
from lakebraid.tasks.lookup.find import file_keys
from lakebraid.tasks.reading.base_rows import OpenBase, Sought, greatest, rows_of_keys
from lakebraid.tasks.reading.versions import Versions
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


@dataclass(frozen=True, slots=True)
class Layers:
    """What lies above a base file, of some keys."""

    keys: pa.Array
    """Different ones, in the form of the rules; new logs have each."""
    earlier: Versions | None
    """What the logs before the new ones have."""
    later: Versions | None
    """What all logs have."""


@dataclass(frozen=True, slots=True)
class ChangesWanted:
    """What a reader of changes wants to see."""

    images: bool
    """The rows before an update."""
    kinds: bool
    """Whether a row is new or was there before."""


def rows_beneath(
    base: OpenBase | None, plan: ReadPlan, task: SliceTask, schema: pa.Schema, layers: Layers, asked: ChangesWanted
) -> Iterator[pa.Table]:
    """Rows of the base file of the slice `task`, if it has one; of keys that surpass them only that they are there, or nothing."""
    if base is None:
        return
    bound = _bound(base, plan, task)
    sought = _sought(layers, asked, bound)
    sought = _possible(base, sought)
    if len(sought.keys) or sought.presence is not None:
        yield from rows_of_keys(base, plan, base.groups, schema, sought, with_ranks=True)


def _bound(base: OpenBase, plan: ReadPlan, task: SliceTask) -> pa.Scalar | None:
    """The greatest value of the first ordering column."""
    columns = plan.rules.order_columns
    return greatest(base, plan, task, columns[0]) if columns else None


def _sought(layers: Layers, asked: ChangesWanted, bound: pa.Scalar | None) -> Sought:
    if bound is None or layers.later is None:
        return Sought(layers.keys)
    certain = _any(layers.keys, layers.later, None)
    for versions in (layers.earlier, layers.later):  # a log compaction may have left out some of the earlier ones
        if versions is not None:
            certain &= ~_any(layers.keys, versions, ~_surpassing(versions, bound))
    # If the logs had a row of the key before, or its delete, then the base file's counted no longer.
    settled = certain & _any(layers.keys, layers.earlier, None)
    if asked.images:
        return Sought(layers.keys.filter(pa.array(~settled)))
    whole = ~settled & (~certain | _any(layers.keys, layers.later, layers.later.deleted))
    keys = layers.keys.filter(pa.array(whole))
    if not asked.kinds:
        return Sought(keys)
    presence = layers.keys.filter(pa.array(~settled & ~whole))
    return Sought(keys, presence)


def _surpassing(versions: Versions, bound: pa.Scalar) -> Bools:
    """Which versions are whole rows or deletes with a greater ordering value than any row of the base file."""
    least = order_keys([pa.array([bound.as_py()], bound.type)], 1).fields[0]
    values = versions.order.fields[0]
    if versions.present is not None or not isinstance(values, np.ndarray) or not isinstance(least, np.ndarray):
        return np.zeros(len(versions.keys), np.bool_)
    greater: Bools = values > least[0]  # of equal ones the row may be the same
    return greater & ~versions.unconditional


def _any(keys: pa.Array, versions: Versions | None, which: Bools | None) -> Bools:
    """Key by key: whether it has one of these versions."""
    if versions is None:
        return np.zeros(len(keys), np.bool_)
    chosen = versions.keys if which is None else versions.keys.filter(pa.array(which))
    return np.asarray(pc.is_in(keys, value_set=chosen)).astype(np.bool_)


def _possible(base: OpenBase, sought: Sought) -> Sought:
    """Without the keys that the footer's range or filter rules out."""
    metadata = base.file.metadata
    known = file_keys(metadata.num_rows, metadata.metadata or {})

    def possible(keys: pa.Array) -> pa.Array:
        texts = keys if pa.types.is_string(keys.type) else render_values(keys)
        return keys.filter(pa.array(known.may_hold(texts)))

    presence = None if sought.presence is None else possible(sought.presence)
    return Sought(possible(sought.keys), presence if presence is not None and len(presence) else None)

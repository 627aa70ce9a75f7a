# SPDX-License-Identifier: Apache-2.0
"""The rows of a base file beneath the versions in its logs, as far as a comparison of two states needs them.

Most rows of a commit are newer, by their ordering value, than anything in the base file: the greatest one stands in its
footer. Whatever the base file has for such a key, it lost against the logs, and it differs. So it need not be read: at
most the key column tells whether there was a row at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.keys.keys import render_values
from lakebraid.model.ordering import Bools, Ints, order_keys
from lakebraid.model.values.arrow_numpy import to_bools, to_mask
from lakebraid.tasks.changes.layers import Layers
from lakebraid.tasks.lookup.find import file_keys
from lakebraid.tasks.reading.base_rows import OpenBase, Sought, greatest, rows_of_keys
from lakebraid.tasks.reading.versions import Versions
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


@dataclass(frozen=True, slots=True)
class ChangesWanted:
    """What a reader of changes wants to see."""

    images: bool
    """The rows before an update."""
    kinds: bool
    """Whether a row is new or was there before."""


def rows_beneath(
    bases: Sequence[OpenBase | None],
    plan: ReadPlan,
    tasks: Sequence[SliceTask],
    schema: pa.Schema,
    layers: Layers,
    asked: ChangesWanted,
) -> Iterator[pa.Table]:
    """Rows of the base files that these slices have; of keys that surpass them only that they are there, or nothing."""
    bounds = [None if base is None else _bound(base, plan, task) for base, task in zip(bases, tasks, strict=True)]
    whole, presence = _wanted(layers, asked, bounds)
    for number, base in enumerate(bases):
        if base is None:
            continue
        is_here = layers.homes == number
        there = None if presence is None else layers.keys.filter(to_mask(is_here & presence))
        sought = _possible(base, Sought(layers.keys.filter(to_mask(is_here & whole)), there))
        if len(sought.keys) or sought.presence is not None:
            yield from rows_of_keys(base, plan, base.groups, schema, sought, with_ranks=True)


def _bound(base: OpenBase, plan: ReadPlan, task: SliceTask) -> pa.Scalar | None:
    """The greatest value of the first ordering column."""
    columns = plan.rules.order_columns
    return greatest(base, plan, task, columns[0]) if columns else None


def _wanted(layers: Layers, asked: ChangesWanted, bounds: Sequence[pa.Scalar | None]) -> tuple[Bools, Bools | None]:
    """Key by key: whether its row is wanted; whether it only matters that there is one, or None if that never does."""
    keys = layers.keys
    if layers.later is None or all(bound is None for bound in bounds):
        return np.ones(len(keys), np.bool_), None
    certain = _any(keys, layers.later, None)
    for versions in (layers.earlier, layers.later):  # a log compaction may have left out some of the earlier ones
        if versions is not None:
            certain &= ~_any(keys, versions, ~_surpassing(versions, layers.homes_of(versions), bounds))
    # If the logs had a row of the key before, or its delete, then the base file's counted no longer.
    settled = certain & _any(keys, layers.earlier, None)
    if asked.images:
        return ~settled, None
    whole = ~settled & (~certain | _any(keys, layers.later, layers.later.deleted))
    return whole, ~settled & ~whole if asked.kinds else None


def _surpassing(versions: Versions, homes: Ints, bounds: Sequence[pa.Scalar | None]) -> Bools:
    """Which versions are whole rows or deletes with a greater ordering value than any row of their slice's base file."""
    none: Bools = np.zeros(len(versions.keys), np.bool_)
    values, kind = versions.order.fields[0], next(bound.type for bound in bounds if bound is not None)
    greatest_values = pa.array([None if bound is None else bound.as_py() for bound in bounds], kind)
    least = order_keys([greatest_values], len(bounds)).fields[0]
    if versions.present is not None or not isinstance(values, np.ndarray) or not isinstance(least, np.ndarray):
        return none
    greater: Bools = values > least[homes]  # of equal ones the row may be the same
    return greater & to_bools(greatest_values.is_valid())[homes] & ~versions.unconditional


def _any(keys: pa.Array, versions: Versions | None, which: Bools | None) -> Bools:
    """Key by key: whether it has one of these versions."""
    if versions is None:
        return np.zeros(len(keys), np.bool_)
    chosen = versions.keys if which is None else versions.keys.filter(to_mask(which))
    found: Bools = to_bools(pc.is_in(keys, value_set=chosen))
    return found.copy()


def _possible(base: OpenBase, sought: Sought) -> Sought:
    """Without the keys that the footer's range or filter rules out."""
    metadata = base.file.metadata
    known = file_keys(metadata.num_rows, metadata.metadata or {})

    def possible(keys: pa.Array) -> pa.Array:
        texts = keys if pa.types.is_string(keys.type) else render_values(keys)
        return keys.filter(pa.array(known.may_hold(texts)))

    presence = None if sought.presence is None else possible(sought.presence)
    return Sought(possible(sought.keys), presence if presence is not None and len(presence) else None)

# SPDX-License-Identifier: Apache-2.0
"""What the logs of slices hold of the keys that new ones among them have: before the new ones, and with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.model.ordering import Bools, Ints
from lakebraid.model.values.arrow_numpy import filled, to_ints
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.blocks import Known, OrderedBlock
from lakebraid.tasks.reading.versions import (
    Versions,
    counted_blocks,
    decoded_blocks,
    join_decoded,
    load_versions,
    take,
)
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of a slice at two moments, as slices."""

    before: SliceTask
    after: SliceTask
    new: SliceTask
    """Those that came between."""


@dataclass(frozen=True, slots=True)
class Layers:
    """What lies above the base files of some slices, of some keys."""

    keys: pa.Array
    """Different ones, in the form of the rules; new logs have each."""
    homes: Ints
    """The slice of each key, by number."""
    earlier: Versions | None
    """What the logs before the new ones have."""
    later: Versions | None
    """What all logs have."""

    def homes_of(self, versions: Versions) -> Ints:
        """The slice of each version."""
        return self.homes[to_ints(pc.index_in(versions.keys, value_set=self.keys))]


_NOTHING: Final = Layers(pa.nulls(0), np.zeros(0, np.int64), None, None)
"""If the new logs hold no versions."""


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks that count, of the new logs alone, and at the two moments."""

    new: list[OrderedBlock]
    before: list[OrderedBlock]
    after: list[OrderedBlock]

    @property
    def are_small(self) -> bool:
        """Whether it costs less to decode all than to look in each for the keys first."""
        size = sum(len(placed.block.content) for placed in self.after)
        return size <= limits.LOG_BLOCK_TINY_BYTES * len(self.after)

    @property
    def are_alike(self) -> bool:
        """Whether at both moments the same blocks rank alike: none was replaced by another, or put elsewhere."""
        return _are_among(self.new, self.after) and _are_among(self.before, self.after)


def load_layers(
    storage: Storage, plan: ReadPlan, slices: Sequence[Logs], schema: pa.Schema, known: Known
) -> Layers | None:
    """The layers of some slices, with the columns of `schema`; None if those of several cannot be had by one pass."""
    blocks = [_blocks(storage, plan, logs, known) for logs in slices]
    layers = None
    if all(of_slice.are_small and of_slice.are_alike for of_slice in blocks):
        layers = _of_all(blocks, plan, schema, known)
    return _of_one(storage, plan, slices[0], schema, known) if layers is None and len(slices) == 1 else layers


def _of_all(blocks: Sequence[_Blocks], plan: ReadPlan, schema: pa.Schema, known: Known) -> Layers | None:
    """The layers of several slices, if they have only whole rows, and no two of them new versions of one key."""
    decoded = list(decoded_blocks([placed for b in blocks for placed in b.after], plan, schema, None, known))
    versions = join_decoded([found for found in decoded if len(found[0].rows)], plan.rules, schema)
    if versions is None:
        return _NOTHING
    if versions.present is not None:
        return None
    homes = [number for number, b in enumerate(blocks) for _ in b.after]
    is_new = [flag for b in blocks for flag in _flags(b.new, b.after)]
    is_old = [flag for b in blocks for flag in _flags(b.before, b.after)]
    counts = [len(found.rows) for found, _ in decoded]
    return _parted(versions, *(np.repeat(values, counts) for values in (homes, is_new, is_old)))


def _of_one(storage: Storage, plan: ReadPlan, logs: Logs, schema: pa.Schema, known: Known) -> Layers:
    """The layers of one slice, of which few blocks have the keys perhaps, or partial rows."""
    found = load_versions(storage, plan, logs.new, schema, known=known)
    if found is None:
        return _NOTHING
    keys = found.keys.unique()
    sides = (load_versions(storage, plan, side, schema, keys, known) for side in (logs.before, logs.after))
    return Layers(keys, np.zeros(len(keys), np.int64), *sides)


def _blocks(storage: Storage, plan: ReadPlan, logs: Logs, known: Known) -> _Blocks:
    return _Blocks(*(counted_blocks(storage, plan, task, known) for task in (logs.new, logs.before, logs.after)))


def _are_among(some: list[OrderedBlock], blocks: list[OrderedBlock]) -> bool:
    """Whether these blocks stand in the same sequence among all."""
    rest = iter((placed.where, placed.request_time) for placed in blocks)
    return all((placed.where, placed.request_time) in rest for placed in some)


def _flags(some: list[OrderedBlock], blocks: list[OrderedBlock]) -> list[bool]:
    places = {placed.where for placed in some}
    return [placed.where in places for placed in blocks]


def _parted(versions: Versions, homes: Ints, is_new: Bools, is_old: Bools) -> Layers | None:
    """The layers out of all versions that there are; None if two slices have new versions of one key."""
    new = np.flatnonzero(is_new)
    encoded = versions.keys.take(pa.array(new)).dictionary_encode()
    keys, codes = encoded.dictionary, to_ints(encoded.indices)
    home = np.zeros(len(keys), np.int64)
    home[codes] = homes[new]
    if (home[codes] != homes[new]).any():
        return None
    at = to_ints(filled(pc.index_in(versions.keys, value_set=keys), -1))
    is_wanted = at >= 0
    # A key that lies in a strange slice as well, as in damaged tables, is none of this one's.
    is_wanted[is_wanted] = home[at[is_wanted]] == homes[is_wanted]
    earlier = np.flatnonzero(is_wanted & is_old)
    sides = (take(versions, rows) if len(rows) else None for rows in (earlier, np.flatnonzero(is_wanted)))
    return Layers(keys, home, *sides)

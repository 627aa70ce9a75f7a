# SPDX-License-Identifier: Apache-2.0
"""Looking keys up in the base files of file groups: by the footer's key range and filter, then by the key column.

Rows go to the log of the group whose base file has their key. So log files hold keys of their base file and no others, with
one exception: a compaction drops a deleted key while a write brings it back, for the base file that this one looked at had
it still. Log files of writes that began before the base file was complete are therefore looked at as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.format.parquet.bloom import MAX_KEY, MIN_KEY, BloomFilter, parse_filter
from lakebraid.model.keys.keys import render_values
from lakebraid.model.ordering import Bools, Ints
from lakebraid.storage.parallel import map_calls, windows
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.base_rows import OpenBase, base_of
from lakebraid.tasks.reading.read import base_keys, read_slice
from lakebraid.tasks.reading.versions import load_versions, row_keys
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


@dataclass(frozen=True, slots=True)
class FileKeys:
    """What a base file's footer says of its keys."""

    rows: int
    least: str | None
    greatest: str | None
    filter: BloomFilter | None

    def may_hold(self, texts: pa.Array) -> Bools:
        """Key by key: False if it is certainly not in the file."""
        possible = self._within(texts)
        few = np.flatnonzero(possible)
        # Asking a filter for a key costs more than reading one from the column.
        if self.filter is not None and len(few) * limits.BLOOM_ASK_COST < self.rows:
            possible[few] = self.filter.may_hold(texts.take(pa.array(few)))
        return possible

    def _within(self, texts: pa.Array) -> Bools:
        if not self.rows:
            return np.zeros(len(texts), np.bool_)
        if self.least is None or self.greatest is None or not _sorts_alike(texts, self.least, self.greatest):
            return np.ones(len(texts), np.bool_)
        inside = pc.and_(pc.greater_equal(texts, self.least), pc.less_equal(texts, self.greatest))
        return np.asarray(inside).astype(np.bool_)


def file_keys(rows: int, entries: Mapping[bytes, bytes]) -> FileKeys:
    """What the entries of a footer say."""
    least, greatest = (entries.get(key.encode()) for key in (MIN_KEY, MAX_KEY))
    if least is None or greatest is None:
        return FileKeys(rows, None, None, parse_filter(entries))
    return FileKeys(rows, least.decode("utf-8", "replace"), greatest.decode("utf-8", "replace"), parse_filter(entries))


def find_homes(
    storage: Storage, plan: ReadPlan, tasks: Sequence[SliceTask], keys: pa.Array, *, may_have_moved: bool = False
) -> tuple[Ints, Ints]:
    """For each key the slice that holds it, or -1; and the rows of each base file, -1 for those without one.

    Keys are different ones, in the form of the plan's rules. A key lives in one slice at most. It may lie in others that
    delete it in a log file, if it has moved between partitions or a compaction has dropped it: they are its home only if
    it lives nowhere.
    """
    homes: Ints = np.full(len(keys), -1, np.int64)
    rows: Ints = np.full(len(tasks), -1, np.int64)
    dead: Ints = np.full(len(keys), -1, np.int64)
    texts = keys if pa.types.is_string(keys.type) else render_values(keys)

    def settle(number: int, task: SliceTask, found: Ints, *, are_certain: bool) -> None:
        if not are_certain and len(found):
            dead[found] = number
            found = found[_are_alive(storage, plan, task, keys.take(pa.array(found)))]
        homes[found] = number

    for number, (task, base) in enumerate(_opened(storage, tasks)):
        left = np.flatnonzero(homes < 0)
        if base is not None:
            known = file_keys(base.file.metadata.num_rows, base.file.metadata.metadata or {})
            rows[number] = known.rows
            left = left[known.may_hold(texts if len(left) == len(keys) else texts.take(pa.array(left)))]
        if len(left):
            wanted = keys.take(pa.array(left))
            held = [
                np.asarray(pc.index_in(k, value_set=wanted).drop_null())
                for k in slice_keys(storage, plan, task, wanted, base)
            ]
            found = left[np.concatenate(held)] if held else left[:0]
            settle(number, task, found, are_certain=not (may_have_moved and task.log_names))
        left = np.flatnonzero((homes < 0) & (dead != number))
        if task.unsure_logs and len(left):
            wanted = keys.take(pa.array(left))
            in_logs = _unsure_keys(storage, plan, task, wanted)
            if in_logs is not None:
                are_held = np.asarray(pc.is_in(wanted, value_set=in_logs)).astype(np.bool_)
                settle(number, task, left[are_held], are_certain=False)
    return np.where(homes < 0, dead, homes), rows


def _opened(storage: Storage, tasks: Sequence[SliceTask]) -> Iterator[tuple[SliceTask, OpenBase | None]]:
    """Slices with their base files; of an object store the next ones are opened together."""
    for window in windows(storage, tasks, lambda task: min(task.base_size, limits.PARQUET_WHOLE_BYTES_MAX)):
        yield from zip(window, map_calls(storage, partial(base_of, storage), window), strict=True)


def _are_alive(storage: Storage, plan: ReadPlan, task: SliceTask, keys: pa.Array) -> Bools:
    """Which of the keys have a row in a slice, its log files considered."""
    read = plan.of_columns(plan.rules.key_columns)
    living = [row_keys(rows, plan.rules) for rows in read_slice(storage, read, task, keys=keys)]
    if not living:
        return np.zeros(len(keys), np.bool_)
    return np.asarray(pc.is_in(keys, value_set=pa.chunked_array(living).combine_chunks())).astype(np.bool_)


def living_keys(
    storage: Storage, plan: ReadPlan, task: SliceTask, *, may_have_moved: bool
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """All keys of a slice, and whether each lives there, as far as that is in doubt."""
    unsure = _unsure_keys(storage, plan, task, None)
    for keys in slice_keys(storage, plan, task, None):
        is_doubtful = may_have_moved and bool(task.log_names)
        yield keys, pa.array(_are_alive(storage, plan, task, keys) if is_doubtful else np.ones(len(keys), np.bool_))
        unsure = unsure.filter(pc.invert(pc.is_in(unsure, value_set=keys))) if unsure is not None else None
    if unsure is not None and len(unsure):
        yield unsure, pa.array(_are_alive(storage, plan, task, unsure))


def _unsure_keys(storage: Storage, plan: ReadPlan, task: SliceTask, wanted: pa.Array | None) -> pa.Array | None:
    """The keys in log files that may have others than the base file; None if there are none."""
    if not task.unsure_logs:
        return None
    logs = task.of_logs(task.unsure_logs)
    versions = load_versions(storage, plan, logs, plan.read_schema(plan.rules.key_columns, logs), wanted)
    return None if versions is None else versions.keys.unique()


def slice_keys(
    storage: Storage, plan: ReadPlan, task: SliceTask, wanted: pa.Array | None, base: OpenBase | None = None
) -> Iterator[pa.Array]:
    """The keys of a slice's base file, which may be open already, or of its log files where a group begins with them."""
    base = base_of(storage, task) if base is None else base
    if base is not None:
        yield from base_keys(base, plan, task)
        return
    schema = plan.read_schema(plan.rules.key_columns, task)
    versions = load_versions(storage, plan, task, schema, wanted)
    if versions is not None:
        yield versions.keys


def _sorts_alike(texts: pa.Array, *others: str) -> bool:
    """Whether UTF-8 and Java's UTF-16 sort these alike: they do unless one has a character beyond the first plane."""
    data = texts.buffers()[2]
    beyond = data is not None and data.size > 0 and bool(np.frombuffer(data, np.uint8).max() >= 0xF0)
    return not beyond and all(ord(max(text, default="a")) < 0x10000 for text in others)

# SPDX-License-Identifier: Apache-2.0
"""Audit, deep: every key that readers see is where it belongs, and there once. Memory does not grow with the table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import InvalidArgument, LakebraidError
from lakebraid.format.names import in_partition
from lakebraid.inspect.audit.evidence import Evidence
from lakebraid.inspect.audit.files import Step
from lakebraid.inspect.audit.findings import Finding
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.keys.buckets import bucket_ids, bucket_of_file_id
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.schema.conform import with_meta
from lakebraid.model.timeline.slicing import FileSlice, GroupId
from lakebraid.reading.plan import slice_task
from lakebraid.table.view import View
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.slice_task import ReadPlan

_PARTITION: Final = "_hoodie_partition_path"
_INSERTS: Final = frozenset({"INSERT", "BULK_INSERT", "INSERT_PREPPED", "BULK_INSERT_PREPPED"})
_GLOBAL: Final = frozenset({"global_bloom", "global_simple", "global_record_level_index", "record_index"})
Reading = Callable[[FileSlice], Iterator[pa.Table]]


@dataclass(frozen=True, slots=True)
class _Equal:
    """A hash that several rows have, and the slices they are in."""

    value: int
    slices: tuple[int, ...]


def check_keys(evidence: Evidence, step: Step) -> Iterator[Finding]:
    """Reads the keys of all rows that a snapshot shows."""
    if evidence.view is None or not evidence.config.record_keys:
        return
    slices = evidence.view.slices()
    reading = _reading(evidence, evidence.view)
    rows: Counter[GroupId] = Counter()
    for number, file_slice in enumerate(slices):
        step(number, len(slices))
        try:
            for batch in reading(file_slice):
                rows[file_slice.group] += batch.num_rows
                yield from _placed(evidence, file_slice, batch)
        except LakebraidError as error:
            yield Finding("reading-fails", _where(file_slice), error.message)
            return  # the findings on its files say why
    step(len(slices), len(slices))
    for scope in _scopes(evidence, slices):
        yield from _once(evidence, scope, reading, sum(rows[s.group] for s in scope))


def _reading(evidence: Evidence, view: View) -> Reading:
    """What gives the keys of a slice, as text, and the partition each row claims."""
    config = evidence.config
    schema = with_meta(view.schema) if config.populate_meta else view.schema
    columns = (
        (RECORD_KEY, _PARTITION) if config.populate_meta else tuple(c for c in config.record_keys if c in schema.names)
    )
    plan = ReadPlan(
        evidence.storage.url, (), merge_rules(config, view.schema), schema, columns, None, layout=config.layout
    )
    visible = view.timeline.visibility()

    def read(file_slice: FileSlice) -> Iterator[pa.Table]:
        yield from read_slice(evidence.storage, plan, slice_task(file_slice, config, visible))

    return read


def _texts(evidence: Evidence, batch: pa.Table) -> pa.Array | None:
    """The keys as text; None if they cannot be made."""
    if evidence.config.populate_meta:
        return batch.column(RECORD_KEY).combine_chunks()
    try:
        return record_keys(batch, evidence.config.record_keys, evidence.config.has_complex_keys)
    except InvalidArgument:
        return None


def _placed(evidence: Evidence, file_slice: FileSlice, batch: pa.Table) -> Iterator[Finding]:
    """Whether keys are there at all, in their bucket, and in their partition."""
    keys, where, config = _texts(evidence, batch), _where(file_slice), evidence.config
    if keys is None or keys.null_count:
        yield Finding(
            "key-missing", where, f"{batch.num_rows if keys is None else keys.null_count:,} rows without a key."
        )
        return
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    bucket = bucket_of_file_id(file_slice.group.file_id)
    if config.buckets is not None and bucket is not None:
        wrong = np.flatnonzero(bucket_ids(keys, config.bucket_fields, config.buckets) != bucket)
        if len(wrong):
            shown = str(keys[int(wrong[0])])
            yield Finding("key-wrong-bucket", where, f"{len(wrong):,} keys, among them {shown[:100]!r}.")
    if _PARTITION in batch.column_names:
        other = pc.filter(batch.column(_PARTITION), pc.not_equal(batch.column(_PARTITION), file_slice.group.partition))
        if len(other):
            yield Finding("key-wrong-partition", where, f"{len(other):,} rows, one of {str(other[0])[:100]!r}.")


def _scopes(evidence: Evidence, slices: list[FileSlice]) -> list[list[FileSlice]]:
    """The sets of slices within which a key may be only once.

    Where every key is in its bucket, two of them can only meet within one slice.
    """
    if evidence.config.index in _GLOBAL:
        return [slices]
    scopes: dict[Any, list[FileSlice]] = defaultdict(list)
    for file_slice in slices:
        is_alone = evidence.config.buckets is not None
        scopes[file_slice.group if is_alone else file_slice.group.partition].append(file_slice)
    return list(scopes.values())


def _once(evidence: Evidence, scope: list[FileSlice], reading: Reading, count: int) -> Iterator[Finding]:
    """Keys that are there more than once, found by hashes, in as many passes as memory demands."""
    if len(scope) == 1 and scope[0].base is None:
        return  # of logs a merge makes one row of each key
    passes = -(-count // limits.AUDIT_KEYS_MAX)
    for turn in range(passes):
        equal = _equal_hashes(evidence, scope, reading, turn, passes)
        if equal:
            yield from _named(evidence, scope, reading, equal)


def _equal_hashes(
    evidence: Evidence, scope: list[FileSlice], reading: Reading, turn: int, passes: int
) -> dict[int, _Equal]:
    hashes, places = [], []
    for number, file_slice in enumerate(scope):
        for batch in reading(file_slice):
            found = _hashes(_texts(evidence, batch))
            mine = found[found % np.uint64(passes) == turn]
            hashes.append(mine)
            places.append(np.full(len(mine), number, np.int32))
    values, slices = np.concatenate(hashes), np.concatenate(places)
    order = np.argsort(values, kind="stable")
    values, slices = values[order], slices[order]
    doubled = np.unique(values[1:][values[1:] == values[:-1]])[: limits.AUDIT_FINDINGS_MAX]
    return {int(v): _Equal(int(v), tuple(slices[values == v].tolist())) for v in doubled}


def _named(evidence: Evidence, scope: list[FileSlice], reading: Reading, equal: dict[int, _Equal]) -> Iterator[Finding]:
    """The keys behind equal hashes: read once more, since two keys may have one hash."""
    wanted = np.array(list(equal), np.uint64)
    places: dict[str, list[int]] = defaultdict(list)
    for number in sorted({n for e in equal.values() for n in e.slices}):
        for batch in reading(scope[number]):
            keys = _texts(evidence, batch)
            for row in np.flatnonzero(np.isin(_hashes(keys), wanted)):
                places[str(keys[int(row)])].append(number)  # type: ignore[index] # rows were found in it
    inserts = not evidence.config.index and _may_insert_twice(evidence)
    for key, numbers in places.items():
        if len(numbers) > 1:
            kind = "key-inserted-twice" if inserts else "key-twice" if len({*numbers}) == 1 else "key-two-groups"
            where = " and ".join(_where(scope[n]) for n in sorted({*numbers}))
            yield Finding(kind, where, f"The key {key[:100]!r} is there {len(numbers)} times.")


def _may_insert_twice(evidence: Evidence) -> bool:
    """Whether some writer inserted rows without looking for keys, as Hudi's inserts do: then that is what was wanted."""
    commits = (metadata for _, metadata in evidence.commits())
    return any(metadata.operation in _INSERTS and metadata.rows_written for metadata in commits)


def _hashes(keys: pa.Array | None) -> np.ndarray[Any, np.dtype[np.uint64]]:
    if keys is None:
        return np.zeros(0, np.uint64)
    return np.fromiter(map(hash, keys.to_pylist()), np.int64, len(keys)).view(np.uint64)


def _where(file_slice: FileSlice) -> str:
    return in_partition(file_slice.group.partition, file_slice.group.file_id)

# SPDX-License-Identifier: Apache-2.0
"""What the rows of a table say about its keys: where they lie, and of what they are made.

In every partition the keys of some file slices are read, all of each. Nothing is kept of them but what they prove.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import RECORD_KEY, TableConfig
from lakebraid.model.keys.bucket_fit import BucketFit, hash_fields
from lakebraid.model.keys.buckets import bucket_of_file_id, key_hashes
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.keys.partitions import partition_paths
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.schema.conform import with_meta
from lakebraid.model.timeline.slicing import FileSlice, GroupId
from lakebraid.reading.plan import slice_task
from lakebraid.storage.parallel import map_ahead
from lakebraid.storage.protocol import Storage
from lakebraid.table.view import View
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.slice_task import ReadPlan


@dataclass(frozen=True, slots=True)
class Sample:
    """What was looked at, and what it says."""

    keys: int
    slices: int
    slices_all: int
    partitions: int
    """Those of which keys were seen, or all there is."""
    partitions_all: int
    fits: tuple[BucketFit, ...]
    """What the keys say about buckets, for each choice of hash columns; nothing if a file group is no bucket."""
    forms: Mapping[bool, str | None]
    """Of keys with (True) and without (False) the names of their columns: how a row contradicts that they are written so."""
    folders: str | None
    """How a row contradicts that its folder is made of its partition columns; None if none does."""

    @property
    def has_gaps(self) -> bool:
        """Whether there are partitions that could contradict."""
        return self.partitions < self.partitions_all


def look_at_keys(storage: Storage, view: View, *, deep: bool) -> Sample:
    """Reads the keys of file slices in every partition, as many as `limits` allow, or with `deep` all of them."""
    slices = view.slices()
    chosen = slices if deep else _chosen(slices)
    looking = _Looking(view.config, [group.file_id for group in view.groups])
    if view.config.record_keys:
        for group, rows in _rows(storage, view, chosen):
            looking.see(group, rows)
    partitions = {s.group.partition for s in slices}
    unseen = {s.group.partition for s in {*slices} - {*chosen}} - looking.partitions
    return Sample(
        looking.keys,
        len(chosen),
        len(slices),
        len(partitions - unseen),
        len(partitions),
        tuple(looking.fits),
        looking.forms,
        looking.folders,
    )


def _chosen(slices: Sequence[FileSlice]) -> list[FileSlice]:
    """One slice of every partition, then a second one, and so on; those that cost least to read first."""
    by_partition: dict[str, list[FileSlice]] = defaultdict(list)
    for file_slice in sorted(slices, key=lambda s: (bool(s.logs), s.size, s.group)):
        by_partition[file_slice.group.partition].append(file_slice)
    rounds = chain.from_iterable(zip_longest(*by_partition.values()))
    return [s for s in rounds if s is not None][: limits.ADOPTION_SLICES_MAX]


def _rows(storage: Storage, view: View, slices: Sequence[FileSlice]) -> Iterator[tuple[GroupId, pa.Table]]:
    """The columns of the slices' rows of which keys and folders are made; on an object store of several slices at once."""
    config = view.config
    schema = with_meta(view.schema) if config.populate_meta else view.schema
    made_of = (name.partition(".")[0] for name in (*config.record_keys, *config.partition_fields))
    names = [RECORD_KEY] * config.populate_meta + [name for name in made_of if name in schema.names]
    rules = merge_rules(config, view.schema)
    plan = ReadPlan(storage.url, (), rules, schema, tuple(dict.fromkeys(names)), None, layout=config.layout)
    visible = view.timeline.visibility()

    def read(file_slice: FileSlice) -> Iterator[tuple[GroupId, pa.Table]]:
        for rows in read_slice(storage, plan, slice_task(file_slice, config, visible)):
            yield file_slice.group, rows

    yield from map_ahead(storage, read, slices, lambda file_slice: slice_task(file_slice, config, visible).held_bytes)


@dataclass
class _Looking:
    config: TableConfig
    file_ids: Sequence[str]
    keys: int = 0
    partitions: set[str] = field(default_factory=set)
    """Those in which there were keys."""
    fits: list[BucketFit] = field(init=False)
    forms: dict[bool, str | None] = field(init=False)
    folders: str | None = None

    def __post_init__(self) -> None:
        are_buckets = all(bucket_of_file_id(file_id) is not None for file_id in self.file_ids)
        self.fits = [BucketFit(fields) for fields in hash_fields(self.config)] if are_buckets else []
        self.forms = dict.fromkeys((False, True) if len(self.config.record_keys) == 1 else (True,))

    def see(self, group: GroupId, rows: pa.Table) -> None:
        config = self.config
        keys = (
            rows.column(RECORD_KEY) if config.populate_meta else self._made(rows, complex_form=config.has_complex_keys)
        )
        if isinstance(keys, str):
            self.forms[config.has_complex_keys] = keys
            return
        self.keys += rows.num_rows
        if rows.num_rows:
            self.partitions.add(group.partition)
        bucket = bucket_of_file_id(group.file_id)
        if bucket is not None:
            self.fits = [fit.after(key_hashes(keys, fit.fields), bucket) for fit in self.fits]
        for form, refuted in self.forms.items():
            if refuted is None:
                self.forms[form] = self._contradiction(rows, keys, complex_form=form)
        if self.folders is None and config.has_text_partitions:
            self.folders = self._strayed(rows, group.partition)

    def _made(self, rows: pa.Table, *, complex_form: bool) -> pa.Array | str:
        """The keys that these rows would get; a text says why there are none."""
        try:
            return record_keys(rows, self.config.record_keys, complex_form)
        except InvalidArgument as error:
            return error.message

    def _contradiction(self, rows: pa.Table, keys: pa.ChunkedArray | pa.Array, *, complex_form: bool) -> str | None:
        made = self._made(rows, complex_form=complex_form)
        if isinstance(made, str):
            return made
        first = _first_other(keys, made)
        return (
            None if first is None else f"a row has the key {first[0]!r:.100}, of its columns {first[1]!r:.100} is made"
        )

    def _strayed(self, rows: pa.Table, partition: str) -> str | None:
        config = self.config
        try:
            made = partition_paths(rows, config.partition_fields, config.hive_style, config.url_encode)
        except InvalidArgument as error:
            return error.message
        first = _first_other(pa.repeat(partition, rows.num_rows), made)
        return None if first is None else f"a row lies in {partition!r:.100}, of its columns {first[1]!r:.100} is made"


def _first_other(there: pa.ChunkedArray | pa.Array, made: pa.Array) -> tuple[object, object] | None:
    """The first value that is another one than what was made, with that."""
    row = pc.index(pc.fill_null(pc.equal(there, made.cast(there.type)), fill_value=False), value=False).as_py()
    return None if row < 0 else (there[row].as_py(), made[row].as_py())

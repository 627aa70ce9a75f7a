# SPDX-License-Identifier: Apache-2.0
"""What a refused conditional change need not do again: rows that it computed from file slices which nobody has touched.

Between two attempts few file groups change. Where a key says which bucket has its row, the rows that were computed from
the other buckets are still right: same files, same columns, same rows. docs/decisions/0012-optimistic-concurrency.md
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebraid.model.config import TableConfig
from lakebraid.model.incoming import prepare
from lakebraid.model.keys.buckets import bucket_ids, bucket_of_file_id
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.keys.partitions import partition_paths
from lakebraid.model.timeline.slicing import FileSlice
from lakebraid.reading.snapshot import Snapshot
from lakebraid.tasks.lookup.changes import Piece

Place = tuple[str, int]
"""A partition and a bucket of it."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one attempt has to compute, and the rows that it need not."""

    snapshot: Snapshot
    """The slices to be read."""
    places: frozenset[Place] | None = None
    """The places they are in; None for all there are."""
    kept: tuple[Piece, ...] = ()

    def of(self, rows: pa.Table, config: TableConfig) -> pa.Table:
        """Of rows with the table's keys those that belong here."""
        return rows if self.places is None else rows.filter(pa.array(_lies_in(self.places, rows, config)))


class Redoing:
    """What the attempts of one conditional change hand on to the next."""

    def __init__(self, config: TableConfig) -> None:
        # Where a log file may grow, or keys are looked up, the names of files and the keys of rows say too little.
        self._config, self._is_possible = config, config.buckets is not None and not config.may_share_logs
        self._seen: tuple[pa.Schema, dict[Place, tuple[FileSlice, ...]]] | None = None
        self._pieces: Sequence[Piece] = ()

    def part(self, snapshot: Snapshot) -> Part:
        """What is to be computed from the table as it is now."""
        now = self._places(snapshot)
        if self._seen is None or now is None or not snapshot.schema.equals(self._seen[0]):
            return Part(snapshot)
        before = self._seen[1]
        touched = frozenset(place for place in {*before, *now} if before.get(place) != now.get(place))
        groups = {held.group for place in touched for held in now.get(place, ())}
        kept = (self._untouched(piece, touched, snapshot.schema) for piece in self._pieces)
        changed = snapshot._only(groups)  # noqa: SLF001  nobody else asks for parts
        return Part(changed, touched, tuple(piece for piece in kept if piece.rows.num_rows))

    def keep(self, snapshot: Snapshot, pieces: Sequence[Piece] | None) -> None:
        """Takes all rows that were computed from a snapshot; with None there is nothing to hand on."""
        places = None if pieces is None else self._places(snapshot)
        self._seen = None if places is None else (snapshot.schema, places)
        self._pieces = pieces or ()

    def _untouched(self, piece: Piece, touched: frozenset[Place], schema: pa.Schema) -> Piece:
        ready = prepare(piece.rows, schema, self._config, operation=piece.operation)
        return Piece(piece.operation, piece.rows.filter(pa.array(~_lies_in(touched, ready, self._config))))

    def _places(self, snapshot: Snapshot) -> dict[Place, tuple[FileSlice, ...]] | None:
        """The slices by place; None if that cannot be told."""
        found: dict[Place, tuple[FileSlice, ...]] = defaultdict(tuple)
        for held in sorted(snapshot.slices, key=lambda held: held.group) if self._is_possible else ():
            bucket = bucket_of_file_id(held.group.file_id)
            if bucket is None:
                return None
            found[held.group.partition, bucket] += (held,)
        return dict(found) if self._is_possible else None


def _lies_in(places: frozenset[Place], rows: pa.Table, config: TableConfig) -> npt.NDArray[np.bool_]:
    """Which rows belong to these places."""
    keys = record_keys(rows, config.record_keys, config.has_complex_keys)
    buckets = bucket_ids(keys, config.bucket_fields, config.buckets or 1)
    paths = partition_paths(rows, config.partition_fields, config.hive_style, config.url_encode).dictionary_encode()
    codes, found = np.asarray(paths.indices), np.zeros(rows.num_rows, np.bool_)
    for code, partition in enumerate(paths.dictionary.to_pylist()):
        wanted = [bucket for path, bucket in places if path == partition]
        found |= (codes == code) & np.isin(buckets, wanted)
    return found

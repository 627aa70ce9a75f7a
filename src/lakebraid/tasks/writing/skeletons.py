# SPDX-License-Identifier: Apache-2.0
"""Which keys of a partial update have a row already, and skeletons for those that have none.

Apache Hudi's readers take a partial row only on top of a whole one; alone it crashes them, or empties their answer. So
before the partial rows of keys that are new, a log file has whole rows of them: the same values, and NULL elsewhere.

In tables that order by event time a skeleton is a row like any other: the row is there from now on, with the ordering
value it came with. By commit time we pass over skeletons: a whole row of a writer that began before, and commits after,
keeps the columns that the partial update did not name. docs/decisions/0009-partial-updates.md
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.ordering import Bools
from lakebraid.model.schema.avro_text import skeleton_schema_text
from lakebraid.model.schema.conform import with_meta
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.reading.versions import row_keys
from lakebraid.tasks.slice_task import ReadPlan, SliceTask
from lakebraid.tasks.writing.log_file import Skeletons


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """Where the keys of one moment are to be found; it pickles, and each task reads those of its own file groups."""

    plan: ReadPlan
    """Reads the key columns and nothing else."""
    slices: Mapping[tuple[str, str], SliceTask]
    """By partition and file id; a file group that is not here has no rows."""
    sure: frozenset[tuple[str, str]] = frozenset()
    """Those of which only keys are asked for that have a row."""

    def are_new(self, storage: Storage, partition: str, file_id: str, rows: pa.Table) -> Bools:
        """Row by row: whether the key has no row in its file group. The rows have Hudi's five columns."""
        task = self.slices.get((partition, file_id))
        if (partition, file_id) in self.sure:
            return np.zeros(rows.num_rows, np.bool_)
        if task is None or rows.num_rows == 0:
            return np.ones(rows.num_rows, np.bool_)
        keys = row_keys(rows, self.plan.rules)
        found = [row_keys(known, self.plan.rules) for known in read_slice(storage, self.plan, task, keys=keys)]
        if not found:
            return np.ones(rows.num_rows, np.bool_)
        return ~np.asarray(pc.is_in(keys, value_set=pa.chunked_array(found).combine_chunks())).astype(np.bool_)


def skeletons(rows: pa.Table, are_new: Bools, schema: pa.Schema, table: str) -> Skeletons | None:
    """Whole rows for the partial rows with new keys; None if there are none. `schema` has the table's columns.

    InvalidArgument if a column that may not be null is not among those of the update.
    """
    if not are_new.any():
        return None
    new = rows.filter(pa.array(are_new))
    given = {*new.column_names}
    check_fillable(new.column(RECORD_KEY), given, schema)
    whole = with_meta(schema)
    columns = [new.column(f.name) if f.name in given else pa.nulls(new.num_rows, f.type) for f in whole]
    return Skeletons(pa.Table.from_arrays(columns, schema=whole), skeleton_schema_text(schema, table))


def check_fillable(new_keys: pa.ChunkedArray, given: Collection[str], schema: pa.Schema) -> None:
    """InvalidArgument if rows of new keys, which have only the given columns, lack one that may not be null."""
    lacking = next((field.name for field in schema if field.name not in given and not field.nullable), None)
    if lacking is not None:
        key = new_keys[0].as_py()
        raise InvalidArgument(
            f"The key {key!r:.200} has no row yet, and the partial update does not bring the column {lacking!r}, which may "
            "not be null. Nothing was published. Insert whole rows for new keys, or add the column to the update.",
            column=lacking,
            key=key,
        )

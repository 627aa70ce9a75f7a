# SPDX-License-Identifier: Apache-2.0
"""What a metadata table would be told of the files of a table, and whether a reader that goes by it passes over a row.

A reader passes over a file group if none of its files may hold what it looks for, and over a partition if its ranges
may not. So for each row one file must admit all of its values at once: a filter may ask for every one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.format.metadata.index_definitions import IndexDefinition
from lakebraid.format.metadata.records import ColumnStats
from lakebraid.model.config import META_COLUMNS
from lakebraid.model.metadata.delta import AddedFile, MetadataDelta, delta_of_commit
from lakebraid.model.metadata.keys import column_stats_key, partition_stats_key
from lakebraid.model.metadata.ranges import INDEXED_META, ColumnRange, absent_range, column_range, column_values
from lakebraid.model.metadata.scope import MetadataScope, metadata_scope
from lakebraid.model.metadata.statistics import range_of_stats
from lakebraid.model.metadata.value_types import value_type
from lakebraid.tasks.staged_file import StagedFile, added_files, write_stats
from lakebraid.txn.writer import Writing
from tests.kit.present import present

ALL = frozenset({"files", "column_stats", "partition_stats"})


class KeptStatistics:
    """What a metadata table would be told of the files of one table. Until one may be written to, tasks are told here of which
    columns statistics are kept, and what they report is taken where it becomes a commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: dict[str, AddedFile] = {}
        self.columns: tuple[str, ...] = ()
        self.twins: set[str] = set()
        """Names that files have in two partitions."""
        monkeypatch.setattr(Writing, "indexed_columns", lambda *_: self.columns)
        for place in ("lakebraid.writing.transaction", "lakebraid.services.merging.tasks"):
            monkeypatch.setattr(f"{place}.write_stats", self._noted)

    def _noted(self, files: Iterable[StagedFile], request_time: str) -> Any:
        found = list(files)
        for file in added_files(found):
            if self.files.setdefault(file.name, file).partition != file.partition:
                self.twins.add(file.name)
            self.files[file.name] = file
        return write_stats(found, request_time)

    def index(self, schema: pa.Schema) -> None:
        """Statistics are kept of every column of which they can be, and of fields in structs, from the next write on."""
        names = [field.name for field in schema if value_type(field.type) is not None]
        inner = [
            f"{field.name}.{part.name}" for field in schema if pa.types.is_struct(field.type) for part in field.type
        ]
        own = [name for name in (*names, *inner) if name not in META_COLUMNS]
        self.columns = (*INDEXED_META, *own)

    def scope(self, schema: pa.Schema) -> MetadataScope:
        definition = IndexDefinition("column_stats", "column_stats", self.columns, "V2")
        return metadata_scope(ALL, {"column_stats": definition}, schema, "t")

    def check(self, table: lb.Table) -> int:
        """How many rows were looked for."""
        snapshot = table.snapshot()
        self.index(snapshot.schema)
        scope = self.scope(snapshot.schema)
        slices = {(s.group.partition, s.group.file_id): _names(s) for s in snapshot.slices}
        files = [self.files[name] for names in slices.values() for name in names if name in self.files]
        delta = delta_of_commit(files, scope)
        rows = table.to_arrow(
            columns=[*META_COLUMNS, *(name for name in snapshot.schema.names if name not in META_COLUMNS)]
        )
        places = zip(
            *(rows.column(name).to_pylist() for name in ("_hoodie_partition_path", "_hoodie_file_name")), strict=True
        )
        for at, (partition, file_name) in enumerate(places):
            names = [name for name in slices[partition, file_name.partition("_")[0]] if name in self.files]
            row = values_of(rows.slice(at, 1), scope)
            assert any(admits(_file(delta, partition, name, scope), row) for name in names), (row, names)
            assert admits(_partition(delta, partition, scope), row), row
        return len(rows)


def _names(part: Any) -> list[str]:
    return [file.name.rpartition("/")[2] for file in (part.base, *part.logs) if file is not None]


def values_of(row: pa.Table, scope: MetadataScope) -> dict[str, ColumnRange]:
    found = {}
    for column in scope.columns:
        values = column_values(row, column.name)
        found[column.name] = (
            absent_range(column.name, 1) if values is None else present(column_range(column.name, values))
        )
    return found


def _file(delta: MetadataDelta, partition: str, name: str, scope: MetadataScope) -> dict[str, ColumnRange]:
    records = delta.records["column_stats"]
    return {c.name: _range(records[column_stats_key(c.name, partition, name)]) for c in scope.columns}


def _partition(delta: MetadataDelta, partition: str, scope: MetadataScope) -> dict[str, ColumnRange]:
    records = delta.records["partition_stats"]
    return {c.name: _range(records[partition_stats_key(c.name, partition)]) for c in scope.columns}


def _range(record: Any) -> ColumnRange:
    assert isinstance(record, ColumnStats)
    return present(range_of_stats(record))


def admits(known: dict[str, ColumnRange], row: dict[str, ColumnRange]) -> bool:
    return all(_admits_value(known[name], value) for name, value in row.items())


def _admits_value(known: ColumnRange, value: ColumnRange) -> bool:
    if not value.has_values:
        return known.null_count > 0
    return known.has_values and _order(known.min) <= _order(value.min) and _order(value.max) <= _order(known.max)


def _order(end: Any) -> Any:
    is_nan = isinstance(end, float) and math.isnan(end)
    return is_nan, 0 if is_nan else end.encode() if isinstance(end, str) else end

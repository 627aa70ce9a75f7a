# SPDX-License-Identifier: Apache-2.0
"""A table whose metadata table Apache Hudi made, and whether readers that go by it find every file and every row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.clock import SystemClock
from lakebraid.model.config import META_COLUMNS
from lakebraid.model.metadata.ranges import ColumnRange, absent_range
from lakebraid.model.metadata.scope import MetadataScope, metadata_scope
from lakebraid.model.timeline.slicing import FileSlice
from lakebraid.storage import open_storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config, load_table, load_timeline
from lakebraid.table.metadata.lookups import Statistics, load_column_stats, load_files, load_partition_stats
from lakebraid.table.metadata.opening import open_metadata_table
from lakebraid.table.metadata.scope import load_index_definitions
from tests.kit.adopting import opened
from tests.kit.metadata_tables.statistics import admits, values_of
from tests.kit.present import present


def adopted(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> lb.Table:
    """A copy of a reference table, with what adoption states. Until such tables may be written, what refuses them is passed over."""
    monkeypatch.setattr("lakebraid.model.writable._metadata_problems", lambda *_: ())
    _, table = opened(name, folder)
    table.adopt()
    return lb.Table.open(table.path)


class Judge:
    """What readers find by the metadata table of one table."""

    def __init__(self, path: str) -> None:
        storage = open_storage(path)
        self.at = TableAt(storage, load_config(storage)[0], SystemClock())
        self.table = lb.Table.open(path)

    def check(self) -> int:
        """Every file of the folders that counts is listed, with its size, and no filter passes over a row. Gives how many rows
        were looked for.
        """
        assert self.listed() == self.in_folders()
        return self.check_rows()

    def listed(self) -> dict[str, int]:
        metadata = present(open_metadata_table(self.at, load_timeline(self.at)))
        found = present(load_files(metadata))
        return {f"{path}/{name}".lstrip("/"): size for path, names in found.items() for name, size in names.items()}

    def in_folders(self) -> dict[str, int]:
        loaded = load_table(self.at)
        return {
            file.name: file.size
            for file in loaded.files
            if loaded.timeline.completion_of(file.parsed.request_time) is not None
        }

    def check_rows(self) -> int:
        metadata = present(open_metadata_table(self.at, load_timeline(self.at)))
        snapshot = self.table.snapshot()
        scope = metadata_scope(
            self.at.config.metadata_partitions, load_index_definitions(self.at), snapshot.schema, "t"
        )
        files = present(load_column_stats(metadata, scope.column_names))
        partitions = load_partition_stats(metadata, scope.column_names)
        slices = {(s.group.partition, s.group.file_id): s for s in snapshot.slices}
        columns = [*META_COLUMNS, *(name for name in snapshot.schema.names if name not in META_COLUMNS)]
        rows = self.table.to_arrow(columns=columns)
        for at in range(len(rows)):
            row = rows.slice(at, 1)
            _check_row(row, slices, scope, files, partitions)
        return len(rows)


def _check_row(
    row: pa.Table,
    slices: dict[tuple[str, str], FileSlice],
    scope: MetadataScope,
    files: Statistics,
    partitions: Statistics | None,
) -> None:
    values = values_of(row, scope)
    partition = row.column("_hoodie_partition_path")[0].as_py()
    file_id = row.column("_hoodie_file_name")[0].as_py().partition("_")[0]
    part = slices[partition, file_id]
    names = [file.name.rpartition("/")[2] for file in (part.base, *part.logs) if file is not None]
    told = [_of_file(files, partition, name, scope) for name in names]
    assert any(known is None or admits(known, values) for known in told), (row.to_pylist(), names)
    if partitions is not None:
        known = {c.name: partitions.of_partition(c.name, partition) for c in scope.columns}
        ranges = {name: found or absent_range(name, 1) for name, found in known.items()}
        assert admits(ranges, values), (row.to_pylist(), ranges)


def _of_file(files: Statistics, partition: str, name: str, scope: MetadataScope) -> dict[str, ColumnRange] | None:
    """The ranges of a file; None if there is none, for then it is read. One that has ranges of some columns passes for a file without
    values of the others.
    """
    found = {column.name: files.of_file(column.name, partition, name) for column in scope.columns}
    if not any(found.values()):
        return None
    return {name: known or absent_range(name, 1) for name, known in found.items()}

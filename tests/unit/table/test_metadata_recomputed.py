# SPDX-License-Identifier: Apache-2.0
"""The statistics that Apache Hudi wrote of its own files beside those that we find in the rows of these files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid.clock import SystemClock
from lakebraid.errors import CorruptFile, UnsupportedTable
from lakebraid.format.log.blocks import read_blocks
from lakebraid.format.metadata.records import ColumnStats
from lakebraid.limits import INDEX_DEFINITIONS_BYTES_MAX
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.metadata.delta import AddedFile, delta_of_commit
from lakebraid.model.metadata.file_ranges import RangeTally, range_rules
from lakebraid.model.metadata.scope import MetadataScope, metadata_scope
from lakebraid.model.metadata.statistics import range_of_stats
from lakebraid.model.schema.conform import with_meta, without_meta
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from lakebraid.table.metadata.lookups import load_files
from lakebraid.table.metadata.opening import load_records
from lakebraid.table.metadata.scope import load_index_definitions, load_indexed_columns
from lakebraid.tasks.reading.blocks import OrderedBlock, decode_block
from tests.hostile.attack import PROPERTIES, Target, target
from tests.kit.metadata_tables.made import opened
from tests.kit.present import present

pytestmark = pytest.mark.unit

OURS = frozenset({"files", "column_stats", "partition_stats"})
INDEX = ".hoodie/.index_defs/index.json"


@dataclass
class Recomputed:
    """A table of Hudi's, and what we would say of the files that it lists."""

    name: str
    target: Target = field(init=False)

    def __post_init__(self) -> None:
        self.target = target(self.name)
        config = load_config(self.target.storage)[0]
        self.at = TableAt(self.target.storage, config, SystemClock())
        self.schema = without_meta(lb.Table.open(self.target.url).snapshot().schema)

    def scope(self) -> MetadataScope:
        listed = OURS & {*self.at.config.metadata_partitions}
        return metadata_scope(listed, load_index_definitions(self.at), self.schema, self.name)

    def rows(self, path: str) -> Iterator[tuple[pa.Table, bool]]:
        data = self.target.storage.read(path, 1 << 26)
        if path.endswith(".parquet"):
            yield pq.read_table(io.BytesIO(data)), False
            return
        rules = merge_rules(self.at.config, self.schema)
        for block in read_blocks(data, path).blocks:
            found = decode_block(OrderedBlock(block, path, ""), rules, with_meta(self.schema))
            if isinstance(found.rows, pa.Table):
                yield found.rows, found.is_partial

    def file(self, partition: str, name: str, size: int) -> AddedFile:
        tally = RangeTally(range_rules(self.scope().column_names, self.at.config, self.schema))
        for rows, is_partial in self.rows(f"{partition}/{name}" if partition else name):
            tally.add(rows, is_partial=is_partial)
        return AddedFile(partition, name, size, tally.found().columns, tally.found().inherited)

    def records(self, partition: str, *, newest_only: bool = False) -> dict[str, ColumnStats]:
        snapshot = lb.Table.open(self.target.url).snapshot()
        newest = {file.name for part in snapshot.slices for file in (part.base, *part.logs) if file is not None}
        files = [
            self.file(path, name, size)
            for path, found in present(load_files(opened(self.target.url))).items()
            for name, size in found.items()
            if not newest_only or (f"{path}/{name}" if path else name) in newest
        ]
        records = delta_of_commit(files, self.scope()).records[partition]
        return {key: record for key, record in records.items() if isinstance(record, ColumnStats)}

    def hudi(self, partition: str) -> dict[str, ColumnStats]:
        return load_records(opened(self.target.url), partition, ColumnStats)


def told(stats: ColumnStats) -> Any:
    """What a record says, but for sizes, which say nothing of rows, and for the ends 0.0 that Hudi writes where there is no value."""
    plain = stats._replace(total_size=0, total_uncompressed_size=0, is_tight=False)
    if stats.value_count == stats.null_count:
        return plain._replace(min=None, max=None)
    return plain


@pytest.mark.parametrize(
    ("name", "files"),
    [("mdt_cow_default", 4), ("mdt_nbcc_bucket", 8), ("mdt_record_index_bloom", 6), ("mdt_v8_mor", 5)],
)
def test_statistics_of_files_are_those_of_hudi(name: str, files: int) -> None:
    table = Recomputed(name)
    ours, theirs = table.records("column_stats"), table.hudi("column_stats")
    assert {key: told(record) for key, record in ours.items()} == {key: told(record) for key, record in theirs.items()}
    assert len(ours) == files * len(table.scope().columns)


def test_of_files_of_its_row_writer_hudi_has_no_statistics_and_of_others_the_same_for_every_type() -> None:
    table = Recomputed("mdt_types_unpartitioned")
    ours, theirs = table.records("column_stats"), table.hudi("column_stats")
    assert {key: told(ours[key]) for key in theirs} == {key: told(record) for key, record in theirs.items()}
    assert len({record.file_name for record in ours.values()}) == 4
    assert len({record.file_name for record in theirs.values()}) == 2
    assert {present(record.value_type)[0] for record in theirs.values()} >= {2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 19}


@pytest.mark.parametrize("name", ["mdt_nbcc_bucket", "mdt_v8_mor"])
def test_statistics_of_partitions_are_those_of_hudi_but_loose(name: str) -> None:
    table = Recomputed(name)
    ours, theirs = table.records("partition_stats"), table.hudi("partition_stats")
    assert {key: told(record) for key, record in ours.items()} == {key: told(record) for key, record in theirs.items()}
    assert {record.is_tight for record in theirs.values()} == {True}
    assert {record.is_tight for record in ours.values()} == {False}


@pytest.mark.parametrize("name", ["mdt_cow_default", "mdt_record_index_bloom"])
def test_where_file_groups_were_replaced_hudi_counts_their_values_still_and_never_fewer_than_there_are(
    name: str,
) -> None:
    table = Recomputed(name)
    ours, theirs = table.records("partition_stats", newest_only=True), table.hudi("partition_stats")
    assert ours.keys() <= theirs.keys()
    for key, record in ours.items():
        mine, hudis = range_of_stats(record), present(range_of_stats(theirs[key]))
        if mine is not None and mine.has_values:
            assert hudis.min <= mine.min and mine.max <= hudis.max, (mine, hudis)


def test_the_indexed_columns_are_those_of_the_definitions() -> None:
    table = Recomputed("mdt_nbcc_bucket")
    assert load_indexed_columns(table.at)[2:] == ("_hoodie_record_key", "id", "name", "price", "ts", "part")
    assert load_indexed_columns(Recomputed("v9_mor_metadata_table").at) == (), "it keeps a listing and no statistics"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"indexDefinitions": {"column_stats": 3}}', b"[" * 100_000, b" " * (INDEX_DEFINITIONS_BYTES_MAX + 1)],
)  # fmt: skip
def test_damaged_definitions_are_a_clear_error(content: bytes) -> None:
    table = Recomputed("mdt_nbcc_bucket")
    table.target.put(INDEX, content)
    with pytest.raises(CorruptFile):
        load_indexed_columns(table.at)


def test_definitions_that_are_missing_or_lie_elsewhere_are_a_clear_error() -> None:
    table = Recomputed("mdt_nbcc_bucket")
    table.target.remove(INDEX)
    with pytest.raises(CorruptFile, match="not there"):
        load_indexed_columns(table.at)
    for path in ("../index.json", ".hoodie/../../index.json", "/etc/passwd", ".hoodie//x"):
        text = table.target.files[PROPERTIES].decode().replace(INDEX, path)
        table.target.put(PROPERTIES, text.encode())
        config = load_config(table.target.storage)[0]
        with pytest.raises(CorruptFile, match="below"):
            load_indexed_columns(TableAt(table.target.storage, config, SystemClock()))


def test_a_table_with_an_index_that_is_not_kept_is_refused_by_name() -> None:
    table = Recomputed("mdt_record_index_bloom")
    with pytest.raises(UnsupportedTable, match="bloom_filters"):
        metadata_scope(table.at.config.metadata_partitions, load_index_definitions(table.at), table.schema, table.name)

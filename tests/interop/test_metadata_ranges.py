# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi passes over files by the ranges that we tell: rightly, for every type, also where we say that a file may hold anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid.clock import SystemClock
from lakebraid.format.metadata.schema import schema_text
from lakebraid.format.names import in_partition
from lakebraid.format.timeline.commit import CommitMetadata, format_commit
from lakebraid.format.times import next_instant_time
from lakebraid.model.metadata.delta import AddedFile, delta_of_commit, logs_of_delta
from lakebraid.model.metadata.ranges import ColumnRange, absent_range, column_ranges
from lakebraid.model.metadata.scope import MetadataScope, metadata_scope
from lakebraid.storage import open_storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from lakebraid.table.metadata.scope import load_index_definitions
from lakebraid.tasks.staged_file import StagedFile, write_stats
from tests.interop.referee import Referee
from tests.kit.reference import Reference, unpack

pytestmark = pytest.mark.interop

FOLDER = ".hoodie/metadata"
FILTERS = (
    "id = 2", "b = true and id = 2", "f = 1.0", "d > 2.4 and d < 2.6", "dec = 2.50", "bigdec > 1.5 and bigdec < 2.5", "s = 'é2'", "bin = X'02ff'",
    "dt = date'2020-01-02'", "t = timestamp'2021-01-02 01:02:03.456789'", "tn = timestamp_ntz'2022-01-02 01:02:03.456789'", "sh = 2",
    "ts = 2", "allnull is null and id = 2", "s is not null and ts = 2", "_hoodie_record_key = '2'",
)  # fmt: skip
"""All are true of the row with the id 2, which lies in a file of which Hudi told no statistics, and of no other."""


class Stated:
    """A table of Hudi's row writer, which told no statistics of two of its files, with those that we tell."""

    def __init__(self, folder: Path) -> None:
        self.reference: Reference = unpack("mdt_types_unpartitioned", folder)
        self.storage = open_storage(str(self.reference.path))
        config = load_config(self.storage)[0]
        self.schema = lb.Table.open(self.reference.path).snapshot().schema
        at = TableAt(self.storage, config, SystemClock())
        self.scope: MetadataScope = metadata_scope(
            config.metadata_partitions, load_index_definitions(at), self.schema, "t"
        )

    def files(self, ranges: Callable[[pa.Table], Iterable[ColumnRange]]) -> list[AddedFile]:
        first = min(completed[0] for completed in self.reference.completed)
        found = sorted(self.reference.path.glob(f"*_{first}.parquet"))
        assert len(found) == 2
        return [AddedFile("", path.name, path.stat().st_size, tuple(ranges(pq.read_table(path)))) for path in found]

    def tell(self, files: list[AddedFile]) -> None:
        """A commit of the metadata table alone, as the extra instant is."""
        request = next_instant_time(max(completed[1] for completed in self.reference.completed))
        completion = next_instant_time(request)
        delta = delta_of_commit(files, self.scope)
        groups = {
            partition: sorted({path.name.split("_")[0].lstrip(".") for path in (self.reference.path / FOLDER / partition).glob(".*log*") if not path.name.endswith("crc")})
            for partition in delta.records
        }  # fmt: skip
        staged = []
        for name, data in logs_of_delta(delta, groups, request):
            self.storage.create(in_partition(FOLDER, name), data)
            partition, _, file = name.partition("/")
            staged.append(StagedFile(partition, file.split("_")[0].lstrip("."), file, len(data), 1, 0, is_base=False))
        metadata = CommitMetadata(
            write_stats(staged, request), extra={"schema": schema_text()}, operation="UPSERT_PREPPED"
        )
        self.storage.create(f"{FOLDER}/.hoodie/timeline/{request}_{completion}.deltacommit", format_commit(metadata))

    def found(self, referee: Referee) -> set[str]:
        """The filters by which Hudi finds the row."""
        options = "`hoodie.metadata.enable` 'true', `hoodie.enable.data.skipping` 'true'"
        view = f"create or replace temporary view told using hudi options (path '{self.reference.path}', {options})"
        referee.ask("sql", text=view)
        asked = (f"select {at} as at, id from told where {where}" for at, where in enumerate(FILTERS))
        rows = referee.ask("sql", text=" union all ".join(asked))
        assert {row["id"] for row in rows} <= {2}
        return {FILTERS[row["at"]] for row in rows}


def test_hudi_finds_a_row_by_our_ranges_of_every_type(referee: Referee, tmp_path: Path) -> None:
    table = Stated(tmp_path)
    table.tell(table.files(lambda rows: column_ranges(rows, table.scope.column_names)))
    assert table.found(referee) == {*FILTERS}


def test_hudi_finds_a_row_where_we_say_that_its_file_may_hold_anything(referee: Referee, tmp_path: Path) -> None:
    table = Stated(tmp_path)
    table.tell(table.files(lambda _: ()))
    assert table.found(referee) == {*FILTERS}


def test_hudi_goes_by_what_we_tell(referee: Referee, tmp_path: Path) -> None:
    table = Stated(tmp_path)
    table.tell(table.files(lambda rows: [absent_range(name, rows.num_rows) for name in table.scope.column_names]))
    assert table.found(referee) == {"bin = X'02ff'"}, (
        "so the tests above are about our ranges; by bytes it passes over nothing"
    )

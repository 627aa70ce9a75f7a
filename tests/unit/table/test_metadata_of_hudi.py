# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any, cast

import pyarrow as pa
import pytest

from lakebraid.errors import UnsupportedTable
from lakebraid.format.hfile.read import Selection
from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.metadata.log import format_metadata_base, format_metadata_log
from lakebraid.format.metadata.records import ColumnStats, Files, Record
from lakebraid.model.metadata.entries import (
    column_stats_records,
    file_id_of_place,
    files_records,
    partition_stats_records,
)
from lakebraid.model.metadata.keys import by_group, column_stats_key, id64
from lakebraid.model.metadata.ranges import column_range, column_ranges
from lakebraid.storage import Storage, open_storage
from lakebraid.table.metadata.files import read_base
from lakebraid.table.metadata.lookups import (
    Statistics,
    load_column_stats,
    load_files,
    load_partition_stats,
    load_row_places,
)
from tests.hostile.attack import Target, target
from tests.kit.metadata_tables.made import TIME, holds, maybe, new_url, opened, plus
from tests.kit.metadata_tables.opened import data_files, tables_with_metadata
from tests.kit.present import present
from tests.kit.reference import DATA

pytestmark = pytest.mark.unit

READ = [name for name in tables_with_metadata() if "v6" not in name]


def expected(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


@pytest.mark.parametrize("name", READ)
def test_the_listing_of_a_table_of_hudi_is_what_lies_in_its_folders(name: str) -> None:
    listed = present(load_files(opened(target(name).url)))
    assert {path: files for path, files in listed.items() if files} == data_files(name)


@pytest.mark.parametrize("name", READ)
def test_rows_that_hudi_reads_lie_in_the_ranges_of_their_partition_and_of_one_of_its_files(name: str) -> None:
    table = opened(target(name).url)
    rows = expected(name)["snapshot"]
    files, partitions = (load(table, ["id"]) for load in (load_column_stats, load_partition_stats))
    listed = present(load_files(table))
    for row in rows:
        path = row["_hoodie_partition_path"]
        if partitions:
            assert holds(present(partitions.of_partition("id", path)), row["id"])
        if files:
            ranges = [files.of_file("id", path, file) for file in listed[path]]
            assert any(found is None or holds(found, row["id"]) for found in ranges)
    assert rows
    assert ("files" in table.partitions) == (listed is not None)


def test_the_index_of_keys_names_the_file_group_of_each_row_and_of_no_deleted_one() -> None:
    table = opened(target("mdt_record_index_bloom").url)
    rows = expected("mdt_record_index_bloom")["snapshot"]
    keys = [str(number) for number in range(50)]
    found = present(load_row_places(table, keys))
    assert {key: place.partition for key, place in found.items()} == {
        row["_hoodie_record_key"]: row["_hoodie_partition_path"] for row in rows
    }
    groups = {
        path: {file.lstrip(".").split("_")[0] for file in files}
        for path, files in data_files("mdt_record_index_bloom").items()
    }
    assert all(file_id_of_place(place) in groups[place.partition] for place in found.values())
    with pytest.raises(UnsupportedTable, match="rare characters"):
        load_row_places(table, ["\U0001f600"])


def test_tables_without_metadata_and_partitions_that_are_not_listed_give_nothing() -> None:
    assert maybe(target("v9_mor_no_ordering").url) is None
    table = opened(target("v9_mor_metadata_table").url)
    assert load_column_stats(table, ["id"]) is None
    assert load_partition_stats(table, ["id"]) is None
    assert load_row_places(table, ["1"]) is None


def test_metadata_tables_of_version_6_are_not_understood() -> None:
    with pytest.raises(UnsupportedTable, match="version 6"):
        opened(target("mdt_v6_mor").url)


def test_a_commit_that_we_write_is_seen_beside_those_of_hudi() -> None:
    made = target("mdt_nbcc_bucket")
    before = present(load_files(opened(made.url)))
    rows = pa.table({"id": [100, 200], "name": ["x", None]})
    name = f".00000001-0000-0000-0000-000000000000-0_{TIME}.log.1_0-0-0"
    ranges = {("p9", name): column_ranges(rows, ["id", "name"])}
    commit(made, TIME, files_records({"p9": {name: 77}}), column_stats_records(ranges), partition_stats_records(ranges))

    table = opened(made.url)

    assert present(load_files(table)) == {**before, "p9": {name: 77}}
    stats, partitions = present(load_column_stats(table, ["id"])), present(load_partition_stats(table, ["id"]))
    assert present(stats.of_file("id", "p9", name)) == column_range("id", rows.column("id"))
    assert present(partitions.of_partition("id", "p9")).max == 200
    assert stats.of_file("name", "p9", name) is None, "it was not asked for"
    assert stats.of_file("id", "p8", name) is None


def commit(made: Target, time: str, files: Any, stats: Any, partitions: Any) -> None:
    groups = {"files-0000-0": files, "partition-stats-0000-0": partitions}
    groups |= {f"col-stats-{number:04}-0": own for number, own in enumerate(by_group(stats, 2))}
    folders = {"files": "files", "col": "column_stats", "partition": "partition_stats"}
    for file_id, records in groups.items():
        folder = folders[file_id.split("-")[0]]
        made.put(f"{FOLDER}/{folder}/.{file_id}_{time}.log.1_0-0-0", format_metadata_log(records, time))
    made.put(f"{TIMELINE}/{time}_{plus(time, 1)}.deltacommit", b"")
    made.put(f".hoodie/timeline/{time}_{plus(time, 2)}.deltacommit", b"")


def test_a_record_under_the_key_of_another_file_says_nothing() -> None:
    stats = ColumnStats("other", "id", None, None, 1, 1)
    assert Statistics({column_stats_key("id", "p0", "a"): stats}).of_file("id", "p0", "a") is None


class Counted:
    """A storage that counts the bytes that are read of base files."""

    def __init__(self, url: str) -> None:
        self._storage = open_storage(url)
        self.calls = self.bytes = 0

    @property
    def url(self) -> str:
        return self._storage.url

    def read_range(self, name: str, start: int, length: int) -> bytes:
        self.calls += 1
        self.bytes += length
        return self._storage.read_range(name, start, length)


def test_a_lookup_in_a_large_base_file_reads_its_index_and_one_block() -> None:
    url = new_url()
    names = [f"{number:08x}-4958-4b7a-9d3e-ee15a1d6b0b4-0_1-2-3_{number:017}.parquet" for number in range(30_000)]
    stats = {
        column_stats_key(column, "p0", name): ColumnStats(name, column, None, None, number, number)
        for column in ("id", "price")
        for number, name in enumerate(names)
    }
    data = format_metadata_base({**stats}, TIME)
    open_storage(url).create("base", data)
    storage = Counted(url)

    (found,) = read_base(
        cast("Storage", storage),
        "base",
        len(data),
        Selection.of_keys([column_stats_key("id", "p0", names[7]).encode()]),
    ).entries
    assert found[1] == stats[column_stats_key("id", "p0", names[7])]
    assert (storage.calls, storage.bytes < 300_000) == (2, True)

    column = Counted(url)
    entries = read_base(
        cast("Storage", column), "base", len(data), Selection.of_prefixes([id64("id").encode()])
    ).entries
    assert len(entries) == len(names)
    assert column.bytes < len(data) * 0.7


def test_a_base_file_whose_index_is_longer_than_its_first_read_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebraid.table.metadata.files._TAIL_BYTES", 4096)
    url = new_url()
    records: dict[str, Record] = {f"p{number}": Files({"a": 1}) for number in range(5000)}
    data = format_metadata_base(records, TIME)
    open_storage(url).create("base", data)
    found = read_base(open_storage(url), "base", len(data), Selection())
    assert {key.decode(): record for key, record in found.entries} == records

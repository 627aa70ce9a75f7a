# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.clock import SystemClock
from lakebraid.errors import CorruptFile, UnsupportedTable
from lakebraid.format.hfile.read import Selection
from lakebraid.format.metadata.log import format_empty_log, format_metadata_base, format_metadata_log
from lakebraid.format.metadata.records import ALL_PARTITIONS, ColumnStats, Files, Record
from lakebraid.model.metadata.entries import (
    column_stats_deleted,
    column_stats_records,
    file_id_of_place,
    files_deleted,
    files_records,
    partition_stats_records,
)
from lakebraid.model.metadata.keys import by_group, column_stats_key, id64
from lakebraid.model.metadata.ranges import ColumnRange, column_range, column_ranges
from lakebraid.storage import Storage, open_storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config, load_timeline
from lakebraid.table.metadata.files import read_base
from lakebraid.table.metadata.lookups import (
    Statistics,
    load_column_stats,
    load_files,
    load_partition_stats,
    load_row_places,
)
from lakebraid.table.metadata.opening import FOLDER, MetadataTable, open_metadata_table
from tests.hostile.attack import Target, files_of, target
from tests.kit.metadata import data_files, tables_with_metadata
from tests.kit.present import present
from tests.kit.reference import DATA

pytestmark = pytest.mark.unit

READ = [name for name in tables_with_metadata() if "v6" not in name]
TIMELINE = f"{FOLDER}/.hoodie/timeline"
TIME, LATER, LATEST = "20271118002156123", "20271118002256123", "20271118002356123"
_numbers = itertools.count()


def opened(url: str, as_of: str | None = None) -> MetadataTable:
    return present(maybe(url, as_of))


def maybe(url: str, as_of: str | None = None) -> MetadataTable | None:
    storage = open_storage(url)
    at = TableAt(storage, load_config(storage)[0], SystemClock())
    return open_metadata_table(at, load_timeline(at).as_of(as_of))


def expected(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


@dataclass
class Made:
    """A table with a metadata table of which our own functions wrote every byte; its data files are only spoken of."""

    url: str = field(default_factory=lambda: f"memory://metadata-{next(_numbers)}")
    groups: int = 2

    def __post_init__(self) -> None:
        files = files_of("mdt_nbcc_bucket")
        for name in (".hoodie/hoodie.properties", f"{FOLDER}/.hoodie/hoodie.properties"):
            self.put(name, files[name])
        self.instant(TIMELINE, "0" * 17, "20270101000000000")
        for partition, file_id in self.ids():
            self.put(f"{FOLDER}/{partition}/.{file_id}_{'0' * 17}.log.1_0-0-0", format_empty_log("0" * 17))

    def ids(self) -> list[tuple[str, str]]:
        stats = [("column_stats", f"col-stats-{number:04}-0") for number in range(self.groups)]
        return [("files", "files-0000-0"), *stats, ("partition_stats", "partition-stats-0000-0")]

    def put(self, name: str, data: bytes) -> None:
        open_storage(self.url).replace(name, data)

    def instant(self, folder: str, request: str, completion: str | None, action: str = "deltacommit") -> None:
        self.put(f"{folder}/{request}.{action}.requested", b"")
        if completion:
            self.put(f"{folder}/{request}_{completion}.{action}", b"")

    def data_instant(self, request: str, completion: str | None, action: str = "deltacommit") -> None:
        self.instant(".hoodie/timeline", request, completion, action)

    def write(
        self,
        request: str,
        completion: str | None,
        partition: str,
        records: dict[str, Any],
        deleted: Collection[str] = (),
    ) -> None:
        """One commit of the metadata table into one of its partitions."""
        ids = [file_id for name, file_id in self.ids() if name == partition]
        for file_id, own in zip(ids, by_group(records, len(ids)), strict=True):
            data = format_metadata_log(own, request, deleted=deleted, partition=partition)
            self.put(f"{FOLDER}/{partition}/.{file_id}_{request}.log.1_0-0-0", data)
        self.instant(TIMELINE, request, completion)

    def base(self, request: str, completion: str, records: dict[str, Record]) -> None:
        """A compaction of the partition of files."""
        data = format_metadata_base(records, request)
        self.put(f"{FOLDER}/files/files-0000-0_0-0-0_{request}.hfile", data)
        self.put(f"{TIMELINE}/{request}.compaction.requested", b"")
        self.put(f"{TIMELINE}/{request}_{completion}.commit", b"")

    def files(self) -> dict[str, dict[str, int]]:
        return present(load_files(opened(self.url)))


@pytest.fixture
def made() -> Made:
    return Made()


def plus(time: str, milliseconds: int) -> str:
    return str(int(time) + milliseconds)


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


def holds(found: ColumnRange, value: Any) -> bool:
    return bool(found.has_values and found.min <= value <= found.max)


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


def test_a_commit_that_is_pending_in_the_table_is_not_seen(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5}}))
    made.data_instant(TIME, None)
    made.write(LATER, plus(LATER, 5), "files", files_records({"p1": {"b": 6}}))
    made.data_instant(LATER, plus(LATER, 9))
    assert made.files() == {"p1": {"b": 6}}
    made.data_instant(TIME, plus(LATER, 20))
    assert made.files() == {"p0": {"a": 5}, "p1": {"b": 6}}


def test_a_commit_after_the_moment_that_is_asked_for_is_not_seen(made: Made) -> None:
    for time, name in ((TIME, "a"), (LATER, "b")):
        made.write(time, plus(time, 5), "files", files_records({"p0": {name: 5}}))
        made.data_instant(time, plus(time, 9))
    assert present(load_files(opened(made.url, plus(TIME, 9)))) == {"p0": {"a": 5}}
    assert made.files() == {"p0": {"a": 5, "b": 5}}


def test_an_instant_of_the_metadata_table_alone_is_seen(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5}}))
    assert made.files() == {"p0": {"a": 5}}


def test_an_instant_that_nobody_completed_is_not_seen(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5}}))
    made.write(LATER, None, "files", files_records({"p0": {"dead": 5}}))
    assert made.files() == {"p0": {"a": 5}}


def test_a_clean_takes_files_away_and_a_dropped_partition_goes_with_its_record(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5, "b": 6}, "p1": {"c": 7}}))
    made.write(LATER, plus(LATER, 5), "files", files_records({}, {"p0": ["a"]}, dropped=["p1"]), files_deleted(["p1"]))
    made.data_instant(TIME, plus(TIME, 9))
    made.data_instant(LATER, None, "clean")
    assert made.files() == {"p0": {"a": 5, "b": 6}, "p1": {"c": 7}}
    made.data_instant(LATER, plus(LATER, 9), "clean")
    assert made.files() == {"p0": {"b": 6}}


def test_a_log_that_began_before_a_compaction_and_completed_after_it_is_read_with_the_new_base(made: Made) -> None:
    made.write(TIME, plus(LATEST, 5), "files", files_records({"p0": {"late": 5}}))
    made.data_instant(TIME, plus(LATEST, 9))
    merged: dict[str, Record] = {**files_records({"p0": {"merged": 6}})}
    made.base(LATER, plus(LATER, 50), merged)
    assert made.files() == {"p0": {"late": 5, "merged": 6}}


def test_a_log_that_a_compaction_has_taken_in_is_not_read_again(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"cleaned since": 5}}))
    made.data_instant(TIME, plus(TIME, 9))
    merged: dict[str, Record] = {**files_records({"p0": {"merged": 6}})}
    made.base(LATER, plus(LATER, 50), merged)
    assert made.files() == {"p0": {"merged": 6}}


def test_a_base_file_of_an_unfinished_compaction_is_passed_over(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5}}))
    made.base(LATER, plus(LATER, 50), {ALL_PARTITIONS: Files(is_partitions=True)})
    open_storage(made.url).delete([f"{TIMELINE}/{LATER}_{plus(LATER, 50)}.commit"])
    assert made.files() == {"p0": {"a": 5}}


def test_a_moment_before_the_oldest_base_file_is_refused(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5}}))
    made.data_instant(TIME, plus(TIME, 9))
    made.base(LATER, plus(LATER, 50), {**files_records({"p0": {"a": 5}})})
    with pytest.raises(UnsupportedTable, match="newer than what is asked for"):
        load_files(opened(made.url, plus(TIME, 9)))


def test_a_write_that_somebody_made_without_the_metadata_table_is_noticed(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5}}))
    made.data_instant(TIME, plus(TIME, 9))
    made.data_instant(LATER, plus(LATER, 9))
    with pytest.raises(UnsupportedTable, match="without maintaining it"):
        made.files()


def test_a_write_from_before_the_metadata_table_was_built_need_not_be_in_it(made: Made) -> None:
    made.data_instant("20260101000000000", "20260101000000009")
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5}}))
    assert made.files() == {"p0": {"a": 5}}


@pytest.mark.parametrize("folder", [TIMELINE, ".hoodie/timeline"])
def test_during_a_restore_the_metadata_table_is_not_asked(made: Made, folder: str) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5}}))
    made.instant(folder, LATER, None, "restore")
    with pytest.raises(UnsupportedTable, match="restore"):
        opened(made.url)


def test_a_lost_file_group_is_noticed_since_keys_would_be_sought_elsewhere(made: Made) -> None:
    lost = f"{FOLDER}/column_stats/.col-stats-0000-0_{'0' * 17}.log.1_0-0-0"
    open_storage(made.url).delete([lost])
    with pytest.raises(UnsupportedTable, match="col-stats-0001-0"):
        load_column_stats(opened(made.url), ["id"])


def test_statistics_of_a_cleaned_file_are_gone_and_those_of_later_commits_widen_a_partition(made: Made) -> None:
    first = {("p0", "a"): column_ranges(pa.table({"id": [5, 9]}), ["id"])}
    second = {("p0", "b"): column_ranges(pa.table({"id": [1, 6]}), ["id"])}
    made.write(TIME, plus(TIME, 5), "column_stats", {**column_stats_records(first)})
    made.write(TIME, plus(TIME, 5), "partition_stats", {**partition_stats_records(first)})
    made.write(LATER, plus(LATER, 5), "column_stats", {**column_stats_records(second)})
    made.write(LATER, plus(LATER, 5), "partition_stats", {**partition_stats_records(second)})
    made.write(LATEST, plus(LATEST, 5), "column_stats", {}, column_stats_deleted([("p0", "a")], ["id"]))

    table = opened(made.url)
    files, partitions = present(load_column_stats(table, ["id"])), present(load_partition_stats(table, ["id"]))

    assert files.of_file("id", "p0", "a") is None
    assert holds(present(files.of_file("id", "p0", "b")), 6)
    assert present(partitions.of_partition("id", "p0")).min == 1
    assert present(partitions.of_partition("id", "p0")).max == 9


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
    url = f"memory://metadata-{next(_numbers)}"
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
    url = f"memory://metadata-{next(_numbers)}"
    records: dict[str, Record] = {f"p{number}": Files({"a": 1}) for number in range(5000)}
    data = format_metadata_base(records, TIME)
    open_storage(url).create("base", data)
    found = read_base(open_storage(url), "base", len(data), Selection())
    assert {key.decode(): record for key, record in found.entries} == records


@pytest.mark.parametrize("bad", ["../p", "/p", "p/../q", ".hoodie", "a//b"])
def test_partitions_that_lead_elsewhere_are_refused(made: Made, bad: str) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({bad: {"a": 5}}))
    with pytest.raises(CorruptFile):
        made.files()


def test_files_that_lead_elsewhere_and_records_of_another_kind_are_refused(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"../a": 5}}))
    with pytest.raises(CorruptFile, match="with a folder"):
        made.files()
    made.write(TIME, plus(TIME, 5), "files", {"p0": ColumnStats("a", "b", None, None, 0, 0)})
    with pytest.raises(CorruptFile, match="another kind"):
        made.files()


def test_a_log_with_blocks_of_another_instant_is_refused(made: Made) -> None:
    made.write(TIME, plus(TIME, 5), "files", files_records({"p0": {"a": 5}}))
    made.put(
        f"{FOLDER}/files/.files-0000-0_{TIME}.log.1_0-0-0", format_metadata_log(files_records({"p0": {"a": 5}}), LATER)
    )
    with pytest.raises(CorruptFile, match=LATER):
        made.files()


def test_a_metadata_table_without_a_record_of_partitions_is_damaged(made: Made) -> None:
    with pytest.raises(CorruptFile, match=ALL_PARTITIONS):
        made.files()


def test_the_error_says_that_the_table_can_be_read_without_it() -> None:
    with pytest.raises(lb.UnsupportedTable, match="can be read without it"):
        opened(target("mdt_v6_mor").url)

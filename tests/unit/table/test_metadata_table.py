# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile, UnsupportedTable
from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.metadata.log import format_metadata_log
from lakebraid.format.metadata.records import ALL_PARTITIONS, ColumnStats, Files, Record
from lakebraid.model.metadata.entries import (
    column_stats_deleted,
    column_stats_records,
    files_deleted,
    files_records,
    partition_stats_records,
)
from lakebraid.model.metadata.ranges import column_ranges
from lakebraid.storage import open_storage
from lakebraid.table.metadata.lookups import (
    load_column_stats,
    load_files,
    load_partition_stats,
)
from tests.hostile.attack import target
from tests.kit.metadata_tables.made import LATER, LATEST, TIME, Made, holds, opened, plus
from tests.kit.present import present

pytestmark = pytest.mark.unit


@pytest.fixture
def made() -> Made:
    return Made()


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

# SPDX-License-Identifier: Apache-2.0
import doctest
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.format import names
from lakebraid.format.names import (
    BaseFileName,
    HistoryFileName,
    LogFileName,
    MarkerName,
    State,
    TimelineFileName,
    history_file_name,
    manifest_name,
    parse_data_file,
    parse_history_file,
    parse_manifest_name,
    parse_marker,
    parse_timeline_file,
)
from tests.kit.counting import calls_of

pytestmark = pytest.mark.unit

TIMES = st.from_regex("[0-9]{17}|[0-9]{14}", fullmatch=True, alphabet=st.characters(codec="ascii"))
IDS = st.text("abcdefXYZ0123456789-", min_size=1)
TOKENS = st.builds("{}-{}-{}".format, *[st.integers(0, 9999)] * 3)
LOGS = st.one_of(
    st.builds(LogFileName, IDS, TIMES, st.integers(0, 99999), st.none(), st.just("")),
    st.builds(LogFileName, IDS, TIMES, st.integers(0, 99999), TOKENS, st.sampled_from(["", ".cdc"])),
)
BASES = st.builds(BaseFileName, IDS, IDS, TIMES, st.sampled_from([".parquet", ".orc", ".hfile", ".lance"]))
PENDING = st.builds(
    TimelineFileName,
    TIMES,
    st.none(),
    st.sampled_from(["commit", "deltacommit", "compaction", "logcompaction", "clustering", "clean", "rollback"]),
    st.sampled_from([State.REQUESTED, State.INFLIGHT]),
)
COMPLETED_ACTIONS = ["commit", "deltacommit", "replacecommit", "clean", "rollback", "restore", "savepoint", "indexing"]
COMPLETED = st.builds(
    TimelineFileName, TIMES, st.none() | TIMES, st.sampled_from(COMPLETED_ACTIONS), st.just(State.COMPLETED)
)


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(names).failed == 0


@given(BASES | LOGS)
def test_a_data_file_name_is_read_back_as_it_was_written(name: BaseFileName | LogFileName) -> None:
    assert parse_data_file(name.format()) == name


@given(PENDING | COMPLETED)
def test_a_timeline_file_name_is_read_back_as_it_was_written(name: TimelineFileName) -> None:
    assert parse_timeline_file(name.format()) == name


@given(
    st.one_of(
        st.from_regex(names._LOG_FILE.pattern, fullmatch=True),
        st.from_regex(names._BASE_FILE.pattern, fullmatch=True),
        st.from_regex(r"\A\.?[a-c_.0-9-]{0,12}_[0-9]{13,18}[a-z_.0-9-]{0,12}\Z"),
        st.text(max_size=40),
    )
)
def test_a_name_that_is_accepted_has_no_second_spelling(text: str) -> None:
    parsed = parse_data_file(text)
    assert parsed is None or parsed.format() == text


@given(st.from_regex(r"\A[0-9]{14,17}(_[0-9]{14,17})?(\.[a-z]{5,13}){1,2}\Z") | st.text(max_size=40))
def test_a_timeline_name_that_is_accepted_has_no_second_spelling(text: str) -> None:
    for layout in (1, 2):
        parsed = parse_timeline_file(text, layout)
        assert parsed is None or parsed.format(layout) == text


@pytest.mark.parametrize(
    "name",
    [
        ".hoodie_partition_metadata",
        "..7f3a-0_20260102030405678.log.1_1-0-1.crc",
        ".7f3a-0_1-0-1_20260102030405678.parquet.crc",
        "7f3a-0_1-0-1_20260102030405678.parquet.tmp",
        "7f3a-0_1-0-1_20260102030405678.txt",
        "7f3a-0_1-0-1_2026010203040567.parquet",
        "7f3a-0_1-0-1_\uff12\uff10\uff12\uff160102030405678.parquet",
        "p0/7f3a-0_1-0-1_20260102030405678.parquet",
        ".7f3a-0_20260102030405678.log.01_1-0-1",
        ".7f3a-0_20260102030405678.log.1.cdc",
        ".7f3a-0_20260102030405678.log.1_1-0-1\n",
        ".7f3a_0_20260102030405678.log.1_1-0-1",
        "_SUCCESS",
        "",
    ],
)
def test_a_file_that_is_not_data_is_left_alone(name: str) -> None:
    assert parse_data_file(name) is None


def test_every_cell_of_the_table_of_timeline_names_is_spelt_as_hudi_spells_it() -> None:
    s, c = "20260102030405678", "20260102030406789"
    spelt = {
        ("commit", "REQUESTED"): f"{s}.commit.requested",
        ("commit", "INFLIGHT"): f"{s}.inflight",
        ("commit", "COMPLETED"): f"{s}_{c}.commit",
        ("deltacommit", "INFLIGHT"): f"{s}.deltacommit.inflight",
        ("compaction", "REQUESTED"): f"{s}.compaction.requested",
        ("logcompaction", "INFLIGHT"): f"{s}.logcompaction.inflight",
        ("clustering", "REQUESTED"): f"{s}.clustering.requested",
        ("replacecommit", "COMPLETED"): f"{s}_{c}.replacecommit",
        ("savepoint", "INFLIGHT"): f"{s}.savepoint.inflight",
        ("savepoint", "COMPLETED"): f"{s}_{c}.savepoint",
        ("indexing", "REQUESTED"): f"{s}.indexing.requested",
        ("restore", "COMPLETED"): f"{s}_{c}.restore",
    }
    for (action, state), name in spelt.items():
        completion = c if state == "COMPLETED" else None
        assert TimelineFileName(s, completion, action, State(state)).format() == name


@pytest.mark.parametrize(
    "name",
    [
        "20260102030405678.commit.inflight",
        "20260102030405678_20260102030406789.deltacommit.inflight",
        "20260102030405678.savepoint.requested",
        "20260102030405678_20260102030406789.compaction",
        "20260102030405678.commit.requested.7f3a",
        ".20260102030405678.commit.crc",
        "20260102030405.unknown",
        "hoodie.properties",
    ],
)
def test_a_stray_file_in_the_timeline_folder_is_no_instant(name: str) -> None:
    assert parse_timeline_file(name) is None


def test_layout_1_has_no_completion_times() -> None:
    assert parse_timeline_file("20260102030405678_20260102030406789.commit", 1) is None
    parsed = parse_timeline_file("20260102030405.deltacommit", 1)
    assert parsed == TimelineFileName("20260102030405", None, "deltacommit", State.COMPLETED)
    with pytest.raises(InvalidArgument):
        TimelineFileName("20260102030405678", "20260102030406789", "commit", State.COMPLETED).format(1)


@pytest.mark.parametrize(
    "name",
    [
        BaseFileName("a_b", "1-0-1", "20260102030405678", ".parquet"),
        BaseFileName("../a", "1-0-1", "20260102030405678", ".parquet"),
        LogFileName("a", "20260102030405678", -1, "1-0-1", ""),
        LogFileName("a", "20260102030405678", 1, None, ".cdc"),
        LogFileName("a", "20260102030405678", 1, "x", ""),
        LogFileName("a" * 5000, "20260102030405678", 1, "1-0-1", ""),
        TimelineFileName("2026", None, "commit", State.REQUESTED),
        TimelineFileName("20260102030405678", None, "savepoint", State.REQUESTED),
        TimelineFileName("20260102030405678", None, "teatime", State.COMPLETED),
        MarkerName("../..", "7f3a-0_1-0-1_20260102030405678.parquet", "CREATE"),
        HistoryFileName("2026", "20260102030405678", 0),
    ],
)
def test_a_name_that_would_not_be_read_back_is_not_written(name: Any) -> None:
    with pytest.raises(InvalidArgument):
        name.format()


def test_log_files_are_applied_in_the_order_of_time_then_version_then_token() -> None:
    spelt = [
        ".a_20260102030405678.log.2",
        ".a_20260102030405678.log.2_0-1-1",
        ".a_20260102030405678.log.10_0-0-0",
        ".a_20260102030405679.log.1_0-0-0",
    ]
    parsed = [name for name in map(parse_data_file, reversed(spelt)) if isinstance(name, LogFileName)]
    assert [name.format() for name in sorted(parsed, key=lambda name: name.sort_key)] == spelt


@given(st.sampled_from(["", "p0", "a=1/b=ü ø"]), BASES | LOGS, st.sampled_from(["CREATE", "MERGE", "APPEND"]))
def test_a_marker_is_read_back_as_it_was_written(
    partition: str, data_file: BaseFileName | LogFileName, kind: str
) -> None:
    marker = MarkerName(partition, data_file.format(), kind)
    assert parse_marker(marker.format()) == marker


@pytest.mark.parametrize(
    "name",
    [
        "../p0/7f3a-0_1-0-1_20260102030405678.parquet.marker.CREATE",
        "p0//7f3a-0_1-0-1_20260102030405678.parquet.marker.CREATE",
        "/7f3a-0_1-0-1_20260102030405678.parquet.marker.CREATE",
        "p0/hoodie.properties.marker.CREATE",
        "MARKERS.type",
    ],
)
def test_a_marker_cannot_send_a_rollback_elsewhere(name: str) -> None:
    assert parse_marker(name) is None


@given(TIMES, TIMES, st.integers(0, 999))
def test_an_archived_file_name_is_read_back_as_it_was_written(first: str, last: str, layer: int) -> None:
    assert parse_history_file(history_file_name(first, last, layer)) == HistoryFileName(first, last, layer)


@given(st.integers(0, 10**9 - 1))
def test_a_manifest_name_is_read_back_as_it_was_written(number: int) -> None:
    assert parse_manifest_name(manifest_name(number)) == number
    assert parse_manifest_name(f"manifest_0{number}") is None


def test_a_name_is_parsed_with_a_handful_of_calls() -> None:
    """Listings have hundreds of thousands."""
    listed = [f".{i:08d}-0000-0000-0000-000000000000-0_20261115203007387.log.1_1-1384-{i}" for i in range(500)]
    listed += [re.sub(r"^\.(.*)_(.*)\.log\..*", r"\1_1-0-1_\2.parquet", name) for name in listed]
    found: list[object] = []
    calls = calls_of(lambda: found.extend(map(parse_data_file, listed)))
    assert len(found) == 1000 and None not in found
    assert calls < 15 * len(listed), "five each when written"

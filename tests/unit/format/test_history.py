# SPDX-License-Identifier: Apache-2.0
import contextlib
import doctest
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import CorruptFile, InvalidArgument, StorageError
from lakebraid.format.names import history_file_name
from lakebraid.format.timeline import history
from lakebraid.format.timeline.history import (
    ArchivedInstant,
    HistoryFile,
    format_manifest,
    manifests_to_try,
    parse_manifest,
    read_history,
    write_history,
)
from tests.kit.effort import times

pytestmark = pytest.mark.unit

TIMES = st.integers(10**16, 10**17 - 1).map(str)
CONTENTS = st.none() | st.binary(max_size=50)
INSTANTS = st.lists(
    st.builds(ArchivedInstant, TIMES, st.none() | TIMES, st.sampled_from(["commit", "clean", "ü"]), CONTENTS, CONTENTS),
    max_size=8,
    unique_by=lambda instant: instant.request_time,
)
FILES = st.builds(HistoryFile, st.builds(history_file_name, TIMES, TIMES, st.integers(0, 9)), st.integers(0, 2**32))
ONE = ArchivedInstant("20260102030405678", "20260102030406789", "commit", b"m", b"p")


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(history).failed == 0


@pytest.mark.slow
@settings(deadline=None, max_examples=times(50))
@given(INSTANTS)
def test_archived_instants_are_read_back_in_the_order_of_their_times(instants: list[ArchivedInstant]) -> None:
    ordered = sorted(instants, key=lambda instant: instant.request_time)
    assert read_history(write_history(instants), "here", with_metadata=True) == ordered


def test_contents_are_left_out_and_actions_are_chosen_on_demand() -> None:
    clean = ArchivedInstant("20260102030405679", None, "clean", b"c", None)
    data = write_history([ONE, clean])
    assert read_history(data, "here") == [
        ArchivedInstant("20260102030405678", "20260102030406789", "commit"),
        ArchivedInstant("20260102030405679", None, "clean"),
    ]
    assert read_history(data, "here", with_metadata=True, actions={"clean"}) == [clean]
    assert read_history(io.BytesIO(data), "here", actions=[]) == []


@pytest.mark.slow
def test_an_archived_file_cut_or_changed_anywhere_is_read_or_a_clear_error() -> None:
    data = write_history([ONE])
    for end in range(len(data)):
        with pytest.raises(CorruptFile):
            read_history(data[:end], "here", with_metadata=True)
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        with contextlib.suppress(CorruptFile):
            assert isinstance(read_history(changed, "here", with_metadata=True), list)


def parquet(columns: dict[str, object], **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, store_schema=False, **options)
    return sink.getvalue()


def rows(count: int = 1, **changes: object) -> dict[str, object]:
    columns = {
        "instantTime": ["20260102030405678"] * count,
        "completionTime": ["20260102030405679"] * count,
        "action": ["commit"] * count,
        "metadata": [b"m"] * count,
        "plan": [b"p"] * count,
    }
    return {**columns, **changes}


@pytest.mark.parametrize(
    "columns",
    [
        {"instantTime": ["20260102030405678"]},
        rows(instantTime=[20260102030405678]),
        rows(instantTime=["../x"]),
        rows(instantTime=pa.array([None], pa.string())),
        rows(completionTime=["soon"]),
        rows(action=pa.array([None], pa.string())),
        rows(metadata=["text"]),
        rows(action=[["commit"]]),
    ],
)
def test_a_parquet_file_that_is_no_history_is_a_clear_error(columns: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile, match="there/x"):
        read_history(parquet(columns), "there/x", with_metadata=True)


def test_one_value_repeated_for_every_row_is_counted_before_it_is_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "HISTORY_DECODED_BYTES_MAX", 100_000_000)
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array([b"\0" * 900_000]))
    data = parquet(rows(1000, metadata=repeated), dictionary_pagesize_limit=2_000_000)
    assert len(data) < 100_000
    with pytest.raises(CorruptFile, match="unfolds"):
        read_history(data, "here", with_metadata=True)
    assert len(read_history(data, "here")) == 1000


def test_a_footer_that_announces_too_much_is_refused_before_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    data = parquet(rows(1000))
    assert len(read_history(data, "here")) == 1000
    monkeypatch.setattr(history, "HISTORY_ROWS_MAX", 999)
    with pytest.raises(CorruptFile, match="999"):
        read_history(data, "here")


class Unreachable(io.BytesIO):
    def __init__(self, error: Exception) -> None:
        super().__init__(b"x" * 10_000)
        self.error = error

    def read(self, *_: object) -> bytes:
        raise self.error


@pytest.mark.parametrize("error", [StorageError("no answer"), ConnectionResetError(104, "reset")])
def test_a_store_that_cannot_be_reached_is_not_called_a_damaged_file(
    error: ConnectionResetError | StorageError,
) -> None:
    with pytest.raises(type(error)):
        read_history(Unreachable(error), "here")


def test_instants_that_would_not_be_read_back_are_not_written() -> None:
    with pytest.raises(InvalidArgument):
        write_history([ArchivedInstant("soon", None, "commit")])


@given(st.lists(FILES, max_size=4).map(tuple))
def test_a_manifest_is_read_back_as_it_was_written(files: tuple[HistoryFile, ...]) -> None:
    assert parse_manifest(format_manifest(files), "here") == files


def test_a_manifest_that_would_not_be_read_back_is_not_written() -> None:
    with pytest.raises(InvalidArgument):
        format_manifest([HistoryFile("../x.parquet", 1)])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"files":{}}',
        b'{"files":[7]}',
        b"[" * 100_000,
        b'{"files":[{"fileName":"../../x","fileLen":1}]}',
        b'{"files":[{"fileName":"20260102030405678_20260102030405679_0.parquet"}]}',
        json.dumps({"files": [{"fileName": history_file_name("1" * 17, "1" * 17, 0), "fileLen": -1}]}).encode(),
        json.dumps({"files": [{"fileName": history_file_name("1" * 17, "1" * 17, 0), "fileLen": 2**60}]}).encode(),
    ],
)
def test_a_damaged_manifest_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="there/x"):
        parse_manifest(data, "there/x")


@pytest.mark.parametrize(
    ("version", "numbers", "chosen"),
    [
        (b"5", [3, 4, 5], [5]),
        (b"4\n", [3, 4, 5], [5, 4]),
        (b"", [3, 5, 4], [5]),
        (b"x", [3], [3]),
        ("٣".encode(), [4], [4]),
        (None, [], []),
        (b"6", [4, 5], [6]),
        (b"1", [], [1]),
        (b"2", [3, 4], [4, 3]),
        (b"9" * 5000, [3], [3]),
    ],
)
def test_the_manifest_that_counts_is_found_while_the_version_file_changes(
    version: bytes | None, numbers: list[int], chosen: list[int]
) -> None:
    assert manifests_to_try(version, iter(numbers)) == chosen

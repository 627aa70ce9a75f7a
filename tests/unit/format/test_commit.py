# SPDX-License-Identifier: Apache-2.0
import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import CorruptFile, InvalidArgument
from lakebraid.format.timeline.commit import CommitMetadata, RuntimeStats, WriteStat, format_commit, parse_commit
from lakebraid.format.timeline.records import RECORDS
from tests.kit.counting import calls_of
from tests.kit.reference import unpack

pytestmark = pytest.mark.unit

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LONGS = st.none() | st.integers(-(2**63), 2**63 - 1)
SPECIAL = {
    "log_version": st.none() | st.integers(-(2**31), 2**31 - 1),
    "log_files": st.none() | st.lists(TEXT, max_size=2).map(tuple),
    "cdc_stats": st.none() | st.dictionaries(TEXT, st.integers(0, 2**63 - 1), max_size=2),
    "runtime_stats": st.none() | st.builds(RuntimeStats, LONGS, LONGS, LONGS),
}
STATS = st.builds(
    WriteStat,
    **{
        part.name: SPECIAL.get(part.name, (st.none() | TEXT) if "str" in str(part.type) else LONGS)
        for part in dataclasses.fields(WriteStat)
    },
)
COMMITS = st.builds(
    CommitMetadata,
    write_stats=st.dictionaries(TEXT, st.lists(STATS, max_size=2).map(tuple), max_size=2),
    compacted=st.booleans(),
    extra=st.dictionaries(TEXT, TEXT, max_size=3),
    operation=st.none() | TEXT,
    replaced=st.dictionaries(TEXT, st.lists(TEXT, max_size=2).map(tuple), max_size=2),
)


@settings(deadline=None)
@given(COMMITS)
def test_a_commit_is_read_back_as_it_was_written(meta: CommitMetadata) -> None:
    assert parse_commit(format_commit(meta), "here") == meta


def camel_case(name: str) -> str:
    return "".join(word if i == 0 else word.capitalize() for i, word in enumerate(name.split("_")))


def as_json(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return {camel_case(part.name): as_json(getattr(value, part.name)) for part in dataclasses.fields(value)}
    return list(value) if isinstance(value, tuple) else value


@settings(deadline=None)
@given(COMMITS)
def test_a_commit_of_layout_1_means_the_same_in_json(meta: CommitMetadata) -> None:
    document = {
        "partitionToWriteStats": {key: [as_json(stat) for stat in stats] for key, stats in meta.write_stats.items()},
        "compacted": meta.compacted,
        "extraMetadata": {**meta.extra, "\0null": None},
        "operationType": meta.operation,
        "partitionToReplaceFileIds": {key: list(ids) for key, ids in meta.replaced.items()},
        "somethingNewer": [1],
    }
    assert parse_commit(json.dumps(document).encode(), "here") == dataclasses.replace(
        meta, extra={key: value for key, value in meta.extra.items() if key != "\0null"}
    )


def test_the_fields_of_a_write_stat_are_hudis_in_hudis_order() -> None:
    on_disk = [field.split(" ")[0] for field in RECORDS["HoodieWriteStat"].split(", ")]
    assert [camel_case(part.name) for part in dataclasses.fields(WriteStat)] == on_disk


def test_an_empty_file_is_a_commit_that_says_nothing() -> None:
    meta = parse_commit(b"", "here")
    assert meta == CommitMetadata()
    assert (meta.schema, meta.rows_written, meta.file_paths) == (None, 0, ())


def test_a_commit_without_data_is_written_with_an_empty_map_and_not_null() -> None:
    assert parse_commit(format_commit(CommitMetadata(operation="UPSERT")), "here").write_stats == {}


def test_what_readers_ask_of_a_commit() -> None:
    stats = {"p0": (WriteStat(path="p0/a", num_writes=3), WriteStat(path="p0/b", num_writes=4)), "": (WriteStat(),)}
    meta = CommitMetadata(write_stats=stats, extra={"schema": "{}"})
    assert (meta.schema, meta.rows_written, meta.file_paths) == ("{}", 7, ("p0/a", "p0/b"))
    assert CommitMetadata(extra={"schema": ""}).schema is None


def test_only_a_replace_commit_may_replace_file_groups() -> None:
    replacing = CommitMetadata(replaced={"p0": ("f",)})
    assert b"HoodieReplaceCommitMetadata" in format_commit(replacing)
    assert b"HoodieReplaceCommitMetadata" in format_commit(CommitMetadata(), replace=True)
    assert b"HoodieReplaceCommitMetadata" not in format_commit(CommitMetadata())
    with pytest.raises(InvalidArgument):
        format_commit(replacing, replace=False)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"{}x",
        b'{"a":"\xff"}',
        b'{"partitionToWriteStats":7}',
        b'{"partitionToWriteStats":{"p0":[{"numWrites":"3"}]}}',
        b'{"partitionToWriteStats":{"p0":[{"numWrites":' + b"9" * 10_000 + b"}]}}",
        b'{"partitionToReplaceFileIds":{"p0":[null]}}',
        b'{"extraMetadata":[]}',
        b'{"a":' * 100_000,
        b"[]",
        b"\0",
    ],
)
def test_a_damaged_commit_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="there/x") as caught:
        parse_commit(data, "there/x")
    assert len(str(caught.value)) < 1000


def test_a_commit_of_layout_1_cut_at_any_byte_is_a_clear_error(tmp_path: Path) -> None:
    table = unpack("v6_mor_bucket", tmp_path)
    data = min((table.path / ".hoodie").glob("*.deltacommit")).read_bytes()
    whole = parse_commit(data, "here")
    for end in range(1, len(data)):
        with contextlib.suppress(CorruptFile):
            assert parse_commit(data[:end], "here") == whole


def test_a_write_stat_is_parsed_with_a_handful_of_calls() -> None:
    """Large commits have thousands."""
    counts: dict[str, Any] = {
        part.name: 1 for part in dataclasses.fields(WriteStat) if part.name not in SPECIAL and "int" in str(part.type)
    }
    stat = WriteStat(
        **counts,
        file_id="7f3a-0",
        path="p0/" + "x" * 80,
        log_files=("x" * 80,),
        runtime_stats=RuntimeStats(1, 2, 3),
    )
    data = format_commit(CommitMetadata({"p0": (stat,) * 1000}))
    parsed: list[CommitMetadata] = []
    calls = calls_of(lambda: parsed.append(parse_commit(data, "here")))
    assert parsed[0].rows_written == 1000
    assert calls < 20 * 1000, "5,099 when written"

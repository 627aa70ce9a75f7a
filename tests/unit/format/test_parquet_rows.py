# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import datetime as dt
import io
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import CorruptFile, LakebraidError
from lakebraid.format.parquet.footer import Chunk, Footer, Leaf, RowGroup
from lakebraid.format.parquet.rows import (
    check_parquet,
    format_parquet_block,
    open_parquet_file,
    read_parquet_block,
    read_parquet_schema,
)
from tests.kit.effort import times

pytestmark = pytest.mark.unit

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int32()),
        "name": ["ä", None, ""],
        "raw": [b"\xff", None, b""],
        "at": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", tz="UTC")),
        "local": pa.array([MOMENT.replace(tzinfo=None), None, None], pa.timestamp("us")),
        "day": pa.array([MOMENT.date(), None, None], pa.date32()),
        "price": pa.array([Decimal("1.50"), None, Decimal("-9.99")], pa.decimal128(10, 2)),
        "list": pa.array([[1, None], None, []], pa.list_(pa.field("element", pa.int64()))),
        "map": pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
        "struct": pa.array([{"a": {"b": True}}, None, {"a": None}]),
    }
)


def _file(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def test_written_rows_are_read_back_with_their_types() -> None:
    content = format_parquet_block(ROWS)

    assert read_parquet_block(content, None, "log").equals(ROWS)
    assert b"ARROW:schema" not in content


@given(st.lists(st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=9)), max_size=30))
def test_any_rows_are_read_back(rows: list[tuple[int | None, str | None]]) -> None:
    columns = [[row[i] for row in rows] for i in range(2)]
    table = pa.table({"a": pa.array(columns[0], pa.int64()), "b": pa.array(columns[1], pa.string())})

    assert read_parquet_block(memoryview(format_parquet_block(table)), None, "log").equals(table)


def test_only_the_wanted_columns_that_exist_are_read() -> None:
    content = format_parquet_block(ROWS)

    assert read_parquet_block(content, ["name", "id", "unknown"], "log").column_names == ["id", "name"]
    assert read_parquet_block(content, [], "log").num_rows == 3


def test_times_of_twelve_bytes_become_microseconds() -> None:
    content = _file(ROWS.select(["local"]), use_deprecated_int96_timestamps=True)

    assert read_parquet_block(content, None, "log").equals(ROWS.select(["local"]))


def test_dictionaries_and_large_types_that_a_writer_asked_for_are_not_given() -> None:
    table = pa.table({"d": pa.array(["x", "y"]).dictionary_encode(), "l": pa.array(["x", "y"], pa.large_string())})

    read = read_parquet_block(_file(table), None, "log")

    assert read.equals(pa.table({"d": ["x", "y"], "l": ["x", "y"]}))
    assert read_parquet_schema(io.BytesIO(_file(table)), len(_file(table)), "base") == read.schema


def test_text_that_is_not_text_is_refused() -> None:
    table = pa.table({"s": pa.array([b"\xff"]).view(pa.string())})

    with pytest.raises(CorruptFile, match="do not decode"):
        read_parquet_block(_file(table), None, "log")


def test_two_columns_of_one_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])

    with pytest.raises(CorruptFile, match="two columns of one name"):
        read_parquet_block(_file(table), None, "log")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1PAR1",
        b"PAR1" + b"\xff\xff\xff\x7f" + b"PAR1",
        b"PAR1" + bytes(4) + b"PARE",
        b"PAR1" + bytes(4) + b"PAR1",
    ],
)
def test_what_is_no_parquet_file_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        read_parquet_block(content, None, "log")


CHUNK = Chunk(values=1000, plain=10_000, stored=1000, data_at=4, dictionary_at=-1)
GROUP = RowGroup(rows=1000, plain=10_000, chunks=[CHUNK])
FOOTER = Footer(rows=1000, leaves=[Leaf("a", "INT64", 0, (0, 1))], groups=[GROUP])


def _footer(**chunk: int) -> Footer:
    return FOOTER._replace(groups=[GROUP._replace(chunks=[CHUNK._replace(**chunk)])])


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("footer", "problem"),
    [
        (FOOTER._replace(rows=-1), "announces -1 rows"),
        (FOOTER._replace(rows=999), "row groups 1,000"),
        (FOOTER._replace(groups=[GROUP._replace(rows=-1)]), "announces -1 rows"),
        (FOOTER._replace(rows=2_000_001, groups=[GROUP._replace(rows=2_000_001)]), "2,000,001 rows in 2,000 bytes"),
        (FOOTER._replace(groups=[GROUP._replace(chunks=[])], leaves=[]), "of 0 columns"),
        (_footer(stored=2001), "claims 2,001 of 2,000 bytes"),
        (_footer(stored=-1), "claims -1"),
        (_footer(plain=-1), "claims"),
        (_footer(values=1001), "1,001 values for 1,000 rows"),
        (_footer(values=-1), "-1 values"),
    ],
)
def test_a_footer_that_announces_what_cannot_be_is_refused(footer: Footer, problem: str) -> None:
    with pytest.raises(CorruptFile, match=problem):
        check_parquet(footer, 2000, "base")


def test_an_honest_footer_passes() -> None:
    check_parquet(FOOTER, 2000, "base")
    check_parquet(_footer(plain=1 << 40), 2000, "base")  # the pages will be looked at
    content = format_parquet_block(ROWS)
    file = open_parquet_file(pa.BufferReader(content), len(content), "base")
    assert file.footer.rows == file.metadata.num_rows == ROWS.num_rows


def test_a_million_equal_values_are_no_bomb() -> None:
    table = pa.table({"a": pa.array(["same"] * 1_000_000), "n": pa.nulls(1_000_000, pa.int64())})

    assert read_parquet_block(format_parquet_block(table), None, "log").num_rows == 1_000_000


@pytest.mark.slow
@pytest.mark.hostile
@settings(max_examples=times(150), deadline=None)
@given(st.randoms(use_true_random=True))
def test_flipped_bytes_end_in_rows_or_a_clear_error(rng: random.Random) -> None:
    content = bytearray(format_parquet_block(ROWS))
    for _ in range(rng.choice((1, 2, 8))):
        content[rng.randrange(len(content))] = rng.choice((rng.randrange(256), 0, 0xFF))
    with contextlib.suppress(LakebraidError):
        read_parquet_block(bytes(content), None, "log").validate(full=True)

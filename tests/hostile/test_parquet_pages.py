# SPDX-License-Identifier: Apache-2.0
"""The look at pages before they are decoded: honest files of every writer's habits pass, and no header reads two ways."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebraid import limits
from lakebraid.errors import CorruptFile
from lakebraid.format.parquet import pages
from lakebraid.format.parquet.pages import batch_rows
from lakebraid.format.parquet.rows import CheckedFile, open_parquet_file, read_parquet_rows
from lakebraid.format.parquet.thrift import parse_struct
from tests.hostile.forge_parquet import (
    INT64,
    Column,
    dictionary_page,
    field,
    items,
    number,
    page,
    parquet,
    repeated,
    struct,
    text,
    unsigned,
)
from tests.hostile.mutations import mutate
from tests.kit.tally import TALLY

pytestmark = pytest.mark.hostile


def _rows(count: int) -> pa.Table:
    random = Random(count)
    return pa.table(
        {
            "key": pa.array([f"key-{n}" for n in range(count)], pa.string()),
            "city": [f"city {n % 7}" for n in range(count)],
            "note": [None if n % 3 else "x" * random.randrange(200) for n in range(count)],
            "number": pa.array(range(count), pa.int64()),
            "price": pa.array([random.random() for _ in range(count)], pa.float64()),
            "flag": [n % 2 == 0 for n in range(count)],
            "nothing": pa.nulls(count, pa.string()),
            "list": [[f"e{n % 5}"] * (n % 4) for n in range(count)],
            "pairs": pa.array([[("a", n)] for n in range(count)], pa.map_(pa.string(), pa.int64())),
            "inside": [{"a.b": n, "t": str(n)} for n in range(count)],
            "a.b": [bytes((n % 256,)) * 9 for n in range(count)],
            "fixed": pa.array([bytes(16)] * count, pa.binary(16)),
        }
    )


HABITS: list[dict[str, Any]] = [
    {"compression": codec, "data_page_version": version, "use_dictionary": dictionary, "write_page_checksum": checksum}
    for codec, version, dictionary, checksum in itertools.product(
        ("none", "snappy", "gzip", "zstd", "brotli", "lz4"), ("1.0", "2.0"), (True, False), (True, False)
    )
]
HABITS += [
    {"data_page_size": 200, "row_group_size": 77},
    {"dictionary_pagesize_limit": 100},
    {"use_dictionary": False, "column_encoding": {"key": "DELTA_BYTE_ARRAY", "number": "DELTA_BINARY_PACKED"}},
    {"use_dictionary": False, "column_encoding": {"key": "DELTA_LENGTH_BYTE_ARRAY", "price": "BYTE_STREAM_SPLIT"}},
    {"write_statistics": False, "write_page_index": True},
    {"store_schema": False, "version": "1.0"},
]


@pytest.mark.parametrize("habit", HABITS, ids=str)
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_honest_files_of_every_habit_are_read_whole(habit: dict[str, Any], count: int) -> None:
    rows, sink = _rows(count), pa.BufferOutputStream()
    pq.write_table(rows, sink, **habit)
    data = sink.getvalue().to_pybytes()
    source = pa.BufferReader(data)
    file = open_parquet_file(source, len(data), "an honest file")
    groups = range(file.metadata.num_row_groups)
    found = list(read_parquet_rows(file, source, groups, rows.column_names, "an honest file"))
    expected = pq.read_table(pa.BufferReader(data))
    assert sum(table.num_rows for table in found) == count
    if count:
        assert pa.concat_tables(found).select(rows.column_names).equals(expected)


def test_ordinary_files_are_decoded_in_ordinary_batches() -> None:
    rows, sink = _rows(20_000), pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="gzip")
    data = sink.getvalue().to_pybytes()
    source = pa.BufferReader(data)
    file = open_parquet_file(source, len(data), "a file")
    assert _step(file, source, {"key", "city", "number", "price"}) == limits.BATCH_ROWS


def _step(file: CheckedFile, source: pa.NativeFile, columns: set[str]) -> int:
    return batch_rows(source, file.metadata, file.footer, range(len(file.footer.groups)), columns, "a file")


HEADERS = [
    page(b"", values=5),
    page(bytes(300), values=2**31 - 1, encoding=8, codec="gzip"),
    dictionary_page(b"abc", values=1),
    number(1, 0) + number(1, 9) + number(1, 9) + number(1, -5) + struct(1, number(1, 3), number(1, 0)) + b"\0",
    number(1, 3)
    + number(1, 9)
    + number(1, 9)
    + struct(5, number(1, 3), number(1, 0), number(1, 3), number(1, 0))
    + b"\0",
    number(1, 0)
    + number(1, 9)
    + number(1, 9)
    + struct(
        2,
        number(1, 3),
        number(1, 0),
        number(1, 3),
        number(1, 3),
        struct(1, text(1, b"max"), text(1, b"min"), number(1, 0, 6)),
    )
    + b"\0",
    number(1, 0) + number(1, 9) + number(1, 9) + field(0, 5, unsigned(4) + unsigned(0)) + b"\0",
    number(1, 0) + number(1, 9) + number(1, 9) + items(1, [repeated(3)], 8) + b"\0",
]


def test_the_quick_look_at_a_header_never_differs_from_the_thorough_one() -> None:
    """Two parsers of one header would be a way past the limits if any bytes told them different things."""
    random = Random(5)
    agreed = 0
    for header in (h for base in HEADERS for h in [base, *(mutate(base, random) for _ in range(3000))]):
        TALLY.tried["page header"] += 1
        quick = pages._plain_header(header)
        if quick is None:
            continue
        try:
            fields, length = parse_struct(header, 0)
        except ValueError:
            continue  # a number of more than 64 bits in a field that is passed over; Arrow refuses those too
        held = (fields.get(5) if fields[1] == 0 else None) or {}
        values, encoding = held.get(1, 0), held.get(2, 0)
        assert quick == (fields[1], fields[2], fields[3], values, encoding, length), header.hex()
        agreed += 1
    assert agreed > 100


@pytest.mark.parametrize("beyond", [2**32, 2**33, 2**40])
def test_a_page_that_means_another_size_in_32_bits_is_refused(beyond: int) -> None:
    """Whoever cuts the number off reads on at the next page, which was then not looked at."""
    hidden = page(bytes(100 << 20), values=3, codec="zstd")
    first = page(bytes(24), values=0)
    lie = first.replace(number(1, 24) + number(1, 24), number(1, 24) + number(1, 24 + beyond))
    assert lie != first
    data = parquet([Column(b"id", INT64, lie + hidden, 3, "zstd", plain_bytes=900)], 3)
    source = pa.BufferReader(data)
    file = open_parquet_file(source, len(data), "a file")
    with pytest.raises(CorruptFile):
        _step(file, source, {"id"})


def test_a_page_of_the_second_kind_is_not_judged_by_a_header_of_the_first() -> None:
    """A header may have both, and says by its kind which one counts."""
    decoy = struct(2, number(1, 2**31 - 1), number(1, 0), number(1, 3), number(1, 3))
    real = struct(3, number(1, 0), number(1, 0), number(1, 0), number(1, 0), number(1, 0), number(1, 0))
    lie = number(1, 3) + number(1, 24) + number(1, 24) + decoy + real + b"\0" + bytes(24)
    hidden = page(bytes(100 << 20), values=3, codec="zstd")
    data = parquet([Column(b"id", INT64, lie + hidden, 3, "zstd", plain_bytes=900)], 3)
    source = pa.BufferReader(data)
    file = open_parquet_file(source, len(data), "a file")
    with pytest.raises(CorruptFile, match="grow"):
        _step(file, source, {"id"})


def test_headers_of_random_bytes_are_read_or_refused() -> None:
    random = Random(6)
    for header in (mutate(base, random) for base in HEADERS for _ in range(2000)):
        TALLY.tried["page header"] += 1
        try:
            fields, end = parse_struct(header, 0)
        except (ValueError, IndexError):
            TALLY.refused += 1
        else:
            assert 0 < end <= len(header)
            assert all(isinstance(key, int) for key in fields)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x15", b"\x1c" * 1000 + bytes(1000), b"\x19\xf5" + b"\xff" * 9 + b"\x01", b"\x18\xff\xff\xff\xff\x0f"],
)
def test_structs_that_are_none_end_at_once(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        parse_struct(data, 0)


def test_a_page_header_that_does_not_decode_is_refused() -> None:
    rows, sink = _rows(100), pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="none", use_dictionary=False)
    data = bytearray(sink.getvalue().to_pybytes())
    data[4:12] = b"\xff" * 8
    source = pa.BufferReader(bytes(data))
    file = open_parquet_file(source, len(data), "a file")
    with pytest.raises(CorruptFile, match="does not decode"):
        list(read_parquet_rows(file, source, [0], ["key"], "a file"))


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_lists_of_short_texts_out_of_a_large_dictionary_are_decoded_in_ordinary_steps(codec: str) -> None:
    """By the size of the dictionary alone every text could be as long as all of it."""
    rows = pa.table({"list": [[f"text {n}", f"text {n + 1}", "x"] for n in range(30_000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression=codec)
    data = sink.getvalue().to_pybytes()
    source = pa.BufferReader(data)
    file = open_parquet_file(source, len(data), "a file")
    assert _step(file, source, {"list"}) == limits.BATCH_ROWS


def test_a_list_of_one_long_text_is_decoded_in_small_steps() -> None:
    rows = pa.table({"list": [["a" * 500_000, "b"]] * 3000})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    source = pa.BufferReader(data)
    file = open_parquet_file(source, len(data), "a file")
    assert len(data) < 50_000
    assert 50 < _step(file, source, {"list"}) < 100

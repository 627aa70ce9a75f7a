# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime as dt
import io
import math
import zipfile
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.format.metadata.records import ALL_PARTITIONS, ColumnStats, Files, RecordParser
from lakebraid.format.metadata.values import Kind, Wrapped
from lakebraid.model.metadata.entries import (
    column_stats_deleted,
    column_stats_records,
    file_id_of_place,
    files_deleted,
    files_records,
    partition_stats_records,
    row_place,
)
from lakebraid.model.metadata.keys import (
    bloom_filter_key,
    by_group,
    column_stats_key,
    group_of_key,
    id64,
    keys_by_group,
    partition_key,
    partition_of_key,
    partition_stats_key,
)
from lakebraid.model.metadata.ranges import (
    ColumnRange,
    absent_range,
    arrow_bounds,
    column_range,
    column_ranges,
    indexed_columns,
    unite,
    unite_all,
)
from lakebraid.model.metadata.statistics import merge_files, merge_stats, range_of_stats, stats_of_range
from lakebraid.model.metadata.value_types import NOTHING, V1, ValueType, value_type
from lakebraid.model.metadata.xxh64 import xxh64
from tests.kit.metadata_tables.opened import all_metadata_files, data_files, tables_with_metadata
from tests.kit.present import present
from tests.kit.reference import DATA

pytestmark = pytest.mark.unit

TYPES: dict[str, tuple[pa.DataType, list[Any], int, Kind]] = {
    "boolean": (pa.bool_(), [True, False], 2, Kind.BOOLEAN),
    "byte": (pa.int8(), [3, -1], 3, Kind.INT),
    "short": (pa.int16(), [3, -1], 3, Kind.INT),
    "int": (pa.int32(), [3, -(2**31)], 3, Kind.INT),
    "long": (pa.int64(), [3, -(2**63)], 4, Kind.LONG),
    "float": (pa.float32(), [0.5, -2.0], 5, Kind.FLOAT),
    "double": (pa.float64(), [0.1, -2.0], 6, Kind.DOUBLE),
    "string": (pa.string(), ["é", "a"], 7, Kind.STRING),
    "large string": (pa.large_string(), ["é", "a"], 7, Kind.STRING),
    "string view": (pa.string_view(), ["é", "a"], 7, Kind.STRING),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["é", "a"], 7, Kind.STRING),
    "bytes": (pa.binary(), [b"\xff", b"a"], 8, Kind.BYTES),
    "fixed": (pa.binary(2), [b"\xffa", b"aa"], 9, Kind.BYTES),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-1.28")], 10, Kind.BYTES),
    "big decimal": (pa.decimal128(38, 18), [Decimal(10) ** 19, Decimal("-0.000000000000000001")], 10, Kind.BYTES),
    "date": (pa.date32(), [dt.date(2020, 1, 2), dt.date(1969, 12, 31)], 12, Kind.INT),
    "time ms": (pa.time32("ms"), [dt.time(1, 2), dt.time(0)], 13, Kind.INT),
    "time us": (pa.time64("us"), [dt.time(1, 2), dt.time(0)], 14, Kind.LONG),
    "timestamp ms": (pa.timestamp("ms", "UTC"), [1, -1], 15, Kind.LONG),
    "timestamp us": (pa.timestamp("us", "UTC"), [1, -1], 16, Kind.LONG),
    "timestamp ns": (pa.timestamp("ns", "UTC"), [1, -1], 17, Kind.LONG),
    "local ms": (pa.timestamp("ms"), [1, -1], 18, Kind.LONG),
    "local us": (pa.timestamp("us"), [1, -1], 19, Kind.LONG),
    "local ns": (pa.timestamp("ns"), [1, -1], 20, Kind.LONG),
}
"""Of each type two values, the greater one first; Hudi's number of the type, and the wrapper of its values."""


@pytest.mark.parametrize("name", TYPES)
def test_a_column_of_each_type_has_the_range_and_the_wrapper_that_hudi_gives_it(name: str) -> None:
    kind, values, ordinal, wrapper = TYPES[name]
    column = pa.array([*values, None], kind)

    found = present(column_range("c", pa.chunked_array([column, column])))
    stats = stats_of_range(found, "file")

    assert (found.null_count, found.value_count, found.type.ordinal) == (2, 6, ordinal)
    assert (present(stats.min).kind, present(stats.max).kind) == (wrapper, wrapper)
    assert present(stats.value_type)[0] == ordinal
    assert range_of_stats(stats) == found
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    low, high = present(arrow_bounds(found, plain))
    assert [high, low] == [value.cast(plain) for value in column[:2]]


@pytest.mark.parametrize("name", [name for name in TYPES if TYPES[name][2] in (2, 3, 4, 5, 6, 7, 12, 14, 16)])
def test_values_in_the_wrappers_of_older_tables_mean_the_same(name: str) -> None:
    kind, values, *_ = TYPES[name]
    found = present(column_range("c", pa.array(values, kind)))
    stats = stats_of_range(found, "file", version=V1)
    assert stats.value_type is None
    assert range_of_stats(stats) == found


def test_decimals_of_older_tables_have_fifteen_digits_behind_the_point() -> None:
    found = present(column_range("c", pa.array([Decimal("1.50"), Decimal("-2.25")])))
    stats = stats_of_range(found, "file", version=V1)
    read = present(range_of_stats(stats))
    assert (read.min, read.max) == (Decimal("-2.25"), Decimal("1.50"))
    assert present(stats.min).value == (-225 * 10**13).to_bytes(7, "big", signed=True)


@pytest.mark.parametrize(
    "kind",
    [pa.struct({"a": pa.int32()}), pa.list_(pa.int32()), pa.map_(pa.string(), pa.int32()), pa.uint64(), pa.null()],
)
def test_columns_that_hudi_does_not_index_have_no_range(kind: pa.DataType) -> None:
    assert column_range("c", pa.nulls(3, kind)) is None


def test_not_a_number_is_greater_than_every_number() -> None:
    column = pa.array([math.nan, 1.0, math.inf, None])
    found = present(column_range("c", column))
    assert found.min == 1.0
    assert math.isnan(found.max)
    only = present(column_range("c", pa.array([math.nan, math.nan])))
    assert math.isnan(only.min) and math.isnan(only.max)
    both = present(unite(only, present(column_range("c", pa.array([2.0])))))
    assert both.min == 2.0
    assert math.isnan(both.max)
    low, high = present(arrow_bounds(both, pa.float64()))
    assert (low.as_py(), math.isnan(high.as_py())) == (2.0, True)


def test_columns_without_values_keep_their_type_and_files_without_rows_have_none() -> None:
    nulls = present(column_range("c", pa.nulls(3, pa.int32())))
    assert nulls == ColumnRange("c", None, None, 3, 3, ValueType(3))
    assert (
        present(column_range("c", pa.nulls(0, pa.int32())))
        == absent_range("c", 0)
        == ColumnRange("c", None, None, 0, 0, NOTHING)
    )
    assert stats_of_range(absent_range("c", 0), "f").value_type == (1, None)
    assert absent_range("c", 5, pa.string()) == ColumnRange("c", None, None, 5, 5, ValueType(7))
    assert present(arrow_bounds(nulls, pa.int32()))[0].as_py() is None


def test_zeros_that_hudi_writes_for_a_column_without_values_mean_nothing() -> None:
    zero = Wrapped(Kind.DOUBLE, 0.0)
    found = present(range_of_stats(ColumnStats("f", "c", zero, zero, 4, 4, value_type=(6, None))))
    assert not found.has_values


@pytest.mark.parametrize(
    "stats",
    [
        ColumnStats("f", "c", None, None, 4, 0, value_type=(6, None)),
        ColumnStats("f", "c", None, Wrapped(Kind.LONG, 1), 4, 0, value_type=(4, None)),
        ColumnStats("f", "c", Wrapped(Kind.LONG, 1), Wrapped(Kind.LONG, 1), 4, 0, value_type=(7, None)),
        ColumnStats("f", "c", Wrapped(Kind.LONG, 1), Wrapped(Kind.LONG, 1), 4, 0, value_type=(99, None)),
        ColumnStats("f", "c", Wrapped(Kind.LONG, 1), Wrapped(Kind.LONG, 1), 4, 5, value_type=(4, None)),
        ColumnStats(
            "f", "c", Wrapped(Kind.LONG, 1), Wrapped(Kind.LONG, 1), 4, 0, is_deleted=True, value_type=(4, None)
        ),
        ColumnStats("f", "c", Wrapped(Kind.BYTES, b"1"), Wrapped(Kind.BYTES, b"2"), 4, 0, value_type=(10, "x,y")),
        ColumnStats("f", "c", Wrapped(Kind.BYTES, bytes(99)), Wrapped(Kind.BYTES, b"2"), 4, 0, value_type=(10, "10,2")),
        ColumnStats("f", "c", Wrapped(Kind.STRING, "1"), Wrapped(Kind.LONG, 1), 4, 0),
    ],
)
def test_statistics_that_make_no_sense_say_nothing(stats: ColumnStats) -> None:
    assert range_of_stats(stats) is None


columns = st.lists(st.none() | st.integers(-50, 50), max_size=12).map(lambda values: pa.array(values, pa.int64()))


@given(columns, columns)
def test_the_union_of_two_ranges_is_the_range_of_both_columns(first: pa.Array, second: pa.Array) -> None:
    one, other = present(column_range("c", first)), present(column_range("c", second))
    both = present(unite(one, other))
    expected = present(column_range("c", pa.concat_arrays([first, second])))
    assert both == expected
    assert unite(other, one) == both


@given(st.lists(st.text(max_size=3), min_size=1))
def test_texts_are_ordered_by_their_bytes(values: list[str]) -> None:
    found = present(column_range("c", pa.array(values)))
    united = unite_all([[present(column_range("c", pa.array([value])))] for value in values])[0]
    encoded = sorted(value.encode() for value in values)
    assert (found.min.encode(), found.max.encode()) == (encoded[0], encoded[-1])
    assert (united.min, united.max) == (found.min, found.max)


def test_ranges_of_widened_types_are_united_and_of_others_are_not() -> None:
    def of(value: Any, kind: pa.DataType) -> ColumnRange:
        return present(column_range("c", pa.array([value], kind)))

    assert present(unite(of(1, pa.int32()), of(2, pa.int64()))).type == ValueType(4)
    assert present(unite(of(1, pa.float32()), of(2, pa.float64()))).type == ValueType(6)
    wide = present(unite(of(Decimal("1.5"), pa.decimal128(4, 1)), of(Decimal("1.25"), pa.decimal128(4, 2))))
    assert (wide.type, wide.min) == (ValueType(10, "5,2"), Decimal("1.25"))
    assert unite(of(1, pa.int32()), of("1", pa.string())) is None
    assert unite_all([[of(1, pa.int32())], [of("1", pa.string())], [of(1, pa.int32())]]) == []
    assert present(arrow_bounds(of(1, pa.int32()), pa.int64()))[0] == pa.scalar(1)
    assert arrow_bounds(of(10, pa.int32()), pa.string()) is None
    assert arrow_bounds(of(10, pa.int64()), pa.int32()) is None


def test_newer_statistics_replace_or_widen_older_ones() -> None:
    def stats(low: int, high: int, **more: Any) -> ColumnStats:
        found = ColumnRange("c", low, high, 1, 10, ValueType(4))
        return stats_of_range(found, "p", is_of_partition=True)._replace(**more)

    loose = merge_stats(stats(5, 9, is_tight=True), stats(1, 6))
    assert range_of_stats(loose) == ColumnRange("c", 1, 9, 2, 20, ValueType(4))
    assert not loose.is_tight
    assert merge_stats(stats(5, 9), stats(6, 7, is_tight=True)) == stats(6, 7, is_tight=True)
    assert merge_stats(stats(5, 9, is_deleted=True), stats(6, 7)) == stats(6, 7)
    assert merge_stats(stats(5, 9), stats(6, 7, is_deleted=True)).is_deleted
    texts = stats_of_range(ColumnRange("c", "a", "b", 0, 1, ValueType(7)), "p")
    assert range_of_stats(merge_stats(stats(5, 9), texts)) is None, "nothing is known, rather than a wrong range"


def test_newer_files_are_laid_over_older_ones() -> None:
    older = Files({"a": 5, "b": 7}, frozenset({"x"}))
    newer = Files({"a": 3, "c": 1, "x": 2}, frozenset({"b", "z"}))
    assert merge_files(older, newer) == Files({"a": 5, "c": 1, "x": 2}, frozenset({"z"}))


def test_hashes_are_those_of_the_published_test_vectors() -> None:
    data = bytearray()
    generator = 2654435761
    for _ in range(222):
        data.append(generator >> 56)
        generator = generator * 11400714785074694797 & (1 << 64) - 1
    prime = 2654435761
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64(b"", prime) == 0xAC75FDA2929B17EF
    assert xxh64(bytes(data[:1])) == 0xE934A84ADB052768
    assert xxh64(bytes(data[:1]), prime) == 0x5014607643A9B4C3
    assert xxh64(bytes(data[:14])) == 0x8282DCC4994E35C8
    assert xxh64(bytes(data[:222])) == 0xB641AE8CB691C174
    assert xxh64(bytes(data[:222]), prime) == 0x20CB8AB7AE10C14A


def test_all_keys_of_hudi_are_those_that_we_make_and_lie_in_the_group_that_we_expect() -> None:
    made = 0
    for table in tables_with_metadata():
        partitions = data_files(table)
        found = [file for file in all_metadata_files() if file.table == table]
        for file in found:
            groups = len({other.group for other in found if other.partition == file.partition})
            parser = RecordParser(file.name)
            for hfile in file.hfiles():
                for key, value in hfile.entries():
                    assert group_of_key(key.decode(), groups) == file.group
                    record = parser.parse(value)
                    if isinstance(record, ColumnStats):
                        names = {
                            column_stats_key(record.column, path, record.file_name)
                            for path in [*partitions, "p0", "p1", "p2"]
                        }
                        names.add(partition_stats_key(record.column, partition_of_key(record.file_name)))
                        assert key.decode() in names
                        made += 1
    assert made > 700


def test_statistics_of_hudi_are_what_its_base_files_say() -> None:
    compared = 0
    for file in all_metadata_files():
        if file.partition != "column_stats" or "v6" in file.table or "v8" in file.table:
            continue
        parser = RecordParser(file.name)
        stats = [parser.parse(value) for hfile in file.hfiles() for _, value in hfile.entries()]
        for one in stats:
            assert isinstance(one, ColumnStats)
            rows = _rows(file.table, one.file_name)
            if rows is None or one.column not in rows.column_names:
                continue
            ours = present(column_range(one.column, rows.column(one.column)))
            assert range_of_stats(one) == ours, one
            assert stats_of_range(ours, one.file_name).value_type == one.value_type
            compared += 1
    assert compared > 120


def _rows(table: str, file_name: str) -> pa.Table | None:
    for partition, names in data_files(table).items():
        if file_name in names and file_name.endswith(".parquet"):
            with zipfile.ZipFile(DATA / f"{table}.zip") as archive:
                path = "/".join(part for part in (table, partition, file_name) if part)
                return pq.read_table(io.BytesIO(archive.read(path)))
    return None


def test_records_of_a_commit_name_its_files_its_partitions_and_what_it_removed() -> None:
    records = files_records({"p0": {"a": 5}, "": {"b": 6}}, {"p0": ["old"], "p9": ["older"]}, dropped=["p7"])
    assert records == {
        "p0": Files({"a": 5}, frozenset({"old"})),
        ".": Files({"b": 6}),
        "p9": Files({}, frozenset({"older"})),
        ALL_PARTITIONS: Files({".": 0, "p0": 0}, frozenset({"p7"}), is_partitions=True),
    }
    assert files_deleted(["p7", ""]) == ["p7", "."]
    assert ALL_PARTITIONS not in files_records({}, {"p0": ["old"]})


def test_records_of_statistics_have_one_for_each_file_and_loose_ones_for_each_partition() -> None:
    first = column_ranges(pa.table({"id": [1, 2], "name": ["a", None]}), ["id", "name", "later"])
    second = column_ranges(pa.table({"id": [7], "name": ["z"]}), ["id", "name", "later"])
    empty = [absent_range(column, 0) for column in ("id", "name", "later")]
    files = {("p0", "a"): first, ("p0", "b"): second, ("p1", "c"): empty}

    of_files, of_partitions = column_stats_records(files), partition_stats_records(files)

    assert len(of_files) == 9
    assert of_files[column_stats_key("id", "p0", "b")] == ColumnStats(
        "b", "id", Wrapped(Kind.LONG, 7), Wrapped(Kind.LONG, 7), 1, 0, value_type=(4, None)
    )
    assert of_partitions.keys() == {partition_stats_key(column, "p0") for column in ("id", "name", "later")}
    united = of_partitions[partition_stats_key("id", "p0")]
    assert (united.file_name, united.is_tight, united.is_of_partition) == ("p0", False, True)
    assert range_of_stats(united) == ColumnRange("id", 1, 7, 0, 3, ValueType(4))
    assert column_stats_deleted([("p0", "a")], ["id"]) == [column_stats_key("id", "p0", "a")]


def test_records_and_keys_are_sorted_into_their_groups() -> None:
    keys = [f"key {number}" for number in range(100)]
    groups = by_group(dict.fromkeys(keys, 1), 7)
    assert [sorted(group) for group in groups] == [sorted(group) for group in keys_by_group(keys, 7)]
    assert all(group_of_key(key, 7) == number for number, group in enumerate(groups) for key in group)
    assert sum(map(len, groups)) == 100


def test_the_index_of_keys_names_file_ids_of_every_form() -> None:
    for file_id in (
        "4951c1b5-fe0e-44d6-a43d-1e1dd5dff92f-3",
        "ffffffff-fe0e-44d6-ffff-1e1dd5dff92f-0",
        "00000001-0000-0000-0000-000000000000-0",
    ):
        place = row_place("p0", file_id, 7)
        assert (place.encoding, place.file_id, file_id_of_place(place)) == (0, "", file_id)
    for file_id in ("odd", "4951C1B5-fe0e-44d6-a43d-1e1dd5dff92f-3", "4951c1b5fe0e44d6a43d1e1dd5dff92f-3"):
        place = row_place("p0", file_id, 7)
        assert (place.encoding, place.high, place.file_index, file_id_of_place(place)) == (1, -1, -1, file_id)


def test_the_columns_that_hudi_indexes_by_itself() -> None:
    schema = pa.schema([("s", pa.struct({"a": pa.int32()})), *((f"c{n}", pa.int32()) for n in range(40))])
    chosen = indexed_columns(schema)
    assert chosen[:3] == ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
    assert (chosen[3], chosen[-1], len(chosen)) == ("c0", "c31", 35)


def test_keys_of_partitions_and_blooms() -> None:
    assert (partition_key(""), partition_of_key("."), partition_key("a/b")) == (".", "", "a/b")
    assert bloom_filter_key("p0", "f").startswith(id64("p0"))
    assert value_type(pa.decimal256(60, 2)) is None

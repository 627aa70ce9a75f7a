# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument, UnsupportedTable
from lakebraid.format.metadata.index_definitions import IndexDefinition
from lakebraid.format.metadata.log import parse_metadata_log
from lakebraid.format.metadata.records import ALL_PARTITIONS, ColumnStats, Files, RecordParser
from lakebraid.limits import INDEXED_COLUMNS_MAX, RANGE_END_MAX
from lakebraid.model.metadata.delta import (
    AddedFile,
    MetadataDelta,
    delta_of_clean,
    delta_of_commit,
    logs_of_delta,
    loose_partition_stats,
)
from lakebraid.model.metadata.keys import column_stats_key, group_of_key, partition_stats_key
from lakebraid.model.metadata.ranges import ColumnRange, column_range, column_ranges, unite_all, widest_range
from lakebraid.model.metadata.scope import IndexedColumn, MetadataScope, metadata_scope
from lakebraid.model.metadata.statistics import range_of_stats
from lakebraid.model.metadata.value_types import NOTHING, ValueType, value_type
from tests.kit.present import present

pytestmark = pytest.mark.unit

TIME = "20271118002156123"
LONG, TEXT = ValueType(4), ValueType(7)
ALL = frozenset({"files", "column_stats", "partition_stats"})
SCOPE = MetadataScope(ALL, (IndexedColumn("id", LONG), IndexedColumn("name", TEXT)))
GROUPS = {
    "files": ["files-0000-0"],
    "column_stats": ["col-stats-0001-0", "col-stats-0000-0"],
    "partition_stats": ["partition-stats-0000-0"],
}


def added(file: str, partition: str = "p0", /, **columns: Any) -> AddedFile:
    rows = pa.table(columns) if columns else pa.table({"id": pa.array([], pa.int64())})
    ranges = tuple(column_ranges(rows, SCOPE.column_names))
    return AddedFile(partition, file, 10, ranges)


def file_range(delta: MetadataDelta, column: str, partition: str, name: str) -> ColumnRange | None:
    record = delta.records["column_stats"][column_stats_key(column, partition, name)]
    assert isinstance(record, ColumnStats)
    return range_of_stats(record)


def partition_range(delta: MetadataDelta, column: str, partition: str) -> ColumnRange | None:
    record = delta.records["partition_stats"].get(partition_stats_key(column, partition))
    assert record is None or isinstance(record, ColumnStats)
    return None if record is None else range_of_stats(record)


def test_a_commit_tells_its_files_their_ranges_and_the_loose_ranges_of_their_partitions() -> None:
    delta = delta_of_commit(
        [
            added("a", id=[1, 5], name=["x", None]),
            added("b", id=[9], name=["y"]),
            added("c", "p1", id=[2], name=pa.nulls(1, pa.string())),
        ],
        SCOPE,
    )

    assert delta.records["files"] == {
        "p0": Files({"a": 10, "b": 10}),
        "p1": Files({"c": 10}),
        ALL_PARTITIONS: Files({"p0": 0, "p1": 0}, is_partitions=True),
    }
    assert file_range(delta, "id", "p0", "a") == ColumnRange("id", 1, 5, 0, 2, LONG)
    assert partition_range(delta, "id", "p0") == ColumnRange("id", 1, 9, 0, 3, LONG)
    assert partition_range(delta, "name", "p0") == ColumnRange("name", "x", "y", 1, 3, TEXT)
    nulls = delta.records["partition_stats"][partition_stats_key("name", "p1")]
    assert isinstance(nulls, ColumnStats) and not nulls.is_tight and (nulls.min, nulls.null_count) == (None, 1)
    assert delta.deleted == {}


def test_only_the_partitions_that_the_table_keeps_are_told() -> None:
    files = [added("a", id=[1], name=["x"])]
    assert delta_of_commit(files, MetadataScope(frozenset({"files"}))).records.keys() == {"files"}
    assert delta_of_commit(
        files, MetadataScope(frozenset({"files", "column_stats"}), SCOPE.columns)
    ).records.keys() == {
        "files",
        "column_stats",
    }
    assert delta_of_clean({"p0": ["a"]}, MetadataScope(frozenset({"files"}))).deleted == {}


def test_a_file_of_deletes_has_no_values_and_adds_none_to_its_partition() -> None:
    delta = delta_of_commit([added("a")], SCOPE)
    found = delta.records["column_stats"][column_stats_key("id", "p0", "a")]
    assert isinstance(found, ColumnStats)
    assert (found.min, found.max, found.value_count, found.null_count, found.value_type) == (
        None,
        None,
        0,
        0,
        (1, None),
    )
    assert "partition_stats" not in delta.records


def test_a_column_of_which_a_file_tells_nothing_may_hold_anything() -> None:
    ranges = tuple(column_ranges(pa.table({"id": [1, 2]}), ["id"]))
    delta = delta_of_commit([AddedFile("p0", "a", 10, ranges)], SCOPE)
    for found in (file_range(delta, "name", "p0", "a"), partition_range(delta, "name", "p0")):
        wide = present(found)
        assert (wide.min, wide.max > "\U0010ffffx") == ("", True)
        assert 0 < wide.null_count < wide.value_count, "rows with and without a value are to be expected"


def test_columns_that_a_partial_update_does_not_bring_may_hold_in_its_file_whatever_other_files_hold() -> None:
    """A row of the table may have its price from the update and its name from the base file: of a filter on both, each file alone
    would meet half."""
    rows = pa.table({"id": [1, 2]})
    fresh = ColumnRange("name", None, None, 1, 1, TEXT)  # one key is new: its row has no name yet
    ranges = (*column_ranges(rows, ["id"]), fresh)
    delta = delta_of_commit([AddedFile("p0", "a", 10, ranges, frozenset({"name"}))], SCOPE)
    wide = present(file_range(delta, "name", "p0", "a"))
    assert wide.has_values and wide.min == "" and wide.null_count
    assert partition_range(delta, "name", "p0") == fresh, "the values themselves are in ranges of files that hold them"


def test_a_file_beside_the_rows_has_no_statistics() -> None:
    delta = delta_of_commit([AddedFile("p0", "a.cdc", 10, None)], SCOPE)
    assert delta.records.keys() == {"files"}


def test_a_partition_that_is_only_named_by_a_commit_is_told_without_files() -> None:
    delta = delta_of_commit([], SCOPE, touched=["p7"])
    assert delta.records == {"files": {"p7": Files({}), ALL_PARTITIONS: Files({"p7": 0}, is_partitions=True)}}
    assert delta_of_commit([], SCOPE).records == {}


def test_two_files_of_one_name_in_two_partitions_are_refused_where_statistics_are_kept() -> None:
    files = [added("a", "p0", id=[1], name=["x"]), added("a", "p1", id=[2], name=["y"])]
    with pytest.raises(InvalidArgument, match="Nothing was published"):
        delta_of_commit(files, SCOPE)
    assert delta_of_commit(files, MetadataScope(frozenset({"files"}))).records


def test_a_column_of_another_type_than_the_table_has_may_hold_anything_unless_it_is_narrower() -> None:
    text = AddedFile("p0", "b", 10, tuple(column_ranges(pa.table({"id": ["1"], "name": ["x"]}), SCOPE.column_names)))
    small = added("a", id=pa.array([1], pa.int32()), name=["x"])
    delta = delta_of_commit([small, text], SCOPE)
    assert file_range(delta, "id", "p0", "a") == ColumnRange("id", 1, 1, 0, 1, LONG)
    for wide in (file_range(delta, "id", "p0", "b"), partition_range(delta, "id", "p0")):
        assert (present(wide).min, present(wide).max, present(wide).type) == (-(2**63), 2**63 - 1, LONG)


def test_a_clean_takes_files_out_and_the_keys_of_their_statistics() -> None:
    delta = delta_of_clean({"p0": ["a"], "p7": ["b"]}, SCOPE, dropped=["p7"])
    assert delta.records["files"] == {
        "p0": Files({}, frozenset({"a"})),
        ALL_PARTITIONS: Files({}, frozenset({"p7"}), is_partitions=True),
    }
    assert delta.deleted["files"] == {"p7"}
    assert delta.deleted["column_stats"] == {
        column_stats_key(column, *file) for column in ("id", "name") for file in (("p0", "a"), ("p7", "b"))
    }
    assert "partition_stats" not in {*delta.records, *delta.deleted}


def test_each_file_group_gets_one_log_of_a_fixed_name_with_the_keys_that_lie_in_it() -> None:
    delta = delta_of_commit([added(f"f{number}", id=[number], name=["x"]) for number in range(20)], SCOPE)
    logs = dict(logs_of_delta(delta, GROUPS, TIME))

    assert logs == dict(logs_of_delta(delta, GROUPS, TIME)), "what is made again is the same to the byte"
    assert logs.keys() == {
        f"files/.files-0000-0_{TIME}.log.1_0-0-0",
        f"column_stats/.col-stats-0000-0_{TIME}.log.1_0-0-0",
        f"column_stats/.col-stats-0001-0_{TIME}.log.1_0-0-0",
        f"partition_stats/.partition-stats-0000-0_{TIME}.log.1_0-0-0",
    }
    seen: dict[str, Any] = {}
    for name, data in logs.items():
        for part in parse_metadata_log(data, name):
            assert part.instant_time == TIME
            for key, value in present(part.entries).entries():
                if name.startswith("column_stats"):
                    assert group_of_key(key.decode(), 2) == int("0001" in name)
                seen[key.decode()] = RecordParser(name).parse(value)
    assert seen == {key: record for found in delta.records.values() for key, record in found.items()}


def test_deleted_keys_go_into_the_groups_in_which_they_lie() -> None:
    delta = delta_of_clean({"p0": [f"f{number}" for number in range(20)]}, SCOPE)
    found = set()
    for name, data in logs_of_delta(delta, GROUPS, TIME):
        for part in parse_metadata_log(data, name):
            assert all(group_of_key(key, 2) == int("0001" in name) for key in part.deleted)
            found |= {*part.deleted}
    assert found == delta.deleted["column_stats"]
    with pytest.raises(InvalidArgument, match="column_stats"):
        logs_of_delta(delta, {"files": ["files-0000-0"]}, TIME)


def test_what_the_extra_instant_repeats_are_the_ranges_of_partitions() -> None:
    delta = delta_of_commit([added("a", id=[1], name=["x"])], SCOPE)
    assert loose_partition_stats(delta).records == {"partition_stats": delta.records["partition_stats"]}


TYPES = [
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (
        pa.string(),
        st.text(max_size=4)
        | st.text("\U0010ffff\ud7ff\ue000a", min_size=RANGE_END_MAX - 1, max_size=RANGE_END_MAX + 2),
    ),
    (pa.binary(), st.binary(max_size=4) | st.binary(min_size=RANGE_END_MAX, max_size=RANGE_END_MAX + 2)),
    (pa.decimal128(10, 2), st.decimals(-99999999, 99999999, places=2)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.integers(-(2**63), 2**63 - 1)),
    (pa.timestamp("ms"), st.integers(-(2**63) // 1000 + 1, (2**63 - 1) // 1000)),
]


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    kind, values = draw(st.sampled_from(TYPES))
    return pa.array(draw(st.lists(st.none() | values, max_size=6)), kind)


def holds(found: ColumnRange, value: Any) -> bool:
    """As Spark compares: texts by bytes, NaN above every number."""

    def order(end: Any) -> Any:
        is_nan = isinstance(end, float) and math.isnan(end)
        return (is_nan, 0 if is_nan else end.encode() if isinstance(end, str) else end)

    return bool(order(found.min) <= order(value) <= order(found.max))


@given(columns(), st.integers(0, 5))
def test_no_range_excludes_a_value_or_a_row_without_one(column: pa.Array, cut: int) -> None:
    kind = present(value_type(column.type))
    pieces = [column.slice(0, cut), column.slice(cut)]
    whole = present(column_range("c", column))
    united = unite_all([[present(column_range("c", piece))] for piece in pieces])[0]
    plain = [
        present(column_range("c", column.slice(at, 1))).min
        if len(value_text(column, at)) <= RANGE_END_MAX
        else value_text(column, at)
        for at in range(len(column))
        if column[at].is_valid
    ]
    for found in (whole, united, widest_range("c", kind, len(column))):
        assert all(holds(found, value) for value in plain)
        assert found.null_count >= column.null_count
        assert found.value_count - found.null_count >= len(plain)
    assert (united.null_count, united.value_count) == (whole.null_count, whole.value_count)
    assert range_of_stats_of(whole) == range_of_stats_of(united)


def value_text(column: pa.Array, at: int) -> Any:
    """Texts and bytes as they are; of other values nothing that has a length."""
    is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    return column[at].as_py() if is_text else ""


def range_of_stats_of(found: ColumnRange) -> tuple[Any, ...]:
    nan = [end if not (isinstance(end, float) and math.isnan(end)) else "NaN" for end in (found.min, found.max)]
    return (*nan, found.null_count, found.value_count)


def definitions(*names: str, version: str = "V2") -> dict[str, IndexDefinition]:
    return {"column_stats": IndexDefinition("column_stats", "column_stats", names, version)}


SCHEMA = pa.schema(
    [("id", pa.int64()), ("at", pa.struct({"lat": pa.float64()})), ("tags", pa.list_(pa.string())), ("a.b", pa.int32())]
)


def test_the_columns_are_those_that_the_table_indexes_or_will_with_the_types_that_they_have() -> None:
    """Hudi's next write indexes the meta columns and the first plain ones, whatever is listed now."""
    names = ("_hoodie_record_key", "id", "at.lat", "a.b", "gone", "at.gone", "id.more", "id")
    scope = metadata_scope(ALL, definitions(*names), SCHEMA, "t")
    assert dict(scope.columns) == {
        "_hoodie_record_key": TEXT, "id": LONG, "at.lat": ValueType(6), "a.b": ValueType(3),
        "gone": NOTHING, "at.gone": NOTHING, "id.more": NOTHING,
        "_hoodie_commit_time": TEXT, "_hoodie_partition_path": TEXT,
    }  # fmt: skip
    assert scope.column_names == (*names[:-1], "_hoodie_commit_time", "_hoodie_partition_path")
    assert metadata_scope(["files"], {}, SCHEMA, "t") == MetadataScope(frozenset({"files"}))
    assert MetadataScope(frozenset({"files"}), scope.columns).column_names == ()


def test_fields_inside_of_structs_have_the_ranges_of_their_values() -> None:
    rows = pa.table({"at": pa.array([{"lat": 1.5}, None, {"lat": None}], SCHEMA.field("at").type), "a.b": [7, 7, 8]})
    found = column_ranges(rows, ["at.lat", "at.lon", "a.b", "no.such"])
    assert found[0] == ColumnRange("at.lat", 1.5, 1.5, 2, 3, ValueType(6))
    assert (found[1].has_values, found[1].null_count) == (False, 3)
    assert (found[2].min, found[2].max) == (7, 8)
    assert not found[3].has_values


@pytest.mark.parametrize(
    ("listed", "known", "what"),
    [
        (["files", "record_index"], {}, "record_index"),
        (["files", "secondary_index_x", "column_stats"], definitions("id"), "secondary_index_x"),
        (["files", "expr_index_x"], {}, "expr_index_x"),
        (["files", "partition_stats"], definitions("id"), "none of files"),
        (ALL, {}, "which columns"),
        (ALL, definitions(), "which columns"),
        (ALL, definitions("id", version="V9"), "V9"),
        (ALL, definitions("tags"), "'tags'"),
        (ALL, definitions("at"), "'at'"),
        (ALL, definitions(*(f"c{number}" for number in range(INDEXED_COLUMNS_MAX + 1))), "1,000 are kept"),
    ],
)
def test_what_writers_cannot_keep_is_refused_by_name(listed: list[str], known: dict[str, Any], what: str) -> None:
    with pytest.raises(UnsupportedTable, match=what) as refused:
        metadata_scope(listed, known, SCHEMA, "some/table")
    assert "some/table" in str(refused.value) and "Nothing was changed" in str(refused.value)

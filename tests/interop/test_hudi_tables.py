# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi writes tables here and now, and we read from them what Hudi reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

import lakebraid as lb
from tests.interop.expected import DIFFERENT_THEN, HUDIS_OWN, NOT_CALLED_NEW, Row, differences
from tests.interop.referee import HudiRefused, Referee
from tests.kit.reference import Reference, names, our_rows, unpack

pytestmark = pytest.mark.interop

# A cross-section of the definitions: all are stored in tests/data, these are also made anew in each run.
LIVE = (
    "v6_mor_deletes",
    "v9_cow_overwrite",
    "v9_mor_keys_composite",
    "v9_mor_late_writer",
    "v9_mor_order_two_fields",
    "v9_mor_partial_fold",
    "v9_mor_partition_encoded",
    "v9_mor_types_compacted",
)


@pytest.fixture(scope="module", params=LIVE)
def live(request: pytest.FixtureRequest, referee: Referee, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    root = tmp_path_factory.mktemp("live")
    return Reference(request.param, root / request.param, referee.ask("make", table=request.param, root=str(root)))


def test_a_table_made_just_now_reads_as_hudi_reads_it(live: Reference) -> None:
    ours, hudis = our_rows(lb.Table.open(live.path).to_arrow(meta_columns=True)), live.hudi(live.expected["snapshot"])
    if live.name in HUDIS_OWN:
        assert differences(ours, hudis) == HUDIS_OWN[live.name].rows
    else:
        assert ours == hudis


def test_its_base_files_read_as_hudi_reads_them(live: Reference) -> None:
    ours = lb.Table.open(live.path).to_arrow(meta_columns=True, mode="read_optimized")
    assert our_rows(ours) == live.hudi(live.expected["read_optimized"])


def test_its_past_reads_as_hudi_reads_it_where_writers_do_not_overlap(live: Reference) -> None:
    table = lb.Table.open(live.path)
    compared, different = 0, []
    for time, expected in live.expected["as_of"].items():
        if isinstance(expected, list) and not live.overlaps:
            ours = our_rows(table.to_arrow(meta_columns=True, as_of=time))
            different += [] if ours == live.hudi(expected) else [time]
            compared += 1
    assert compared or live.overlaps
    assert bool(different) == (live.name in DIFFERENT_THEN), different


@pytest.mark.parametrize("name", sorted(HUDIS_OWN))
def test_a_stored_table_differs_from_hudi_only_where_we_mean_it_to(name: str, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    ours = our_rows(lb.Table.open(reference.path).to_arrow(meta_columns=True))
    assert differences(ours, reference.hudi(reference.expected["snapshot"])) == HUDIS_OWN[name].rows


@pytest.mark.parametrize("name", names())
def test_the_columns_are_those_that_hudi_shows(name: str, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    ours = from_arrow_schema(lb.Table.open(reference.path).schema)
    hudis = StructType.fromJson(reference.expected["schema"])
    shown = [field for field in hudis if not field.name.startswith("_hoodie_") or field.name == "_hoodie_is_deleted"]
    assert columns(ours) == columns(StructType(shown)) | TEXT_IN_HUDI.get(name, {})


# Hudi hands out these numbers as text: it takes the type of a path's value (FORMAT, trap 28).
TEXT_IN_HUDI = {"v9_mor_partition_timestamp": {"at": "bigint"}}


def columns(schema: StructType) -> dict[str, str]:
    return {field.name: nullable(field.dataType).simpleString() for field in schema}


def nullable(kind: DataType) -> DataType:
    """The type with every part nullable: Hudi's readers and ours differ in what they promise, not in what they give."""
    match kind:
        case StructType():
            return StructType([StructField(field.name, nullable(field.dataType)) for field in kind])
        case ArrayType():
            return ArrayType(nullable(kind.elementType))
        case MapType():
            return MapType(nullable(kind.keyType), nullable(kind.valueType))
    return kind


@pytest.mark.parametrize("name", names())
def test_each_row_that_changed_is_among_those_that_hudi_calls_new(name: str, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    table = lb.Table.open(reference.path)
    missing = set()
    for after, expected in (reference.expected.get("incremental_after") or {}).items():
        if isinstance(expected, list) and (changed := changed_rows(table, None if after == "000" else after)):
            missing |= changed - {without_meta(row) for row in reference.hudi(expected)}
    assert bool(missing) == (name in NOT_CALLED_NEW)


def changed_rows(table: lb.Table, after: str | None) -> set[Row]:
    try:
        changes = table.changes(after=after).to_arrow()
    except lb.SnapshotExpired:
        return set()
    return {without_meta(row) for row in our_rows(changes) if dict(row)["_change_type"] != "delete"}


def without_meta(row: Row) -> Row:
    ours = ("_change_type", "_commit_completion_time")
    return tuple(
        (column, value)
        for column, value in row
        if column not in ours and (not column.startswith("_hoodie_") or column == "_hoodie_is_deleted")
    )


@pytest.mark.parametrize("name", ["v8_mor_bucket", "v9_mor_nbcc_overlap"])
def test_the_referee_still_reads_a_stored_table_as_when_it_was_stored(
    name: str, tmp_path: Path, referee: Referee
) -> None:
    reference = unpack(name, tmp_path)
    rows = referee.ask("read", path=str(reference.path))["rows"]
    assert reference.hudi(rows) == reference.hudi(reference.expected["snapshot"])


def test_rows_written_by_command_are_the_rows_that_we_read(tmp_path: Path, referee: Referee) -> None:
    path = str(tmp_path / "commanded")
    options = {
        "hoodie.table.name": "commanded",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.metadata.enable": "false",
    }
    for value in ("first", "second"):
        rows = {"schema": "id int, v string, ts bigint", "json": [{"id": 1, "v": value, "ts": 1}]}
        referee.ask("write", path=path, rows=rows, options=options)
    assert lb.Table.open(path).to_arrow().to_pylist() == [{"id": 1, "v": "second", "ts": 1}]


def test_hudis_refusals_reach_the_test_that_asked(tmp_path: Path, referee: Referee) -> None:
    with pytest.raises(HudiRefused, match="commanded_nowhere"):
        referee.ask("sql", text="select * from commanded_nowhere")

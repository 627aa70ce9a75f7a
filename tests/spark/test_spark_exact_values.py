# SPDX-License-Identifier: Apache-2.0
"""Data frames, updates and merges on Spark keep values as they are or refuse them: Spark's own casts would cut digits off."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakebraid.api.table import Table
from lakebraid.errors import InvalidArgument
from tests.kit.models.exact_values import EDGES, KINDS, REFUSED, held, row, same, schema

pytestmark = pytest.mark.spark

GIVEN = {
    "i": pa.float64(),
    "l": pa.decimal128(38, 2),
    "f": pa.float64(),
    "d": pa.int64(),
    "m": pa.float64(),
    "mm": pa.decimal128(38, 2),
}
"""Columns of a frame that have other types than the table's."""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(str(tmp_path / "t"), schema(), record_keys="id", ordering_fields="ts", buckets=2)


def _pairs(name: str) -> list[tuple[Any, Any]]:
    """Values that the frame's column has, and what the table's makes of them."""
    pairs = []
    for value in EDGES:
        given = held(value, GIVEN[name])
        if given is not REFUSED and given is not None:
            expected = held(given, KINDS[name])
            is_rounded = name == "f" and expected is not REFUSED and expected == expected and expected != given  # noqa: PLR0124
            pairs.append((given, REFUSED if is_rounded else expected))
    return pairs


def test_columns_of_a_frame_that_fit_are_kept_and_others_refused(table: Table, spark: SparkSession) -> None:
    kept = [(n, v, e) for n in GIVEN for v, e in _pairs(n) if e is not REFUSED]
    columns = pa.schema([("id", pa.float64()), ("ts", pa.int32()), *GIVEN.items()])
    rows = pa.Table.from_pylist([{**row(key), name: value} for key, (name, value, _) in enumerate(kept)], columns)
    frame = spark.createDataFrame(rows).repartition(3)  # of unknown size: written by tasks
    table.upsert(frame, evolve=False)
    found = {r["id"]: r for r in table.to_arrow().to_pylist()}
    for key, (name, value, expected) in enumerate(kept):
        assert same(found[key][name], expected), (name, value)
    before = repr(table.to_arrow().sort_by("id").to_pylist())  # NaN is equal to nothing
    for name in GIVEN:
        lossy = [value for value, expected in _pairs(name) if expected is REFUSED]
        assert lossy
        for value in lossy[:3]:
            bad = pa.Table.from_pylist([{**row(1), name: value}], columns)
            with pytest.raises(InvalidArgument, match=f"column '{name}' .* cannot take .*Nothing was written"):
                table.upsert(spark.createDataFrame(bad), evolve=False)
    with pytest.raises(InvalidArgument, match=r"column 'id' .* cannot take 1.9"):
        table.upsert(spark.createDataFrame([(1.9, 9)], "id double, ts bigint").repartition(2))
    for keys in ("id double", "id double, ts bigint"):
        with pytest.raises(InvalidArgument, match=r"column 'id' .* cannot take 5.5"):
            table.delete(spark.createDataFrame([(5.5, 9)[: 1 + keys.count(",")]], keys))
    assert repr(table.to_arrow().sort_by("id").to_pylist()) == before


def test_the_format_refuses_what_would_be_cut_off(table: Table, spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1.0, 1, 7.0)], "id double, ts bigint, i double")
    frame.write.format("lakebraid").mode("append").save(table.path)
    assert table.to_arrow(columns=["id", "i"]).to_pylist() == [{"id": 1, "i": 7}]
    with pytest.raises(Exception, match=r"column 'i' .* cannot take 7.5"):
        frame.withColumn("i", F.lit(7.5)).write.format("lakebraid").mode("append").save(table.path)
    assert table.to_arrow(columns=["id", "i"]).to_pylist() == [{"id": 1, "i": 7}]


def test_an_update_gives_exactly_the_value_or_is_refused(table: Table, spark: SparkSession) -> None:
    table.upsert([row(1, l=3, i=1, d=1.0), row(2, l=4, i=1, d=1.0)])
    before = table.to_arrow().to_pylist()
    expressions = {
        "l": "1.5",
        "i": "l / 2",
        "f": "0.1D",
        "d": "9007199254740993",
        "m": "1.55",
        "day": "timestamp '2024-05-17 05:00:00'",
    }
    for name, expression in expressions.items():
        with pytest.raises(InvalidArgument, match=f"'{name}' .*Nothing was written"):
            table.update({name: expression}, spark=spark)
    with pytest.raises(InvalidArgument, match=r"Column 'l' .* cannot take 1.5 .*Nothing was changed"):
        table.update({"l": 1.5}, where="id = 1", spark=spark)
    assert table.to_arrow().to_pylist() == before
    table.update({"l": "l / 2 * 2", "i": "2.0", "m": "1.50", "d": "l"}, where="id = 2", spark=spark)
    (found,) = table.to_arrow(columns=["l", "i", "m", "d"], where="id = 2").to_pylist()
    assert found == {"l": 4, "i": 2, "m": Decimal("1.5"), "d": 4.0}


def test_an_update_takes_plain_values_as_a_row_does(table: Table, spark: SparkSession) -> None:
    table.upsert([row(1)])
    plain = [value for value in EDGES if not isinstance(value, str)]
    for nth in range(3):
        values = {}
        for name, kind in KINDS.items():
            fine = [v for v in plain if v is not None and held(v, kind) is not REFUSED]
            if fine:
                values[name] = fine[(nth * 7 + 1) % len(fine)]
        table.update(values, spark=spark)
        (found,) = table.to_arrow().to_pylist()
        for name, value in values.items():
            assert same(found[name], held(value, KINDS[name])), (name, value)
    refused = [(n, v) for n, kind in KINDS.items() for v in plain if held(v, kind) is REFUSED]
    for name, value in refused[::40]:
        with pytest.raises(InvalidArgument, match=f"Column '{name}' .*Nothing was changed"):
            table.update({name: value}, spark=spark)


def test_an_update_takes_lists_structs_and_maps(tmp_path: Path, spark: SparkSession) -> None:
    columns = "id bigint, l array<bigint>, s struct<a: int, t: string>, m map<string, float>"
    table = Table.create(str(tmp_path / "t"), columns, record_keys="id")
    table.upsert([{"id": 1}])
    values = {"l": [1, 2.0, None], "s": {"a": 1, "t": "it's"}, "m": {"k": 0.5}}
    table.update(values, spark=spark)
    (found,) = table.to_arrow().to_pylist()
    assert found == {"id": 1, "l": [1, 2, None], "s": {"a": 1, "t": "it's"}, "m": [("k", 0.5)]}
    for name, value in {"l": [1.5], "s": {"a": 1, "more": 1}, "m": {"k": 1e300}}.items():
        with pytest.raises(InvalidArgument, match=f"Column '{name}"):
            table.update({name: value}, spark=spark)


def test_a_merge_meets_only_rows_of_exactly_its_keys(table: Table, spark: SparkSession) -> None:
    odd = 2**53 + 1
    table.upsert([row(1, l=odd), row(odd, l=odd), row(2**53, l=0)])
    before = table.to_arrow().sort_by("id").to_pylist()
    for key in (1.9, True, "1", Decimal("1.5"), float("nan")):
        with pytest.raises(InvalidArgument, match="column 'id'"):
            table.merge([{"id": key, "ts": 2, "l": 7}], spark=spark)
    with pytest.raises(InvalidArgument, match="'id' of the source has the type double"):
        table.merge(spark.createDataFrame([(float(2**53), 2, 7)], "id double, ts bigint, l bigint"))
    with pytest.raises(InvalidArgument, match=r"column 'l' .* cannot take 7.5"):
        table.merge([{"id": 1, "ts": 2, "l": 7.5}], spark=spark)
    assert table.to_arrow().sort_by("id").to_pylist() == before
    table.merge([{"id": Decimal("1.0"), "ts": 2, "l": 7.0}, {"id": 5, "ts": 2, "l": 8}], spark=spark)
    assert {r["id"]: r["l"] for r in table.to_arrow().to_pylist()} == {1: 7, 5: 8, odd: odd, 2**53: 0}


def test_rows_that_a_merge_updates_keep_their_numbers_beside_others_that_it_inserts(
    table: Table, spark: SparkSession
) -> None:
    """Spark would make one column of the bigints of the table and the doubles of the source, and that is one of doubles."""
    odd = 2**53 + 1
    table.upsert([row(1, l=odd)])
    source = spark.createDataFrame([(1, 2, 0.0), (2, 2, 4.0)], "id bigint, ts bigint, l double")
    table.merge(source, matched_update={"ts": "s.ts"})
    assert {r["id"]: (r["ts"], r["l"]) for r in table.to_arrow().to_pylist()} == {1: (2, odd), 2: (2, 4)}


def test_where_means_the_same_on_spark(table: Table, spark: SparkSession) -> None:
    odd = 2**53 + 1
    at = datetime(2024, 5, 17, 5, tzinfo=UTC)
    table.upsert([row(n, l=n + odd, d=float(2**53), m=Decimal("25.7"), day=date(2024, 5, 17), at=at) for n in range(6)])
    wheres = [
        "id = 1.5", "id in (1.9, 2)", "id > 1.5", "d = 9007199254740993", "d < 9007199254740993", "m in (0.00, 25.70)",
        f"l = {odd}", "m = 25.75", "at > date '2024-05-17'", "day = timestamp '2024-05-17 05:00:00'",
    ]  # fmt: skip
    for where in wheres:
        there = sorted(r["id"] for r in table.to_spark(columns=["id"], where=where, spark=spark).collect())
        assert there == sorted(table.to_arrow(columns=["id"], where=where).column("id").to_pylist()), where
    table.delete(where="id = 1.9")
    table.delete(where="d = 9007199254740993")
    assert table.count() == 6

# SPDX-License-Identifier: Apache-2.0
"""Partition values and ordering columns: what Apache Hudi reads is written, what it cannot read is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.model import incoming
from tests.interop.referee import HudiRefused, Referee
from tests.interop.test_hudi_reads_our_writes import rows_of
from tests.kit.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop

PARTED = "id int, ts bigint, name string, p string"
LOCAL_NAME_MAX = 255
ODD = [
    *(" a", "a ", " ", ".a", "_a", "_hoodie", "...", "a..", "default", "null", "\u00a0a", "\ufeffa", "a\u2028b"),
    *(
        "a*b",
        "a{b}c",
        "a{b",
        "a[b]c",
        "a[b",
        "a?b",
        "a%b",
        "a%",
        "a#b",
        "a,b",
        "a;b",
        "a|b",
        "a^b",
        "a'b",
        'a"b',
        "a+b",
    ),
    *("a&b", "a~", "a<b>c", "a$b", "a\U0001f40db", "é", "e\u0301", "a/b", "a/.b", "a/_b"),
]
ONLY_ENCODED = ["a:b", ":a", "\ta", "\x01a", "a\nb", "a\x7fb", "a\\b", "/a", "a/", "a//b", "a=b", "a%2Fb"]
NEVER = [".hoodie", ".hoodie_x", "__HIVE_DEFAULT_PARTITION__", "x" * (LOCAL_NAME_MAX + 1)]
PLAIN_BUT_OTHER = {"a=b", "a%2Fb"}
"""Hudi reads them from plain folders, as other values: docs/differences.md."""


def parted(path: Path, *, hive: bool, encoded: bool) -> lb.Table:
    options = {"hoodie.datasource.write.partitionpath.urlencode": str(encoded).lower()}
    return lb.Table.create(
        path,
        PARTED,
        record_keys="id",
        ordering_fields="ts",
        partition_by="p",
        buckets=1,
        hive_style_partitioning=hive,
        properties=options,
        shared=True,
    )


def in_(number: int, value: str, ts: int = 1, name: str = "ours") -> dict[str, Any]:
    return {"id": number, "ts": ts, "name": name, "p": value}


def names(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[column] for column in columns) for row in rows)


@pytest.mark.parametrize("hive", [False, True], ids=["plain", "hive"])
@pytest.mark.parametrize("encoded", [False, True], ids=["raw", "encoded"])
def test_hudi_reads_and_writes_every_partition_value_that_we_take(
    hive: bool, encoded: bool, referee: Referee, tmp_path: Path
) -> None:
    table = parted(tmp_path / "t", hive=hive, encoded=encoded)
    values = [*ODD, *(ONLY_ENCODED if encoded else ()), "x" * (LOCAL_NAME_MAX - 2)]
    table.upsert([in_(n, value) for n, value in enumerate(values)])
    refused = [
        *NEVER[2 if hive else 0 :],
        *(() if encoded else {*ONLY_ENCODED} - PLAIN_BUT_OTHER - ({"/a"} if hive else set())),
    ]
    for value in refused:
        with pytest.raises(lb.InvalidArgument, match="cannot be a value of the partition column 'p'"):
            table.upsert([in_(0, value)])
    ours = [(n, value) for n, value in enumerate(values)]
    assert names(referee.ask("read", path=str(tmp_path / "t"))["rows"], "id", "p") == ours
    changed = {"schema": PARTED, "json": [in_(n, value, 2, "hudis") for n, value in ours]}
    referee.ask("write", path=str(tmp_path / "t"), rows=changed, options={})
    assert names(table.to_arrow().to_pylist(), "id", "p", "name") == [(n, value, "hudis") for n, value in ours]


def test_hudi_fails_on_a_colon_in_a_folder_which_is_why_it_is_refused(
    referee: Referee, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = parted(tmp_path / "t", hive=False, encoded=False)
    monkeypatch.setattr(incoming, "check_partition_values", lambda *_: None)
    table.upsert([in_(1, "a:b")])
    with pytest.raises(HudiRefused, match="URISyntaxException"):
        referee.ask("read", path=str(tmp_path / "t"))


UTC = dt.UTC
ORDERED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [False, False, True, True]),
    "int": (pa.int32(), [-1, 0, 3, 4]),
    "bigint": (pa.int64(), [-1, 0, 3, 4]),
    "float": (pa.float32(), [-1.5, 0.0, 3.5, 4.5]),
    "double": (pa.float64(), [-1.5, 0.0, 3.5, 4.5]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.5"), Decimal(2), Decimal("3.5"), Decimal("10.5")]),
    "wide decimal": (pa.decimal128(30, 15), [Decimal("-1.5"), Decimal(2), Decimal("3.5"), Decimal("10.5")]),
    "date": (pa.date32(), [dt.date(year, 1, 1) for year in (1960, 1970, 1980, 2020)]),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(y, 1, 1, tzinfo=UTC) for y in (1960, 1970, 1980, 2020)]),
    "timestamp_ntz": (pa.timestamp("us"), [dt.datetime(year, 1, 1) for year in (1960, 1970, 1980, 2020)]),
    "string": (pa.string(), ["a", "b", "c", "d"]),
    "odd string": (pa.string(), ["", "10", "9", "é"]),
}


@pytest.mark.parametrize("into_base", [False, True], ids=["logs", "base"])
@pytest.mark.parametrize("kind", ORDERED)
def test_hudi_orders_rows_by_every_type_that_we_take(
    kind: str, into_base: bool, referee: Referee, tmp_path: Path
) -> None:
    type_, (least, less, more, most) = ORDERED[kind]
    columns = pa.schema([("id", pa.int32()), ("o", type_), ("name", pa.string())])
    table = lb.Table.create(tmp_path / "t", columns, record_keys="id", ordering_fields="o", buckets=1)

    def rows(values: dict[int, Any], name: str) -> pa.Table:
        return pa.Table.from_pylist([{"id": n, "o": o, "name": name} for n, o in values.items()], columns)

    (table.bulk_insert if into_base else table.upsert)(rows(dict.fromkeys(range(1, 8), less), "first"))
    if into_base:
        table.compact()
    table.upsert(rows({1: most, 2: least, 5: more, 8: less}, "second"))
    table.upsert(rows({1: more, 5: most, 8: more}, "third"))
    table.delete(rows({3: more, 4: least}, "").select(["id", "o"]))
    table.delete(pa.table({"id": pa.array([6], pa.int32())}))
    ours = names(table.to_arrow().to_pylist(), "id", "name")
    assert names(referee.ask("read", path=str(tmp_path / "t"))["rows"], "id", "name") == ours
    assert {key for key, _ in ours} == {1, 2, 4, 5, 7, 8} - ({4} if least == less else set())


@pytest.mark.parametrize("form", ["avro", "parquet"])
def test_hudi_takes_older_texts_for_newer_ones_in_parquet_blocks_of_its_own(
    form: str, referee: Referee, tmp_path: Path
) -> None:
    """Which is why tables that are ordered by a text get Avro blocks from us, whatever was asked for."""
    path = str(tmp_path / "t")
    options = HUDIS | {"hoodie.logfile.data.block.format": form}
    for name, orders in (("first", "bb"), ("second", "da"), ("third", "c")):
        rows = [{"id": n, "o": order, "name": name} for n, order in enumerate(orders)]
        table = {"schema": "id int, o string, name string", "json": rows}
        referee.ask("write", path=path, rows=table, options=options)
    right = [(0, "second"), (1, "first")]
    assert names(lb.Table.open(path).to_arrow().to_pylist(), "id", "name") == right
    hudis = names(referee.ask("read", path=path)["rows"], "id", "name")
    assert (hudis == right) == (form == "avro"), "Hudi has mended its ways"


def test_hudi_reads_partial_updates_of_rows_that_a_text_orders(referee: Referee, tmp_path: Path) -> None:
    columns = "id int, o string, name string, note string"
    table = lb.Table.create(tmp_path / "t", columns, record_keys="id", ordering_fields="o", buckets=1)
    table.bulk_insert([{"id": n, "o": "b", "name": "first", "note": "whole"} for n in range(6)])
    table.upsert([{"id": n, "o": "ac"[n % 2], "name": "part"} for n in range(4)], columns=["id", "o", "name"])
    table.upsert([{"id": 1, "o": "d", "note": "later"}], columns=["id", "o", "note"])
    ours = names(table.to_arrow().to_pylist(), "id", "name", "note")
    assert ours[:3] == [(0, "first", "whole"), (1, "part", "later"), (2, "first", "whole")]
    assert names(referee.ask("read", path=str(tmp_path / "t"))["rows"], "id", "name", "note") == ours


@pytest.mark.parametrize(
    ("kind", "values"), [("decimal(10,2)", ("1.5", "2.5")), ("date", ("2020-01-01", "2021-01-01"))]
)
def test_hudi_cannot_update_its_own_copy_on_write_tables_by_these_orders(
    kind: str, values: tuple[str, str], referee: Referee, tmp_path: Path
) -> None:
    """It reads ours; docs/how-to/share-with-hudi.md warns those who want it to write there."""
    options = HUDIS | {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", "hoodie.index.type": "SIMPLE"}

    def hudi_writes(order: str) -> None:
        rows = {"schema": f"id int, o {kind}", "json": [{"id": 1, "o": order}]}
        referee.ask("write", path=str(tmp_path / "t"), rows=rows, options=options)

    hudi_writes(values[0])
    with pytest.raises(HudiRefused, match="ClassCastException"):
        hudi_writes(values[1])


HUDIS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "o",
    "hoodie.datasource.write.precombine.field": "o",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.metadata.enable": "false",
}


@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_hudi_reads_days_before_the_gregorian_calendar_out_of_our_base_files(
    table_type: str, referee: Referee, tmp_path: Path
) -> None:
    """Spark refuses to read them out of files that do not say by which calendar they were written."""
    ddl = "id bigint, d date, t timestamp, s struct<n: timestamp_ntz>"
    table = lb.Table.create(tmp_path / "t", ddl, record_keys="id", buckets=1, table_type=table_type)
    days = [dt.date(1200, 3, 1), dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(1899, 12, 31)]
    noons = [dt.datetime.combine(day, dt.time(12)) for day in days]
    table.upsert(
        [
            {"id": n, "d": day, "t": noon.replace(tzinfo=dt.UTC), "s": {"n": noon}}
            for n, (day, noon) in enumerate(zip(days, noons, strict=True))
        ]
    )
    table.compact()
    ours = our_rows(table.to_arrow(meta_columns=True))
    assert [dict(row)["d"] for row in sorted(ours, key=lambda row: dict(row)["id"])] == days
    assert hudi_rows(rows_of(referee.ask("read", path=str(tmp_path / "t"))["rows"])) == ours

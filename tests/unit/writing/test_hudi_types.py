# SPDX-License-Identifier: Apache-2.0
"""Tables of Apache Hudi 1.2 with VECTOR, BLOB and VARIANT columns: read, looked over, and not written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid.format.parquet.rows import read_parquet_schema
from tests.kit.reference import our_rows, unpack

pytestmark = pytest.mark.unit

TYPES = {"v9_mor_vector": "VECTOR(3)", "v9_cow_vector": "VECTOR(3)", "v9_mor_blob": "BLOB", "v9_mor_variant": "VARIANT"}
ROW = {"id": 1, "ts": 99, "part": "p"}
WRITES: dict[str, Callable[[lb.Table], Any]] = {
    "upsert": lambda t: t.upsert([ROW]),
    "insert": lambda t: t.insert([ROW | {"id": 77}]),
    "bulk insert": lambda t: t.bulk_insert([ROW | {"id": 77}]),
    "delete": lambda t: t.delete([ROW]),
    "partial update": lambda t: t.upsert([ROW], columns=["id", "ts", "part"]),
    "overwrite": lambda t: t.insert_overwrite([ROW]),
    "delete partitions": lambda t: t.delete_partitions([folder_of(t)]),
    "alter": lambda t: t.alter().add("note", "string").commit(),
    "begin": lambda t: t.begin("upsert"),
    "compact": lambda t: t.compact(),
    "plan a compaction": lambda t: t.plan_compaction(),
    "log compact": lambda t: t.log_compact(),
}


def folder_of(table: lb.Table) -> str:
    return next(path.parent.name for path in Path(table.path).rglob(".hoodie_partition_metadata"))


def opened(name: str, folder: Path) -> lb.Table:
    """The table as its Hudi writers could have stated it: with its buckets."""
    path = unpack(name, folder).path
    with (path / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write("\nhoodie.index.type=BUCKET\nhoodie.bucket.index.num.buckets=1\n")
    return lb.Table.open(path)


def files(table: lb.Table) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(table.path).rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_write_is_refused_by_the_name_of_the_type_and_changes_no_file(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path)
    before = files(table)
    for what, write in WRITES.items():
        if "compact" in what and name == "v9_cow_vector":
            continue  # there is never anything to compact
        with pytest.raises(lb.UnsupportedTable, match="Nothing was changed") as refused:
            write(table)
        assert TYPES[name] in refused.value.message, what
    assert files(table) == before


def test_a_table_with_looked_up_keys_is_not_clustered(tmp_path: Path) -> None:
    path = unpack("v9_cow_vector", tmp_path).path
    for base in path.rglob("*.parquet"):
        base.rename(base.with_name(base.name.replace("00000000-", "aaaaaaaa-", 1)))
    with pytest.raises(lb.UnsupportedTable):
        lb.Table.open(path).cluster()


@pytest.mark.parametrize("name", sorted(TYPES))
def test_services_that_write_no_rows_go_on(name: str, tmp_path: Path) -> None:
    table = opened(name, tmp_path)
    rows = our_rows(table.to_arrow())
    table.savepoint()
    table.clean(versions=1)
    table.archive()
    table.rollback()
    assert our_rows(table.to_arrow()) == rows


def test_a_vector_column_is_read_as_numbers_with_its_dimension(tmp_path: Path) -> None:
    table = lb.Table.open(unpack("v9_mor_vector", tmp_path).path)
    found = table.to_arrow(columns=["f", "d", "b"], where="id = 2")
    assert found.to_pylist() == [{"f": [0.5, 0.25, -0.0], "d": [1.0, -1.0], "b": [1, 2, 3, 4]}]
    assert [str(kind) for kind in found.schema.types] == [
        "fixed_size_list<element: float not null>[3]",
        "fixed_size_list<element: double not null>[2]",
        "fixed_size_list<element: int8 not null>[4]",
    ]
    assert found.schema.field("d").metadata == {b"hudi_type": b"VECTOR(2, DOUBLE)"}


def test_a_file_in_which_a_variant_is_shredded_is_refused_and_not_read_in_part(tmp_path: Path) -> None:
    table = lb.Table.open(unpack("v9_mor_variant", tmp_path).path)
    (base,) = Path(table.path).rglob("*.parquet")
    rows = pq.read_table(base)
    whole = rows.column("v").combine_chunks()
    fields = [*(pa.field(f.name, f.type) for f in whole.type), pa.field("typed_value", pa.int64())]
    values = [*whole.flatten(), pa.array([7] * len(whole), pa.int64())]
    apart = pa.StructArray.from_arrays(values, fields=fields, mask=whole.is_null())
    at = rows.schema.get_field_index("v")
    pq.write_table(rows.set_column(at, "v", apart), base)
    with pytest.raises(lb.UnsupportedTable, match=r"column v .*shredded.*Nothing was changed"):
        table.to_arrow()
    assert table.to_arrow(columns=["id"]).num_rows == 4


def test_vectors_that_only_a_file_tells_of_are_not_read_as_bytes(tmp_path: Path) -> None:
    path = unpack("v9_cow_vector", tmp_path).path
    base = next(path.rglob("*.parquet"))
    with pytest.raises(lb.UnsupportedTable, match=r"f:VECTOR\(3\).*no commit says"):
        read_parquet_schema(pa.memory_map(str(base)), base.stat().st_size, base.name)

# SPDX-License-Identifier: Apache-2.0
"""Writing by Hudi's options, without Spark: which table is made, which is refused, what the save modes mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.errors import InvalidArgument

pytestmark = pytest.mark.unit
OPTIONS: dict[str, Any] = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.bucket.index.num.buckets": 2,
}


def rows(*given: tuple[str, int, str]) -> list[dict[str, Any]]:
    return [{"id": key, "ts": ts, "v": v} for key, ts, v in given]


def values(path: Path) -> dict[str, str]:
    return {row["id"]: row["v"] for row in lb.Table.open(path).to_arrow().to_pylist()}


def test_the_first_write_creates_the_table_that_the_options_describe(tmp_path: Path) -> None:
    more = {
        "hoodie.datasource.write.partitionpath.field": "town",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.cleaner.commits.retained": "3",
    }
    lb.write([{"id": "a", "ts": 1, "town": "here"}], tmp_path / "t", **OPTIONS | more)
    properties = lb.Table.open(tmp_path / "t").properties
    assert {
        "hoodie.table.name": "orders",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.partition.fields": "town",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.clean.commits.retained": "3",
    }.items() <= dict(properties).items()
    assert (tmp_path / "t" / "town=here").is_dir()


def test_a_table_without_key_columns_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"recordkey.field is missing"):
        lb.write(rows(("a", 1, "x")), tmp_path / "t", **dict[str, Any]({"hoodie.table.name": "orders"}))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.datasource.write.recordkey.field", "v"),
        ("hoodie.datasource.write.precombine.field", "v"),
        ("hoodie.datasource.write.partitionpath.field", "v"),
        ("hoodie.table.name", "other"),
        ("hoodie.datasource.write.table.type", "COPY_ON_WRITE"),
        ("hoodie.index.type", "SIMPLE"),
        ("hoodie.bucket.index.num.buckets", "3"),
        ("hoodie.write.concurrency.mode", "SINGLE_WRITER"),
        ("hoodie.datasource.write.hive_style_partitioning", "true"),
        ("hoodie.datasource.write.keygenerator.type", "COMPLEX"),
        ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING"),
        (
            "hoodie.write.lock.provider",
            "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        ),
    ],
)
def test_options_that_contradict_the_table_are_refused_by_name(tmp_path: Path, option: str, value: str) -> None:
    lb.write(rows(("a", 1, "x")), tmp_path / "t", **OPTIONS)
    with pytest.raises(InvalidArgument, match="but the table at") as refused:
        lb.write(rows(("a", 2, "y")), tmp_path / "t", **dict[str, Any]({option: value}))
    assert refused.value.option == option
    assert values(tmp_path / "t") == {"a": "x"}


def test_each_save_mode_means_what_it_means_in_hudi(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lb.write(rows(("a", 1, "x")), path, mode="errorifexists", **OPTIONS)
    with pytest.raises(InvalidArgument, match="already"):
        lb.write(rows(("b", 1, "y")), path, mode="error", **OPTIONS)
    assert lb.write(rows(("b", 1, "y")), path, mode="ignore", **OPTIONS) is None
    assert values(path) == {"a": "x"}
    lb.write(rows(("b", 1, "y")), path, mode="append", **OPTIONS)
    assert values(path) == {"a": "x", "b": "y"}
    before = lb.Table.open(path).snapshot().completion_time
    lb.write(rows(("c", 1, "z")), path, mode="overwrite", **OPTIONS)
    assert values(path) == {"c": "z"}
    assert lb.Table.open(path).count(as_of=before) == 2, "the versions before an overwrite stay readable"
    with pytest.raises(InvalidArgument, match="makes no sense"):
        lb.write(
            rows(("c", 1, "z")),
            path,
            mode="overwrite",
            **dict[str, Any]({"hoodie.datasource.write.operation": "delete"}),
        )


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_each_operation_is_done_under_its_name(tmp_path: Path, operation: str) -> None:
    result = lb.write(rows(("a", 1, "x")), tmp_path / "t", **OPTIONS | {"hoodie.datasource.write.operation": operation})
    assert result is not None and result.operation == operation


def test_rows_are_deleted_by_the_operation_delete(tmp_path: Path) -> None:
    lb.write(rows(("a", 1, "x"), ("b", 1, "y")), tmp_path / "t", **OPTIONS)
    lb.write([{"id": "a"}], tmp_path / "t", **OPTIONS | {"hoodie.datasource.write.operation": "delete"})
    assert values(tmp_path / "t") == {"b": "y"}


def test_insert_overwrite_replaces_one_partition_or_all_and_delete_partition_empties_one(tmp_path: Path) -> None:
    parted = OPTIONS | {"hoodie.datasource.write.partitionpath.field": "v"}
    overwrite = parted | {"hoodie.datasource.write.operation": "insert_overwrite"}
    lb.write(rows(("a", 1, "p"), ("b", 1, "q"), ("c", 1, "r")), tmp_path / "t", **parted)
    lb.write(rows(("d", 1, "p")), tmp_path / "t", **overwrite)
    assert values(tmp_path / "t") == {"d": "p", "b": "q", "c": "r"}
    empty = {
        "hoodie.datasource.write.operation": "delete_partition",
        "hoodie.datasource.write.partitions.to.delete": "q",
    }
    lb.write([], tmp_path / "t", **parted | empty)
    assert values(tmp_path / "t") == {"d": "p", "c": "r"}
    lb.write(rows(("e", 1, "p")), tmp_path / "t", **overwrite | {"hoodie.datasource.overwrite.mode": "static"})
    assert values(tmp_path / "t") == {"e": "p"}

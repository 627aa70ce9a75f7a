# SPDX-License-Identifier: Apache-2.0
"""Spark reads exactly the file that a store's native path names."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebraid.storage import LocalStorage

pytestmark = pytest.mark.spark

FOLDERS = [
    "plain",
    "a%2Fb",
    "k=x y",
    "ü#?",
    "[a-z]",
    "{a,b}",
    "a*b",
    "a]b}",
    "k=2024-01-01 10:30:00",
    "日本 😀",
    'it\'s "q"~^|<>&;$!@,()',
    "__HIVE_DEFAULT_PARTITION__",
    ".hidden/_too",
]


def test_spark_reads_files_of_every_odd_name_and_no_others(spark: Any, tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path / "my {table} [1] \\ 100%"))
    names = [f"{folder}/f.parquet" for folder in FOLDERS if ":" not in folder]
    assert _rows_by_spark(spark, storage, names) == list(range(len(names)))


def test_spark_reads_below_folders_with_colons(spark: Any, tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path / "table"))
    names = [f"{folder}/f.parquet" for folder in FOLDERS if ":" in folder]
    assert _rows_by_spark(spark, storage, names) == list(range(len(names)))


def _rows_by_spark(spark: Any, storage: LocalStorage, names: list[str]) -> list[int]:
    for number, name in enumerate(names):
        buffer = io.BytesIO()
        pq.write_table(pa.table({"number": [number]}), buffer)
        storage.create(name, buffer.getvalue())
    together = spark.read.parquet(*[storage.native_path(name) for name in names])
    assert sorted(row.number for row in together.collect()) == list(range(len(names)))
    return [spark.read.parquet(storage.native_path(name)).first().number for name in names]

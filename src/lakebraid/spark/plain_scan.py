# SPDX-License-Identifier: Apache-2.0
"""Rows of data frames that are nothing but a few Parquet files of this machine, read without a Spark job.

A Spark job costs some 0.2 CPU seconds, the rows of a small file a few milliseconds. This road is only taken where Arrow
certainly reads what Spark would: everything that Spark reads in a way of its own (partition folders, options, other
schemas than the file's, nested columns, calendars of old writers) is left to Spark, and so is everything that fails.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakebraid import limits

_PARQUET: Final = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_LISTED: Final = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
_FILE: Final = "file:///"


def read_plain_scan(frame: DataFrame, bytes_max: int) -> pa.Table | None:
    """The rows of the frame, as `toArrow` would give them; None if only Spark can tell, or if they take more bytes."""
    context = getattr(frame.sparkSession, "_sc", None)
    if context is None or not str(context.master).startswith("local"):
        return None  # executors on other machines may see other files under the same name
    schema = _plain_schema(frame.schema)
    if schema is None:
        return None
    relation = _relation(frame._jdf.queryExecution().optimizedPlan())  # noqa: SLF001 - pyspark has no other way to the plan
    paths = None if relation is None else _paths(relation)
    if paths is None:
        return None
    if any(pa.types.is_temporal(field.type) for field in schema) and not _has_one_calendar(frame):
        return None
    try:
        return _read(paths, schema, bytes_max)
    except (OSError, pa.ArrowException):
        return None  # Spark has its own words, and its own settings, for files that cannot be read


def _plain_schema(schema: StructType) -> pa.Schema | None:
    if any(field.metadata for field in schema.fields):
        return None  # default values, field numbers, lengths
    found = to_arrow_schema(schema, timezone="UTC")
    return None if any(pa.types.is_nested(field.type) for field in found) else found


def _relation(plan: Any) -> Any:
    """The Parquet files that the plan reads, if it does nothing else but leave columns out; else None."""
    if plan.getClass().getSimpleName() == "Project":
        chosen = plan.projectList()
        if any(chosen.apply(i).getClass().getSimpleName() != "AttributeReference" for i in range(chosen.size())):
            return None
        plan = plan.child()
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return None
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    if relation.fileFormat().getClass().getName() != _PARQUET or relation.location().getClass().getName() != _LISTED:
        return None
    is_plain = relation.partitionSchema().isEmpty() and relation.options().keySet().mkString() in {"", "path"}
    return relation if is_plain else None


def _paths(relation: Any) -> list[str] | None:
    files = relation.location().inputFiles()
    if len(files) > limits.SPARK_PLAIN_FILES_MAX:
        return None
    found = [str(file) for file in files]
    return (
        [unquote(file.removeprefix("file://")) for file in found] if all(f.startswith(_FILE) for f in found) else None
    )


def _has_one_calendar(frame: DataFrame) -> bool:
    """Whether Spark takes dates of files that name no writer as they are."""
    return frame.sparkSession.conf.get("spark.sql.parquet.datetimeRebaseModeInRead") == "CORRECTED"


def _read(paths: list[str], schema: pa.Schema, bytes_max: int) -> pa.Table | None:
    held: list[pa.RecordBatch] = []
    taken = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            if not _fits(file, schema):
                return None
            for batch in file.iter_batches(limits.BATCH_ROWS, columns=schema.names):
                held.append(batch.select(schema.names))
                taken += batch.nbytes
                if taken > bytes_max:
                    return None
    return pa.Table.from_batches(held, schema=schema) if held else schema.empty_table()


def _fits(file: pq.ParquetFile, schema: pa.Schema) -> bool:
    """Whether the file has these columns under exactly these names and types, and none that Spark may confuse them with."""
    found = file.schema_arrow
    if len({name.lower() for name in found.names}) < len(found.names):
        return False
    if any(name not in found.names or found.field(name).type != schema.field(name).type for name in schema.names):
        return False
    notes = file.metadata.metadata or {}
    if any(key.startswith(b"org.apache.spark.legacy") for key in notes):
        return False
    return not notes.get(b"org.apache.spark.version", b"3").startswith((b"1", b"2"))

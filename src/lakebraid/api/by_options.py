# SPDX-License-Identifier: Apache-2.0
"""Reading and writing by Hudi's option names: what a job that used `format("hudi")` says, done on the fast roads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa

from lakebraid.api.table import Table, told_table
from lakebraid.errors import InvalidArgument, NotATable
from lakebraid.model.config import CDC, CDC_MODE, TableConfig, TableType, parse_config
from lakebraid.model.creation.plan import BUCKETS
from lakebraid.model.creation.properties import property_texts
from lakebraid.options import WriteOptions, read_options, tell, write_options
from lakebraid.writing.request import SchemaConflicts, stated_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakebraid.writing.result import WriteResult

Path = str | os.PathLike[str]
SaveMode = Literal["append", "overwrite", "ignore", "errorifexists", "error"]
_URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
_MODES = ("append", "overwrite", "ignore", "errorifexists", "error")


def write(
    rows: Any,
    path: Path,
    *,
    mode: SaveMode = "append",
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> WriteResult | None:
    """Writes rows as `df.write.format("hudi").options(**options).mode(mode).save(path)` does, Hudi's names and all.

    A table that is not there is created as the options say. `overwrite` puts the rows in the place of all that are there,
    in one commit: the table, its history and its settings stay (Hudi removes the folder). `ignore` writes nothing if
    the table is there, and gives None; `errorifexists` raises. docs/options.md lists the options.
    """
    said = write_options(options)
    mode = checked_mode(mode, said.operation)
    storage = {**dict(said.storage), **(storage_options or {})}
    table = existing(path, storage)
    if table is not None and mode == "ignore":
        return None
    if table is not None and mode in ("errorifexists", "error"):
        raise InvalidArgument(f"There is a table at {table.path} already. Nothing was written. Use mode='append'.")
    is_new = table is None
    table = open_or_create(path, said, _columns(rows), storage) if table is None else checked(table, said)
    operation = said.operation
    if mode == "overwrite" and not is_new and operation not in ("insert_overwrite", "insert_overwrite_table"):
        operation = "insert_overwrite_table"
    return _written(told_table(table, dict(said.told)), rows, operation, said)


def read(
    path: Path,
    *,
    spark: SparkSession | None = None,
    columns: list[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> DataFrame:
    """The data frame that `spark.read.format("hudi").options(**options).load(path)` gives, on the fast plan.

    With `columns` only these are read. Hudi's five columns come along, as with Hudi, unless `lakebraid.meta_columns` is
    false or `columns` leaves them out.
    """
    said = read_options(options)
    table = Table.open(path, {**dict(said.storage), **(storage_options or {})})
    if said.query != "incremental":
        return table.to_spark(
            columns,
            said.where,
            said.as_of,
            "read_optimized" if said.query == "read_optimized" else "snapshot",
            meta_columns=said.meta_columns,
            spark=spark,
        )
    if said.form == "cdc":
        raise InvalidArgument(
            "lb.read gives the changes as rows. Nothing was read. For Hudi's op, ts_ms, before and after use "
            "spark.read.format('lakebraid'); for rows with _change_type use hoodie.datasource.query.incremental.format=changes."
        )
    kinds = said.form == "changes"
    found = table.changes(said.begin, said.end, kinds=kinds, columns=columns, meta_columns=said.meta_columns)
    changes = found.to_spark(spark)
    if kinds:
        return changes
    return changes.where("_change_type != 'delete'").drop("_change_type", "_commit_completion_time")


def checked_mode(mode: str, operation: str) -> SaveMode:
    """A save mode in lower case; InvalidArgument if it is none, or makes no sense with the operation."""
    lower = mode.lower() if isinstance(mode, str) else mode
    if lower not in _MODES:
        raise InvalidArgument(f"mode={mode!r:.40} is not known; use {', '.join(_MODES)}. Nothing was written.")
    if lower == "overwrite" and operation.startswith("delete"):
        raise InvalidArgument(f"{operation} with mode='overwrite' makes no sense. Nothing was changed. Use 'append'.")
    return cast("SaveMode", lower)


def existing(path: Path, storage: Mapping[str, str]) -> Table | None:
    """The table at a path; None if there is none."""
    try:
        return Table.open(path, storage)
    except NotATable:
        return None


def open_or_create(path: Path, said: WriteOptions, columns: Any, storage: Mapping[str, str]) -> Table:
    """A new table as the options say, or the one that another process has made by then, if it is the same."""
    if not said.record_keys:
        raise InvalidArgument(
            f"There is no table at {os.fspath(path)}, and hoodie.datasource.write.recordkey.field is missing, which names the "
            "key columns of a new one. Nothing was created or written.",
            option="hoodie.datasource.write.recordkey.field",
        )
    return Table.create(
        path,
        columns,
        record_keys=said.record_keys,
        ordering_fields=said.ordering_fields or None,
        partition_by=said.partition_by or None,
        table_type="mor" if said.table_type is None else said.table_type,
        buckets=BUCKETS if said.buckets is None else said.buckets,
        concurrency=said.concurrency,
        index="bucket" if said.index is None else said.index,
        properties=said.new_properties,
        name=said.name,
        hive_style_partitioning=said.hive_style,
        shared=said.lock_provider is not None,
        storage_options=storage,
        exist_ok=True,
    )


def checked(table: Table, said: WriteOptions) -> Table:
    """The table, if it is what the options say it is; else InvalidArgument names the option."""
    for option, given, found in _differences(parse_config(table.properties, table.path), said):
        raise InvalidArgument(
            f"The option {option} says {_shown(given)}, but the table at {table.path} has {_shown(found)}. Nothing was "
            "written. Leave the option out, or write to another path.",
            option=option,
        )
    tell(tuple(_unheard(table, said)))
    return table


def _unheard(table: Table, said: WriteOptions) -> Iterator[str]:
    """What a table would have kept for its services, had this write created it."""
    for name, text in property_texts(dict(said.served)).items():
        found = table.properties.get(name)
        if (found or "").lower() != text.lower() and (found, text.lower()) != (None, "false"):
            has = "states none" if found is None else f"has {found[:200]!r}"
            yield f"{name}={text[:200]!r} has no effect: the table at {table.path} {has}, and its services go by that."


def _differences(config: TableConfig, said: WriteOptions) -> Iterator[tuple[str, Any, Any]]:
    kind = {TableType.MOR: "mor", TableType.COW: "cow"}[config.table_type]
    lock, kept = config.lock_provider, dict(said.properties)
    hashed, encodes = kept.get("hoodie.bucket.index.hash.field"), kept.get(_URL_ENCODE)
    captures, mode = kept.get(CDC), kept.get(CDC_MODE)
    compared = (
        ("hoodie.datasource.write.recordkey.field", said.record_keys or None, config.record_keys),
        ("hoodie.datasource.write.precombine.field", said.ordering_fields, config.ordering_fields),
        ("hoodie.datasource.write.partitionpath.field", said.partition_by, config.partition_fields),
        ("hoodie.table.name", said.name, config.name),
        ("hoodie.datasource.write.table.type", said.table_type, kind),
        ("hoodie.index.type", said.index, config.index or said.index),
        ("hoodie.bucket.index.num.buckets", said.buckets, config.buckets or said.buckets),
        ("hoodie.write.concurrency.mode", said.concurrency, config.concurrency),
        ("hoodie.datasource.write.hive_style_partitioning", said.hive_style, config.hive_style),
        ("hoodie.datasource.write.keygenerator.type", said.key_generator, config.key_generator),
        ("hoodie.record.merge.mode", said.merge_mode, config.merge_mode.value),
        ("hoodie.write.lock.provider", _lower(said.lock_provider), _lower(lock)),
        ("hoodie.bucket.index.hash.field", hashed and hashed.replace(" ", ""), ",".join(config.bucket_fields)),
        ("hoodie.payload.delete.field", kept.get("hoodie.payload.delete.field"), config.delete_field),
        ("hoodie.payload.delete.marker", kept.get("hoodie.payload.delete.marker"), config.delete_marker),
        (_URL_ENCODE, _lower(encodes), str(config.url_encode).lower()),
        (CDC, _lower(captures), str(config.cdc_enabled).lower()),
        (CDC_MODE, _lower(mode), config.cdc_mode.lower() if config.cdc_enabled else _lower(mode)),
    )
    return ((option, given, found) for option, given, found in compared if given is not None and given != found)


def _written(table: Table, rows: Any, operation: str, said: WriteOptions) -> WriteResult:
    services: Literal["inline"] | None = "inline" if said.runs_services else None
    evolve, conflict = said.evolve, cast("SchemaConflicts | None", said.schema_conflict)
    match operation:
        case "delete":
            return table.delete(rows, services=services)
        case "delete_partition":
            return table.delete_partitions(said.partitions, services=services)
        case "insert_overwrite_table":
            return table.insert_overwrite_table(rows, evolve=evolve, schema_conflict=conflict, services=services)
        case "insert_overwrite":
            replace = table.insert_overwrite_table if said.replaces_all else table.insert_overwrite
            return replace(rows, evolve=evolve, schema_conflict=conflict, services=services)
        case "insert":
            put = table.insert
        case "bulk_insert":
            put = table.bulk_insert
        case _:
            return table.upsert(
                rows, block_format=said.block_format, evolve=evolve, schema_conflict=conflict, services=services
            )
    return put(rows, block_format=said.block_format, evolve=evolve, schema_conflict=conflict, services=services)


def _columns(rows: Any) -> pa.Schema | None:
    """The columns of a new table that these rows make, all of which may be NULL; None if the rows will say."""
    stated = stated_columns(rows)
    return None if stated is None else pa.schema([field.with_nullable(True) for field in stated])


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _shown(value: Any) -> str:
    return repr(",".join(value) if isinstance(value, tuple) else value)[:200]

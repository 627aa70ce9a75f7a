# SPDX-License-Identifier: Apache-2.0
"""Changes that depend on the rows that are there: update, delete and merge, computed on Spark.

Each begins, then reads, then writes; its commit is refused if another writer has changed a row of it since it began, and it is
repeated automatically. So the outcome is as if it had run alone between two commits of others. Each function says whether what
it wrote of one row depends on no other row: then rows of file groups that no other write touched are kept (writing/retry.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lakebraid import spark as on_spark
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import MergeMode, TableConfig
from lakebraid.model.predicate.parse import parse_where
from lakebraid.model.values.arrow_casts import conformed
from lakebraid.reading.plan import Where
from lakebraid.writing.request import taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakebraid.reading.snapshot import Snapshot
    from lakebraid.writing.retry import Part
    from lakebraid.writing.transaction import Transaction

Values = Mapping[str, Any]
"""New values by column: Spark columns, SQL text, or plain values that are no text."""


@dataclass(frozen=True, slots=True)
class MergeClauses:
    """What a merge does with rows that meet, and with those that do not; None leaves a step out."""

    on: str | Sequence[str] | None
    matched_update: Literal["all"] | Values | None
    matched_delete: str | None
    not_matched_insert: Literal["all"] | Values | None


def update_rows(
    transaction: Transaction,
    snapshot: Snapshot,
    config: TableConfig,
    values: Values,
    where: Where | None,
    spark: SparkSession | None,
) -> bool:
    """Writes the matching rows with new values; those of columns that are not named stay."""
    _check_assigned(values, snapshot.schema.names, config)
    changed = on_spark.conditional.updated(_matching(snapshot, where, spark), snapshot.schema, values)
    transaction.write(changed)
    return on_spark.conditional.are_row_by_row([changed])


def delete_rows(
    transaction: Transaction, snapshot: Snapshot, config: TableConfig, where: Where, spark: SparkSession | None
) -> bool:
    """Deletes the matching rows as they are."""
    gone = _matching(snapshot, where, spark).select(*_identity(config))
    transaction.write(gone)
    return on_spark.conditional.are_row_by_row([gone])


def merge_part(
    transaction: Transaction,
    part: Part,
    config: TableConfig,
    source: pa.Table | DataFrame,
    spark: SparkSession | None,
    clauses: MergeClauses,
) -> bool:
    """Merges a data frame, or of rows those that belong to the part.

    A data frame may give other rows each time, and may be computed from this very table: then all is merged again.
    """
    if not isinstance(source, pa.Table):
        _merge_rows(transaction, part.snapshot, config, source, clauses)
        return False
    frame = on_spark.conditional.frame_of(part.of(source, config), spark)
    is_pure = _merge_rows(transaction, part.snapshot, config, frame, clauses)
    return is_pure and _is_by_key(source, part.snapshot.schema, config, clauses.on, clauses.not_matched_insert)


def source_rows(
    source: Any, columns: pa.Schema | None, config: TableConfig, clauses: MergeClauses
) -> pa.Table | DataFrame:
    """The rows of a source. Of one that is no data frame, what goes by name into columns of the table, or is joined, gets
    their types.
    """
    table = pa.schema([]) if columns is None else columns
    on = clauses.on
    joined = [on] if isinstance(on, str) else [*(on or (*config.record_keys, *config.partition_fields))]
    is_by_name = "all" in (clauses.matched_update, clauses.not_matched_insert)
    rows = taken(source, pa.schema([f for f in table if is_by_name or f.name in joined]))
    if not isinstance(rows, pa.Table):
        return rows
    for name in joined:
        if name in rows.column_names and name in table.names:
            at = rows.column_names.index(name)
            rows = rows.set_column(at, name, conformed(rows.column(at), table.field(name).type, name))
    return rows


def _merge_rows(
    transaction: Transaction, snapshot: Snapshot, config: TableConfig, source: DataFrame, clauses: MergeClauses
) -> bool:
    """Joins a source with the table: rows that meet are updated or deleted, those that do not are inserted."""
    if isinstance(clauses.matched_update, Mapping):
        _check_assigned(clauses.matched_update, snapshot.schema.names, config)
    with on_spark.conditional.merged(
        source,
        snapshot.to_spark(spark=source.sparkSession),
        snapshot.schema,
        config,
        _identity(config),
        on=clauses.on,
        matched_update=clauses.matched_update,
        matched_delete=clauses.matched_delete,
        not_matched_insert=clauses.not_matched_insert,
    ) as merged:
        if merged.deleted is not None:
            transaction.write_deletes(merged.deleted)
        for frame in merged.written:
            transaction.write(frame)
        return merged.is_row_by_row


def _is_by_key(
    source: pa.Table,
    table: pa.Schema,
    config: TableConfig,
    on: str | Sequence[str] | None,
    not_matched_insert: Literal["all"] | Values | None,
) -> bool:
    """Whether each row of a source meets, or becomes, a row of its own key and no other, so that its key says where that is."""
    names = list(dict.fromkeys((*config.record_keys, *config.partition_fields)))
    joined_by = names if on is None else [on] if isinstance(on, str) else [*on]
    return (
        sorted(joined_by) == sorted(names)
        and not isinstance(not_matched_insert, Mapping)
        and all(n in source.column_names and n in table.names for n in names)
        and all(source.schema.field(n).type == table.field(n).type and not source[n].null_count for n in names)
    )


def _matching(snapshot: Snapshot, where: Where | None, spark: SparkSession | None) -> DataFrame:
    """The rows that match; lakebraid's reader prunes by what it can filter by."""
    if not isinstance(where, str):
        return snapshot.to_spark(where=where, spark=spark)
    try:
        parse_where(where)
    except InvalidArgument:
        return snapshot.to_spark(spark=spark).where(where)
    return snapshot.to_spark(where=where, spark=spark)


def _identity(config: TableConfig) -> list[str]:
    ordering = config.ordering_fields if config.merge_mode is MergeMode.EVENT_TIME else ()
    return list(dict.fromkeys((*config.record_keys, *config.partition_fields, *ordering)))


def _check_assigned(values: Values, names: Sequence[str], config: TableConfig) -> None:
    if not values:
        raise InvalidArgument("No column is given a new value. Nothing was changed.")
    for name in values:
        if name not in names:
            raise InvalidArgument(f"The table has no column {name!r}. Nothing was changed.", column=name)
        if name in (*config.record_keys, *config.partition_fields):
            raise InvalidArgument(
                f"{name!r} is a key or partition column, so it cannot get a new value: that would be another row. Nothing was "
                "changed. Delete the row and insert the new one.",
                column=name,
            )

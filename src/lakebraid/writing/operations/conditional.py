# SPDX-License-Identifier: Apache-2.0
"""Changes that depend on the rows that are there: update, delete and merge, computed on Spark.

Each begins, then reads, then writes; its commit is refused if another writer has changed a row of it meanwhile, and it is
done again by itself. So the outcome is as if it had run alone between two commits of others. Each function says whether what
it wrote of one row depends on no other row: then rows of file groups that nobody touched are kept (redoing.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import MergeMode, TableConfig
from lakebraid.model.predicate.parse import parse_where
from lakebraid.model.values.arrow_casts import conformed
from lakebraid.model.values.exact import Inexact, exact_value, refused
from lakebraid.reading.plan import Where
from lakebraid.writing.inputs import arrow_pieces, frame_of, is_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakebraid.reading.snapshot import Snapshot
    from lakebraid.writing.retry import Part
    from lakebraid.writing.transaction import Transaction

Values = Mapping[str, Any]
"""New values by column: Spark columns, SQL text, or plain values that are no text."""


def update_rows(
    transaction: Transaction, snapshot: Snapshot, config: TableConfig, values: Values, where: Where | None, spark: Any
) -> bool:
    """Writes the matching rows with new values; those of columns that are not named stay."""
    schema = snapshot.schema
    _check_assigned(values, schema.names, config)
    matching = _matching(snapshot, where, spark)
    changed = matching.select(*(_value(values[f.name], f) if f.name in values else matching[f.name] for f in schema))
    transaction.write(changed)
    return _is_row_by_row([changed])


def delete_rows(
    transaction: Transaction, snapshot: Snapshot, config: TableConfig, where: Where, spark: SparkSession | None
) -> bool:
    """Deletes the matching rows as they are."""
    gone = _matching(snapshot, where, spark).select(*_identity(config))
    transaction.write(gone)
    return _is_row_by_row([gone])


def merge_rows(
    transaction: Transaction,
    snapshot: Snapshot,
    config: TableConfig,
    source: DataFrame,
    *,
    on: str | Sequence[str] | None,
    matched_update: Literal["all"] | Values | None,
    matched_delete: str | None,
    not_matched_insert: Literal["all"] | Values | None,
) -> bool:
    """Joins a source with the table: rows that meet are updated or deleted, those that do not are inserted."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  as everybody calls it; only who merges pays for it

    if isinstance(matched_update, Mapping):
        _check_assigned(matched_update, snapshot.schema.names, config)
    target = snapshot.to_spark(spark=source.sparkSession).withColumn(_THERE, F.lit(True)).alias("t")
    joined = source.alias("s").join(target, _condition(on, config, source, snapshot.schema), "left").cache()
    try:
        met = joined.where(F.col(f"t.{_THERE}"))
        _check_single(met, config)
        kept = met if matched_delete is None else met.where(f"NOT coalesce({matched_delete}, false)")
        written = []
        if matched_update is not None:
            written.append(kept.select(*_updated(matched_update, snapshot.schema, source.columns, config)))
        if not_matched_insert is not None:
            new = joined.where(F.col(f"t.{_THERE}").isNull())
            written.append(new.select(*_inserted(not_matched_insert, snapshot, source.columns)))
        frames = []
        if matched_delete is not None:
            gone = met.where(f"({matched_delete})").select(*(F.col(f"t.{n}").alias(n) for n in _identity(config)))
            transaction.write_deletes(gone)
            frames.append(gone)
        for frame in _together(written):
            frames.append(frame)
            transaction.write(frame)
        return _is_row_by_row(frames, joined=True)
    finally:
        joined.unpersist()


def source_rows(source: Any, columns: pa.Schema | None, config: TableConfig, how: Mapping[str, Any]) -> pa.Table:
    """The rows of a source that is no data frame: what goes by name into columns of the table, or is joined, in its types."""
    table = pa.schema([]) if columns is None else columns
    on = how["on"]
    joined = [on] if isinstance(on, str) else [*(on or (*config.record_keys, *config.partition_fields))]
    is_by_name = "all" in (how["matched_update"], how["not_matched_insert"])
    rows = pa.concat_tables(arrow_pieces(source, pa.schema([f for f in table if is_by_name or f.name in joined])))
    for name in joined:
        if name in rows.column_names and name in table.names:
            at = rows.column_names.index(name)
            rows = rows.set_column(at, name, conformed(rows.column(at), table.field(name).type, name))
    return rows


def merge_part(
    transaction: Transaction, part: Part, config: TableConfig, source: Any, spark: SparkSession | None, **how: Any
) -> bool:
    """Merges a data frame, or of rows those that belong to the part.

    A data frame may give other rows each time, and may be computed from this very table: then all is merged again.
    """
    if is_spark(source):
        merge_rows(transaction, part.snapshot, config, source, **how)
        return False
    frame = frame_of(part.of(source, config), spark)
    is_pure = merge_rows(transaction, part.snapshot, config, frame, **how)
    return is_pure and _is_by_key(source, part.snapshot.schema, config, how["on"], how["not_matched_insert"])


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


def _is_row_by_row(frames: Sequence[DataFrame], *, joined: bool = False) -> bool:
    from lakebraid.spark.row_by_row import is_row_by_row  # noqa: PLC0415  only who has data frames pays for it

    return all(is_row_by_row(frame, joined=joined) for frame in frames)


_THERE: Final = "_lakebraid_is_there"


def _matching(snapshot: Snapshot, where: Where | None, spark: Any) -> DataFrame:
    """The rows that match; what our own reader can filter by, it prunes by."""
    if not isinstance(where, str):
        return snapshot.to_spark(where=where, spark=spark)
    try:
        parse_where(where)
    except InvalidArgument:
        return snapshot.to_spark(spark=spark).where(where)
    return snapshot.to_spark(where=where, spark=spark)


def _value(given: Any, field: pa.Field) -> Column:
    """A new value for a column. Spark's are held against its type when rows are written, plain ones at once."""
    from pyspark.sql import Column  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if isinstance(given, Column):
        return given.alias(field.name)
    if isinstance(given, str):
        return F.expr(given).alias(field.name)
    from lakebraid.spark.constants import constant  # noqa: PLC0415  only who has data frames pays for it

    try:
        return constant(exact_value(given, field.type), field.type).alias(field.name)
    except Inexact as trouble:
        raise refused(trouble, field.name, "Nothing was changed.") from None


def _together(frames: Sequence[DataFrame]) -> list[DataFrame]:
    """As one frame, if they have the same types: Spark would find others that hold both, and round bigints to doubles."""
    if len({frame.schema.simpleString() for frame in frames}) == 1:
        return [reduce(lambda a, b: a.unionByName(b), frames)]
    return [*frames]


def _identity(config: TableConfig) -> list[str]:
    ordering = config.ordering_fields if config.merge_mode is MergeMode.EVENT_TIME else ()
    return list(dict.fromkeys((*config.record_keys, *config.partition_fields, *ordering)))


def _condition(on: str | Sequence[str] | None, config: TableConfig, source: DataFrame, table: pa.Schema) -> Any:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if isinstance(on, str) and on not in source.columns:
        return F.expr(on)
    names = [on] if isinstance(on, str) else list(on or (*config.record_keys, *config.partition_fields))
    missing = [name for name in names if name not in source.columns]
    if missing:
        raise InvalidArgument(
            f"The source has no column {missing[0]!r} to be joined by. Nothing was changed. Its columns: "
            f"{', '.join(source.columns)}. Name others in `on`, or give a condition such as 't.id = s.key'.",
            column=missing[0],
        )
    _check_comparable(names, source, table)
    pairs = [(F.col(f"s.{n}"), F.col(f"t.{n}")) for n in dict.fromkeys(names)]
    # A part of a key may be NULL, and a partition column: that is the same row, though SQL calls it unknown.
    return reduce(lambda a, b: a & b, (s.eqNullSafe(t) if on is None else s == t for s, t in pairs))


def _check_comparable(names: Sequence[str], source: DataFrame, table: pa.Schema) -> None:
    """Spark would compare a bigint with a double as doubles, and take 2**53 + 1 for 2**53."""
    from lakebraid.spark.write import arrow_schema_of  # noqa: PLC0415  only who has data frames pays for it

    given = arrow_schema_of(source.select(*names))
    for name in names:
        kind, wanted = given.field(name).type, table.field(name).type if name in table.names else None
        families = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_null)
        if wanted not in (None, kind) and not any(is_(kind) and is_(wanted) for is_ in families):
            raise InvalidArgument(
                f"Column {name!r} of the source has the type {kind!s:.300}; the table's is {wanted!s:.300}. Nothing was changed. "
                "Cast it in the source, so that you decide what happens to values that do not fit.",
                column=name,
            )


def _updated(
    values: Literal["all"] | Values, schema: pa.Schema, given: Sequence[str], config: TableConfig
) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    if isinstance(values, str):
        # With other keys it would be another row that is written, and the one that was met would stay as it is. Where a
        # key is there once in all partitions, its row may move.
        own = {*config.record_keys, *(() if config.is_global else config.partition_fields)}
        return [F.col(f"s.{n}" if n in given and n not in own else f"t.{n}").alias(n) for n in schema.names]
    return [_value(values[f.name], f) if f.name in values else F.col(f"t.{f.name}").alias(f.name) for f in schema]


def _inserted(values: Literal["all"] | Values, snapshot: Snapshot, given: Sequence[str]) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415

    chosen: dict[str, Column] = {}
    for field in snapshot.schema:
        null = F.lit(None).cast(from_arrow_type(field.type))
        if isinstance(values, str):
            chosen[field.name] = F.col(f"s.{field.name}") if field.name in given else null
        else:
            chosen[field.name] = _value(values[field.name], field) if field.name in values else null
    return [column.alias(name) for name, column in chosen.items()]


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


def _check_single(met: DataFrame, config: TableConfig) -> None:
    """A row that meets two rows of the source would get whichever comes last."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    keys = [F.col(f"t.{n}").alias(n) for n in dict.fromkeys((*config.record_keys, *config.partition_fields))]
    twice = met.groupBy(*keys).count().where("count > 1").limit(1).collect()
    if twice:
        shown = {name: value for name, value in twice[0].asDict().items() if name != "count"}
        raise InvalidArgument(
            f"The row {shown!r:.200} meets {twice[0]['count']} rows of the source, so it is not clear what it should become. "
            "Nothing was changed. Make the source unique."
        )

# SPDX-License-Identifier: Apache-2.0
"""Conditional changes as data frames: the rows that an update, a delete or a merge makes of the rows that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.values.exact import Inexact, exact_value, refused
from lakebraid.spark.constants import constant
from lakebraid.spark.plan_facts import is_row_by_row
from lakebraid.spark.read import as_frame
from lakebraid.spark.versions import spark_type
from lakebraid.spark.write import arrow_schema_of

Values = Mapping[str, Any]
"""New values by column: Spark columns, SQL text, or plain values that are no text."""
_THERE: Final = "_lakebraid_is_there"


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge writes."""

    deleted: DataFrame | None
    written: tuple[DataFrame, ...]

    @property
    def is_row_by_row(self) -> bool:
        """Whether each row was computed from one row of the table and one of the source."""
        frames = self.written if self.deleted is None else (self.deleted, *self.written)
        return are_row_by_row(frames, joined=True)


def updated(matching: DataFrame, schema: pa.Schema, values: Values) -> DataFrame:
    """Rows of the table with new values; those of columns that are not named stay."""
    return matching.select(*(_value(values[f.name], f) if f.name in values else matching[f.name] for f in schema))


def are_row_by_row(frames: Sequence[DataFrame], *, joined: bool = False) -> bool:
    """Whether each row of these frames was computed from one row of the table."""
    return all(is_row_by_row(frame, joined=joined) for frame in frames)


def frame_of(rows: pa.Table, session: SparkSession | None) -> DataFrame:
    """Rows as a data frame, on the given session, the active one, or a local one."""
    return as_frame(rows, session)


@contextmanager
def merged(
    source: DataFrame,
    target: DataFrame,
    schema: pa.Schema,
    config: TableConfig,
    identity: Sequence[str],
    *,
    on: str | Sequence[str] | None,
    matched_update: Literal["all"] | Values | None,
    matched_delete: str | None,
    not_matched_insert: Literal["all"] | Values | None,
) -> Iterator[Merged]:
    """Joins a source with the table's rows: those that meet are updated or deleted, those that do not are inserted.

    The join is evaluated once, and kept as long as the context lasts. Deletes have the `identity` columns.
    """
    there = target.withColumn(_THERE, F.lit(True)).alias("t")
    joined = source.alias("s").join(there, _condition(on, config, source, schema), "left").cache()
    try:
        met = joined.where(F.col(f"t.{_THERE}"))
        _check_single(met, config)
        kept = met if matched_delete is None else met.where(f"NOT coalesce({matched_delete}, false)")
        written = []
        if matched_update is not None:
            written.append(kept.select(*_updated(matched_update, schema, source.columns, config)))
        if not_matched_insert is not None:
            new = joined.where(F.col(f"t.{_THERE}").isNull())
            written.append(new.select(*_inserted(not_matched_insert, schema, source.columns)))
        gone = None
        if matched_delete is not None:
            gone = met.where(f"({matched_delete})").select(*(F.col(f"t.{n}").alias(n) for n in identity))
        yield Merged(gone, tuple(_together(written)))
    finally:
        joined.unpersist()


def _value(given: Any, field: pa.Field) -> Column:
    """A new value for a column. Spark's are held against its type when rows are written, plain ones at once."""
    if isinstance(given, Column):
        return given.alias(field.name)
    if isinstance(given, str):
        return F.expr(given).alias(field.name)

    try:
        return constant(exact_value(given, field.type), field.type).alias(field.name)
    except Inexact as trouble:
        raise refused(trouble, field.name, "Nothing was changed.") from None


def _together(frames: Sequence[DataFrame]) -> list[DataFrame]:
    """As one frame, if they have the same types: Spark would find others that hold both, and round bigints to doubles."""
    if len({frame.schema.simpleString() for frame in frames}) == 1:
        return [reduce(lambda a, b: a.unionByName(b), frames)]
    return [*frames]


def _condition(on: str | Sequence[str] | None, config: TableConfig, source: DataFrame, table: pa.Schema) -> Any:
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
    if isinstance(values, str):
        # With other keys it would be another row that is written, and the one that was met would stay as it is. Where a
        # key is there once in all partitions, its row may move.
        own = {*config.record_keys, *(() if config.is_global else config.partition_fields)}
        return [F.col(f"s.{n}" if n in given and n not in own else f"t.{n}").alias(n) for n in schema.names]
    return [_value(values[f.name], f) if f.name in values else F.col(f"t.{f.name}").alias(f.name) for f in schema]


def _inserted(values: Literal["all"] | Values, schema: pa.Schema, given: Sequence[str]) -> list[Column]:
    chosen: dict[str, Column] = {}
    for field in schema:
        null = F.lit(None).cast(spark_type(field.type))
        if isinstance(values, str):
            chosen[field.name] = F.col(f"s.{field.name}") if field.name in given else null
        else:
            chosen[field.name] = _value(values[field.name], field) if field.name in values else null
    return [column.alias(name) for name, column in chosen.items()]


def _check_single(met: DataFrame, config: TableConfig) -> None:
    """A row that meets two rows of the source would get whichever comes last."""
    keys = [F.col(f"t.{n}").alias(n) for n in dict.fromkeys((*config.record_keys, *config.partition_fields))]
    twice = met.groupBy(*keys).count().where("count > 1").limit(1).collect()
    if twice:
        shown = {name: value for name, value in twice[0].asDict().items() if name != "count"}
        raise InvalidArgument(
            f"The row {shown!r:.200} meets {twice[0]['count']} rows of the source, so it is not clear what it should become. "
            "Nothing was changed. Make the source unique."
        )

# SPDX-License-Identifier: Apache-2.0
"""Reading: planned in one process, done by tasks, as Arrow batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lakebraid.errors import InvalidArgument
from lakebraid.model.predicate.parse import Predicate
from lakebraid.source.planning import Part, SourcePlan, plan_source, read_part
from lakebraid.spark.schemas import spark_list
from lakebraid.spark.start.workers import spare_imports
from lakebraid.spark.versions import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class SourcePartition(InputPartition):
    """What one task reads."""

    def __init__(self, shared: SourcePlan, part: Part) -> None:
        super().__init__(None)
        self.shared, self.part = shared, part


class LakebraidReader(DataSourceReader):
    """Reads the columns that Spark asks for, and no others."""

    def __init__(self, options: Mapping[str, str], schema: StructType, moment: str | None) -> None:
        self._options, self._schema, self._moment = dict(options), schema, moment
        self._where: Predicate | None = None

    def partitions(self) -> Sequence[InputPartition]:
        spare_imports()
        shared, parts = plan_source(self._options, self._schema.names, self._moment, self._where)
        _check_types(shared.schema, arrow_schema(self._schema))
        return [SourcePartition(shared, part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SourcePartition):
            return  # Spark's own, for a read without parts
        spare_imports()
        wanted = arrow_schema(self._schema)
        for rows in read_part(partition.shared, partition.part):
            if rows.num_rows:
                yield from _as_declared(rows, wanted).to_batches()


class FilteringReader(LakebraidReader):
    """The same in a session that pushes filters down. In others Spark refuses any reader that has this method."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        from lakebraid.source.filters import where_of  # noqa: PLC0415  a Spark without filters does not call this

        self._where = where_of(filters, self._schema)
        return filters  # Spark looks at the rows again: what compares alike here is not for us to say


def new_reader(options: Mapping[str, str], schema: StructType, moment: str | None) -> LakebraidReader:
    """The reader that fits the session. Spark has a process of its own for each step, and one only for filters."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    pushes = _PUSHING in sys.modules or getattr(main, "name", "") == _PUSHING
    return (FilteringReader if pushes else LakebraidReader)(options, schema, moment)


def _check_types(found: pa.Schema, wanted: pa.Schema) -> None:
    for ours, field in zip(found, wanted, strict=True):
        if ours.type != field.type and not _is_same(spark_list(ours.type), field.type):
            raise InvalidArgument(
                f"The schema says that the column {field.name!r:.100} is {field.type}, but it is {ours.type}. Nothing was "
                "read. Name it with the type it has, and cast it afterwards.",
                column=field.name,
            )


def _is_same(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types differ in no more than names within them."""
    return bool(found.id == wanted.id and (pa.types.is_nested(found) or pa.types.is_timestamp(found)))


def _as_declared(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """The rows in the very types that Spark expects: it compares names of list elements and what may be null, too."""
    rows = rows.select(wanted.names)
    return rows if rows.schema.equals(wanted) else rows.cast(wanted)

# SPDX-License-Identifier: Apache-2.0
"""What differs between the versions of PySpark from 3.5 on. No other module asks which one it runs on.

what                                          there from      before that
data frames to and from Arrow                 4.0             batches as `toPandas` collects them; rows in a column of bytes; not over Spark Connect
Python data sources                           4.0             `lakebraid.read`, `lakebraid.write`, `t.stream`
`repartitionById`                             4.1             `repartition` by a number whose hash falls where it should
filters for sources; streams of Arrow batches 4.1             Spark filters alone; `t.stream`
streams that say how much they take           4.2             whatever there is

What a session or a class offers is looked for, not a number: platforms bring methods of later versions to earlier ones.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import DataType, StructType

from lakebraid.errors import EnvironmentProblem
from lakebraid.limits import BATCH_ROWS

OLDEST: Final = (3, 5)


def check_version() -> None:
    """EnvironmentProblem if this PySpark is older than any that lakebraid was tried with."""
    if _numbers() < OLDEST:
        raise EnvironmentProblem(
            f"pyspark {pyspark.__version__} in {pyspark.__path__[0]} is too old: {OLDEST[0]}.{OLDEST[1]} or newer is needed. Nothing was started. "
            "Run `pip install 'lakebraid[spark]'`.",
            package="pyspark",
            version=pyspark.__version__,
        )


def javas() -> tuple[int, ...]:
    """The versions of Java that this Spark runs on, as its documentation names them."""
    if _numbers() < (4, 0):
        return (8, 11, 17)
    return (17, 21) if _numbers() < (4, 2) else (17, 21, 25)


def check_sources() -> None:
    """EnvironmentProblem if this Spark knows no data sources in Python."""
    if importlib.util.find_spec("pyspark.sql.datasource") is None:
        raise EnvironmentProblem(
            f"pyspark {pyspark.__version__} has no data sources in Python, which came with 4.0, so there is no format 'lakebraid'. "
            "Nothing was done. Use lakebraid.read(path, **options), lakebraid.write(df, path, mode=…, **options) and "
            "table.stream(df, writer=…) instead: they take the same options.",
            package="pyspark",
            version=pyspark.__version__,
        )


def register_source(spark: SparkSession, source: type[Any]) -> None:
    """Makes a data source known to a session. Before 4.1 Spark refuses one that it has found by itself."""
    try:
        spark.dataSource.register(source)
    except PySparkException as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def check_stream_sinks() -> None:
    """EnvironmentProblem if this Spark gives streams to data sources row by row, with times in a zone that it does not tell."""
    from pyspark.sql import datasource  # noqa: PLC0415  3.5 has none

    if not hasattr(datasource, "DataSourceStreamArrowWriter"):
        raise EnvironmentProblem(
            f"pyspark {pyspark.__version__} cannot hand a stream to the format 'lakebraid' in Arrow batches, which came with 4.1. "
            "Nothing was written. Use table.stream(df, writer=…), which writes the same.",
            package="pyspark",
            version=pyspark.__version__,
        )


def limits_streams() -> bool:
    """Whether this Spark asks a stream how much it may take into a batch."""
    return importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None


def arrow_schema(schema: StructType) -> pa.Schema:
    """A Spark schema as its rows come, times with a zone in UTC; PySparkException for types without an Arrow form."""
    given: Any = arrow_types.to_arrow_schema
    known = _parameters(given)
    if "timezone" in known:
        return given(schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
    if "error_on_duplicated_field_names_in_struct" in known:
        return given(schema, error_on_duplicated_field_names_in_struct=True)
    found = given(schema)
    for field in found:
        _check_names(field.type)
    return found


def spark_schema(schema: pa.Schema) -> StructType:
    """An Arrow schema in Spark's words; times without a zone stay without one."""
    return arrow_types.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def spark_type(kind: pa.DataType) -> DataType:
    """An Arrow type in Spark's words."""
    return arrow_types.from_arrow_type(kind, prefer_timestamp_ntz=True)


def rows_of(frame: DataFrame) -> pa.Table:
    """All rows, here."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    given: Any = frame
    if not hasattr(given, "_jdf"):
        raise EnvironmentProblem(
            f"Over Spark Connect pyspark {pyspark.__version__} gives no rows as Arrow, which came with 4.0. Nothing of this is "
            "visible. Use a newer PySpark, or a session without Spark Connect.",
            package="pyspark",
            version=pyspark.__version__,
        )
    batches = given._collect_as_arrow()  # noqa: SLF001 - what its toPandas does
    return pa.Table.from_batches(batches) if batches else arrow_schema(frame.schema).empty_table()


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows that are here as a data frame."""
    # One batch: there would be one for each file group and kind of change.
    rows, schema = rows.combine_chunks(), spark_schema(rows.schema)
    if hasattr(DataFrame, "toArrow"):  # both ways came together
        return spark.createDataFrame(rows, schema)
    pieces = [(bytearray(_packed(rows.slice(at, BATCH_ROWS))),) for at in range(0, rows.num_rows, BATCH_ROWS)]
    return spark.createDataFrame(pieces, "rows binary").mapInArrow(_opened, schema)


def shuffled(frame: DataFrame, count: int, number: str) -> DataFrame:
    """The rows in so many partitions, each in the one whose number a column of it says."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(count, F.col(number))
    return frame.repartition(count, _falling_into(count, F.col(number)))


def _falling_into(count: int, number: Column) -> Column:
    """For each number below `count` an integer that Spark's hash puts into the partition with that number."""
    texts = ",".join(map(str, integers_for(count)))
    return F.element_at(F.expr(f"array({texts})"), number + 1)


@cache
def integers_for(count: int) -> tuple[int, ...]:
    """An integer for each of `count` partitions that Spark's `repartition` puts there: murmur3 with seed 42, modulo.

    >>> integers_for(3)
    (0, 1, 11)
    """
    found: npt.NDArray[np.int64] = np.full(count, -1, np.int64)
    begin, step = 0, 16 * count
    while (found < 0).any():
        tried = np.arange(begin, begin + step, dtype=np.int64)
        places = _murmur3(tried.astype(np.uint32)).astype(np.int32).astype(np.int64) % count
        new, first = np.unique(places, return_index=True)
        new, first = new[found[new] < 0], first[found[new] < 0]
        found[new] = tried[first]
        begin += step
    return tuple(found.tolist())


def _murmur3(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Spark's hash of an int: murmur3 over its four bytes, seed 42. Arithmetic wraps around, as it should."""
    mixed = values * np.uint32(0xCC9E2D51)
    mixed = _rotated(mixed, 15) * np.uint32(0x1B873593)
    mixed = _rotated(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return mixed ^ (mixed >> np.uint32(16))


def _rotated(values: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


@cache
def _parameters(function: Any) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _numbers() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2]))


def _check_names(kind: pa.DataType) -> None:
    """What later versions check themselves: Arrow would mistake one of two fields with one name for the other."""
    children = [kind.field(at) for at in range(kind.num_fields)]
    names = [child.name for child in children]
    if len({*names}) < len(names):
        raise PySparkException(f"Two fields of {kind!s:.300} have one name.")
    for child in children:
        _check_names(child.type)


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _opened(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for piece in batch.column(0):
            yield from pa.ipc.open_stream(piece.as_buffer()).read_all().to_batches()

# SPDX-License-Identifier: Apache-2.0
"""The format as Spark sees it. Spark loads this module for every Python data source, so it imports little.

Spark runs each step in another Python process without a session: one makes the source and asks for the schema, one plans
the read, one begins a write, one commits it. What a step finds out travels on in what it leaves to be pickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class LakebraidSource(DataSource):
    """`spark.read.format("lakebraid")` and `df.write.format("lakebraid")`, with Hudi's option names."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self.moment: str | None = None
        """The completion time that reads look at, once it is known: a data frame is of the moment it was made."""

    @classmethod
    def name(cls) -> str:
        return "lakebraid"

    def schema(self) -> StructType:
        """The columns that a read gives if the user names none."""
        from lakebraid.source.planning import look  # noqa: PLC0415  see above
        from lakebraid.spark.start.workers import spare_imports  # noqa: PLC0415  see above

        spare_imports()
        self.moment, schema = look(self.options, self.moment)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of just these columns."""
        from lakebraid.source.reader import new_reader  # noqa: PLC0415  see above

        return new_reader(self.options, schema, self.moment)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Begins a write; its tasks and its end are elsewhere."""
        from lakebraid.source.writer import begin_write  # noqa: PLC0415  see above

        return begin_write(self.options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """A stream of changes with these columns."""
        from lakebraid.spark.versions import limits_streams  # noqa: PLC0415  see above

        if limits_streams():
            from lakebraid.source.stream_limits import LimitedStreamReader  # noqa: PLC0415  see above

            return LimitedStreamReader(self.options, schema)
        from lakebraid.source.stream_source import StreamReader  # noqa: PLC0415  see above

        return StreamReader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  Spark's name
        """A stream into the table."""
        from lakebraid.spark.versions import check_stream_sinks  # noqa: PLC0415  see above

        check_stream_sinks()
        from lakebraid.source.stream_sink import begin_stream  # noqa: PLC0415  see above

        return begin_stream(self.options, schema, overwrite=overwrite)

    def __getstate__(self) -> dict[str, Any]:
        # Spark pickles the source of a read once it is made, also if the user gave a schema and Spark has not asked for ours.
        if self.moment is None:
            self.schema()
        return self.__dict__

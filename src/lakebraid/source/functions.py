# SPDX-License-Identifier: Apache-2.0
"""Table functions for SQL: a table at a past moment, and its changes.

Spark hands such a function's rows over one by one, in one task. They are for looking things up by hand; a view on the
format does the same with all cores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.functions import udtf
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from lakebraid.errors import InvalidArgument
from lakebraid.format.python_rows import python_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.udtf import UserDefinedTableFunction

_CHANGES: Final = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "changes",
}


@dataclass
class Looked(AnalyzeResult):
    """What was found out when the query was made: its rows are of that moment."""

    options: dict[str, str] = field(default_factory=dict)
    moment: str = ""


class _Rows:
    """The rows of a read by the format's options."""

    def __init__(self, looked: Looked) -> None:
        self._looked = looked

    def rows(self) -> Iterator[tuple[Any, ...]]:
        from lakebraid.source.planning import plan_source, read_part  # noqa: PLC0415  as in `source.format`

        looked = self._looked
        shared, parts = plan_source(looked.options, looked.schema.names, looked.moment)
        for part in parts:
            for table in read_part(shared, part):
                for row in python_rows(table):
                    yield tuple(row.values())


class AsOf(_Rows):
    """`lakebraid_as_of(path, time, options)`: the table's rows at a time, or now."""

    @staticmethod
    def analyze(
        path: AnalyzeArgument, time: AnalyzeArgument | None = None, options: AnalyzeArgument | None = None
    ) -> Looked:
        """The columns at that time."""
        return _look(path, {"as.of.instant": time}, options)

    def eval(
        self,
        path: str,  # noqa: ARG002  all known since `analyze`
        time: str | None = None,  # noqa: ARG002
        options: Any = None,  # noqa: ARG002
    ) -> Iterator[tuple[Any, ...]]:
        """The rows."""
        return self.rows()


class ChangesOf(_Rows):
    """`lakebraid_changes(path, after, until, options)`: what changed between two completion times, by default all until now."""

    @staticmethod
    def analyze(
        path: AnalyzeArgument,
        after: AnalyzeArgument | None = None,
        until: AnalyzeArgument | None = None,
        options: AnalyzeArgument | None = None,
    ) -> Looked:
        """The table's columns, `_change_type` and `_commit_completion_time`."""
        begin, end = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
        return _look(path, {begin: after, end: until}, options, _CHANGES)

    def eval(
        self,
        path: str,  # noqa: ARG002  all known since `analyze`
        after: str | None = None,  # noqa: ARG002
        until: str | None = None,  # noqa: ARG002
        options: Any = None,  # noqa: ARG002
    ) -> Iterator[tuple[Any, ...]]:
        """The changes."""
        return self.rows()


def register_functions(spark: SparkSession) -> None:
    """Makes the functions known to a session."""
    for name, function in (("lakebraid_as_of", AsOf), ("lakebraid_changes", ChangesOf)):
        spark.udtf.register(name, cast("UserDefinedTableFunction", udtf(function)))


def _look(
    path: AnalyzeArgument,
    times: dict[str, AnalyzeArgument | None],
    said: AnalyzeArgument | None,
    more: dict[str, str] | None = None,
) -> Looked:
    from lakebraid.source.planning import look  # noqa: PLC0415  as in `source.format`

    options = {
        "lakebraid.meta_columns": "false",
        **({} if said is None else _options(said)),
        "path": _text(path, "path") or "",
        **(more or {}),
    }
    for option, time in times.items():
        text = None if time is None else _text(time, option)
        if text is not None:
            options[option] = text
    moment, schema = look(options, None)
    return Looked(schema, options=options, moment=moment)


def _options(argument: AnalyzeArgument) -> dict[str, str]:
    """The format's options, as a map of texts or as JSON."""
    found = _constant(argument, "options")
    try:
        found = json.loads(found) if isinstance(found, str) else found
    except json.JSONDecodeError:
        found = ""
    if not isinstance(found, dict | None) or any(not isinstance(text, str) for text in (found or {}).values()):
        # Not shown: there may be secrets in them.
        raise InvalidArgument("The options must be a map of texts, or JSON of one. Nothing was read.")
    return dict(found or {})


def _text(argument: AnalyzeArgument, name: str) -> str | None:
    found = _constant(argument, name)
    return None if found is None else str(found)


def _constant(argument: AnalyzeArgument, name: str) -> Any:
    if argument.isTable or not argument.isConstantExpression:
        raise InvalidArgument(
            f"{name} must be constant, so that the columns are known before any row. Nothing was read."
        )
    return argument.value

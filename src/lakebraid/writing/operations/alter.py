# SPDX-License-Identifier: Apache-2.0
"""Changing a table's schema without writing rows: `table.alter().add("note", "string").widen("n", "bigint").commit()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.schema.growth import fit_again, is_wider
from lakebraid.model.schema.user_schema import read_schema
from lakebraid.writing.request import arrow_schema
from lakebraid.writing.result import WriteResult
from lakebraid.writing.transaction import Transaction


class Alteration:
    """Steps that are made together, as one commit; no reader sees any of them before. For one use.

    Columns can be added, at the top or inside of structs (`"address.zip"`), widened, reordered and made nullable.
    Dropping and renaming are refused: files keep the old columns, and readers find columns by name.
    """

    def __init__(self, begin: Callable[[], Transaction], config: TableConfig) -> None:
        self._begin, self._config = begin, config
        self._steps: list[Callable[[pa.Schema], pa.Schema]] = []

    def add(self, column: str, kind: Any) -> Self:
        """A new column, NULL in the rows that are there; `kind` is an Arrow type, or text as in DDL."""
        field = _field(column, kind)
        self._steps.append(lambda schema: _at(schema, column.split("."), lambda old: _added(old, field, column)))
        return self

    def widen(self, column: str, kind: Any) -> Self:
        """A wider type: int to long, float to double, a decimal to one with more digits."""
        wanted = _field(column, kind).type
        self._steps.append(
            lambda schema: _at(schema, column.split("."), lambda old: self._widened(old, wanted, column))
        )
        return self

    def nullable(self, column: str) -> Self:
        """Lets a column hold NULL that did not."""
        self._steps.append(lambda schema: _at(schema, column.split("."), lambda old: _nullable(old, column)))
        return self

    def reorder(self, columns: Sequence[str]) -> Self:
        """These columns first, in this order; the others after them as they are."""
        self._steps.append(lambda schema: _reordered(schema, columns))
        return self

    def drop(self, column: str) -> Self:
        """Refused, with the reason."""
        raise InvalidArgument(
            f"The column {column!r} cannot be dropped. Nothing was changed. Files keep its values, and Apache Hudi would "
            "show them again as soon as a column of that name is added. Select the columns you want when reading.",
            column=column,
        )

    def rename(self, column: str, to: str) -> Self:
        """Refused, with the reason."""
        raise InvalidArgument(
            f"The column {column!r} cannot be renamed to {to!r}. Nothing was changed. Readers, Apache Hudi's too, find "
            "columns of older files by name, and would show NULL for the rows that are there. Add the new column and "
            "fill it by an upsert.",
            column=column,
        )

    def commit(self) -> WriteResult:
        """Makes the changes. SchemaConflict if another writer changed the schema in another way before the commit."""
        with self._begin() as transaction:
            transaction.restate(self._altered)
            return transaction.commit()

    def _altered(self, schema: pa.Schema) -> pa.Schema:
        if not self._steps:
            raise InvalidArgument(
                "No change was named. Nothing was changed. Call add, widen, nullable or reorder first."
            )
        for step in self._steps:
            schema = step(schema)
        return fit_again(schema)

    def _widened(self, old: pa.Field | None, wanted: pa.DataType, column: str) -> pa.Field:
        if old is None:
            raise _unknown(column)
        config = self._config
        if column in (*config.record_keys, *config.partition_fields, *config.every_ordering_field):
            raise InvalidArgument(
                f"{column!r} is a key, partition or ordering column and keeps its type. Nothing was changed: stored keys, "
                "folders and ordering values must stay comparable.",
                column=column,
            )
        if old.type != wanted and not is_wider(wanted, old.type):
            raise InvalidArgument(
                f"{column!r} has the type {old.type}, and {wanted} is not wider. Nothing was changed. Possible are int to "
                "long, float to double, a decimal with more digits, and fields added inside a struct.",
                column=column,
            )
        return old.with_type(wanted)


def _field(column: str, kind: Any) -> pa.Field:
    name = column.rpartition(".")[2]
    if isinstance(kind, str):
        return read_schema(f"`{name}` {kind}").field(0)
    kind = kind if isinstance(kind, pa.DataType) else arrow_schema(kind)
    return read_schema(pa.schema([pa.field(name, kind)])).field(0)


def _at(fields: Any, path: Sequence[str], change: Callable[[pa.Field | None], pa.Field]) -> pa.Schema:
    """The schema with one column, which may lie inside of others, changed or added."""
    name, *rest = path
    at = next((i for i, field in enumerate(fields) if field.name == name), None)
    found = None if at is None else fields[at]
    if rest:
        if found is None or not pa.types.is_struct(found.type):
            raise _unknown(name)
        new = found.with_type(pa.struct(list(_at(list(found.type), rest, change))))
    else:
        new = change(found)
    changed = list(fields)
    if at is None:
        changed.append(new)
    else:
        changed[at] = new
    return pa.schema(changed)


def _added(old: pa.Field | None, field: pa.Field, column: str) -> pa.Field:
    if old is not None and old.type != field.type:
        raise InvalidArgument(
            f"The table has a column {column!r} already, of type {old.type}. Nothing was changed. Choose another name.",
            column=column,
        )
    return field if old is None else old


def _nullable(old: pa.Field | None, column: str) -> pa.Field:
    if old is None:
        raise _unknown(column)
    return old.with_nullable(True)


def _reordered(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    unknown = next((name for name in columns if name not in schema.names), None)
    if unknown is not None:
        raise _unknown(unknown)
    first = list(dict.fromkeys(columns))
    return pa.schema([schema.field(name) for name in (*first, *(n for n in schema.names if n not in first))])


def _unknown(column: str) -> InvalidArgument:
    return InvalidArgument(f"The table has no column {column!r}. Nothing was changed.", column=column)

# SPDX-License-Identifier: Apache-2.0
"""Columns with a role in a new table: keys, partitions, order, the mark of deleted rows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.limits import NAMES_SHOWN_MAX, ORDERING_FIELDS_MAX
from lakebraid.model.config import TableConfig

_ORDERED_DIGITS: Final = 15
"""Digits before and after the point of a decimal that Hudi's deletes can carry."""


def column_names(argument: str, given: Any) -> tuple[str, ...]:
    """The names in an argument, which may be one name or several; each once."""
    names = (given,) if isinstance(given, str) else () if given is None else given
    if isinstance(names, bytes) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise InvalidArgument(f"{argument} must be names of columns, not {given!r:.200}. Nothing was created.")
    if len(names) > ORDERING_FIELDS_MAX:
        raise InvalidArgument(f"{argument} names {len(names):,} columns. Nothing was created. Name fewer.")
    for name in names:
        if not name or name.strip() != name or "," in name:
            several = [part.strip() for part in name.split(",")]
            hint = f" Several columns are a list: {several!r:.200}." if all(several[1:]) and several[1:] else ""
            raise InvalidArgument(
                f"{argument} has {name!r:.200}, which is no name of a column. Nothing was created.{hint}"
            )
    if len({name.lower() for name in names}) < len(names):
        raise InvalidArgument(f"{argument} names a column twice: {', '.join(names)}. Nothing was created.")
    return tuple(names)


def ordering_groups(given: Mapping[Any, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The groups of columns in `ordering_fields`: each ordering column, and the columns that it orders."""
    return tuple(
        (column_names("ordering_fields", by)[0], column_names(f"ordering_fields[{by!r:.100}]", own))
        for by, own in given.items()
    )


def check_groups(config: TableConfig, *, is_shared: bool) -> None:
    """Raises InvalidArgument unless every column is ordered by one column, in a table whose writers can do that."""
    if not config.ordering_groups:
        return
    fixed = {*config.record_keys, *config.partition_fields}
    seen: set[str] = set()
    for by, own in config.ordering_groups:
        for name in dict.fromkeys((by, *own)):
            if name in fixed or name in seen:
                role = "a key or partition column" if name in fixed else "in two groups of ordering_fields"
                raise InvalidArgument(
                    f"The column {name!r} is {role}. Nothing was created. Name every other column in one group at most; "
                    "those in no group go by commit time.",
                    column=name,
                    argument="ordering_fields",
                )
            seen.add(name)
    if is_shared or config.is_global:
        what = "Apache Hudi's writers do not know the groups" if is_shared else "a row may move to another partition"
        raise InvalidArgument(
            f"Groups of columns in ordering_fields are not possible here: {what}. Nothing was created. Order by one "
            f"column, or leave out {'shared=True' if is_shared else 'the global index'}.",
            argument="ordering_fields",
        )


def check_columns(schema: pa.Schema, config: TableConfig) -> None:
    """Raises InvalidArgument unless every column with a role exists and has a type that can play it."""
    for name in config.record_keys:
        _check_text(schema, name, "record_keys", "a record key")
    for name in config.partition_fields:
        _check_text(schema, name, "partition_by", "a partition")
    for name in (*config.every_ordering_field, *(name for _, own in config.ordering_groups for name in own)):
        _type(schema, name, "ordering_fields")
    check_ordering(schema, config)
    if (config.delete_field is None) != (config.delete_marker is None):
        raise InvalidArgument(
            "hoodie.payload.delete.field and hoodie.payload.delete.marker belong together, but only one was given. "
            "Nothing was created. Give both or none."
        )
    if config.delete_field is not None:
        _type(schema, config.delete_field, "hoodie.payload.delete.field")


def check_ordering(schema: pa.Schema, config: TableConfig, unchanged: str = "Nothing was created.") -> None:
    """Raises InvalidArgument if an ordering column has a type by which Apache Hudi cannot order rows."""
    for name in config.every_ordering_field:
        if name in schema.names:
            _check_order(name, schema.field(name).type, unchanged)


def _check_text(schema: pa.Schema, name: str, argument: str, role: str) -> None:
    """Keys and folders are texts. Of floats and bytes Java versions and writers disagree about the text."""
    kind, types = _type(schema, name, argument), pa.types
    has_text = types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind)
    if not (has_text or types.is_decimal(kind) or types.is_date(kind) or types.is_timestamp(kind)):
        raise InvalidArgument(
            f"The column {name!r} has the type {kind!s:.200} and cannot be {role}: Hudi's writers do not agree on its "
            "text. Nothing was created. Use a string, whole number, decimal, date or timestamp column.",
            column=name,
            argument=argument,
        )


def _check_order(name: str, kind: pa.DataType, unchanged: str) -> None:
    types = pa.types
    if types.is_nested(kind):
        trouble, instead = f"has the type {kind!s:.200}, whose values have no order", "a number, timestamp or text"
    elif types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        trouble, instead = f"has the type {kind}, and Apache Hudi fails to compare bytes", "a number, timestamp or text"
    elif types.is_decimal(kind) and max(kind.scale, kind.precision - kind.scale) > _ORDERED_DIGITS:
        trouble = f"is a {kind}; Hudi's deletes carry {_ORDERED_DIGITS} digits before and after the point"
        instead = "a smaller decimal, a bigint or a timestamp"
    else:
        return
    raise InvalidArgument(
        f"The column {name!r} {trouble}. {unchanged} Order by {instead}.", column=name, argument="ordering_fields"
    )


def _type(schema: pa.Schema, name: str, argument: str) -> pa.DataType:
    if name in schema.names:
        return schema.field(name).type
    same = [n for n in schema.names if n.lower() == name.lower()]
    near = same or difflib.get_close_matches(name[:100], schema.names[:NAMES_SHOWN_MAX], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Columns: {', '.join(schema.names[:NAMES_SHOWN_MAX])}."
    if "." in name:
        hint = "A field inside a struct cannot serve; add a column with its value."
    raise InvalidArgument(
        f"{argument} names {name!r:.200}, which is no column of the schema. Nothing was created. {hint}",
        column=name,
        argument=argument,
    )

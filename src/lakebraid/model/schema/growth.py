# SPDX-License-Identifier: Apache-2.0
"""How a table's schema grows: rows with new columns or wider types, two changes joined. Rows of every age stay readable.

wider than            is
int                   long
float                 double
decimal(p, s)         decimal of as many digits or more, before the point and behind it
struct, list, map     the same with wider insides; a struct may get fields

Only what keeps every value as it is counts. New columns come last, in the order in which they were brought.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import META_COLUMNS, TableConfig
from lakebraid.model.schema.user_schema import fit_schema


def evolved(table: pa.Schema, incoming: pa.Schema, config: TableConfig) -> pa.Schema:
    """The table's schema after rows with these columns: equal to `table` if they bring nothing new.

    Key, partition and ordering columns keep their types: stored keys, folders and ordering values must stay comparable.
    Types that fit neither way are left as they are: `model.incoming` says which column does not fit, and why.
    """
    brought = pa.schema([field for field in incoming if field.name not in META_COLUMNS])
    if all(_is_known(field, table) for field in brought):
        return table
    fixed = {_root(name) for name in (*config.record_keys, *config.partition_fields, *config.every_ordering_field)}
    grown = pa.schema(_grown_fields(table, _fitted(brought, table.names), fixed))
    return table if grown.equals(table) else fit_again(grown)


def joined(first: pa.Schema, second: pa.Schema) -> pa.Schema | None:
    """Both evolutions of one schema in one, columns of `first` first; None if a column cannot be both."""
    fields = []
    for field in first:
        other = _named(second, field.name)
        kind = field.type if other is None else _joined_type(field.type, other.type)
        if kind is None:
            return None
        fields.append(pa.field(field.name, kind, field.nullable or (other is not None and other.nullable)))
    return pa.schema([*fields, *(f for f in second if _named(first, f.name) is None)])


def widened(kind: pa.DataType, brought: pa.DataType) -> pa.DataType | None:
    """The type that a column of the first type gets by values of the second; None if that is no other one."""
    grown = _wider(kind, brought)
    return None if grown is None or grown == kind else grown


def is_wider(kind: pa.DataType, than: pa.DataType) -> bool:
    """Whether every value of the second type has its place in the first, and they are not equal."""
    return bool(widened(than, kind) == kind)


def fit_again(schema: pa.Schema) -> pa.Schema:
    """The schema, if its names still can be told apart and it is not too large."""
    fit_schema(schema)
    return schema


def _fitted(brought: pa.Schema, known: Collection[str]) -> list[pa.Field]:
    """The incoming columns in types that a table can hold; of known columns also those that it cannot, as they are."""
    fields = []
    for field in brought:
        try:
            fields.append(fit_schema(pa.schema([field])).field(0))
        except InvalidArgument as error:
            if field.name not in known:
                text = error.message.replace("Nothing was created", "Nothing was written")
                raise InvalidArgument(text, **error.facts) from None
            fields.append(field)
    return fields


def _is_known(field: pa.Field, table: pa.Schema) -> bool:
    """Whether the table has such a column already, of that very type."""
    at = table.get_field_index(field.name)
    return bool(at >= 0 and table.field(at).type == field.type)


def _grown_fields(fields: Iterable[pa.Field], brought: list[pa.Field], fixed: Collection[str] = ()) -> list[pa.Field]:
    by_name = {field.name: field for field in brought}
    grown = []
    for field in fields:
        other = by_name.pop(field.name, None)
        kind = None if other is None or field.name in fixed else _wider(field.type, other.type)
        grown.append(field if kind is None or kind == field.type else field.with_type(kind))
    return [*grown, *by_name.values()]


def _wider(kind: pa.DataType, brought: pa.DataType) -> pa.DataType | None:
    """The type that holds both, if the second only widens the first; None if it does not."""
    types = pa.types
    if types.is_struct(kind) and types.is_struct(brought):
        return pa.struct(_grown_fields(kind, list(brought)))
    if types.is_list(kind) and types.is_list(brought):
        inner = _wider(kind.value_type, brought.value_type)
        return None if inner is None else pa.list_(kind.value_field.with_type(inner))
    if types.is_map(kind) and types.is_map(brought):
        inner = _wider(kind.item_type, brought.item_type)
        return None if inner is None else pa.map_(kind.key_type, kind.item_field.with_type(inner))
    if types.is_decimal(kind) and types.is_decimal(brought):
        whole = brought.precision - brought.scale >= kind.precision - kind.scale
        return brought if whole and brought.scale >= kind.scale else None
    return brought if kind == brought or (kind, brought) in _WIDER else None


_WIDER = frozenset({(pa.int32(), pa.int64()), (pa.float32(), pa.float64())})


def _joined_type(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if types.is_struct(first) and types.is_struct(second):
        inside = joined(pa.schema(list(first)), pa.schema(list(second)))
        return None if inside is None else pa.struct(list(inside))
    if types.is_list(first) and types.is_list(second):
        inner = _joined_type(first.value_type, second.value_type)
        return None if inner is None else pa.list_(first.value_field.with_type(inner))
    if types.is_map(first) and types.is_map(second):
        inner = _joined_type(first.item_type, second.item_type)
        return None if inner is None else pa.map_(first.key_type, first.item_field.with_type(inner))
    return _wider(first, second) or _wider(second, first)


def _named(schema: pa.Schema, name: str) -> pa.Field | None:
    """The column of that name, whatever its case: Spark and Hudi do not tell upper from lower."""
    at = schema.get_field_index(name)
    if at >= 0:
        return schema.field(at)
    return next((field for field in schema if field.name.lower() == name.lower()), None)


def _root(name: str) -> str:
    return name.split(".", maxsplit=1)[0]

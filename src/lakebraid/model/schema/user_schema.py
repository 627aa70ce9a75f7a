# SPDX-License-Identifier: Apache-2.0
"""A table's columns as a user gives them, brought to the types and names that a Hudi table can hold.

given                                        held as
int8, int16                                  int32
float16                                      float32
string and binary of every kind              string, binary
date64, time, timestamp of any unit          date32, time64[us], timestamp[us] (with a zone: UTC)
decimal of any width, up to 38 digits        decimal128
lists of every kind, map with string keys    list<element>, map<string, value>
dictionary, run-end encoded, extension       their values
uint8 … uint64, null, duration, union        refused, with the type to use instead

Every column may be null: Hudi's schemas say so, and NOT NULL is read but not kept.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.limits import SCHEMA_DEPTH_WRITTEN_MAX, SCHEMA_FIELDS_WRITTEN_MAX
from lakebraid.model.config import IS_DELETED_COLUMN, META_COLUMNS, OPERATION_COLUMN
from lakebraid.model.schema.ddl import parse_ddl

_RESERVED: Final = frozenset({*META_COLUMNS, OPERATION_COLUMN})
_HELD_AS: Final = {
    **{kind: kind for kind in (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32())},
    **{kind: pa.int32() for kind in (pa.int8(), pa.int16())},
    **{kind: pa.string() for kind in (pa.string(), pa.large_string(), pa.string_view())},
    **{kind: pa.binary() for kind in (pa.binary(), pa.large_binary(), pa.binary_view())},
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}
_INSTEAD: Final = {
    pa.uint8(): "int32",
    pa.uint16(): "int32",
    pa.uint32(): "int64",
    pa.uint64(): "int64 if the values fit, else decimal128(20, 0)",
    pa.null(): "the type that it will have",
}


def read_schema(given: Any) -> pa.Schema:
    """The table's columns out of an Arrow schema, anything that exports one, or DDL text.

    >>> read_schema("id bigint NOT NULL, small tinyint, at timestamp_ntz")
    id: int64
    small: int32
    at: timestamp[us]
    """
    if isinstance(given, str):
        return fit_schema(parse_ddl(given))
    if isinstance(given, pa.Schema):
        return fit_schema(given)
    if hasattr(given, "__arrow_c_schema__"):
        try:
            return fit_schema(pa.schema(given))
        except (pa.ArrowException, TypeError) as error:
            raise InvalidArgument(f"{given!r:.200} is no schema of columns: {error}. Nothing was created.") from error
    raise InvalidArgument(
        f"A {type(given).__name__} is no schema. Nothing was created. "
        "Give an Arrow schema, a Spark StructType or text like 'id bigint, ts timestamp'."
    )


def fit_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns in the types that the table will have; InvalidArgument for what it cannot hold."""
    if not len(schema):
        raise InvalidArgument("The schema has no columns. Nothing was created. Name at least the key column.")
    reserved = next((name for name in schema.names if name.lower() in _RESERVED), None)
    if reserved is not None:
        raise InvalidArgument(
            f"The schema has the column {reserved!r}, which Hudi itself adds to every row. Nothing was created. "
            "Leave the columns that begin with _hoodie_ out.",
            column=reserved,
        )
    fitted = pa.schema(_fields(schema, "", 1))
    _check_size(fitted)
    _check_deletion_mark(fitted)
    return fitted


def _fields(fields: Iterable[pa.Field], parent: str, depth: int) -> list[pa.Field]:
    seen: dict[str, str] = {}
    fitted = []
    for field in fields:
        path = f"{parent}.{field.name}" if parent else field.name
        _check_name(field.name, path)
        folded = field.name.lower()
        if folded in seen:
            raise InvalidArgument(
                f"The schema has two columns {seen[folded]!r} and {path!r}; Spark and Hudi do not tell upper from lower case. "
                "Nothing was created. Rename one.",
                column=path,
            )
        seen[folded] = path
        fitted.append(pa.field(field.name, _fit(field.type, path, depth)))
    return fitted


def _fit(kind: pa.DataType, path: str, depth: int) -> pa.DataType:
    types = pa.types
    if depth > SCHEMA_DEPTH_WRITTEN_MAX:
        raise _refused(path, f"is nested deeper than {SCHEMA_DEPTH_WRITTEN_MAX} levels", "Flatten it")
    if kind in _HELD_AS:
        return _HELD_AS[kind]
    if isinstance(kind, pa.BaseExtensionType):
        return _fit(kind.storage_type, path, depth)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _fit(kind.value_type, path, depth)
    if types.is_struct(kind):
        return _struct(kind, path, depth)
    if types.is_map(kind):
        return _map(kind, path, depth)
    if _is_list(kind):
        return pa.list_(pa.field("element", _fit(kind.value_type, path, depth + 1)))
    return _fit_plain(kind, path)


def _fit_plain(kind: pa.DataType, path: str) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if types.is_time(kind):
        return pa.time64("us")
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_decimal(kind):
        return _decimal(kind, path)
    instead = f"Cast it to {_INSTEAD[kind]}" if kind in _INSTEAD else "Cast it to a type that it can hold, as int64"
    raise _refused(path, f"has the type {kind!s:.200}, which a Hudi table cannot hold", instead)


def _struct(kind: pa.DataType, path: str, depth: int) -> pa.DataType:
    if kind.num_fields == 0:
        raise _refused(path, "is a struct without fields, which Parquet cannot hold", "Give it a field or drop it")
    return pa.struct(_fields(kind, path, depth + 1))


def _map(kind: pa.DataType, path: str, depth: int) -> pa.DataType:
    if _fit(kind.key_type, path, depth + 1) != pa.string():
        raise _refused(path, f"is a map with keys of type {kind.key_type!s:.200}; Avro knows only strings", "Cast them")
    return pa.map_(pa.string(), pa.field("value", _fit(kind.item_type, path, depth + 1)))


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    views = types.is_list_view(kind) or types.is_large_list_view(kind)
    return bool(views or types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _decimal(kind: pa.DataType, path: str) -> pa.DataType:
    if kind.precision > 38:
        raise _refused(path, f"is a decimal of {kind.precision} digits; 38 are Spark's limit", "Cast it to fewer")
    if not 0 <= kind.scale <= kind.precision:
        raise _refused(path, f"is a {kind}, whose scale is not between 0 and its digits", "Cast it to another scale")
    return pa.decimal128(kind.precision, kind.scale)


def _check_name(name: str, path: str) -> None:
    """Java's rule for names in Avro, which goes by UTF-16 units: letters of the first plane, digits and underscores."""
    kinds = [unicodedata.category(c) if c < "\U00010000" else "" for c in name]
    is_fine = [c == "_" or kind[:1] == "L" or kind == "Nd" for c, kind in zip(name, kinds, strict=True)]
    if not name or not all(is_fine) or kinds[0] == "Nd":
        raise InvalidArgument(
            f"{path!r} cannot be the name of a column: Avro takes letters, digits and underscores, and no digit first. "
            "Nothing was created. Rename it.",
            column=path,
        )


def _check_size(schema: pa.Schema) -> None:
    count = sum(_count(field.type) + 1 for field in schema)
    if count > SCHEMA_FIELDS_WRITTEN_MAX:
        raise InvalidArgument(
            f"The schema has {count:,} fields, nested ones included; {SCHEMA_FIELDS_WRITTEN_MAX:,} are the limit. "
            "Nothing was created. Keep rarely used ones in a map."
        )


def _count(kind: pa.DataType) -> int:
    inner = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return sum(_count(field.type) + 1 for field in inner)


def _check_deletion_mark(schema: pa.Schema) -> None:
    name = next((n for n in schema.names if n.lower() == IS_DELETED_COLUMN), None)
    if name is not None and (name != IS_DELETED_COLUMN or schema.field(name).type != pa.bool_()):
        raise _refused(name, "marks deleted rows", f"Name it {IS_DELETED_COLUMN} and make it a boolean, or rename it")


def _refused(path: str, why: str, instead: str) -> InvalidArgument:
    return InvalidArgument(f"The column {path!r} {why}. Nothing was created. {instead}.", column=path)

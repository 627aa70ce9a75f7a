# SPDX-License-Identifier: Apache-2.0
"""Avro schema text and Arrow schemas: the one place that decides which Arrow type a column of a Hudi table has.

    boolean int long float double   bool int32 int64 float double
    string, enum, uuid              string
    bytes, fixed                    binary
    decimal (bytes or fixed)        decimal128
    date                            date32
    time-millis, time-micros        time64[us]
    timestamp-millis, -micros       timestamp[us, UTC]
    local-timestamp-millis, -micros timestamp[us]
    array, map, record              list<element>, map<key, value>, struct
    VECTOR, BLOB, VARIANT of Hudi   as `format.hudi_types` says

A union of null and one type, in either order, is that type, nullable. Fields of nested records are nullable always: in
Arrow an absent record has absent fields, and casts stumble over those that are declared never to be absent. Logical
types that Avro does not know, or that do not fit their base type, are ignored, as the Avro specification asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument, LakebraidError, UnsupportedTable
from lakebraid.format.avro.leaves import PRIMITIVES, AvroType, SchemaProblem, fixed, leaf, primitive
from lakebraid.format.damage import damaged
from lakebraid.format.hudi_types import field_of, is_vector, record_type

_JSON_DEPTH_MAX: Final = 8 * limits.SCHEMA_DEPTH_MAX
"""Brackets inside brackets. One level of a schema takes up to four, written plainly."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema of rows: its text, as Arrow, as Arrow in the units of the bytes, and as a type."""

    text: str
    arrow: pa.Schema
    stored: pa.Schema
    type: AvroType


def parse_avro_schema(text: str, where: str) -> pa.Schema:
    """The Arrow schema of an Avro record schema; CorruptFile or UnsupportedTable if there is none."""
    return read_avro_schema(text, where).arrow


def read_avro_schema(text: str, where: str) -> AvroSchema:
    """An Avro record schema, understood and checked against all limits."""
    try:
        return _read(text)
    except SchemaProblem as problem:
        raise _error(where, problem) from None


def _error(where: str, problem: SchemaProblem) -> LakebraidError:
    if problem.unsupported:
        return UnsupportedTable(
            f"The Avro schema in {where} cannot be used: {problem}. Nothing was read or changed."
            " Rewrite the table without that column, or read it with Apache Hudi.",
            path=where,
        )
    return damaged(f"The Avro schema in {where}", str(problem))


@lru_cache(maxsize=16)  # the log files of a table share a schema or two
def _read(text: str) -> AvroSchema:
    top = _Resolver().resolve(_load(text), "", 0)
    if not pa.types.is_struct(top.arrow) or top.nullable:
        raise SchemaProblem("it does not describe a record")
    return AvroSchema(text, _columns(top.arrow, top), _columns(top.stored, top), top)


def _columns(struct: pa.DataType, top: AvroType) -> pa.Schema:
    required = {field["name"] for field in top.plain["fields"] if not _may_be_null(field["type"])}
    return pa.schema([field.with_nullable(field.name not in required) for field in struct])


def _may_be_null(plain: Any) -> bool:
    return plain == "null" or (isinstance(plain, list) and "null" in plain)


def _load(text: str) -> Any:
    if len(text) > limits.SCHEMA_BYTES_MAX:
        raise SchemaProblem(f"it has {len(text):,} characters; {limits.SCHEMA_BYTES_MAX:,} are the limit")
    # The JSON parser recurses, so the nesting is counted before it runs.
    outside_of_strings = "".join(re.sub(r"\\.", "", text, flags=re.DOTALL).split('"')[::2])
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", outside_of_strings):
        depth += 1 if bracket.group() in "[{" else -1
        if depth > _JSON_DEPTH_MAX:
            raise _too_deep()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaProblem("it is not JSON") from None


def _too_deep() -> SchemaProblem:
    return SchemaProblem(f"it is nested deeper than {limits.SCHEMA_DEPTH_MAX} levels")


class _Resolver:
    """Walks one schema: resolves names, counts fields and levels."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[dict[str, Any], str]] = {}
        self._open: set[str] = set()
        self._count = self._fields = 0

    def resolve(self, schema: Any, namespace: str, depth: int) -> AvroType:
        self._count += 1
        if depth > limits.SCHEMA_DEPTH_MAX:
            raise _too_deep()
        match schema:
            case str():
                return self._reference(schema, namespace, depth)
            case list():
                return self._union(schema, namespace, depth)
            case {"type": "array", "items": items}:
                return self._array(items, namespace, depth)
            case {"type": "map", "values": values}:
                return self._map(values, namespace, depth)
            case {"type": "record" | "error" | "enum" | "fixed", "name": str()}:
                return self._definition(schema, namespace, depth)
            case {"type": str(name)} if name in PRIMITIVES:
                return primitive(name, schema)
            case {"type": (str() | list() | dict()) as inner} if inner not in (
                "array",
                "map",
                "record",
                "enum",
                "fixed",
            ):
                return self.resolve(inner, namespace, depth)
        raise SchemaProblem(f"it has {str(schema)[:60]!r} in the place of a type")

    def _reference(self, name: str, namespace: str, depth: int) -> AvroType:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        known = next((n for n in (_full_name(name, namespace), name) if n in self._named), None)
        if known is None:
            raise SchemaProblem(f"it refers to {name[:60]!r}, which it does not define")
        return self._named_type(known, depth)

    def _definition(self, schema: dict[str, Any], namespace: str, depth: int) -> AvroType:
        space = schema.get("namespace", namespace)
        name = _full_name(schema["name"], space if isinstance(space, str) else namespace)
        # A second definition of a name holds from its place on. Avro forbids it, some writers do it.
        self._named[name] = (schema, name.rpartition(".")[0])
        return self._named_type(name, depth)

    def _named_type(self, name: str, depth: int) -> AvroType:
        schema, namespace = self._named[name]
        match schema:
            case {"type": "enum", "symbols": list(symbols)} if symbols and all(isinstance(s, str) for s in symbols):
                return leaf(pa.string(), {"type": "enum", "name": f"n{self._count}", "symbols": symbols}, 1, 4)
            case {"type": "fixed", "size": int(size)} if 0 <= size <= limits.ROW_BYTES_MAX:
                leaf_type = fixed(schema, size, f"n{self._count}")
                if is_vector(leaf_type.arrow) and depth != 1:
                    raise SchemaProblem("it has a VECTOR inside of another column", unsupported=True)
                return leaf_type
            case {"type": "record" | "error", "fields": list(fields)}:
                return _named(self._record(name, fields, namespace, depth), schema)
        raise SchemaProblem(f"the type {name[:60]!r} is incomplete")

    def _record(self, name: str, fields: list[Any], namespace: str, depth: int) -> AvroType:
        if name in self._open:
            raise SchemaProblem(f"the type {name[:60]!r} contains itself, which has no columns", unsupported=True)
        self._open.add(name)
        unique = f"n{self._count}"
        parts: dict[str, AvroType] = {}
        for field in fields:
            self._fields += 1
            if self._fields > limits.SCHEMA_FIELDS_MAX:
                raise SchemaProblem(f"it has more than {limits.SCHEMA_FIELDS_MAX:,} fields, references written out")
            match field:
                case {"name": str(field_name), "type": kind} if _is_text(field_name) and field_name not in parts:
                    parts[field_name] = self.resolve(kind, namespace, depth + 1)
                case _:
                    raise SchemaProblem(f"the record {name[:60]!r} has a field without a type, without a name or twice")
        self._open.discard(name)
        return AvroType(
            pa.struct([field_of(n, part.arrow, part.hudi_type) for n, part in parts.items()]),
            pa.struct([pa.field(n, part.stored) for n, part in parts.items()]),
            {"type": "record", "name": unique, "fields": [{"name": n, "type": p.plain} for n, p in parts.items()]},
            sum(part.bytes_min for part in parts.values()),
            1 + sum(part.slot_bytes for part in parts.values()),
            max((part.spread for part in parts.values()), default=0.0),
        )

    def _array(self, items: Any, namespace: str, depth: int) -> AvroType:
        item = self.resolve(items, namespace, depth + 1)
        if item.bytes_min == 0:
            raise SchemaProblem("it has a list whose elements take no bytes, so that any number of them fits")
        return AvroType(
            pa.list_(field_of("element", item.arrow, item.hudi_type, nullable=item.nullable)),
            pa.list_(pa.field("element", item.stored, item.nullable)),
            {"type": "array", "items": item.plain},
            1,
            5,
            item.slot_bytes / item.bytes_min + item.spread,
        )

    def _map(self, values: Any, namespace: str, depth: int) -> AvroType:
        value = self.resolve(values, namespace, depth + 1)
        return AvroType(
            pa.map_(pa.string(), field_of("value", value.arrow, value.hudi_type, nullable=value.nullable)),
            pa.map_(pa.string(), pa.field("value", value.stored, value.nullable)),
            {"type": "map", "values": value.plain},
            1,
            5,
            (5 + value.slot_bytes) / (1 + value.bytes_min) + value.spread,
        )

    def _union(self, branches: list[Any], namespace: str, depth: int) -> AvroType:
        if len(branches) > limits.SCHEMA_BRANCHES_MAX:
            raise SchemaProblem(f"it has a union of {len(branches):,} types")
        types = [self.resolve(branch, namespace, depth) for branch in branches if not isinstance(branch, list)]
        real = [part for part in types if part.plain != "null"]
        if len(types) != len(branches) or not types or len(types) - len(real) > 1:
            raise SchemaProblem("it has a union that Avro does not allow")
        if len(real) > 1:
            raise SchemaProblem("it has a column that may hold several types (a union)", unsupported=True)
        chosen = real[0] if real else types[0]
        return replace(chosen, plain=[part.plain for part in types], bytes_min=1, nullable=len(real) < len(types))


def _named(record: AvroType, schema: dict[str, Any]) -> AvroType:
    """The record with what Hudi calls it."""
    hudi_type = record_type(schema.get("logicalType"), record.arrow)
    if hudi_type is None:
        raise SchemaProblem("it has a VARIANT that is shredded, or of a kind that is not known", unsupported=True)
    return replace(record, hudi_type=hudi_type)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def format_avro_schema(schema: pa.Schema, name: str, namespace: str) -> str:
    """The Avro schema text of a table: every field may be null and is so by default, as Hudi writes it.

    Nested records and decimals are named by their path, so that no two types of a table share a name.
    """
    text = json.dumps(_record_json(schema, name, namespace), separators=(",", ":"), ensure_ascii=False)
    if len(text) > limits.SCHEMA_BYTES_MAX:
        raise InvalidArgument(f"The schema of {name} takes {len(text):,} characters, more than readers accept.")
    return text


def _record_json(fields: Iterable[pa.Field], name: str, namespace: str) -> dict[str, Any]:
    inner = f"{namespace}.{name}" if namespace else name
    listed = [
        {"name": _avro_name(f.name), "type": ["null", _type_json(f.type, f.name, inner)], "default": None}
        for f in fields
    ]
    return {"type": "record", "name": _avro_name(name), "namespace": namespace, "fields": listed}


def _type_json(kind: pa.DataType, name: str, namespace: str) -> Any:
    if pa.types.is_struct(kind):
        return _record_json(kind, name, namespace)
    if pa.types.is_map(kind):
        return {"type": "map", "values": _member_json(kind.item_field, name, namespace)}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return {"type": "array", "items": _member_json(kind.value_field, name, namespace)}
    if pa.types.is_dictionary(kind):
        return _type_json(kind.value_type, name, namespace)
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= 38:
        size = next(size for size in range(1, 17) if 10**kind.precision <= 1 << (8 * size - 1))
        fixed = {"type": "fixed", "name": "fixed", "namespace": f"{namespace}.{name}", "size": size}
        return fixed | {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    return _leaf_json(kind, name)


def _member_json(field: pa.Field, name: str, namespace: str) -> Any:
    inner = _type_json(field.type, name, namespace)
    return ["null", inner] if field.nullable else inner


def _leaf_json(kind: pa.DataType, name: str) -> Any:
    is_ = pa.types
    if is_.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if is_.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if is_.is_time(kind):
        return {"type": "long", "logicalType": "time-micros"}
    if is_.is_integer(kind) and kind != pa.uint64():
        return "int" if kind.bit_width < 32 or kind == pa.int32() else "long"
    for found, text in (
        (is_.is_boolean(kind), "boolean"),
        (is_.is_float64(kind), "double"),
        (is_.is_float32(kind), "float"),
        (is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind), "string"),
        (is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind), "bytes"),
        (is_.is_fixed_size_binary(kind), "bytes"),
    ):
        if found:
            return text
    raise InvalidArgument(f"Column {name!r} has the type {kind}, which a Hudi table cannot hold. Cast it first.")


def _avro_name(name: str) -> str:
    """The name, if Java's Avro takes it: letters of any script, digits and underscores, no digit first."""
    if re.fullmatch(r"[^\W\d]\w*", name):
        return name
    raise InvalidArgument(f"{name!r} cannot be the name of a column or table: use letters, digits and underscores.")

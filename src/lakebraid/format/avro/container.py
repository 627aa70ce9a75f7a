# SPDX-License-Identifier: Apache-2.0
"""Avro object containers with one record: the content of nearly every timeline file.

The bytes may be hostile. The framing is read here, each length held against what remains; the schema in the header
is rebuilt from the few words that matter, so that fastavro only ever decodes with a schema in which every value
takes at least one byte and nothing refers to itself. Work and memory are then in proportion to the bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import fastavro

from lakebraid.errors import CorruptFile, InvalidArgument
from lakebraid.format.damage import damaged
from lakebraid.format.timeline.records import RECORDS, avro_schema, schema_misfit
from lakebraid.limits import (
    AVRO_HEADER_ENTRIES_MAX,
    AVRO_INFLATED_BYTES_MAX,
    SCHEMA_DEPTH_MAX,
    TIMELINE_FILE_BYTES_MAX,
    TIMELINE_SCHEMA_BYTES_MAX,
)

MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class _DamageError(Exception):
    """What is wrong with the bytes; becomes CorruptFile where the file's name is known."""


def read_record(data: bytes, where: str, schema_name: str | None = None) -> dict[str, Any]:
    """The one record of an Avro container; CorruptFile for anything else, at any byte.

    With `schema_name` (of records.py) the file's own schema must be able to give that record, so that the values
    need no further check: fields the file lacks are absent, fields we do not know are there as well.
    """
    try:
        return _read_record(data, schema_name)
    except _DamageError as damage:
        raise damaged(where, str(damage)) from None


def _read_record(data: bytes, schema_name: str | None) -> dict[str, Any]:
    if len(data) > TIMELINE_FILE_BYTES_MAX:
        raise _DamageError(f"{len(data):,} bytes are more than the {TIMELINE_FILE_BYTES_MAX:,} of the largest record")
    cursor = _Cursor(data)
    if cursor.take(len(MAGIC), "its first bytes") != MAGIC:
        raise _DamageError("it does not begin like an Avro file")
    header = _read_header(cursor)
    sync = cursor.take(_SYNC_BYTES, "its sync marker")
    schema = _readable_schema(header.get("avro.schema", b""), schema_name)
    count = cursor.long("its number of records")
    body = cursor.take(cursor.long("the size of its record"), "its record")
    if count != 1:
        raise _DamageError(f"it announces {count:,} records where one belongs")
    if cursor.take(_SYNC_BYTES, "its closing marker") != sync or cursor.remaining:
        raise _DamageError("its record is not followed by its closing marker and the end of the file")
    return _decode(_decompress(body, header.get("avro.codec", b"null")), schema)


class _Cursor:
    """A place in bytes that never runs past their end."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._place

    def take(self, length: int, what: str) -> bytes:
        if not 0 <= length <= self.remaining:
            raise _DamageError(
                f"{what} should take {length:,} bytes from byte {self._place:,}; {self.remaining:,} remain"
            )
        self._place += length
        return self._data[self._place - length : self._place]

    def long(self, what: str) -> int:
        """One zigzag number of at most ten bytes."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1, what)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise _DamageError(f"{what} is a number without an end at byte {self._place:,}")


def _read_header(cursor: _Cursor) -> dict[str, bytes]:
    header: dict[str, bytes] = {}
    while count := cursor.long("a count in its header"):
        if count < 0:
            cursor.long("a size in its header")
        if abs(count) + len(header) > AVRO_HEADER_ENTRIES_MAX:
            raise _DamageError(f"its header announces {abs(count):,} entries; {AVRO_HEADER_ENTRIES_MAX} are the limit")
        for _ in range(abs(count)):
            key = cursor.take(cursor.long("a key's length"), "a key of its header")
            value = cursor.take(cursor.long("a value's length"), "a value of its header")
            header[key.decode("utf-8", "replace")] = value
    return header


def _decompress(body: bytes, codec: bytes) -> bytes:
    if codec == b"null":
        return body
    if codec != b"deflate":
        raise _DamageError(f"it is compressed with {codec[:20]!r}, which Hudi does not use here")
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(body, AVRO_INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise _DamageError(f"its record does not inflate ({error})") from None
    if not inflater.eof:  # bytes after the end are fine: some writers leave a part of zlib's own checksum there
        raise _DamageError(f"its record is cut off, or inflates beyond {AVRO_INFLATED_BYTES_MAX:,} bytes")
    return plain


def _decode(body: bytes, schema: Any) -> dict[str, Any]:
    stream = io.BytesIO(body)
    try:
        record = fastavro.schemaless_reader(stream, schema, None)
    except Exception as error:  # noqa: BLE001 - fastavro raises nearly every type there is on damaged bytes
        raise _DamageError(
            f"its record does not follow its schema ({type(error).__name__}: {str(error)[:80]})"
        ) from None
    if stream.tell() != len(body):
        raise _DamageError(f"{len(body) - stream.tell():,} bytes are left over after its record")
    if not isinstance(record, dict):
        raise _DamageError("it holds a single value, not a record")
    return record


@lru_cache(maxsize=64)  # the files of a timeline share a handful of headers
def _readable_schema(text: bytes, schema_name: str | None) -> Any:
    """The schema of a header, rebuilt and parsed, if it is safe to decode with and fits `schema_name`."""
    if len(text) > TIMELINE_SCHEMA_BYTES_MAX:
        raise _DamageError(f"its schema takes {len(text):,} bytes; {TIMELINE_SCHEMA_BYTES_MAX:,} are the limit")
    try:
        written = json.loads(text)
    except (ValueError, RecursionError):
        raise _DamageError("its schema is not JSON") from None
    rebuild = _Rebuild()
    schema, _ = rebuild.schema(written, "", 1)
    misfit = schema_misfit(schema, rebuild.named, schema_name) if schema_name else None
    if misfit:
        raise _DamageError(f"its schema does not fit at {misfit}")
    try:
        return fastavro.parse_schema(schema)
    except Exception as error:  # noqa: BLE001 - as above
        raise _DamageError(f"its schema is not one ({type(error).__name__}: {str(error)[:80]})") from None


class _Rebuild:
    """One schema reduced to what decoding needs: no documentation, defaults, aliases or logical types."""

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}
        self._heights: dict[str, int] = {}

    def schema(self, written: Any, namespace: str, depth: int) -> tuple[Any, int]:
        """The reduced schema and how many levels it has below and with itself."""
        if depth > SCHEMA_DEPTH_MAX:
            raise _DamageError(f"its schema is nested deeper than {SCHEMA_DEPTH_MAX} levels")
        match written:
            case str():
                return self._reference(written, namespace, depth)
            case list() if written:
                branches = [self.schema(branch, namespace, depth + 1) for branch in written]
                return [branch for branch, _ in branches], 1 + max(height for _, height in branches)
            case {"type": "array", "items": items}:
                part, height = self._taking_bytes(items, namespace, depth)
                return {"type": "array", "items": part}, 1 + height
            case {"type": "map", "values": values}:
                part, height = self.schema(values, namespace, depth + 1)
                return {"type": "map", "values": part}, 1 + height
            case {"type": "record" | "error", "name": str(), "fields": list()}:
                return self._record(written, namespace, depth)
            case {"type": "enum", "name": str(), "symbols": list(symbols)} if symbols:
                name, _ = self._new_name(written, namespace)
                return self._known(name, {"type": "enum", "name": name, "symbols": symbols}, 1)
            case {"type": "fixed", "name": str(), "size": int(size)} if 0 < size <= TIMELINE_FILE_BYTES_MAX:
                name, _ = self._new_name(written, namespace)
                return self._known(name, {"type": "fixed", "name": name, "size": size}, 1)
            case {"type": (str() | dict() | list()) as inner} if inner not in (
                "array",
                "map",
                "record",
                "enum",
                "fixed",
            ):
                return self.schema(inner, namespace, depth + 1)
        raise _DamageError("its schema has something in the place of a type that is none")

    def _reference(self, written: str, namespace: str, depth: int) -> tuple[Any, int]:
        if written in _PRIMITIVES:
            return written, 1
        name = written if "." in written or not namespace else f"{namespace}.{written}"
        name = name if name in self._heights else written
        # A record is known only once it is complete, so nothing can contain itself.
        if name not in self._heights:
            raise _DamageError(f"its schema refers to {written[:60]!r}, which is unknown or contains itself")
        if depth + self._heights[name] > SCHEMA_DEPTH_MAX + 1:
            raise _DamageError(f"its schema is nested deeper than {SCHEMA_DEPTH_MAX} levels")
        return name, self._heights[name]

    def _record(self, written: Any, namespace: str, depth: int) -> tuple[Any, int]:
        name, inner = self._new_name(written, namespace)
        fields, heights = [], [0]
        for field in written["fields"]:
            match field:
                case {"name": str(field_name), "type": kind}:
                    part, height = self._taking_bytes(kind, inner, depth)
                    fields.append({"name": field_name, "type": part})
                    heights.append(height)
                case _:
                    raise _DamageError(f"its record {name[:60]!r} has a field without a name or a type")
        if not fields:
            raise _DamageError(f"its record {name[:60]!r} has no fields")
        return self._known(name, {"type": "record", "name": name, "fields": fields}, 1 + max(heights))

    def _taking_bytes(self, written: Any, namespace: str, depth: int) -> tuple[Any, int]:
        """A type whose values take bytes; a trillion of the others would fit into none."""
        part, height = self.schema(written, namespace, depth + 1)
        if part == "null":
            raise _DamageError("its schema has values that take no bytes")
        return part, height

    def _new_name(self, written: Any, namespace: str) -> tuple[str, str]:
        name = written["name"]
        if "." not in name:
            space = written.get("namespace", namespace)
            name = f"{space}.{name}" if space and isinstance(space, str) else name
        if name in _PRIMITIVES or name in self._heights:
            raise _DamageError(f"its schema defines {name[:60]!r} twice")
        return name, name.rpartition(".")[0]

    def _known(self, name: str, schema: Any, height: int) -> tuple[Any, int]:
        if name in self._heights:
            raise _DamageError(f"its schema defines {name[:60]!r} twice")
        self.named[name] = schema
        self._heights[name] = height
        return schema, height


def write_record(schema_name: str, record: Mapping[str, Any]) -> bytes:
    """The Avro container with that record of records.py. Equal records give equal bytes; reading back is checked."""
    schema, text = _own_schema(schema_name)
    body = io.BytesIO()
    try:
        fastavro.schemaless_writer(body, schema, dict(record), strict_allow_default=True)
    except Exception as error:
        raise InvalidArgument(f"This is not a {schema_name}: {error}. Nothing was written.") from error
    content = body.getvalue()
    sync = hashlib.sha256(text + content).digest()[:_SYNC_BYTES]
    header = _long(2) + b"".join(_sized(part) for part in (b"avro.schema", text, b"avro.codec", b"null")) + _long(0)
    data = MAGIC + header + sync + _long(1) + _sized(content) + sync
    _check_read_back(schema_name, record, data)
    return data


@lru_cache(maxsize=len(RECORDS))
def _own_schema(schema_name: str) -> tuple[Any, bytes]:
    schema = avro_schema(schema_name)
    return fastavro.parse_schema(schema), json.dumps(schema, separators=(",", ":")).encode()


def _check_read_back(schema_name: str, record: Mapping[str, Any], data: bytes) -> None:
    try:
        read = read_record(data, f"the new {schema_name}", schema_name)
    except CorruptFile as error:
        raise InvalidArgument(f"This {schema_name} cannot be written: {error.reason}. Nothing was written.") from error
    for field, value in record.items():
        if not _holds(read[field], value):
            raise InvalidArgument(f"{schema_name}.{field} would not be read back as it is. Nothing was written.")


def _holds(read: Any, given: Any) -> bool:
    """Whether all that was given was read back; what was left to defaults may be there as well."""
    match read, given:
        case dict(), dict():
            return all(key in read and _holds(read[key], value) for key, value in given.items())
        case list(), list():
            return len(read) == len(given) and all(map(_holds, read, given))
    return bool(read == given)


def _sized(part: bytes) -> bytes:
    return _long(len(part)) + part


def _long(value: int) -> bytes:
    value <<= 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])

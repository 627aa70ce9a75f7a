# SPDX-License-Identifier: Apache-2.0
"""The content of delete blocks: which keys are gone, and by which ordering value.

A content version, a length, then Avro bytes of one list. Each entry has a key, a partition and an ordering value in a
wrapper that says its type. The bytes carry no schema: the numbers of the wrappers below are the format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import InvalidArgument, UnsupportedTable
from lakebraid.format.avro.varint import format_long, parse_long
from lakebraid.format.damage import damaged

_CONTENT_VERSION: Final = 3
_HEAD: Final = struct.Struct(">ii")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_ENTRY_BYTES_MIN: Final = 3
_DECIMAL: Final = pa.decimal128(30, 15)
_EXACT: Final = Context(prec=76)

_NULL, _BOOLEAN, _INT, _LONG, _FLOAT_, _DOUBLE_, _BYTES, _STRING = range(8)
_DATE, _DECIMAL_, _TIME, _TIMESTAMP, _ARRAY_OR_LOCAL_DATE = range(8, 13)
"""Wrappers in the order of Hudi's union. The last is a list of values outside of a list, a local date inside of one."""

_ARROW_TYPES: Final = {
    _BOOLEAN: pa.bool_(),
    _INT: pa.int32(),
    _LONG: pa.int64(),
    _FLOAT_: pa.float32(),
    _DOUBLE_: pa.float64(),
    _BYTES: pa.binary(),
    _STRING: pa.string(),
    _DATE: pa.date32(),
    _DECIMAL_: _DECIMAL,
    _TIME: pa.time64("us"),
    _TIMESTAMP: pa.timestamp("us", tz="UTC"),
    _ARRAY_OR_LOCAL_DATE: pa.date32(),
}
_NUMBERS: Final = frozenset({_INT, _LONG, _DATE, _TIME, _TIMESTAMP})


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """Deleted keys, row by row."""

    record_keys: pa.Array
    partition_paths: pa.Array
    """Null where the writer did not say."""
    ordering: tuple[pa.Array, ...] | None
    """One array for each ordering field, null where `unconditional`; None if no delete has an ordering value."""
    unconditional: pa.Array
    """Whether the delete removes whatever came before it, by whatever ordering value."""

    def __len__(self) -> int:
        return len(self.record_keys)


def parse_delete_block(content: bytes | memoryview, where: str) -> DeletedKeys:
    """The deletes of a delete block.

    An ordering value of int 0, or none at all, means an unconditional delete. For an int ordering column a real 0
    cannot be told from that; Hudi has the same blind spot.
    """
    data = _checked(memoryview(content), where)
    try:
        keys, partitions, kinds, values = _parse_entries(data)
        return _deleted_keys(keys, partitions, kinds, values)
    except IndexError:
        raise damaged(where, "its list of deletes ends in the middle of an entry") from None
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise damaged(where, f"its list of deletes does not decode ({error!s:.120})") from None


def format_delete_block(
    record_keys: pa.Array, partition_paths: pa.Array, ordering: Sequence[pa.Array] | None = None
) -> bytes:
    """The content of a delete block; the wrapper of each ordering value follows from its Arrow type.

    Rows whose ordering values are all null, and all rows if `ordering` is None, become unconditional deletes. So do,
    since Hudi's format cannot tell them apart, those with the int 0 or the date 1970-01-01.
    """
    if record_keys.null_count:
        raise InvalidArgument("A delete needs a record key; at least one is null. Nothing was written.")
    wrapped = _wrapped(ordering, len(record_keys))
    entries = [
        _wrap_text(key) + _wrap_text(partition) + value
        for key, partition, value in zip(record_keys.to_pylist(), partition_paths.to_pylist(), wrapped, strict=True)
    ]
    body = b"".join((format_long(len(entries)) if entries else b"", *entries, b"\x00"))
    return _HEAD.pack(_CONTENT_VERSION, len(body)) + body


def _checked(content: memoryview, where: str) -> bytes:
    if len(content) < _HEAD.size:
        raise damaged(where, f"its list of deletes has {len(content)} bytes")
    version, length = _HEAD.unpack_from(content)
    if version in (1, 2):
        raise UnsupportedTable(
            f"{where} holds deletes as serialised Java objects (content version {version}, written by Hudi before 0.13)."
            " Only Java can read them. Nothing was changed. Compact the table with Apache Hudi, then read it again.",
            path=where,
        )
    if version != _CONTENT_VERSION:
        raise damaged(where, f"its deletes have content version {version}; only {_CONTENT_VERSION} is known")
    if length != len(content) - _HEAD.size:
        raise damaged(where, f"its list of deletes claims {length:,} bytes; {len(content) - _HEAD.size:,} are there")
    return bytes(content[_HEAD.size :])


def _parse_entries(data: bytes) -> tuple[list[bytes], list[bytes | None], list[int], list[Any]]:
    """Keys, partitions, and kind and value of each ordering value."""
    keys: list[bytes] = []
    partitions: list[bytes | None] = []
    kinds: list[int] = []
    values: list[Any] = []
    position = 0
    while True:
        count, position = parse_long(data, position)
        if count < 0:
            count, (_, position) = -count, parse_long(data, position)
        if count == 0:
            break
        if count > min(limits.BLOCK_RECORDS_MAX - len(keys), (len(data) - position) // _ENTRY_BYTES_MIN):
            raise ValueError(f"{count:,} entries are announced")
        for _ in range(count):
            key, position = _parse_text(data, position)
            if key is None:
                raise ValueError(f"entry {len(keys):,} has no key")
            partition, position = _parse_text(data, position)
            kind, value, position = _parse_value(data, position, _parse_list)
            keys.append(key)
            partitions.append(partition)
            kinds.append(kind)
            values.append(value)
    if position != len(data):
        raise ValueError(f"{len(data) - position:,} bytes follow the last entry")
    return keys, partitions, kinds, values


def _parse_text(data: bytes, position: int) -> tuple[bytes | None, int]:
    branch = data[position]
    if branch == 0:
        return None, position + 1
    if branch != 2:
        raise ValueError(f"byte {position:,} is neither null nor a text")
    return _parse_bytes(data, position + 1)


def _parse_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = parse_long(data, position)
    end = position + length
    if not position <= end <= len(data):
        raise ValueError(f"a value at byte {position:,} claims {length:,} bytes")
    return data[position:end], end


_Last = Callable[[bytes, int], tuple[Any, int]]


def _parse_value(data: bytes, position: int, parse_last: _Last) -> tuple[int, Any, int]:
    """Kind, value and end of a wrapper; `parse_last` reads what the last kind holds, which depends on the place."""
    kind = data[position] >> 1
    if data[position] & 1 or kind > _ARRAY_OR_LOCAL_DATE:
        raise ValueError(f"byte {position:,} names no known kind of ordering value")
    position += 1
    if kind in _NUMBERS:
        value, position = parse_long(data, position)
        return kind, value, position
    if kind == _ARRAY_OR_LOCAL_DATE:
        value, position = parse_last(data, position)
        return kind, value, position
    if kind in (_STRING, _BYTES, _DECIMAL_):
        raw, position = _parse_bytes(data, position)
        return kind, _decimal(raw) if kind == _DECIMAL_ else raw, position
    return (kind, *_parse_fixed(data, position, kind))


def _parse_fixed(data: bytes, position: int, kind: int) -> tuple[Any, int]:
    if kind == _NULL:
        return None, position
    if kind == _BOOLEAN:
        return data[position] != 0, position + 1
    form = _FLOAT if kind == _FLOAT_ else _DOUBLE
    if position + form.size > len(data):
        raise IndexError
    return form.unpack_from(data, position)[0], position + form.size


def _parse_list(data: bytes, position: int) -> tuple[list[tuple[int, Any]], int]:
    """The kinds and values of a list of ordering values."""
    if data[position] != 2:
        raise ValueError("a list of ordering values is missing")
    position += 1
    members: list[tuple[int, Any]] = []
    while True:
        count, position = parse_long(data, position)
        if count < 0:
            count, (_, position) = -count, parse_long(data, position)
        if count == 0:
            return members, position
        if count + len(members) > limits.ORDERING_FIELDS_MAX:
            raise ValueError(f"{count:,} ordering values are announced for one key")
        for _ in range(count):
            kind, value, position = _parse_value(data, position, parse_long)
            members.append((kind, value))


def _decimal(raw: bytes) -> Decimal:
    return Decimal(int.from_bytes(raw[:16], "big", signed=True) if len(raw) <= 16 else 10**30).scaleb(-15, _EXACT)


def _deleted_keys(
    keys: list[bytes], partitions: list[bytes | None], kinds: list[int], values: list[Any]
) -> DeletedKeys:
    # A list of one value is that value, as for Hudi.
    fields = [
        value if kind == _ARRAY_OR_LOCAL_DATE else [(kind, value)] for kind, value in zip(kinds, values, strict=True)
    ]
    unconditional = [field in ([(_INT, 0)], [(_NULL, None)]) for field in fields]
    widths = {len(field) for field, without in zip(fields, unconditional, strict=True) if not without}
    if len(widths) > 1 or 0 in widths:
        raise ValueError("the numbers of ordering values differ")
    width = max(widths, default=0)
    nothing = [(_NULL, None)] * width
    rows = [nothing if without else field for field, without in zip(fields, unconditional, strict=True)]
    columns = tuple(_column([row[index] for row in rows]) for index in range(width))
    return DeletedKeys(_texts(keys), _texts(partitions), columns or None, pa.array(unconditional, pa.bool_()))


def _texts(values: Sequence[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string())


def _column(members: list[tuple[int, Any]]) -> pa.Array:
    """The values of one ordering field, in the one type that all can take."""
    found = {_ARROW_TYPES[kind] for kind, _ in members if kind != _NULL}
    if found == {pa.int32(), pa.int64()}:
        found = {pa.int64()}
    if len(found) > 1:
        raise ValueError(f"ordering values of the types {', '.join(sorted(map(str, found)))} are mixed")
    column = pa.array([value for _, value in members], found.pop() if found else pa.null())
    column.validate(full=True)  # a time of day beyond midnight, say
    return column


def _wrap_text(text: str | None) -> bytes:
    if text is None:
        return b"\x00"
    encoded = text.encode()
    return b"\x02" + format_long(len(encoded)) + encoded


_UNCONDITIONAL: Final = bytes((_INT << 1, 0))


def _wrapped(ordering: Sequence[pa.Array] | None, count: int) -> list[bytes]:
    if not ordering:
        return [_UNCONDITIONAL] * count
    columns = [_wrapped_column(values) for values in ordering]
    if len(columns) == 1:
        return [value or _UNCONDITIONAL for value in columns[0]]
    return [_wrapped_list(values) for values in zip(*columns, strict=True)]


def _wrapped_list(values: tuple[bytes | None, ...]) -> bytes:
    given = [value for value in values if value is not None]
    if not given:
        return _UNCONDITIONAL
    if len(given) < len(values):
        raise InvalidArgument("Some ordering values of a delete are null and some are not; Hudi cannot compare those.")
    return bytes((_ARRAY_OR_LOCAL_DATE << 1, 2)) + format_long(len(given)) + b"".join(given) + b"\x00"


def _wrapped_column(values: pa.Array) -> list[bytes | None]:
    kind = _kind_of(values.type)
    try:
        plain = pc.cast(_as_number(values), _ARROW_TYPES[kind])
        if kind in _NUMBERS:
            plain = plain.cast(pa.int32() if kind == _INT else pa.int64())
    except pa.ArrowException as error:
        raise InvalidArgument(
            f"Ordering values do not fit Hudi's delete format: {error}. Nothing was written."
        ) from error
    return [None if value is None else bytes((kind << 1,)) + _encode(kind, value) for value in plain.to_pylist()]


def _as_number(values: pa.Array) -> pa.Array:
    """Dates as days, moments as microseconds."""
    if pa.types.is_date(values.type):
        return values.cast(pa.date32()).cast(pa.int32())
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", tz=values.type.tz)).cast(pa.int64())
    return values


def _encode(kind: int, value: Any) -> bytes:
    if kind in _NUMBERS:
        return format_long(value)
    if kind == _BOOLEAN:
        return b"\x01" if value else b"\x00"
    if kind in (_FLOAT_, _DOUBLE_):
        return (_FLOAT if kind == _FLOAT_ else _DOUBLE).pack(value)
    if kind == _DECIMAL_:
        number = int(value.scaleb(15, _EXACT))
        raw = number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
    else:
        raw = value.encode() if kind == _STRING else value
    return format_long(len(raw)) + raw


def _kind_of(kind: pa.DataType) -> int:
    is_ = pa.types
    if is_.is_integer(kind) and kind != pa.uint64():
        return _INT if kind.bit_width < 32 or kind == pa.int32() else _LONG
    for found, wrapper in (
        (is_.is_boolean(kind), _BOOLEAN),
        (is_.is_float32(kind), _FLOAT_),
        (is_.is_float64(kind), _DOUBLE_),
        (is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind), _STRING),
        (is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind), _BYTES),
        (is_.is_decimal(kind), _DECIMAL_),
        (is_.is_time(kind), _TIME),
        # Hudi compares these with the plain numbers of its rows, and its own wrappers for them with nothing at all.
        (is_.is_date(kind), _INT),
        (is_.is_timestamp(kind), _LONG),
    ):
        if found:
            return wrapper
    raise InvalidArgument(f"Values of the type {kind} cannot order deletes. Nothing was written.")

# SPDX-License-Identifier: Apache-2.0
"""Avro containers made by hand: any schema, any body, any claim."""

from __future__ import annotations

import json
from typing import Any

from lakebraid.format.avro.varint import format_long

SYNC = b"sixteen bytes ok"


def sized(data: bytes) -> bytes:
    return format_long(len(data)) + data


def container(
    schema: Any, body: bytes, *, count: int = 1, size: int | None = None, codec: bytes = b"null", tail: bytes = SYNC
) -> bytes:
    """A container with one block; `schema` is JSON text or what becomes it."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    header = format_long(2) + sized(b"avro.schema") + sized(text) + sized(b"avro.codec") + sized(codec) + format_long(0)
    return (
        b"Obj\x01" + header + SYNC + format_long(count) + format_long(len(body) if size is None else size) + body + tail
    )


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The schema and the body of a container with one record and no compression."""
    start = data.index(b'{"type"')
    schema, length = json.JSONDecoder().raw_decode(data[start:].decode("latin-1"))
    body_start = data.index(data[-16:], start + length) + 16
    at = body_start
    for _ in range(2):
        while data[at] & 0x80:
            at += 1
        at += 1
    return schema, data[at:-16]


def nested(depth: int, kind: str = "record") -> Any:
    """A schema of that many levels, built without recursion."""
    inner: Any = "int"
    for level in range(depth):
        match kind:
            case "record":
                inner = {"type": "record", "name": f"r{level}", "fields": [{"name": "f", "type": inner}]}
            case "array":
                inner = {"type": "array", "items": inner}
            case "map":
                inner = {"type": "map", "values": inner}
            case _:
                inner = ["null", {"type": "array", "items": inner}]
    return inner


def nested_text(depth: int, opening: bytes = b'{"type":"array","items":', closing: bytes = b"}") -> bytes:
    """The same as text, for depths that `json` itself cannot write."""
    return opening * depth + b'"int"' + closing * depth

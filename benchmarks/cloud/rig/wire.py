# SPDX-License-Identifier: Apache-2.0
"""As much of HTTP/1.1 as stands between an S3 client and its server on loopback; every length is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
BODY_BYTES_MAX: Final = 256 * 1024 * 1024
_NO_BODY: Final = ("204", "304")


class Malformed(Exception):
    """Not HTTP, or more of it than is allowed."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request or an answer, as its bytes were; `first` are the three parts of its first line."""

    first: tuple[str, str, str]
    headers: Mapping[str, str]
    head: bytes
    body: bytes


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Message | None:
    """The next request of a connection; None at its end. Who waits for a 100 before the body gets one."""
    found = await _head(reader)
    if found is None:
        return None
    first, headers, head = found
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    return Message(first, headers, head, await _body(reader, headers))


async def read_answer(reader: asyncio.StreamReader, method: str) -> Message:
    while True:
        found = await _head(reader)
        if found is None:
            raise Malformed("The server closed the connection without an answer.")
        first, headers, head = found
        if not first[1].startswith("1"):
            break
    has_body = method != "HEAD" and first[1] not in _NO_BODY
    body = await _body(reader, headers, to_the_end=has_body) if has_body else b""
    return Message(first, headers, head, body)


def kind_of(method: str, target: str, headers: Mapping[str, str]) -> str:
    """Which kind of request of S3 it is, in the words of `latency`.

    >>> kind_of("GET", "/lake?list-type=2&prefix=t", {}), kind_of("PUT", "/lake/a", {"x-amz-copy-source": "/lake/b"})
    ('list', 'copy')
    >>> kind_of("POST", "/lake?delete", {}), kind_of("GET", "/lake/a", {}), kind_of("HEAD", "/lake/a", {})
    ('delete', 'get', 'head')
    """
    query = target.partition("?")[2].split("&")
    if method == "GET":
        return "list" if any(part.startswith(("list-type=", "prefix=")) for part in query) else "get"
    if method == "POST":
        return "delete" if any(part in ("delete", "delete=") for part in query) else "put"
    if method == "PUT":
        return "copy" if "x-amz-copy-source" in headers else "put"
    return {"HEAD": "head", "DELETE": "delete"}.get(method, "get")


async def _head(reader: asyncio.StreamReader) -> tuple[tuple[str, str, str], dict[str, str], bytes] | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise Malformed("The connection ended within a head.") from None
        return None
    except asyncio.LimitOverrunError:
        raise Malformed("A head is too long.") from None
    lines = head.decode("latin-1").split("\r\n")
    first = lines[0].split(" ", 2)
    if len(first) < 2:
        raise Malformed("A first line has less than two parts.")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return (first[0], first[1], first[2] if len(first) > 2 else ""), headers, head


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str], *, to_the_end: bool = False) -> bytes:
    """As it was sent, with the marks of its chunks if it came in such."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _chunks(reader)
    if "content-length" in headers:
        length = int(headers["content-length"])
        if length > BODY_BYTES_MAX:
            raise Malformed(f"A body of {length:,} bytes is too long.")
        return await reader.readexactly(length)
    return await reader.read(BODY_BYTES_MAX) if to_the_end else b""


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts, total = [], 0
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        total += size
        if total > BODY_BYTES_MAX:
            raise Malformed("A chunked body is too long.")
        parts += [line, await reader.readexactly(size + 2)]
        if not size:
            return b"".join(parts)

# SPDX-License-Identifier: Apache-2.0
"""A relay before a store on loopback that breaks just those requests which a test names, in the way it names."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from benchmarks.cloud.rig.wire import HEAD_BYTES_MAX, Malformed, Message, read_answer, read_request

_REFUSALS: Final = {
    "503": ("503 Slow Down", "SlowDown"),
    "500": ("500 Internal Server Error", "InternalError"),
    "429": ("429 Too Many Requests", "TooManyRequests"),
    "409": ("409 Conflict", "OperationAborted"),
    "200": ("200 OK", "SlowDown"),
}


@dataclass
class Relay:
    """What happens to the next requests is in `faults`, the first of them first; then, or with "", they pass.

    A status: the store refuses, in XML ("200": it says yes and means no). "cut": the connection ends before the store has
    the request. "lost": the store does it and the answer is lost. "torn": half of the answer comes. "hang": no answer.
    """

    url: str = ""
    sent: int = 0
    faults: list[str] = field(default_factory=list)
    storm: Callable[[], str] | None = None
    """Asked instead, if it is there."""

    def breaks(self, *faults: str) -> None:
        self.sent, self.faults = 0, [*faults]

    def fault(self) -> str:
        self.sent += 1
        if self.storm is not None:
            return self.storm()
        return self.faults.pop(0) if self.faults else ""


@contextlib.contextmanager
def relay(to: str) -> Iterator[Relay]:
    """A running one before the server at this address."""
    found, loop = Relay(), asyncio.new_event_loop()
    where = urlsplit(to)
    server = loop.run_until_complete(
        asyncio.start_server(
            lambda r, w: _serve(found, where.netloc, r, w), "127.0.0.1", 0, limit=HEAD_BYTES_MAX, backlog=256
        )
    )
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{where.path}"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def _serve(found: Relay, to: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(Malformed, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
        while (request := await read_request(reader, writer)) is not None:
            fault = found.fault()
            writer.write(await _answer(to, request, fault))
            await writer.drain()
            if fault in ("cut", "lost", "torn"):
                break
    writer.close()


async def _answer(to: str, request: Message, fault: str) -> bytes:
    if fault in _REFUSALS:
        status, code = _REFUSALS[fault]
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>No.</Message></Error>".encode()
        return f"HTTP/1.1 {status}\r\nretry-after: 30\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    if fault == "hang":
        await asyncio.sleep(3600)
    if fault == "cut":
        return b""
    answer = await _sent_on(to, request)
    if fault == "torn":
        return (
            answer.head + answer.body[: len(answer.body) // 2] if answer.body else answer.head[: len(answer.head) // 2]
        )
    return b"" if fault == "lost" else answer.head + answer.body


async def _sent_on(to: str, request: Message) -> Message:
    host, _, port = to.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=HEAD_BYTES_MAX)
    try:
        writer.write(request.head + request.body)
        await writer.drain()
        return await read_answer(reader, request.first[0])
    finally:
        writer.close()

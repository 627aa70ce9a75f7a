# SPDX-License-Identifier: Apache-2.0
"""A proxy before an S3 server that takes as long as an object store, and fails as often as it is told.

    python -m benchmarks.cloud.rig.proxy --to http://127.0.0.1:9000 --tail 4 --faults 0.01 --seed 1

Prints its address and ends with its standard input, so it never outlives who started it. It answers itself to
/.calls (all requests so far, as JSON), /.faults (how many failed, by kind and way) and /.forget (the calls).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from benchmarks.cloud.rig.calls import Call
from benchmarks.cloud.rig.latency import Latencies
from benchmarks.cloud.rig.wire import HEAD_BYTES_MAX, Malformed, Message, kind_of, read_answer, read_request

FAULTS: Final = ("503", "429", "cut", "lost", "torn")
"""Refused with SlowDown, or with TooManyRequests; cut before the server sees it; its answer is lost, or comes by half."""
CALLS_MAX: Final = 1_000_000
CONNECTIONS_MAX: Final = 2000


@dataclass
class Faults:
    """At most `most` requests fail, each with this chance, in one of these ways."""

    rate: float = 0.0
    ways: Sequence[str] = FAULTS
    most: int = 10_000

    def drawn(self, chance: random.Random) -> str:
        if self.most <= 0 or chance.random() >= self.rate:
            return ""
        self.most -= 1
        return chance.choice(self.ways)


class Proxy:
    def __init__(self, to: str, latencies: Latencies, faults: Faults, seed: int = 0) -> None:
        where = urlsplit(to)
        self._to = where.hostname or "127.0.0.1", where.port or 80
        self._latencies, self._faults, self._chance = latencies, faults, random.Random(seed)
        self._calls: list[Call] = []
        self._failed = Counter[str]()
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)

    async def start(self) -> int:
        """The port on which it listens."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX, backlog=512)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broken = (Malformed, ConnectionError, asyncio.IncompleteReadError, ValueError)
        async with self._free:
            with contextlib.suppress(*broken):
                goes_on = True
                while goes_on and (request := await read_request(reader, writer)) is not None:
                    own = self._own(request)
                    answer, goes_on = (own, True) if own else await self._answer(request)
                    writer.write(answer)
                    await writer.drain()
            writer.close()

    async def _answer(self, request: Message) -> tuple[bytes, bool]:
        """The bytes to send, and whether the connection goes on after them."""
        kind = kind_of(request.first[0], request.first[1], request.headers)
        seconds, fault = self._latencies.seconds(kind, self._chance), self._faults.drawn(self._chance)
        begin, size = time.monotonic(), len(request.body)
        if fault:
            self._failed[f"{kind} {fault}"] += 1
        await asyncio.sleep(seconds / 2)
        told = b""
        if fault in _REFUSALS:
            told = _REFUSALS[fault]
        elif fault != "cut":
            answer = await self._sent_on(request)
            told, size = answer.head + answer.body, size + len(answer.body)
        await asyncio.sleep(seconds / 2)
        if len(self._calls) < CALLS_MAX:
            self._calls.append(Call(kind, request.first[1], begin, time.monotonic(), size, seconds))
        if fault in ("cut", "lost", "torn"):
            return told[: len(told) // 2] if fault == "torn" else b"", False
        return told, request.headers.get("connection", "").lower() != "close"

    async def _sent_on(self, request: Message) -> Message:
        """On a connection of its own: none that the server closed meanwhile can be met."""
        reader, writer = await asyncio.open_connection(*self._to, limit=HEAD_BYTES_MAX)
        try:
            writer.write(request.head + request.body)
            await writer.drain()
            return await read_answer(reader, request.first[0])
        finally:
            writer.close()

    def _own(self, request: Message) -> bytes | None:
        match request.first[1]:
            case "/.calls":
                return _plain("200 OK", json.dumps(self._calls).encode())
            case "/.faults":
                return _plain("200 OK", json.dumps(self._failed).encode())
            case "/.forget":
                self._calls.clear()
                return _plain("200 OK", b"")
        return None


def _plain(status: str, body: bytes, kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def _refusal(status: str, code: str) -> bytes:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>Please reduce your request rate.</Message></Error>"
    return _plain(status, body.encode(), "application/xml")


_REFUSALS: Final = {
    "503": _refusal("503 Slow Down", "SlowDown"),
    "429": _refusal("429 Too Many Requests", "TooManyRequests"),
}


async def _main(given: argparse.Namespace) -> None:
    faults = Faults(given.faults, given.ways, given.faults_most)
    latencies = Latencies(tail=given.tail).scaled(given.scale)
    port = await Proxy(given.to, latencies, faults, given.seed).start()
    print(f"http://127.0.0.1:{port}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    os._exit(0)  # clients keep connections open; each would be told with a traceback that it is cancelled


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", required=True, help="the server's address")
    parser.add_argument(
        "--tail", type=float, default=1.0, help="p99 as a multiple of the median; 1: constant latencies"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="all latencies times this")
    parser.add_argument("--faults", type=float, default=0.0, help="the share of requests that fail")
    parser.add_argument("--faults-most", type=int, default=10_000, help="after so many none fails any more")
    parser.add_argument("--ways", nargs="+", choices=FAULTS, default=FAULTS, help="how they fail")
    parser.add_argument("--seed", type=int, default=0)
    return parser


@contextlib.contextmanager
def running(to: str, *flags: str) -> Iterator[str]:
    """The address of a proxy in a process of its own."""
    import subprocess  # noqa: PLC0415 - the proxy itself needs none

    command = [sys.executable, "-m", "benchmarks.cloud.rig.proxy", "--to", to, *flags]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdin is None or process.stdout is None:
        raise SystemExit("The proxy has no pipes.")
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise SystemExit("The proxy did not start.")
        yield address
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(_main(_arguments().parse_args()))

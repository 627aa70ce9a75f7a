# SPDX-License-Identifier: Apache-2.0
"""The slow proxy of the cloud rig: it delays and counts, and its faults arrive as errors at a client."""

from __future__ import annotations

import doctest
import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from benchmarks.cloud.rig import wire
from benchmarks.cloud.rig.latency import MEDIAN_MS
from benchmarks.cloud.rig.proxy import running

from lakebraid.errors import LakebraidError, OutcomeUnknown
from lakebraid.storage import ObjectStorage

pytestmark = pytest.mark.unit


class Upstream:
    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        seen = self.requests

        class Handler(BaseHTTPRequestHandler):
            def reply(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                seen.append((self.command, self.path, body))
                self.send_response(200)
                self.send_header("content-length", "1000")
                self.send_header("etag", '"0"')
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(b"x" * 1000)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = reply  # noqa: N815 - http.server's names

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    one = Upstream()
    threading.Thread(target=one.server.serve_forever, args=(0.02,), daemon=True).start()
    yield one
    one.server.shutdown()
    one.server.server_close()


def ask(address: str, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def calls(address: str) -> list[list[Any]]:
    found: list[list[Any]] = json.loads(ask(address, "GET", "/.calls")[1])
    return found


def test_requests_are_passed_on_delayed_and_counted_by_kind(upstream: Upstream) -> None:
    with running(upstream.url) as proxy:
        assert ask(proxy, "PUT", "/lake/a", b"12345") == (200, b"x" * 1000)
        assert ask(proxy, "GET", "/lake?list-type=2&prefix=a")[0] == 200
        assert ask(proxy, "HEAD", "/lake/a") == (200, b"")
        noted = calls(proxy)
        ask(proxy, "GET", "/.forget")
        assert calls(proxy) == []

    assert upstream.requests[0] == ("PUT", "/lake/a", b"12345")
    assert [(kind, size) for kind, _, _, _, size, _ in noted] == [("put", 1005), ("list", 1000), ("head", 0)]
    for kind, _, begin, end, _, slept in noted:
        assert slept == MEDIAN_MS[kind] / 1000
        assert end - begin >= 0.99 * slept


@pytest.mark.parametrize("status", ["503", "429"])
def test_a_refusal_is_answered_and_the_server_never_sees_the_request(upstream: Upstream, status: str) -> None:
    with running(upstream.url, "--faults", "1", "--ways", status) as proxy:
        answer = ask(proxy, "PUT", "/lake/a", b"1")
        assert json.loads(ask(proxy, "GET", "/.faults")[1]) == {f"put {status}": 1}
    assert answer[0] == int(status)
    assert b"<Code>" in answer[1]
    assert upstream.requests == []


@pytest.mark.parametrize(("way", "reaches"), [("cut", False), ("lost", True), ("torn", True)])
def test_a_cut_connection_is_an_error_whether_or_not_the_request_took_effect(
    upstream: Upstream, way: str, reaches: bool
) -> None:
    with (
        running(upstream.url, "--faults", "1", "--ways", way) as proxy,
        pytest.raises((http.client.HTTPException, ConnectionError)),
    ):
        ask(proxy, "PUT", "/lake/a", b"1")
    assert bool(upstream.requests) is reaches


def test_faults_are_bounded_in_number_and_the_same_for_the_same_seed(upstream: Upstream) -> None:
    def answers(seed: str, *more: str) -> list[int]:
        with running(upstream.url, "--faults", "0.5", "--ways", "503", "--seed", seed, "--scale", "0", *more) as proxy:
            return [ask(proxy, "GET", "/lake/a")[0] for _ in range(16)]

    first = answers("1")
    assert {200, 503} == set(first)
    assert answers("1") == first
    assert answers("1", "--faults-most", "2").count(503) == 2


@pytest.mark.parametrize(("way", "error"), [("lost", OutcomeUnknown), ("cut", OutcomeUnknown), ("503", LakebraidError)])
def test_a_fault_arrives_as_an_error_of_a_create_in_the_product(
    upstream: Upstream, way: str, error: type[Exception]
) -> None:
    with running(upstream.url, "--faults", "1", "--ways", way) as proxy:
        told = {"endpoint": proxy, "access_key_id": "a", "secret_access_key": "b", "allow_http": "true"}
        with pytest.raises(error):
            ObjectStorage("s3://lake/t", {**told, "region": "us-east-1"}).create("a", b"1")


def test_kinds_of_requests_are_what_their_examples_say() -> None:
    assert doctest.testmod(wire).failed == 0

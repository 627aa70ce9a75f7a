# SPDX-License-Identifier: Apache-2.0
"""The live viewer: a small web server on loopback that only ever answers GET, and only to this machine."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import InvalidArgument, LakebraidError
from lakebraid.storage.protocol import Storage
from lakebraid.web.gathering import Known, load_facts
from lakebraid.web.page import content_policy, render_page
from lakebraid.web.picture import build_model

LOOPBACK = "127.0.0.1"
_POLL_MS = int(limits.VIEW_POLL_SECONDS * 1000)


@dataclass
class LiveTable:
    """The model of a table, read again when it is older than a poll; however many pages ask, it is read once."""

    storage: Storage
    clock: Clock
    _known: Known = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _model: dict[str, Any] | None = None
    _fresh_until: float = 0.0

    def model(self) -> dict[str, Any]:
        with self._lock:
            begun = self.clock.monotonic()
            if self._model is None or begun > self._fresh_until:
                facts = load_facts(self.storage, self.clock, self._known)
                self._known = {seen.instant: seen.details for seen in facts.instants if seen.instant.is_completed}
                self._model = build_model(facts)
                ended = self.clock.monotonic()
                # A page that looks on must not keep a core busy: a large table is read less often.
                self._fresh_until = ended + max(limits.VIEW_POLL_SECONDS / 2, limits.VIEW_REST_FACTOR * (ended - begun))
            return self._model


def make_server(storage: Storage, clock: Clock, port: int = 0) -> ThreadingHTTPServer:
    """A server that is bound to loopback and not yet running; port 0 takes a free one."""
    live = LiveTable(storage, clock)

    class Handler(_Handler):
        table = live

    try:
        return ThreadingHTTPServer((LOOPBACK, port), Handler)
    except OSError as error:
        raise InvalidArgument(
            f"Port {port} of {LOOPBACK} cannot be used: {error.strerror}. Nothing was started. Give another one with "
            "--port, or none: then a free one is taken."
        ) from error


class _Handler(BaseHTTPRequestHandler):
    table: LiveTable
    protocol_version = "HTTP/1.1"
    server_version = "lakebraid"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        if not self._is_for_us():
            self._answer(HTTPStatus.FORBIDDEN, b"This server answers only to this machine.\n")
            return
        try:
            match self.path:
                case "/":
                    page = render_page(self.table.model(), poll_ms=_POLL_MS)
                    self._answer(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8")
                case "/model.json":
                    self._answer(HTTPStatus.OK, json.dumps(self.table.model()).encode(), "application/json")
                case _:
                    self._answer(HTTPStatus.NOT_FOUND, b"There are only / and /model.json.\n")
        except LakebraidError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error.message}\n".encode())

    def _is_for_us(self) -> bool:
        """Whether the page was asked for by a loopback name: a foreign site that resolves to this machine is not."""
        port = self.connection.getsockname()[1]
        return self.headers.get("Host", "") in {f"{name}:{port}" for name in (LOOPBACK, "localhost")}

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": content_policy(poll_ms=_POLL_MS) + "; frame-ancestors 'none'",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: a page asks every two seconds."""

# SPDX-License-Identifier: Apache-2.0
"""Our own stand-in for Google Cloud Storage on loopback: one bucket, and of the XML API what obstore's client uses.

It is not Google's. It was written by the public documentation of the XML API (request forms, headers, error codes,
listings of version 2, about one change of a name per second). So a test that passes over it says which requests we
send, and that we take the documented answers rightly. It says nothing of the service: whether Google takes these
requests, decides conditional ones at once, and answers as documented, is not tested by it.

What it does not know it refuses with 400 and notes in `unknown`, never passing over it: tests find that list empty.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import re
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "lake-1"
TOKEN = "hunter2hunter2"

_COMMON = {"accept", "authorization", "host", "user-agent"}
_HEADERS = {
    "PUT object": _COMMON | {"content-length", "content-type", "x-goog-copy-source", "x-goog-if-generation-match"},
    "GET object": _COMMON | {"range"},
    "HEAD object": _COMMON,
    "DELETE object": _COMMON,
    "GET bucket": _COMMON,
}
_PARAMETERS = {"GET bucket": {"continuation-token", "delimiter", "list-type", "prefix", "start-after"}}

_Answer = tuple[int, dict[str, str], bytes]


@contextlib.contextmanager
def gcs_server() -> Iterator[GcsServer]:
    """A running one, with nothing in its bucket."""
    gcs = GcsServer()
    handler = type("Handler", (_Handler,), {"gcs": gcs})
    listener = type("Listener", (ThreadingHTTPServer,), {"request_queue_size": 128})(("127.0.0.1", 0), handler)
    threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True).start()
    gcs.url = f"http://127.0.0.1:{listener.server_port}"
    try:
        yield gcs
    finally:
        listener.shutdown()
        listener.server_close()


def options(url: str) -> dict[str, str]:
    return {"base_url": url, "bearer_token": TOKEN, "allow_http": "true"}


@dataclass(frozen=True)
class Request:
    """What a client sent, decoded; `name` is empty if it was to the bucket."""

    method: str
    bucket: str
    name: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return f"{self.method} {'object' if self.name else 'bucket'}"


@dataclass(frozen=True)
class Stored:
    """One generation of an object. Equal bytes have equal tags, so that nothing but the generation tells them apart."""

    data: bytes
    generation: int
    modified: dt.datetime

    @property
    def tag(self) -> str:
        return f'"{hashlib.md5(self.data).hexdigest()}"'

    @property
    def headers(self) -> dict[str, str]:
        modified = format_datetime(self.modified, usegmt=True)
        return {"ETag": self.tag, "Last-Modified": modified, "x-goog-generation": str(self.generation)}

    @property
    def fields(self) -> str:
        """As in a listing, which tells milliseconds; the header above cannot."""
        modified = self.modified.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"<LastModified>{modified}</LastModified><ETag>{self.tag}</ETag><Size>{len(self.data)}</Size>"


class Refused(Exception):
    """The answer is this status, with Google's name for the error."""


class GcsServer:
    """The bucket, what was asked of it with which status for an answer, and what of that was unknown."""

    page_max = 3
    pause_s = 0.0
    """Who changes a name again within this time is answered 429: with Google, within about a second."""

    def __init__(self) -> None:
        self.url = ""
        self.objects: dict[str, Stored] = {}
        self.requests: list[tuple[Request, int]] = []
        self.unknown: list[str] = []
        self._changed: dict[str, float] = {}
        self._generation = 1_700_000_000_000_000
        self._lock = threading.Lock()

    def answer(self, request: Request) -> _Answer:
        """One request at a time: a condition and the change that hangs on it are one step."""
        with self._lock:
            try:
                answer = self._answer(request)
            except Refused as refused:
                status, code = refused.args
                answer = status, {}, _xml(f"<Error><Code>{code}</Code><Message>{code}.</Message></Error>")
            self.requests.append((request, answer[0]))
            return answer

    def store(self, name: str, data: bytes) -> Stored:
        """What is there now, put there without asking."""
        self._generation += 1
        self.objects[name] = Stored(data, self._generation, dt.datetime.now(dt.UTC))
        return self.objects[name]

    def _answer(self, request: Request) -> _Answer:
        odd = request.headers.keys() - _HEADERS.get(request.kind, set())
        odd |= request.query.keys() - _PARAMETERS.get(request.kind, set())
        if odd:
            raise self._unknown(f"{request.kind} with {', '.join(sorted(odd))}")
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "AuthenticationRequired")
        if request.bucket != BUCKET:
            raise Refused(404, "NoSuchBucket")
        if request.method in ("PUT", "DELETE"):
            self._check_pace(request.name)
        match request.kind:
            case "PUT object" if "x-goog-copy-source" in request.headers:
                return self._copy(request)
            case "PUT object":
                return self._put(request)
            case "DELETE object":
                self._found(request.name)
                del self.objects[request.name]
                return 204, {}, b""
            case "GET bucket":
                return self._list(request.query)
            case _:
                return self._get(request)

    def _unknown(self, what: str) -> Refused:
        self.unknown.append(what)
        return Refused(400, "InvalidArgument")

    def _check_pace(self, name: str) -> None:
        now = time.monotonic()
        if now - self._changed.get(name, -self.pause_s) < self.pause_s:
            raise Refused(429, "SlowDown")
        self._changed[name] = now

    def _found(self, name: str) -> Stored:
        if name not in self.objects:
            raise Refused(404, "NoSuchKey")
        return self.objects[name]

    def _put(self, request: Request) -> _Answer:
        there = self.objects.get(request.name)
        generation = str(there.generation if there else 0)
        if request.headers.get("x-goog-if-generation-match", generation) != generation:
            raise Refused(412, "PreconditionFailed")
        return 200, self.store(request.name, request.body).headers, b""

    def _copy(self, request: Request) -> _Answer:
        bucket, _, source = map(unquote, request.headers["x-goog-copy-source"].partition("/"))
        if (
            "x-goog-if-generation-match" in request.headers
            or request.body
            or (bucket, source) == (BUCKET, request.name)
        ):
            raise self._unknown("a copy with a condition, with a body, or to itself")
        if bucket != BUCKET:
            raise Refused(404, "NoSuchBucket")
        made = self.store(request.name, self._found(source).data)
        return 200, made.headers, _xml(f"<CopyObjectResult>{made.fields}</CopyObjectResult>")

    def _get(self, request: Request) -> _Answer:
        there = self._found(request.name)
        if "range" not in request.headers:
            return 200, there.headers, there.data
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers["range"])
        if asked is None:
            raise self._unknown(f"the range {request.headers['range']}")
        start, size = int(asked[1]), len(there.data)
        if start >= size:
            raise Refused(416, "InvalidRange")
        data = there.data[start : int(asked[2]) + 1]
        return 206, {**there.headers, "Content-Range": f"bytes {start}-{start + len(data) - 1}/{size}"}, data

    def _list(self, query: dict[str, str]) -> _Answer:
        if query.get("list-type") != "2" or query.get("delimiter", "/") != "/":
            raise self._unknown(f"a listing by {query}")
        prefix, last = query.get("prefix", ""), urlsafe_b64decode(query.get("continuation-token", "")).decode()
        found = (name for name in self.objects if name.startswith(prefix) and name > query.get("start-after", ""))
        if "delimiter" in query:
            found = (name[: name.find("/", len(prefix)) + 1] or name for name in found)
        left = sorted({name for name in found if name > last})
        items = [self._item(name, prefix if "delimiter" in query else name) for name in left[: self.page_max]]
        if len(left) > len(items):
            token = urlsafe_b64encode(left[len(items) - 1].encode()).decode()
            items.append(f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>")
        return 200, {}, _xml(f"<ListBucketResult>{''.join(items)}</ListBucketResult>")

    def _item(self, name: str, prefix: str) -> str:
        if "/" in name[len(prefix) :]:
            return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
        return f"<Contents><Key>{escape(name)}</Key>{self.objects[name].fields}</Contents>"


class _Handler(BaseHTTPRequestHandler):
    gcs: GcsServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def reply(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = urlsplit(self.path)
        bucket, _, name = map(unquote, url.path.removeprefix("/").partition("/"))
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        headers = {header.lower(): value for header, value in self.headers.items()}
        status, sent, data = self.gcs.answer(Request(self.command, bucket, name, query, headers, body))
        self.send_response(status)
        for header, value in sent.items():
            self.send_header(header, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = reply  # noqa: N815 - http.server's names

    def log_message(self, *args: object) -> None:
        pass


def _xml(text: str) -> bytes:
    return f"<?xml version='1.0' encoding='UTF-8'?>{text}".encode()

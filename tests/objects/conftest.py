# SPDX-License-Identifier: Apache-2.0
"""An S3 server on loopback, and one that answers whatever a test wants."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.objects.versitygw import NotBuilt, versitygw

pytest.register_assert_rewrite(
    "tests.unit.storage.test_contract", "tests.unit.storage.test_versions", "tests.objects.passing_faults"
)

SECRET = "hunter2hunter2"
BUCKET = "lake"


def options(endpoint: str) -> dict[str, str]:
    return {
        "endpoint": endpoint,
        "region": "us-east-1",
        "access_key_id": "access",
        "secret_access_key": SECRET,
        "allow_http": "true",
    }


@pytest.fixture(autouse=True)
def no_real_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.startswith("GOOGLE_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """An S3 server with one empty bucket: versitygw, or moto where it cannot be had."""
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(versitygw("access", SECRET))
        except NotBuilt as error:
            warnings.warn(f"S3 was moto: there is no versitygw here ({error})", stacklevel=1)
            url = stack.enter_context(moto())
        client(url).create_bucket(Bucket=BUCKET)
        yield url


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """The address of a running one.

    S3 decides a conditional request at once; moto looks and then writes, so that two of its threads can both find
    nothing there. It gets one request at a time.
    """
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = DomainDispatcherApplication(create_backend_app)
    turn = threading.Lock()

    def one_at_a_time(environ: Any, start_response: Any) -> Any:
        with turn:
            return application(environ, start_response)

    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join()


def client(endpoint: str) -> Any:
    """The other party: AWS's own client, to see what is really in the bucket."""
    import boto3  # type: ignore[import-untyped]

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id="access",
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )


@dataclass
class Stub:
    """A server that notes every request and gives the answer of the test: status and body, or None to hang up."""

    url: str = ""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    answer: Callable[[str, str], tuple[int, bytes] | None] = lambda _method, _path: (200, b"")


@pytest.fixture
def stub() -> Iterator[Stub]:
    script = Stub()

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.requests.append((self.command, self.path, headers))
            answer = script.answer(self.command, self.path)
            if answer is None:
                self.close_connection = True
                return
            status, body = answer
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("etag", '"0"')
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = reply  # noqa: N815 - http.server's names

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}"
    yield script
    server.shutdown()
    server.server_close()

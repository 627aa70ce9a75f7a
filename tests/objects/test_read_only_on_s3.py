# SPDX-License-Identifier: Apache-2.0
"""A bucket of which these credentials may only read: every look works, writes end in AccessDenied."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

import lakebraid as lb
from tests.objects.conftest import BUCKET, options

pytestmark = pytest.mark.objects

URL = f"s3://{BUCKET}/read_only"
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@pytest.fixture
def read_only(endpoint: str) -> Iterator[str]:
    """The same bucket for credentials that may get and list: what S3 says to all else."""
    behind = urlsplit(endpoint).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            connection = http.client.HTTPConnection(behind)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)  # the host as well: it is signed
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            if answer.getheader("content-length") is None:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            connection.close()

        def refuse(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(403)
            self.send_header("content-length", str(len(DENIED)))
            self.end_headers()
            self.wfile.write(DENIED)

        do_GET = do_HEAD = forward  # noqa: N815 - http.server's names
        do_PUT = do_POST = do_DELETE = refuse  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_whoever_may_only_read_a_bucket_can_look_at_everything_and_is_told_what_is_not_held(
    endpoint: str, read_only: str
) -> None:
    made = lb.Table.create(
        URL,
        "id bigint, ts bigint, v string",
        record_keys="id",
        ordering_fields="ts",
        buckets=2,
        storage_options=options(endpoint),
    )
    made.upsert([{"id": n, "ts": 1, "v": "a"} for n in range(4)])
    made.compact()
    done = made.upsert([{"id": 1, "ts": 2, "v": "b"}])
    made.begin("upsert", writer="asleep").write([{"id": 2, "ts": 2, "v": "open"}])

    table = lb.Table.open(URL, options(read_only))
    with pytest.warns(lb.SnapshotNotHeld, match="permission was denied"), table.snapshot() as snapshot:
        assert snapshot.count() == 4
    assert table.to_arrow(where="id = 1")["v"].to_pylist() == ["b"]
    assert table.changes().to_arrow().num_rows == 4
    assert [writer.writer for writer in table.status().writers] == ["asleep"]
    assert table.status(done.instant) == "published"
    assert "asleep" in repr(table.timeline())
    assert table.audit(deep=True).is_healthy
    assert repr(table.why(done.instant))
    with pytest.raises(lb.AccessDenied, match=r"permission was denied \(AccessDenied\)\. Nothing was changed"):
        table.upsert([{"id": 1, "ts": 3, "v": "c"}])
    assert made.to_arrow(where="id = 1")["v"].to_pylist() == ["b"]

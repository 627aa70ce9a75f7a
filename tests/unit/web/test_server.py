# SPDX-License-Identifier: Apache-2.0
"""The live viewer's server, from the outside."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebraid.cli.main import main
from lakebraid.errors import InvalidArgument
from lakebraid.storage.local import LocalStorage
from lakebraid.web.server import make_server
from tests.kit.tables.storyboard import Story
from tests.kit.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def story() -> Story:
    made = Story()
    made.write(0, 3, "first")
    return made.play()


@pytest.fixture(scope="module")
def port(story: Story) -> Iterator[int]:
    with make_server(story.storage, story.clock) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def _ask(port: int, method: str = "GET", path: str = "/", host: str | None = None) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    connection.request(method, path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_the_page_and_its_model_are_served_and_nothing_else(port: int) -> None:
    status, page, headers = _ask(port)
    assert status == 200 and page.startswith(b"<!doctype html>")
    assert (
        headers["Content-Security-Policy"].startswith("default-src 'none'")
        and headers["X-Content-Type-Options"] == "nosniff"
    )
    status, model, _ = _ask(port, path="/model.json")
    assert status == 200 and json.loads(model)["table"]["name"] == "orders"
    assert [
        _ask(port, path=path)[0] for path in ("/../etc/passwd", "/.hoodie/hoodie.properties", "/model.json?x=1")
    ] == [404] * 3


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_get_is_answered(port: int, method: str) -> None:
    assert _ask(port, method)[0] == 501


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1", "localhost:1"])
def test_a_foreign_site_that_resolves_to_this_machine_gets_nothing(port: int, host: str) -> None:
    status, body, _ = _ask(port, path="/model.json", host=host)
    assert status == 403 and b"orders" not in body


def test_localhost_is_another_name_of_this_machine(port: int) -> None:
    assert _ask(port, host=f"localhost:{port}")[0] == 200


def test_it_listens_on_loopback_alone(story: Story) -> None:
    with make_server(story.storage, story.clock) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_said_with_what_to_do(story: Story, port: int) -> None:
    with pytest.raises(InvalidArgument, match=rf"Port {port} of 127.0.0.1 cannot be used: .* Give another one"):
        make_server(story.storage, story.clock, port)


def test_view_writes_one_file_that_needs_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Story(storage=LocalStorage(str(tmp_path / "orders")))
    made.write(0, 1, "w")
    made.play()
    file = tmp_path / "t.html"
    assert main(["view", str(tmp_path / "orders"), "-o", str(file)]) == 0
    assert "2 instants" in capsys.readouterr().out
    text = file.read_text("utf-8")
    assert "http://" not in text and "https://" not in text and "connect-src &#x27;none&#x27;" in text


@pytest.mark.parametrize("command", ["view", "serve"])
def test_a_path_without_a_table_is_an_error_before_anything_is_written(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command, str(tmp_path / "none")]) == 1
    assert not list(tmp_path.iterdir())

# SPDX-License-Identifier: Apache-2.0
"""Users who may read a table and not write it: every look works, and a snapshot that holds nothing back says so."""

from __future__ import annotations

import errno
import json
import os
import threading
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.cli.main import main
from lakebraid.clock import SystemClock
from lakebraid.storage import open_storage
from lakebraid.storage.disk import os_failure
from lakebraid.storage.local import LocalStorage
from lakebraid.txn.liveness.leases import take_lease
from lakebraid.web.server import make_server
from tests.kit.reference import unpack
from tests.kit.tables.scene import CHANGES

pytestmark = pytest.mark.unit

NO = {"folder of another user": errno.EACCES, "read-only mount": errno.EROFS, "immutable files": errno.EPERM}


@pytest.fixture(scope="module", params=[False, True], ids=["ours", "shared with Hudi"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lb.Table:
    """A table with a bit of everything: an open writer, a dead lease, a plan, a consumer, a base file, logs."""
    path = tmp_path_factory.mktemp("read_only") / "t"
    how = {"record_keys": "id", "ordering_fields": "ts", "buckets": 2, "shared": request.param}
    made = lb.Table.create(path, "id bigint, ts bigint, v string", **how)
    made.upsert([{"id": n, "ts": 1, "v": "a"} for n in range(10)])
    made.compact()
    made.upsert([{"id": 1, "ts": 2, "v": "b"}])
    made.consumer("mirror")
    made.begin("upsert", writer="asleep").write([{"id": 2, "ts": 2, "v": "open"}])
    take_lease(made._writing.ledger(made._config), "0" * 16, "gone", made.snapshot().completion_time or "")
    made.upsert([{"id": 3, "ts": 2, "v": "c"}])
    made.plan_compaction()
    return made


@pytest.fixture(params=NO)
def denied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the operating system allows no change; tests may run as root, whom permissions do not bind."""

    def refusing(name: str) -> Callable[..., None]:
        def refuse(storage: LocalStorage, *args: Any, **_: Any) -> None:
            if name == "delete" and not any(os.path.exists(f"{storage.root}/{one}") for one in args[0]):
                return  # what is not there can be deleted by anybody
            number = NO[request.param]
            raise os_failure(OSError(number, os.strerror(number)), "Creating", storage.url, "Nothing was created.")

        return refuse

    for name in CHANGES:
        monkeypatch.setattr(LocalStorage, name, refusing(name))


@pytest.fixture
def table(written: lb.Table, denied: None) -> Iterator[lb.Table]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield lb.Table.open(written.path)


def test_a_snapshot_in_a_with_block_is_read_without_a_lease_and_says_so(table: lb.Table) -> None:
    with pytest.warns(lb.SnapshotNotHeld, match=r"holds no files back.*SnapshotExpired") as told, table.snapshot() as s:
        assert s.count() == 10
    assert told[0].filename == __file__, "it points to the user's line"


def test_a_write_is_refused_by_the_class_of_the_refusal(table: lb.Table) -> None:
    with pytest.raises(lb.AccessDenied, match=r"Creating .* failed: .*Nothing was created"):
        table.upsert([{"id": 1, "ts": 9, "v": "x"}])


READS: dict[str, Callable[[lb.Table], object]] = {
    "to_arrow": lambda t: t.to_arrow().num_rows == 10,
    "to_pandas": lambda t: len(t.to_pandas()) == 10,
    "where": lambda t: t.to_arrow(where="id = 1")["v"].to_pylist() == ["b"],
    "batches": lambda t: sum(batch.num_rows for batch in t.snapshot().to_batches()) == 10,
    "count": lambda t: t.count() == 10,
    "schema": lambda t: t.schema,
    "repr": lambda t: (repr(t), repr(t.snapshot()), t.timeline()._repr_html_()),
    "as of": lambda t: t.count(as_of=t.snapshot().completion_time) == 10,
    "changes": lambda t: t.changes().to_arrow().num_rows == 10,
    "timeline": lambda t: "asleep" in repr(t.timeline()),
    "archived timeline": lambda t: t.timeline(archived=True),
    "status": lambda t: [w.writer for w in t.status().writers] == ["asleep"],
    "status of an instant": lambda t: t.status(t.timeline()[0].instant.request_time) == "published",
    "audit": lambda t: t.audit(deep=True).is_healthy,
    "why": lambda t: repr(t.why(t.timeline()[0].instant.request_time)),
    "dry clean": lambda t: t.clean(commits=1, dry_run=True),
    "dry archive": lambda t: t.archive(dry_run=True),
}


@pytest.mark.parametrize("read", READS)
def test_each_read_works(read: str, table: lb.Table) -> None:
    assert READS[read](table)


def test_a_decision_that_only_a_writer_can_make_true_is_not_guessed(
    written: lb.Table, denied: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lb.Table.open(written.path)
    instant = table.timeline()[0].instant.request_time
    monkeypatch.setattr("lakebraid.txn.ledger.watch.Watch.has", lambda *_: False)
    with pytest.raises(lb.AccessDenied):
        table.status(instant)


COMMANDS = ("show", "timeline", "files", "status", "audit", "locks")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_that_looks_works(command: str, table: lb.Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, table.path.removeprefix("file://")]) == 0
    assert not capsys.readouterr().err


def test_the_command_why_works(table: lb.Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", table.path.removeprefix("file://"), table.timeline()[0].instant.request_time]) == 0


def test_the_viewer_works(table: lb.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", table.path.removeprefix("file://"), "-o", str(tmp_path / "page.html")]) == 0
    with make_server(open_storage(table.path), SystemClock()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_address[1]}/model.json") as answer:
            model = json.load(answer)
        server.shutdown()
    assert not model.get("problems")
    assert any(lane["name"] == "asleep" for lane in model["lanes"])


@pytest.mark.parametrize("name", ["v6_mor_deletes", "v8_mor_deletes"])
def test_a_table_that_we_do_not_write_is_read_in_a_with_block_too(name: str, tmp_path: Path) -> None:
    with (
        pytest.warns(lb.SnapshotNotHeld, match="holds no files back"),
        lb.Table.open(unpack(name, tmp_path).path).snapshot() as s,
    ):
        assert s.count()

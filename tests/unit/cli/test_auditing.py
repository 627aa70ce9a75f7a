# SPDX-License-Identifier: Apache-2.0
"""The commands that look closer: `audit`, `why`, `show INSTANT`, `files`, `locks`, `export`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid.cli.main import main
from lakebraid.inspect.audit.findings import KINDS
from tests.kit.reference import unpack

pytestmark = pytest.mark.unit
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(unpack("v9_mor_nbcc_overlap", tmp_path).path)


@pytest.fixture
def table(tmp_path: Path) -> lb.Table:
    made = lb.Table.create(tmp_path / "made", "id bigint, ts bigint, v string", record_keys="id", ordering_fields="ts")
    made.upsert([{"id": n, "ts": 1, "v": f"v{n}"} for n in range(5)])
    return made


def _json(out: Capture) -> dict[str, object]:
    told: dict[str, object] = json.loads(out.readouterr().out)
    return told


def test_audit_says_that_a_table_is_healthy_and_exits_with_0(path: str, capsys: Capture) -> None:
    assert main(["audit", path, "--deep"]) == 0
    assert "healthy: what was committed is what readers get" in capsys.readouterr().out
    assert main(["audit", path, "--json"]) == 0
    assert _json(capsys) == {
        "path": path, "healthy": True, "deep": False, "instants": 6, "files": 11, "counts": {}, "findings": [],
    }  # fmt: skip


def test_audit_exits_with_1_on_damage_and_says_what_to_do(path: str, capsys: Capture) -> None:
    log = next(Path(path).glob("p0/.*.log.*"))
    newest = max(Path(path).glob("p*/.*.log.*"), key=lambda p: p.name.split("_")[1])
    newest.write_bytes(newest.read_bytes()[:-3])
    assert log.exists()
    assert main(["audit", path]) == 1
    out = capsys.readouterr().out
    assert "damage: log-torn" in out
    assert KINDS["log-torn"].advice in out
    assert main(["audit", path, "--json"]) == 1
    found = _json(capsys)["findings"]
    assert isinstance(found, list)
    assert {"file-size", "log-torn"} == {finding["kind"] for finding in found}
    assert all(finding["affects_rows"] and finding["where"] and finding["what"] for finding in found)


def test_audit_exits_with_2_where_there_is_nothing_to_audit(tmp_path: Path, capsys: Capture) -> None:
    assert main(["audit", str(tmp_path)]) == 2
    assert "error:" in capsys.readouterr().err
    assert main(["audit", str(tmp_path), "--json"]) == 2
    assert _json(capsys)["healthy"] is None
    assert main(["audit"]) == 2


def test_audit_lists_what_it_can_find(capsys: Capture) -> None:
    assert main(["audit", "--kinds", "--json"]) == 0
    assert [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()] == list(KINDS)


def test_why_tells_how_a_write_ended_and_what_hides_its_rows(path: str, capsys: Capture) -> None:
    assert main(["why", path, "20261115202449630"]) == 0
    out = capsys.readouterr().out
    assert "Upsert 20261115202449630: published" in out
    assert "Written by Apache Hudi." in out
    assert "2 files merged into the base files of 20261115202458449." in out
    assert main(["why", path, "20000101000000000"]) == 1
    assert "know it" in capsys.readouterr().out
    assert main(["why", path, "yesterday"]) == 2


def test_show_tells_all_about_an_instant(path: str, capsys: Capture) -> None:
    assert main(["show", path, "20261115202458449"]) == 0
    out = capsys.readouterr().out
    assert "compaction 20261115202458449: completed" in out
    assert "plan: 2 file groups" in out
    assert main(["show", path, "20261115202458449", "--json"]) == 0
    found = _json(capsys)
    assert len(found["files"]) == 2  # type: ignore[arg-type]
    assert found["plan"] is not None
    assert main(["show", path, "20000101000000000"]) == 2
    assert "no instant" in capsys.readouterr().err


def test_files_lists_slices_now_and_then(path: str, capsys: Capture) -> None:
    assert main(["files", path]) == 0
    assert "file groups," in capsys.readouterr().out
    assert main(["files", path, "--json", "--partition", "p0"]) == 0
    now = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {part["partition"] for part in now} == {"p0"}
    assert now[0]["base"] is not None
    assert main(["files", path, "--json", "--as-of", "20261115202451019"]) == 0
    then = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [part["base"] for part in then] == [None, None]
    assert main(["files", path, "--partition", "nowhere"]) == 0
    assert capsys.readouterr().out == "no files\n"


def test_locks_tells_who_holds_a_lock_and_whether_he_lives(table: lb.Table, capsys: Capture) -> None:
    folder = table.path.removeprefix("file://")
    assert main(["locks", folder]) == 0
    assert capsys.readouterr().out == "no lock is held\n"
    Path(folder, ".hoodie/lock").touch()
    assert main(["locks", folder, "--json"]) == 0
    assert _json(capsys)["holder"] == "an Apache Hudi writer"
    Path(folder, ".hoodie/.locks").mkdir()
    Path(folder, ".hoodie/.locks/table_lock.json").write_text('{"expired":false,"validUntil":1000,"owner":"x"}')
    assert main(["locks", folder]) == 1
    assert "was not given back" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_export_writes_the_rows_asked_for(table: lb.Table, form: str, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / f"rows.{form}"
    assert main(["export", table.path, "-o", str(target), "--where", "id > 2", "--columns", "v,id", "--json"]) == 0
    assert _json(capsys)["rows"] == 2
    if form == "parquet":
        rows = [(r["id"], r["v"]) for r in pq.read_table(target).to_pylist()]
    elif form == "csv":
        rows = [(int(r["id"]), r["v"]) for r in csv.DictReader(target.open())]
    else:
        rows = [(r["id"], r["v"]) for r in map(json.loads, target.read_text().splitlines())]
    assert sorted(rows) == [(3, "v3"), (4, "v4")]
    assert main(["export", table.path, "-o", str(target)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [p.name for p in tmp_path.glob(".*part")] == []


@pytest.mark.slow
def test_export_of_what_a_format_cannot_say_is_refused_and_leaves_nothing(tmp_path: Path, capsys: Capture) -> None:
    made = lb.Table.create(tmp_path / "lists", "id bigint, l array<bigint>", record_keys="id")
    made.upsert([{"id": 1, "l": [1, 2]}])
    assert main(["export", made.path, "-o", str(tmp_path / "x.csv")]) == 2
    assert "Leave the column out" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()
    assert main(["export", made.path, "-o", "rows.xml"]) == 2


def test_no_command_that_looks_shows_a_traceback(tmp_path: Path, capsys: Capture) -> None:
    for command in (
        ["why", "X", "1" * 17],
        ["show", "X"],
        ["files", "X"],
        ["locks", "X"],
        ["export", "X", "-o", "x.csv"],
    ):
        arguments = [str(tmp_path) if part == "X" else part for part in command]
        assert main(arguments) in (1, 2)
        assert "Traceback" not in capsys.readouterr().err

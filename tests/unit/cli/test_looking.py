# SPDX-License-Identifier: Apache-2.0
"""The commands that look at a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebraid.cli.main import main
from tests.kit.reference import unpack

pytestmark = pytest.mark.unit


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(unpack("v9_mor_nbcc_overlap", tmp_path).path)


def test_show_prints_rows_that_match(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", path, "--where", "id in (1, 7)", "--columns", "id,name"]) == 0
    out = capsys.readouterr().out
    assert "slow1" in out
    assert "slow7" in out
    assert "base5" not in out


def test_show_gives_json_for_programs(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", path, "--json", "--where", "id = 1"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": 1, "name": "slow1", "ts": 50, "part": "p0"}


def test_show_travels_in_time(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", path, "--json", "--as-of", "20261115202518989", "--where", "id = 1"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "fast1"


def test_show_stops_at_the_limit_and_says_so(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", path, "--limit", "2"]) == 0
    assert "The first 2 rows" in capsys.readouterr().out
    assert main(["show", path, "--where", "id = 12345"]) == 0
    assert capsys.readouterr().out == "no rows\n"


def test_timeline_prints_each_instant_and_gives_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", path]) == 0
    text = capsys.readouterr().out
    assert "6 instants, 0 pending" in text
    assert "compaction" in text
    assert main(["timeline", path, "--json"]) == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [e["rows"] for e in entries] == [6, 3, 3, 6, 2, 1]
    assert {e["state"] for e in entries} == {"COMPLETED"}


def test_archived_instants_are_shown_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(unpack("v9_mor_archived", tmp_path).path)
    assert main(["timeline", path, "--json"]) == 0
    active = len(capsys.readouterr().out.splitlines())
    assert main(["timeline", path, "--json", "--archived"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > active


def test_a_mistake_ends_in_one_clear_line_and_an_honest_exit_code(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(tmp_path / "nothing")]) == 1
    assert capsys.readouterr().err.startswith("error: There is nothing at ")
    assert main(["show", path, "--where", "idd = 1"]) == 2
    assert "Did you mean id?" in capsys.readouterr().err
    assert main(["show", path, "--as-of", "yesterday"]) == 2
    assert "as_of: " in capsys.readouterr().err


@pytest.mark.slow
def test_the_demo_tells_its_story_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, page = tmp_path / "kept", tmp_path / "demo.html"
    assert main(["demo", "--no-spark", "--keep", str(kept), "--page", str(page)]) == 0
    out = capsys.readouterr().out
    for words in (
        "writer 0 is killed",
        "a column `town` was added",
        "every acknowledged row is there, and nothing else",
        "healthy: what was committed is what readers get",
        "\nwriter 3 ",
        "Its optimistic mode refuses",
        "slow7",
    ):
        assert words in out
    assert "<script" in page.read_text()
    assert main(["show", str(kept), "--json", "--columns", "id,town"]) == 0
    assert main(["demo", "--no-spark", "--keep", str(kept)]) == 2
    assert "is there already" in capsys.readouterr().err

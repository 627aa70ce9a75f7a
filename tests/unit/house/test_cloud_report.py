# SPDX-License-Identifier: Apache-2.0
"""The command of the cloud rig: a table, JSON, ratios beside an earlier run, pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.cloud.__main__ import main
from benchmarks.cloud.page import by_writers, filled
from benchmarks.cloud.pictures import BESIDE, LINES, draw
from benchmarks.cloud.report import compared, with_rows

from tests.kit.documents import DOCS

pytestmark = pytest.mark.unit

ROW = {"ground": "g", "workload": "w", "writers": 4, "commits_per_s": 2.0, "p50_s": 1.0, "requests": 36.0}


def test_one_command_writes_json_and_prints_ratios_beside_an_earlier_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    main(["--parts", "model", "--writers", "2", "--out", str(first)])
    main(["--parts", "model", "--writers", "2", "--out", str(second), "--compare", str(first)])

    rows = json.loads(second.read_text("utf-8"))["rows"]
    assert [row["workload"].split(",")[0] for row in rows] == ["without asks", "asks", "asks", "asks", "asks"]
    assert all(row["commits_per_s"] > 0 and row["p50_s"] <= row["p99_s"] and row["requests"] > 10 for row in rows)
    ratios = capsys.readouterr().out.rpartition("as multiples of the earlier run")[2].splitlines()[1:]
    assert len(ratios) == 5
    assert all(line.split()[-4:] == ["1.00"] * 4 for line in ratios)


def test_ratios_are_of_rows_that_both_runs_have_and_kept_rows_are_those_not_measured_anew() -> None:
    other = ROW | {"writers": 16}
    told = list(compared([ROW | {"commits_per_s": 5.0}, other], [ROW]))
    assert len(told) == 2
    assert "2.50" in told[1]
    assert with_rows([ROW, other], [ROW | {"p50_s": 9.0}]) == [other, ROW | {"p50_s": 9.0}]


def test_the_results_of_the_repository_have_the_rows_that_its_pictures_show(tmp_path: Path) -> None:
    rows = json.loads((DOCS.parent / "benchmarks" / "results" / "cloud.json").read_text("utf-8"))["rows"]
    measured = {(row["ground"], row["workload"]) for row in rows}
    assert {line[:2] for line in (*LINES.values(), *BESIDE.values())} <= measured
    draw(rows, tmp_path)
    names = {"bench-cloud_writers.svg", "bench-cloud_beside.svg", "bench-cloud_requests.svg"}
    assert {file.name for file in tmp_path.iterdir()} == names
    assert all((DOCS / "pictures" / name).stat().st_size > 1000 for name in names)


def test_the_tables_of_the_page_are_those_of_the_results() -> None:
    rows = json.loads((DOCS.parent / "benchmarks" / "results" / "cloud.json").read_text("utf-8"))["rows"]
    page = (DOCS.parent / "benchmarks" / "README.md").read_text("utf-8")
    assert filled(page, rows) == page, (
        "python -m benchmarks.cloud --out benchmarks/results/cloud.json --draw docs/pictures"
    )
    assert filled(page, [row | {"p50_s": 77.0} for row in rows]) != page


def test_a_column_that_was_not_measured_is_left_out_and_a_count_that_was_not_is_empty() -> None:
    rows = [ROW | {"p99_s": 2.0, "writers": writers} for writers in (4, 1)]
    other = rows[1] | {"workload": "v", "failed": 2}
    table = by_writers([*rows, other], (("W", "g|w"), ("V", "g|v"), ("never", "g|u"))).splitlines()
    assert table[0] == "| writers | W | V |"
    assert [line.split(" | ")[0] for line in table[2:]] == ["| 1", "| 4"]
    assert "2 failed" in table[2]
    assert table[3].endswith("|  |")

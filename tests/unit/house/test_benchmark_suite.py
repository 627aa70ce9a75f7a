# SPDX-License-Identifier: Apache-2.0
"""The benchmark suite: one command leaves results, a picture and a table."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path

import pytest
from benchmarks.suite import page as pages
from benchmarks.suite import row
from benchmarks.suite.measurements import MEASUREMENTS
from benchmarks.suite.page import _cell, updated

from tests.kit.documents import DOCS

pytestmark = pytest.mark.unit

RESULTS = DOCS.parent / "benchmarks" / "results"


@pytest.mark.slow
def test_one_command_measures_and_writes_json_a_picture_and_the_table(tmp_path: Path) -> None:
    from benchmarks.suite.__main__ import main

    main(["--quick", "--only", "small_commits", "--out", str(tmp_path)])

    result = json.loads((tmp_path / "benchmarks/results/small_commits.json").read_text("utf-8"))
    assert [row["rows"] for row in result["rows"]] == [1, 100, 1_000, 10_000]
    assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in result["rows"])
    assert result["facts"]["quick"] is True
    assert {"date", "cpu", "cores", "memory", "lakebraid", "pyarrow", "load before", "load after"} <= set(
        result["facts"]
    )
    assert (tmp_path / "docs/pictures/bench-small_commits.svg").read_text("utf-8").count("rows in the commit") == 1
    page = (tmp_path / "docs/benchmarks.md").read_text("utf-8")
    shown = page.split("<!-- small_commits -->")[1].split("<!-- /small_commits -->")[0]
    assert "(pictures/bench-small_commits.svg)" in shown
    assert f"| 10,000 | {result['rows'][3]['commits']} | {_cell(result['rows'][3], 'p50_ms')} |" in shown


def test_a_run_changes_the_page_between_its_markers_and_nowhere_else() -> None:
    page = "before\n<!-- a -->\nold\n<!-- /a -->\n<!-- b -->\nkept\n<!-- /b -->\nafter"

    assert updated(page, "a", r"n\1w") == page.replace("old", r"n\1w")
    with pytest.raises(SystemExit, match="0 places for c"):
        updated(page, "c", "new")


def test_percentiles_and_cells_are_what_their_examples_say() -> None:
    told = [doctest.testmod(module) for module in (row, pages)]
    assert [one.failed for one in told] == [0, 0]
    assert all(one.attempted for one in told)


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement_has_results_a_picture_and_a_place_on_the_page(name: str) -> None:
    result = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    assert {key for row in result["rows"] for key in row} >= set(MEASUREMENTS[name].columns)
    assert (DOCS / "pictures" / f"bench-{name}.svg").stat().st_size > 1000
    page = (DOCS / "benchmarks.md").read_text("utf-8")
    assert re.search(f"<!-- {name} -->\n.*{result['facts']['date']}.*\n<!-- /{name} -->", page, re.DOTALL)

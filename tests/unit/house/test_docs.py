# SPDX-License-Identifier: Apache-2.0
"""The documentation can fail: its code runs, its tests exist, its pictures are there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakebraid.cli.main import COMMANDS
from tests.kit.documents import DOCS, README, ROOT, blocks, needs, pages, read_code_cells, run, run_cell

pytestmark = pytest.mark.unit

RUNNABLE = [page for page in (README, *pages()) if "nothing" in needs(page)]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs_and_says_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom_and_shows_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    shown = [run_cell(code, names, f"cell {at}") for at, code in enumerate(read_code_cells(NOTEBOOK))]
    pictures = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert any("<svg" in picture and "late" in picture for picture in pictures), "no timeline with the writers' names"
    assert len(pictures) >= 3


def test_the_notebook_is_small_and_keeps_no_trace_of_where_it_was_run() -> None:
    text = NOTEBOOK.read_text("utf-8")
    assert len(text) < 100_000
    outputs = [out for cell in json.loads(text)["cells"] for out in cell.get("outputs", [])]
    assert [out for out in outputs if out["output_type"] == "error"] == []
    assert not re.search(r"/(home|tmp|root|work|Users)/|process \d+", text)


def test_every_block_of_python_is_run_by_some_test() -> None:
    found = {need for page in (README, *pages()) for need in needs(page)}
    assert found == {"nothing", "spark", "objects"}
    assert len(RUNNABLE) >= 10


def test_the_tests_that_hold_the_guarantees_exist() -> None:
    text = (DOCS / "guarantees.md").read_text("utf-8")
    named = re.findall(r"\[`(\w+)`\]\(([^)]+)\)", text)
    assert len(named) >= 25
    missing = [name for name, path in named if f"def {name}(" not in (DOCS / path).read_text("utf-8")]
    assert missing == []


def test_links_into_the_repository_and_pictures_lead_somewhere() -> None:
    links = [
        (page, target)
        for page in (README, *pages())
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        if not target.startswith(("http://", "https://", "#"))
    ]
    assert len(links) > 40
    assert [(str(page), target) for page, target in links if not (page.parent / target).exists()] == []


def test_every_command_that_the_documentation_names_exists() -> None:
    texts = [page.read_text("utf-8") for page in pages() if "decisions" not in page.parts]
    texts += [
        "`" + line for page in pages() for b in blocks(page) if b.language == "console" for line in b.code.splitlines()
    ]
    named = set(re.findall(r"`lakebraid ([a-z][a-z-]+)\b", "\n".join(texts)))
    assert {"view", "serve", "services"} <= named
    assert named <= set(COMMANDS)


def test_pictures_are_small_and_every_one_is_shown() -> None:
    pictures = sorted((DOCS / "pictures").iterdir())
    assert [p.name for p in pictures if p.stat().st_size > 200_000] == []
    shown = "\n".join(page.read_text("utf-8") for page in pages())
    assert [p.name for p in pictures if f"pictures/{p.name}" not in shown] == []


def test_no_block_is_without_a_language() -> None:
    bare = [(b.page.name, b.line) for p in pages() if "decisions" not in p.parts for b in blocks(p) if not b.language]
    assert bare == []

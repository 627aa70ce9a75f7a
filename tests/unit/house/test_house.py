# SPDX-License-Identifier: Apache-2.0
"""The house keeps its bounds: no file and no folder that one cannot hold in the head, no short way round a door."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.kit import house

pytestmark = pytest.mark.unit


def test_no_file_is_longer_than_one_can_hold_in_the_head() -> None:
    assert house.long_files() == {}


def test_no_folder_has_more_modules_than_one_can_hold_in_the_head() -> None:
    assert house.full_folders() == {}


def test_no_call_hands_on_a_dictionary_of_arguments_that_mypy_cannot_see_into() -> None:
    assert house.untyped_splats() == []


def test_an_upsert_passes_few_modules() -> None:
    passed = house.upsert_path()
    assert "lakebraid.tasks.writing.rows" in passed.modules, "the way was followed"
    assert len(passed.modules) <= house.UPSERT_MODULES_MAX, "\n".join(passed.modules)
    assert len(passed.before_first_row) <= house.WRITING_MODULES_MAX, passed.before_first_row


def test_the_search_for_untyped_arguments_finds_dictionaries_that_were_made_by_hand() -> None:
    made = "def f(a):\n    how = {'a': a}\n    return g(**how)"
    handed = "def f(**how): return g(**how)"
    assert [line for line, _ in house.splats(ast.parse(made))] == [3]
    assert [*house.splats(ast.parse(handed))] == []


def test_the_layers_are_drawn_as_they_are_enforced() -> None:
    root = Path(__file__).parents[3]
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    enforced = [name.rpartition(".")[2] for layer in contracts[0]["layers"] for name in layer.split(" | ")]
    picture = (root / "ARCHITECTURE.md").read_text().split("```")[1]
    drawn = re.findall(r"^ ([a-z]+)(?: {2,}([a-z]+)| · ([a-z]+) · ([a-z]+))?(?: {2,}|$)", picture, re.MULTILINE)
    assert [name for row in drawn for name in row if name in enforced] == enforced

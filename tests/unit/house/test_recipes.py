# SPDX-License-Identifier: Apache-2.0
"""The recipes of the justfile: each says what it does and how long it takes, and CI and CONTRIBUTING use them."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
LENGTHS = r"; (.*\b(second|seconds|minute|minutes|quarter|hour|hours)\b.*|until it is stopped)$"
RECIPE = re.compile(
    r"(?:^# (?P<what>.*)\n)?(?P<attributes>(?:^\[.*\]\n)*)^(?P<name>[a-z][a-z-]*)(?P<head>[^:=\n]*):(?!=)(?P<needs>.*)\n",
    re.MULTILINE,
)


def recipes() -> dict[str, re.Match[str]]:
    found = {recipe["name"]: recipe for recipe in RECIPE.finditer((ROOT / "justfile").read_text("utf-8"))}
    return {name: recipe for name, recipe in found.items() if "[private]" not in recipe["attributes"]}


def commands(name: str) -> list[str]:
    """The lines of a recipe, after those of the recipes it depends on."""
    recipe = recipes()[name]
    own = itertools.takewhile(lambda line: line.startswith("    "), recipe.string[recipe.end() :].splitlines())
    return [*(line for needed in recipe["needs"].split() for line in commands(needed)), *(line.strip() for line in own)]


def test_every_recipe_says_what_it_does_and_how_long_it_takes() -> None:
    assert len(recipes()) > 10
    for name, recipe in recipes().items():
        assert re.search(LENGTHS, recipe["what"] or ""), name


def test_every_mark_of_the_tests_has_a_recipe() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    marks = {mark.partition(":")[0] for mark in options["markers"]} - {"slow"}
    assert {mark for mark in marks if mark in recipes() and f"-m {mark} " in commands(mark)[0]} == marks


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", ".ci/run", "justfile"])
def test_every_recipe_that_is_named_is_there(page: str) -> None:
    named = re.findall(r"uv run just ((?:[a-z][a-z-]*(?: |\b))+)", (ROOT / page).read_text("utf-8"))
    assert named or page == "README.md"
    assert {name for some in named for name in some.split()[:1]} <= recipes().keys()


def test_ci_does_what_the_recipe_check_does_and_the_test_command_of_the_readme() -> None:
    (command,) = re.findall(
        r"^pip install uv && (uv run pytest.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE
    )
    ci = (ROOT / ".ci/run").read_text("utf-8").splitlines()
    (others,) = (line.removeprefix("uv run just ").split() for line in ci if line.startswith("uv run just "))
    assert command == ci[-1]
    assert commands("test") == [f'{command} "$@"']
    assert [line for name in [*others, "test"] for line in commands(name)] == commands("check")

# SPDX-License-Identifier: Apache-2.0
"""The two variables that say how much the tests try, and how a failure is played again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import effort

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
FAILING = """
from hypothesis import given, settings, strategies as st
from tests.kit import effort

def test_by_seeds():
    for seed in effort.played(effort.seeds(3)):
        assert seed != 4712, "the bug"

@settings(max_examples=effort.times(5))
@given(st.integers(0, 10**9))
def test_by_examples(number):
    print("\\ntried", number)

def test_that_fails_after_another():
    assert False
"""


@pytest.fixture
def as_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "EFFORT", 1.0)
    monkeypatch.setattr(effort, "SEED", None)
    monkeypatch.setattr(effort, "_playing", [])


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "lots"])
def test_an_effort_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=f"LAKEBRAID_EFFORT is '{text}'"):
        effort.read_effort({"LAKEBRAID_EFFORT": text})


@pytest.mark.parametrize("text", ["-1", "1.5", "some"])
def test_a_seed_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=f"LAKEBRAID_SEED is '{text}'"):
        effort.read_seed({"LAKEBRAID_SEED": text})


def test_a_new_seed_is_the_same_for_all_processes_of_a_run() -> None:
    environment = {"LAKEBRAID_SEED": "new"}
    seed = effort.read_seed(environment)
    assert environment == {"LAKEBRAID_SEED": str(seed)}
    assert effort.read_seed(environment) == seed


def test_the_seed_of_a_commit_is_the_same_in_each_run_and_another_after_the_next_commit(tmp_path: Path) -> None:
    assert effort.seed_of_commit(tmp_path) > 1_700_000_000_000, "nothing is checked out: by the clock"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    seeds = []
    for text in ("one", "two"):
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", text], check=True)
        seeds.append(effort.seed_of_commit(tmp_path))
        assert effort.seed_of_commit(tmp_path) == seeds[-1] < 1 << 40
    assert seeds[0] != seeds[1]


@pytest.mark.usefixtures("as_in_ci")
def test_the_usual_effort_is_what_ci_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (effort.read_effort({}), effort.read_seed({})) == (1, None)
    assert (effort.times(30), effort.every(3), [*effort.seeds(3, 7)]) == (30, 3, [7, 8, 9])
    monkeypatch.setattr(effort, "EFFORT", 20.0)
    assert (effort.times(30), effort.every(3), len(effort.seeds(3))) == (600, 1, 60)
    monkeypatch.setattr(effort, "EFFORT", 0.01)
    assert (effort.times(30), effort.times(30, least=25), effort.every(3)) == (1, 25, 300)


@pytest.mark.usefixtures("as_in_ci")
def test_a_failure_names_what_must_be_set_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert effort.again("tests/x.py::test_y") is None, "it needs no help"
    assert list(effort.played([3, 4])) == [3, 4]
    assert effort.again("tests/x.py::test_y[a b]") == "LAKEBRAID_SEED=4 uv run pytest 'tests/x.py::test_y[a b]'"
    effort.forget()
    monkeypatch.setattr(effort, "EFFORT", 2.5)
    monkeypatch.setattr(effort, "SEED", 9)
    assert effort.again("t.py") == "LAKEBRAID_EFFORT=2.5 LAKEBRAID_SEED=9 uv run pytest t.py"


def run(folder: Path, **variables: str) -> str:
    """What pytest says of tests that lie where our own conftest counts."""
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    (folder / "test_failing.py").write_text(FAILING)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAKEBRAID_", "PYTEST_"))}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        ".",
        "test_failing.py",
    ]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {**kept, **variables, "PYTHONPATH": paths}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_test_that_fails_prints_how_to_play_it_again_and_that_plays_it(tmp_path: Path) -> None:
    assert "2 passed" in run(tmp_path), "three seeds from 0 on"
    wide = run(tmp_path, LAKEBRAID_SEED="4710")
    assert "LAKEBRAID_SEED=4712 uv run pytest test_failing.py::test_by_seeds" in wide
    assert "LAKEBRAID_SEED=4710 uv run pytest test_failing.py::test_that_fails_after_another" in wide
    assert "the bug" in run(tmp_path, LAKEBRAID_SEED="4712", LAKEBRAID_EFFORT="0.1")


@pytest.mark.slow
def test_examples_are_the_same_each_time_others_with_a_seed_and_more_with_more_effort(tmp_path: Path) -> None:
    def tried(**variables: str) -> list[str]:
        return [line for line in run(tmp_path, **variables).splitlines() if line.startswith("tried")]

    usual = tried()
    assert usual == tried() and len(usual) == 5
    assert tried(LAKEBRAID_SEED="1") == tried(LAKEBRAID_SEED="1") != usual
    assert len(tried(LAKEBRAID_EFFORT="10")) == 50

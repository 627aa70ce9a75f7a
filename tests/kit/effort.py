# SPDX-License-Identifier: Apache-2.0
"""How much the tests try, and where chance begins: two variables of the environment for all of them.

LAKEBRAID_EFFORT=20    twenty times as many examples, lives, schedules and damaged files as CI tries; 0.2 is a fifth. CI: 1
LAKEBRAID_SEED=4711    random tests begin with this seed; `new` draws one

Without a seed they try the same each time, so that a run says something about the change that was made; only the tests
whose names say that their histories are new begin with a seed of the commit that is checked out: two runs of one commit try the same. A test that fails says how to play it again:
`again` tells that to tests/conftest.py.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path

_EFFORT, _SEED = "LAKEBRAID_EFFORT", "LAKEBRAID_SEED"


def read_effort(environment: MutableMapping[str, str]) -> float:
    """The factor; ValueError if what is there is none."""
    text = environment.get(_EFFORT) or "1"
    try:
        effort = float(text)
    except ValueError:
        effort = 0.0
    if not 0 < effort < float("inf"):
        raise ValueError(
            f"{_EFFORT} is {text!r}. It is a factor above 0: 1 is what CI does, 20 is twenty times as much."
        )
    return effort


def read_seed(environment: MutableMapping[str, str]) -> int | None:
    """The first seed, None if none was asked for. A new one is put in the place of `new`, for the processes that we start."""
    text = environment.get(_SEED) or ""
    if text == "new":
        text = environment[_SEED] = str(new_seed())
    if text and not text.isdecimal():
        raise ValueError(f"{_SEED} is {text!r}. It is a whole number from 0 on, or `new`.")
    return int(text) if text else None


def new_seed() -> int:
    """One that nobody has tried."""
    return time.time_ns() // 1_000_000


def seed_of_commit(folder: Path = Path(__file__).parent) -> int:
    """One that other commits do not have; a new one where no commit is checked out."""
    command = ["git", "rev-parse", "--verify", "HEAD"]
    try:
        found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        found = ""
    return int(found[:10], 16) if found else new_seed()


EFFORT = read_effort(os.environ)
SEED = read_seed(os.environ)
_playing: list[int] = []
"""The seed that the test at work plays; empty if it plays none."""


def times(usual: int, *, least: int = 1) -> int:
    """How many examples to try where CI tries so many."""
    return max(least, round(usual * EFFORT))


def every(usual: int) -> int:
    """The step between those that are tried, where CI tries every so-many-th of all that there are."""
    return max(1, round(usual / EFFORT))


def first_seed(usual: int) -> int:
    return usual if SEED is None else SEED


def seeds(usual: int, first: int = 0) -> range:
    """As many seeds as the effort asks for, where CI plays so many from `first` on."""
    start = first_seed(first)
    return range(start, start + times(usual))


def played(chosen: Iterable[int]) -> Iterator[int]:
    """The same seeds, each noted while it is played."""
    for seed in chosen:
        playing(seed)
        yield seed


def playing(seed: int) -> None:
    """Notes the seed with which the test at work could be played again."""
    _playing[:] = [seed]


def forget() -> None:
    """Another test begins."""
    _playing.clear()


def again(test: str) -> str | None:
    """The command that plays a failed test again; None if chance had no part in it, or the same one each time."""
    seed = _playing[0] if _playing else SEED
    given = [f"{_EFFORT}={EFFORT:g}"] if EFFORT != 1 else []
    given += [] if seed is None else [f"{_SEED}={seed}"]
    return " ".join([*given, "uv run pytest", shlex.quote(test)]) if given else None

# SPDX-License-Identifier: Apache-2.0
"""Whole lives of tables of all kinds: writes, services, schema changes, restores, all mixed, held against a dictionary.

A life that fails is cut down, and printed as a script.
"""

from __future__ import annotations

import random

import pytest

from tests.kit.effort import playing, seeds
from tests.lives.choosing import Chooser
from tests.lives.kinds import Kind
from tests.lives.life import Life
from tests.lives.walking import live, shrink

pytestmark = [pytest.mark.unit, pytest.mark.slow]

_ONCE_FAILED = {
    3001349: "rows that a clustering had moved since the last write were not found in the overwrite that deleted them",
    5000080: "an open partial update was given values of a type to which its column was widened after it began",
    5000139: "one alteration added a column twice",
    8800048: "in a table of one writer a write that had been silent for long was rolled back by the next one",
    8800070: "a partial update was refused because writes were archived that it could not look into any more",
}
"""Lives that failed by a fault of these tests themselves."""


@pytest.mark.parametrize("seed", seeds(10))
def test_a_table_is_what_its_writers_made_it_at_every_moment_of_its_life(seed: int) -> None:
    playing(seed)
    failure = live(seed, 20)
    assert failure is None, f"\n{shrink(failure)}"


@pytest.mark.parametrize("seed", _ONCE_FAILED)
def test_a_life_that_has_failed_before_does_not_fail_again(seed: int) -> None:
    failure = live(seed, 20)
    assert failure is None, f"{_ONCE_FAILED[seed]}\n{shrink(failure)}"


def test_an_alteration_adds_each_column_once() -> None:
    life = Life(Kind())
    for seed in range(10_000):
        _, steps = Chooser(random.Random(seed), life).alter()
        added = [step[1] for step in steps if step[0] == "add"]
        assert len(added) == len({*added}), f"seed {seed}"

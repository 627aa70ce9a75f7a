# SPDX-License-Identifier: Apache-2.0
"""Lives of tables with the changes that Spark computes, and with Spark's tasks writing them; see tests/unit/house/test_lives.py.

A life that fails is printed as a script.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.storage import open_storage
from tests.kit.effort import playing, seeds
from tests.lives import changing
from tests.lives.checking import check
from tests.lives.choosing import Chooser, Step, choose
from tests.lives.kinds import random_kind
from tests.lives.life import Life
from tests.lives.walking import Failure, apply, end, said_by

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_STEPS: dict[str, Callable[..., None]] = {
    "update": changing.update,
    "delete_where": changing.delete_where,
    "merge": changing.merge,
    "look": changing.look_on_spark,
}
_NOT_HERE = ("wait", "tend", "rescue", "consume", "hold", "let_go")
"""The clock is the machine's, and time passes."""


@pytest.mark.parametrize("seed", seeds(3))
def test_a_table_is_what_spark_made_it_at_every_moment_of_its_life(
    seed: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # tasks write, and hand nothing back
        monkeypatch.setattr(limits, "SPARK_DRIVER_BYTES", -1)
        monkeypatch.setattr(limits, "SPARK_HANDED_BYTES", 0)
    playing(seed)
    failure = live(seed, tmp_path)
    assert failure is None, f"\n{failure}"


def live(seed: int, where: Path) -> Failure | None:
    """A life on a disk, and how it failed."""
    dice = random.Random(seed)
    life = Life(replace(random_kind(dice), shared=False), SystemClock(), open_storage(where))
    steps: list[Step] = []
    try:
        for number in range(11):
            steps.append(_next(dice, life, number))
            _apply(life, steps[-1])
            check(life)
        check(life, is_thorough=True)
    except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
        return Failure(life.kind, steps, said_by(error))
    finally:
        end(life)
    return None


def _next(dice: random.Random, life: Life, number: int) -> Step:
    if number == 0:
        rows = [row for _ in range(4) for row in Chooser(dice, life).rows("upsert", life.world.columns)]
        return "write", ("upsert", [row for row in rows if row.keys() == rows[0].keys()]), {}
    if number % 2:
        return changing.choose_change(dice, life)
    while True:
        step = choose(dice, life)
        if step[0] not in _NOT_HERE:
            return step


def _apply(life: Life, step: Step) -> None:
    name, args, how = step
    if name in _STEPS:
        _STEPS[name](life, *args, **how)
    else:
        apply(life, step)

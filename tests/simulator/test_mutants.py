# SPDX-License-Identifier: Apache-2.0
"""Each planted bug is found, and by an invariant that speaks of it. A checker that never failed was never tested."""

from __future__ import annotations

import pytest

from simulator import checkers
from simulator.mutants import MUTANTS, planted
from simulator.search import hunt

pytestmark = [pytest.mark.simulator, pytest.mark.slow]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.rule}: {m.name}")
def test_a_planted_bug_is_found(mutant):
    if mutant.is_rare:
        with planted(mutant):  # it can be planted; finding it takes hours
            return
    found, histories, _ = hunt(mutant, 120, mutant.first_seed)
    assert found is not None, f"no invariant that speaks of it failed in {histories} histories"


def test_every_invariant_has_a_mutant():
    numbers = {number for mutant in MUTANTS for number in mutant.caught_by}
    assert numbers >= {"1", "2", "3", "4", "5", "6", "8", "9", "11", "13", "14", "15", "16"}
    assert len(checkers.ALL) == 13

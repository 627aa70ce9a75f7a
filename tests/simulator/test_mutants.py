# SPDX-License-Identifier: Apache-2.0
"""Each planted bug is found, and by an invariant that speaks of it. A checker that never failed was never tested."""

from __future__ import annotations

import pytest

from simulator import checkers
from simulator.mutants import MUTANTS
from simulator.mutants.planting import Mutant
from simulator.playing.report import verdict
from simulator.playing.search import hunt
from simulator.scene import run_history
from simulator.setting import drawn
from simulator.world.schedule import Script

pytestmark = [pytest.mark.simulator, pytest.mark.slow]
HISTORIES_MAX = 2000
"""The same ones each time: the best hidden bug needs 122."""
SCRIPTED = [m for m in MUTANTS if m.script]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.rule}: {m.name}")
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    found, histories, _ = hunt(mutant, HISTORIES_MAX, mutant.first_seed)
    assert found is not None, f"no invariant that speaks of it failed in {histories} histories"


@pytest.mark.parametrize("mutant", SCRIPTED, ids=lambda m: f"{m.rule}: {m.name}")
def test_without_the_planted_bug_nothing_is_wrong_in_the_history_that_shows_it(mutant: Mutant) -> None:
    outcome = run_history(mutant.setting(drawn(mutant.first_seed)), Script(mutant.script))
    assert outcome.failure is None, verdict(outcome)


def test_every_invariant_has_a_mutant() -> None:
    numbers = {number for mutant in MUTANTS for number in mutant.caught_by}
    assert numbers >= {*map(str, (*range(1, 10), *range(11, 26)))}
    assert len(checkers.ALL) == 23


def test_every_rule_of_the_ledger_that_fell_over_once_has_a_mutant() -> None:
    rules = {mutant.rule for mutant in MUTANTS}
    assert rules >= {"H1", "H2", "H3", "H4", "H5", "H6", "H7", "H8", "H9", "H12", "H13"}
    assert rules >= {"P1", "P4", "P9", "P10"}
    assert rules >= {"G1", "G2", "G3", "G4", "G6", "G7", "G8", "G9", "G10"}

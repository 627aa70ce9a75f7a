# SPDX-License-Identifier: Apache-2.0
"""Tables with a metadata table under attack: what Apache Hudi's readers list by it is what is published, at every step."""

from __future__ import annotations

from collections import Counter

import pytest

from simulator.playing.report import verdict
from simulator.playing.search import sweep
from simulator.scene import run_history
from simulator.setting import Setting, with_metadata
from tests.kit import effort

pytestmark = pytest.mark.simulator


def test_no_invariant_fails_in_random_histories_with_a_metadata_table() -> None:
    reached = Counter[str]()
    for seed in effort.seeds(60):
        effort.playing(seed)
        outcome = run_history(with_metadata(seed))
        assert outcome.failure is None, verdict(outcome)
        reached.update(outcome.marks)
    rare: tuple[str, ...] = (
        "metadata table compacted",
        "listed by the metadata table",
        "files of the metadata table removed",
    )
    rare += ("instants of the metadata table archived", "archived up to the last compaction of the metadata table")
    assert {mark for mark in rare if not reached[mark]} == set()


@pytest.mark.slow
def test_a_death_at_any_single_call_leaves_both_tables_the_same() -> None:
    actors = (("writer", 1), ("writer", 1), ("tender", 1))
    outcomes = list(sweep(Setting(7, metadata=True, keys=1, actors=actors, switch=0.3)))
    failures = [o for o in outcomes if o.failure is not None]
    assert len(outcomes) > 100
    assert not failures, verdict(failures[0])
    assert any("metadata table compacted" in o.marks for o in outcomes)

# SPDX-License-Identifier: Apache-2.0
"""Without this nothing else about the simulator means anything: a seed is a history."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.scene import run_history
from simulator.setting import drawn
from simulator.world.schedule import Replay
from simulator.world.world import trace_digest

pytestmark = pytest.mark.simulator
ROOT = Path(__file__).parents[2]
SEEDS = range(12)
SCRIPT = """
from simulator.scene import run_history
from simulator.setting import drawn
from simulator.world.world import trace_digest
for seed in range(12):
    outcome = run_history(drawn(seed))
    print(seed, outcome.steps, trace_digest(outcome.trace), outcome.failure)
"""


def _traces(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return run.stdout


def test_the_same_seeds_give_the_same_traces_in_processes_with_different_hash_seeds() -> None:
    first, second = _traces("1"), _traces("4242")
    assert first.count("\n") == len(SEEDS)
    assert first == second


@pytest.mark.parametrize("seed", [3, 7, 20, 31])
def test_a_tape_gives_the_trace_it_was_recorded_from(seed: int) -> None:
    recorded = run_history(drawn(seed))
    replayed = run_history(drawn(seed), Replay(recorded.tape))
    assert trace_digest(replayed.trace) == trace_digest(recorded.trace)


def test_different_seeds_give_different_traces() -> None:
    digests = {trace_digest(run_history(drawn(seed)).trace) for seed in range(6)}
    assert len(digests) == 6

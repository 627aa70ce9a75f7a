# SPDX-License-Identifier: Apache-2.0
"""Histories that once went wrong: of a protocol with a lease they still do, of ours they must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.playing.report import verdict
from simulator.playing.tape import load_tape

pytestmark = pytest.mark.simulator
TAPES = sorted((Path(__file__).parent / "tapes").glob("*.json"))
OF_A_LEASE = [p for p in TAPES if p.name.startswith("lease_")]
OURS = [p for p in TAPES if not p.name.startswith("lease_")]


@pytest.mark.parametrize("path", OF_A_LEASE, ids=lambda p: p.stem)
def test_a_lease_is_not_enough(path: Path) -> None:
    tape = load_tape(path)
    failure = tape.play().failure
    assert failure is not None
    assert failure.invariant == tape.invariant


def test_both_histories_of_the_lease_need_no_kill() -> None:
    assert len(OF_A_LEASE) == 2
    for path in OF_A_LEASE:
        assert {mark[2] for mark in load_tape(path).marks} <= {"pause", "to"}


@pytest.mark.parametrize("path", OURS, ids=lambda p: p.stem)
def test_a_history_that_went_wrong_once_does_so_no_more(path: Path) -> None:
    outcome = load_tape(path).play()
    assert outcome.failure is None, verdict(outcome)

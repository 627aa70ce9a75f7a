# SPDX-License-Identifier: Apache-2.0
"""The product under attack, for a short while; `python -m simulator --histories 100000 --processes 2` goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from simulator.playing.report import verdict
from simulator.playing.search import enumerate_all, sweep, walk
from simulator.scene import Scene, run_history
from simulator.setting import Setting, beside_hudi, copy_on_write, drawn, plain, with_clustering, with_services
from simulator.world.faults import CALM, Rates
from simulator.world.schedule import Cue, Script
from tests.kit import effort

pytestmark = pytest.mark.simulator
ROOT = Path(__file__).parents[2]


def of_block(block: int, count: int) -> Iterator[int]:
    """So many seeds of those that are played in several tests, and in several processes."""
    skipped = block * effort.times(count)
    for seed in effort.seeds(count):
        effort.playing(seed)
        yield seed + skipped


@pytest.mark.parametrize("block", range(6))
def test_no_invariant_fails_in_random_histories(block: int) -> None:
    for seed in of_block(block, 20):
        outcome = run_history(drawn(seed))
        assert outcome.failure is None, verdict(outcome)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("kill_before", "kill_after"), ("pause", "late"), ("kill_late", "lost")])
def test_a_fault_at_any_single_call_breaks_nothing(kinds: tuple[str, str]) -> None:
    actors = (("writer", 1), ("writer", 1), ("compactor", 1), ("rescuer", 3), ("reader", 1))
    setting = Setting(5, keys=1, actors=actors, switch=0.3, entries_kept=1)
    outcomes = list(sweep(setting, kinds))
    failures = [o for o in outcomes if o.failure is not None]
    assert len(outcomes) > 200
    assert not failures, verdict(failures[0])


@pytest.mark.parametrize("block", range(3))
def test_no_invariant_fails_while_table_services_are_at_work(block: int) -> None:
    for seed in of_block(block, 10):
        outcome = run_history(with_services(plain(seed), Random(seed)))
        assert outcome.failure is None, verdict(outcome)


def test_no_invariant_fails_while_rows_are_clustered_beside_writers_that_look_for_them() -> None:
    for seed in effort.played(effort.seeds(10)):
        outcome = run_history(with_clustering(with_services(plain(seed), Random(seed)), Random(seed)))
        assert outcome.failure is None, verdict(outcome)


def test_no_invariant_fails_while_base_files_are_rewritten_beside_cleans_and_clusterings() -> None:
    marks: set[str] = set()
    for seed in range(20):
        busy = with_services(plain(seed), Random(seed))
        outcome = run_history(copy_on_write(with_clustering(busy, Random(seed)), busy))
        assert outcome.failure is None, verdict(outcome)
        marks |= outcome.marks.keys()
    assert marks >= {"placed after a conflict", "clustered", "cleaned", "restored", "rescued"}


@pytest.mark.parametrize("block", range(3))
def test_no_invariant_fails_beside_writers_of_apache_hudi(block: int) -> None:
    for seed in of_block(block, 10):
        outcome = run_history(beside_hudi(plain(seed), Random(seed)))
        assert outcome.failure is None, verdict(outcome)


def test_a_process_that_dies_in_the_midst_of_a_create_leaves_a_piece_that_nobody_takes_for_an_object() -> None:
    setting = Setting(1, keys=1, actors=(("writer", 2), ("writer", 1), ("rescuer", 4), ("reader", 2)), timeout_ms=500)
    scene = Scene(setting, Script([Cue("writer0", "create", "/ledger/", "torn")]))
    outcome = scene.run()
    pieces = [name for name in scene.world.disk.names if name.endswith(".tmp")]
    assert outcome.failure is None, verdict(outcome)
    assert len(pieces) == 1
    assert scene.world.disk.objects[pieces[0]][0]


def test_a_job_of_apache_hudi_that_dies_in_the_midst_of_a_create_leaves_an_empty_file_of_that_name() -> None:
    setting = Setting(3, keys=1, deletes=0.0, shared=True, actors=(("job", 6), ("writer", 2), ("operator", 9)))
    scene = Scene(setting, Script([Cue("job0", "create", ".hoodie/timeline/", "torn", nth=2)]))
    outcome = scene.run()
    assert outcome.failure is None, verdict(outcome)
    assert any(note.action == "deltacommit" and not note.data for note in scene.oracle.notes)


def test_a_removable_plan_whose_executor_died_is_taken_back() -> None:
    actors = (("writer", 4), ("logcompactor", 1), ("rescuer", 6))
    setting = Setting(0, keys=1, aborts=0.0, whole=True, removable=1.0, timeout_ms=500, actors=actors)
    cues = (
        Cue("logcompactor1", "sleep", "", "pause", 5000),
        Cue("logcompactor1", "create", "p0/.0000", "kill_before"),
        Cue("rescuer2", "sleep", "", "pause", 6500),
    )
    outcome = run_history(setting, Script(cues))
    assert outcome.failure is None, verdict(outcome)
    assert outcome.marks["removable plan taken back"] == 1


def test_two_writers_break_nothing_in_any_schedule_with_one_switch() -> None:
    world = Setting(1, keys=1, deletes=0.0, aborts=0.0, actors=(("writer", 1), ("writer", 1)), call_ms=1, rates=CALM)
    outcomes = 0
    for outcome in enumerate_all(world, switches_max=1, kills_max=0, runs_max=400):
        outcomes += 1
        assert outcome.failure is None, verdict(outcome)
    assert outcomes > 30


def test_a_calm_history_publishes_everything() -> None:
    setting = Setting(2, actors=(("writer", 3), ("writer", 3), ("compactor", 2), ("reader", 3)), aborts=0.0, rates=CALM)
    outcome = run_history(setting)
    assert outcome.failure is None, verdict(outcome)
    # The founding, six writes, the healing write; and compactions.
    assert outcome.published >= 9
    assert not outcome.marks.get("refused")


@pytest.mark.slow
def test_every_kind_of_trouble_is_reached() -> None:
    marks: set[str] = set()
    for seed in range(400, 600):
        marks |= run_history(replace(plain(seed), timeout_ms=500)).marks.keys()
        if marks >= REACHED:
            return
    # A process asks ten times before it calls an outcome unknown, so that takes a store which seldom answers.
    seldom = Rates(late=0.1, lost=0.1, vanished=0.05, refused=0.1)
    for seed in range(60):
        marks |= run_history(replace(plain(seed), timeout_ms=500, rates=seldom)).marks.keys()
    assert marks >= REACHED, sorted(REACHED - marks)


@pytest.mark.slow
def test_every_kind_of_service_has_something_to_do() -> None:
    marks: set[str] = set()
    for seed in range(100, 400):
        setting = plain(seed)
        bent = with_services(beside_hudi(setting, Random(seed)) if seed % 4 == 0 else setting, Random(seed))
        marks |= run_history(replace(bent, timeout_ms=500)).marks.keys()
        if marks >= SERVED:
            return
    assert marks >= SERVED, sorted(SERVED - marks)


SERVED = {
    "cleaned", "clean finished for another", "archived", "log-compacted", "savepoint set", "savepoint deleted", "restored",
    "leased", "lease refused", "consumed", "read expired", "hudi: wrote", "hudi: compacted",
    "hudi: rolls back a deltacommit", "hudi: refused itself",
}  # fmt: skip

REACHED = {
    "rescued", "rollback finished for another", "refused", "refused by a check", "unknown became published",
    "taken over", "claim lost", "group left out for a delete", "swept", "begin failed", "compacted",
}  # fmt: skip


def fresh_seed() -> int:
    """New seeds with each commit: a failure prints the seed, and the seed is the bug."""
    first = effort.first_seed(effort.seed_of_commit())
    effort.playing(first)
    return first


@pytest.mark.slow
def test_no_invariant_fails_in_new_plain_histories() -> None:
    first, count = fresh_seed(), effort.times(2400)
    command = [sys.executable, "-m", "simulator", "--plain", "--histories", str(count), "--processes", "2"]
    played = subprocess.run([*command, "--seed", str(first)], cwd=ROOT, capture_output=True, text=True, check=False)
    print(played.stdout[-2000:])
    assert played.returncode == 0, f"{played.stdout[-6000:]}\n{played.stderr[-2000:]}"
    assert played.stdout.startswith(f"{count} histories"), played.stdout[:200]


@pytest.mark.slow
def test_no_invariant_fails_in_new_histories_with_services_and_beside_hudi() -> None:
    first, count = fresh_seed(), effort.times(600)
    played = walk(range(first, first + count))
    if played.failures:
        effort.playing(played.failures[0].setting.seed)
        pytest.fail(verdict(played.failures[0]))
    assert played.histories == count


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(6003374, id="a restore left the plan of a compaction whose attempt Hudi was rolling back"),
        pytest.param(6007457, id="a clean swept the first beat of a lease that was being entered"),
        pytest.param(5001389, id="eighteen actors asked for one lock"),
        pytest.param(8300169, id="a job of Hudi took a clean for the beginning of the timeline"),
        pytest.param(7001869, id="a job of Hudi died while it wrote a plan, and the piece counted as a plan"),
        pytest.param(8510831, id="a restore left two plans of one file group, between which Hudi saw nothing"),
        pytest.param(9100768, id="a savepoint was deleted by another one before its maker heard that it is set"),
        pytest.param(9606002, id="Hudi read what was archived, though it had completed last"),
        pytest.param(9415403, id="Hudi read what a restore had doomed, before anything of it was gone"),
        pytest.param(9213848, id="a clusterer whose plan was taken back while it slept said that it gave way"),
        pytest.param(8302009, id="a restore took back a moment that a reader held, and a clean its files"),
        pytest.param(30000443, id="a process that lost a slot removed the ask of another one with what it had staged"),
    ],
)
def test_no_invariant_fails_where_one_has_failed_before(seed: int) -> None:
    outcome = run_history(drawn(seed))
    assert outcome.failure is None, verdict(outcome)

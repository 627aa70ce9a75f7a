# SPDX-License-Identifier: Apache-2.0
"""python -m simulator: play seeds, kills at every call, planted bugs, tapes."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

from simulator.mutants import MUTANTS
from simulator.playing.report import story, verdict
from simulator.playing.search import SweepJob, Tally, WalkJob, enumerate_all, hunt, sweep_whole, walk_whole
from simulator.playing.shrink import shrink
from simulator.playing.tape import Tape, load_tape, save_tape
from simulator.scene import Outcome, run_history
from simulator.setting import Setting, drawn, plain
from simulator.world.faults import CALM


def main() -> int:
    options = _parser().parse_args()
    if options.tape:
        return _show(load_tape(options.tape).play(), options)
    if options.mutants:
        return _mutants(options)
    if options.sweep:
        return _sweep(options)
    if options.exhaustive:
        return _exhaustive()
    if options.seconds or options.histories:
        return _many(options)
    return _show(run_history((plain if options.plain else drawn)(options.seed)), options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulator", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=0, help="play this history (with --histories or --seconds: begin here)"
    )
    parser.add_argument(
        "--histories", type=int, help="play so many seeds; with --mutants: of each at most (otherwise 20,000)"
    )
    parser.add_argument("--seconds", type=float, help="play one seed after the other for so long")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--plain", action="store_true", help="no table services, no Apache Hudi; with --sweep also few actors"
    )
    parser.add_argument(
        "--sweep", type=int, metavar="N", help="N schedules from --seed on, with a fault at each of their calls in turn"
    )
    parser.add_argument(
        "--faults",
        default="kill_before,kill_after",
        help="of a sweep: any of kill_before,kill_after,kill_late,pause,late,lost,torn",
    )
    parser.add_argument("--exhaustive", action="store_true", help="all schedules of two small worlds")
    parser.add_argument("--mutants", action="store_true", help="plant every bug and see that it is found")
    parser.add_argument("--shrink", action="store_true", help="make a failing history small")
    parser.add_argument("--tape", type=Path, help="play a tape; with --shrink, --seed or --seconds: write it there")
    parser.add_argument("--story", action="store_true", help="print the whole story, not only of failures")
    return parser


def _show(outcome: Outcome, options: argparse.Namespace) -> int:
    if outcome.failure is not None and options.shrink:
        outcome = _shrunk(outcome, options.tape or Path(f"seed-{outcome.setting.seed}.tape.json"))
    if outcome.failure is not None or options.story:
        print(story(outcome))
    if outcome.failure is not None:
        print(verdict(outcome))
        return 1
    print(f"seed {outcome.setting.seed}: {outcome.steps} calls, {outcome.published} publications, nothing wrong")
    return 0


def _shrunk(outcome: Outcome, path: Path) -> Outcome:
    assert outcome.failure is not None
    tape = Tape(outcome.setting, outcome.tape, outcome.failure.invariant, outcome.failure.text)
    small = shrink(tape, lambda text: print(f"\r{text:70}", end="", file=sys.stderr))
    save_tape(small, path)
    print(f"\nwritten: {path}", file=sys.stderr)
    return small.play()


def _many(options: argparse.Namespace) -> int:
    seeds = range(options.seed, options.seed + (options.histories or 10**9))
    jobs: list[WalkJob] = [
        (seeds[at :: options.processes], options.seconds or inf, options.plain) for at in range(options.processes)
    ]
    total = Tally()
    if options.processes == 1:
        total.merge(walk_whole(jobs[0]))
    else:
        with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
            for tally in pool.imap_unordered(walk_whole, jobs):
                total.merge(tally)
    rate = total.histories / max(total.seconds, 0.001)
    print(
        f"{total.histories} histories, {total.calls} calls, {total.publications} publications, "
        f"{rate:.0f} histories per CPU second, {len(total.failures)} failures"
    )
    for mark, count in sorted(total.marks.items()):
        print(f"  {count:7}  {mark}")
    for outcome in total.failures:
        print(verdict(outcome))
    return 1 if total.failures else 0


def _sweep(options: argparse.Namespace) -> int:
    """One line for each schedule, in the order of seeds: whoever is interrupted goes on with `--seed`."""
    kinds = tuple(options.faults.split(","))
    seeds = range(options.seed, options.seed + options.sweep)
    runs = 0
    for seed, (count, failed) in zip(
        seeds, _swept([(seed, kinds, options.plain) for seed in seeds], options.processes), strict=True
    ):
        runs += count
        if failed is not None:
            print(f"seed {seed}: fails in run {count:,}; go on with --seed {seed + 1}", flush=True)
            return _show(failed, options)
        print(f"seed {seed}: {count:,} runs, nothing wrong; go on with --seed {seed + 1}", flush=True)
    print(f"{options.sweep:,} schedules, {runs:,} runs with one fault each, nothing wrong")
    return 0


def _swept(jobs: list[SweepJob], processes: int) -> Iterator[tuple[int, Outcome | None]]:
    if processes == 1:
        yield from map(sweep_whole, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(sweep_whole, jobs)


SMALL_WORLDS = (
    Setting(1, keys=1, deletes=0.0, aborts=0.0, actors=(("writer", 1), ("writer", 1)), call_ms=1),
    Setting(2, keys=1, deletes=0.0, aborts=0.0, actors=(("writer", 1), ("compactor", 1)), call_ms=1),
)


def _exhaustive() -> int:
    for world in SMALL_WORLDS:
        for switches, kills in ((2, 0), (1, 1)):
            runs = 0
            for outcome in enumerate_all(replace(world, rates=CALM), switches, kills):
                runs += 1
                if outcome.failure is not None:
                    print(story(outcome))
                    print(verdict(outcome))
                    return 1
            names = " and ".join(kind for kind, _ in world.actors)
            print(f"{names}: all {runs} schedules with at most {switches} switches and {kills} kills, nothing wrong")
    return 0


def _mutants(options: argparse.Namespace) -> int:
    missed = 0
    for mutant in MUTANTS:
        try:
            found, histories, seconds = hunt(mutant, options.histories or 20_000, options.seed or mutant.first_seed)
        except LookupError as error:
            print(f"cannot be planted any more: {error}")
            missed += 1
            continue
        by = found.failure.invariant if found is not None and found.failure is not None else "NOT FOUND"
        missed += found is None
        print(f"{by:34} {histories:6} histories {seconds:6.1f} s  [{mutant.rule}] {mutant.name}", flush=True)
    print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

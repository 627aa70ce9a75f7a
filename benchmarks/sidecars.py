# SPDX-License-Identifier: Apache-2.0
"""Service runners and writers on one local table: does it stay small and fast, and whole, while runners are killed?

    uv run python -m benchmarks.sidecars --sidecars 3 --writers 4 --seconds 60 --kill 0.3

Writers upsert and delete the same keys without pause. All sidecars but the first are killed and started again, at random.
At the end nothing is stuck, every acknowledged row is there, and files and read times did not grow without bound.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lakebraid as lb
from lakebraid.cli.torture_audit import Verdict, audit

SCHEMA = "id bigint, ts bigint, writer int, number bigint, note string"
PROPERTIES = {
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.compact.inline.max.delta.commits": "5",
    "hoodie.clean.commits.retained": "5",
    "hoodie.keep.min.commits": "20",
    "hoodie.keep.max.commits": "30",
}
SAMPLES = 12
HEALING_SECONDS_MAX = 90


@dataclass(frozen=True)
class Sample:
    """The table at one moment of the run."""

    seconds: float
    commits: int
    data_files: int
    timeline_files: int
    logs: int
    read_seconds: float


@dataclass
class Outcome:
    samples: list[Sample] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    kills: int = 0
    healing_seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)
    """How often the sidecars did what."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sidecars", type=int, default=3)
    arguments.add_argument("--writers", type=int, default=4)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--kill", type=float, default=0.3, help="kills per sidecar and second")
    arguments.add_argument("--every", default="500ms", help="how often a sidecar looks")
    arguments.add_argument("--keep", action="store_true", help="keep the table and the notes")
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lakebraid-sidecars-"))
    outcome = run(
        folder, given.seconds, sidecars=given.sidecars, writers=given.writers, kill=given.kill, every=given.every
    )
    outcome.problems += growth(outcome.samples)
    report(outcome)
    if given.keep or outcome.problems:
        print(f"table and notes: {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if outcome.problems else 0


def run(
    folder: Path, seconds: float, *, sidecars: int, writers: int, kill: float, every: str = "500ms", keys: int = 500
) -> Outcome:
    """Lets them loose on a new table below the folder, heals it, accounts for every row."""
    folder.mkdir(parents=True, exist_ok=True)
    table = lb.Table.create(
        folder / "table", SCHEMA, record_keys=["id"], ordering_fields=["ts"], buckets=4, properties=PROPERTIES
    )
    outcome = Outcome()
    crew = Crew(folder, every, keys)
    with crew.at_work(writers, sidecars):
        storm(table, crew, outcome, seconds, kill)
    heal(table, outcome)
    outcome.verdict = audit(table, folder, seconds)
    outcome.problems += outcome.verdict.problems
    for path in folder.glob("sidecar-*.out"):
        outcome.did.update(line.split()[1].rstrip(":") for line in path.read_text().splitlines() if line[:1].isdigit())
    return outcome


@dataclass
class Crew:
    """The processes."""

    folder: Path
    every: str
    keys: int
    writers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    sidecars: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @contextlib.contextmanager
    def at_work(self, writers: int, sidecars: int) -> Iterator[None]:
        try:
            self.writers = [self.start_writer(n) for n in range(writers)]
            self.sidecars = [self.start_sidecar(n) for n in range(sidecars)]
            yield
        finally:
            for process in (*self.writers, *self.sidecars):
                process.send_signal(signal.SIGTERM)
            for process in (*self.writers, *self.sidecars):
                process.wait()

    def start_writer(self, number: int) -> subprocess.Popen[bytes]:
        notes = self.folder / f"writer-{number}.jsonl"
        # Nobody aborts: the timeline is not archived past a write that was rolled back less than a day ago.
        code = "import sys; from lakebraid.cli import torture_actor as a; a._ABORTS = 0.0; a.main(sys.argv[1:])"
        arguments = ["writer", number, self.folder / "table", notes, self.keys, 20, number, "nbcc"]
        return self._start(f"writer-{number}", "-c", code, *arguments)

    def start_sidecar(self, number: int) -> subprocess.Popen[bytes]:
        return self._start(
            f"sidecar-{number}", "-m", "lakebraid.cli.main", "services", self.folder / "table", "--every", self.every
        )

    def _start(self, name: str, *arguments: object) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.out").open("ab") as out, (self.folder / f"{name}.err").open("ab") as err:
            command = [sys.executable, *map(str, arguments)]
            return subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, "NO_COLOR": "1"})

    def commits(self) -> int:
        return sum(path.read_bytes().count(b'"published"') for path in self.folder.glob("writer-*.jsonl"))


def storm(table: lb.Table, crew: Crew, outcome: Outcome, seconds: float, kill: float) -> None:
    chance = random.Random(7)
    while not crew.commits():
        if all(writer.poll() is not None for writer in crew.writers):
            raise SystemExit(f"No writer has started: see *.err in {crew.folder}.")
        time.sleep(0.1)  # the time of starting Python is nobody's
    begun = last = time.monotonic()
    while (elapsed := time.monotonic() - begun) < seconds:
        step, last = time.monotonic() - last, time.monotonic()
        for number, process in enumerate(crew.sidecars):
            if number and chance.random() < kill * step:
                process.kill()
                process.wait()
                outcome.kills += 1
                crew.sidecars[number] = crew.start_sidecar(number)
            elif process.poll() is not None:
                outcome.problems.append(f"sidecar {number} ended by itself with {process.returncode}")
                crew.sidecars[number] = crew.start_sidecar(number)
        if elapsed >= len(outcome.samples) * seconds / SAMPLES:
            outcome.samples.append(sample(table, crew, elapsed))
        time.sleep(0.1)


def sample(table: lb.Table, crew: Crew, elapsed: float) -> Sample:
    files = [path for path in (crew.folder / "table").rglob("*") if path.is_file()]
    hidden = [path for path in files if ".hoodie" in path.parts]
    data = [path for path in files if path not in set(hidden) and path.name != ".hoodie_partition_metadata"]
    begun = time.process_time()
    table.to_arrow()
    read = time.process_time() - begun
    logs = table.status().compaction.logs
    timeline = sum(path.parent.name == "timeline" for path in hidden)
    return Sample(elapsed, crew.commits(), len(data), timeline, logs, read)


def heal(table: lb.Table, outcome: Outcome) -> None:
    """Nothing may stay stuck: what was killed in the midst comes to its end by the services alone."""
    begun = time.monotonic()
    while True:
        done = table.services.run(once=True)
        outcome.problems += [f"healing: {one}" for one in done.errors]
        pending = [entry.instant for entry in table.timeline() if not entry.instant.is_completed]
        outcome.healing_seconds = time.monotonic() - begun
        if not pending:
            return
        if outcome.healing_seconds > HEALING_SECONDS_MAX:
            outcome.problems.append(f"stuck: {pending}")
            return
        time.sleep(0.5)


def growth(samples: list[Sample]) -> list[str]:
    """What grew without bound: the middle of the second half of the run against that of the first."""
    if len(samples) < 4:
        return []
    early, late = samples[1 : len(samples) // 2], samples[len(samples) // 2 :]
    problems = []
    for name, slack in (("data_files", 100), ("timeline_files", 100), ("read_seconds", 0.25)):
        before, after = (statistics.median(getattr(s, name) for s in half) for half in (early, late))
        if after > 2 * before + slack:
            problems.append(f"{name} grew from {before} to {after}")
    return problems


def report(outcome: Outcome) -> None:
    print(f"{'time':>6}  {'commits':>8}  {'data files':>10}  {'timeline':>8}  {'logs':>6}  {'read (CPU)':>10}")
    for s in outcome.samples:
        print(
            f"{s.seconds:4.0f} s  {s.commits:8,}  {s.data_files:10,}  {s.timeline_files:8,}  {s.logs:6,}  "
            f"{s.read_seconds * 1000:7.0f} ms"
        )
    print(f"sidecars killed {outcome.kills}, healed in {outcome.healing_seconds:.1f} s")
    print("done by sidecars: " + ", ".join(f"{name} {count:,}" for name, count in sorted(outcome.did.items())))
    for name, value in outcome.verdict.lines():
        if name not in ("compactions", "reads checked"):  # there are no such actors here
            print(f"{name:<24}{value}")
    for problem in outcome.problems[:20]:
        print(f"PROBLEM {problem}")
    print(
        "nothing stuck, every acknowledged row is there"
        if not outcome.problems
        else f"{len(outcome.problems)} problems"
    )


if __name__ == "__main__":
    sys.exit(main())

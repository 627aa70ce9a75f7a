# SPDX-License-Identifier: Apache-2.0
"""Service runners and writers on one local table: does it stay small and fast, and whole, while runners are killed?

    uv run python -m benchmarks.sidecars                   # six sidecars, four writers, five minutes
    uv run python -m benchmarks.sidecars --sidecars 3 --seconds 40

Writers upsert and delete the same keys without pause. Some of the sidecars are killed and started again, at random.
At the end nothing is stuck, every acknowledged row is there, and files and read times did not grow without bound.
The output is a table for docs/concepts/services.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lakebraid as lb
from benchmarks.meter import machine
from lakebraid.cli.torture.audit import Verdict, audit

SCHEMA = "id bigint, ts bigint, writer int, number bigint, note string"
PROPERTIES = {
    # A writer that a busy machine leaves waiting for longer than twice this is taken for dead.
    "hoodie.client.heartbeat.interval_in_ms": "2000",
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
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    """By writers, and by sidecars with those that were killed."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sidecars", type=int, default=6)
    arguments.add_argument("--victims", type=int, default=2, help="how many of the sidecars are killed again and again")
    arguments.add_argument("--writers", type=int, default=4)
    arguments.add_argument("--seconds", type=float, default=300)
    arguments.add_argument("--kill", type=float, default=0.3, help="kills per victim and second")
    arguments.add_argument("--every", default="1s", help="how often a sidecar looks")
    arguments.add_argument("--keep", action="store_true", help="keep the table and the notes")
    given = vars(arguments.parse_args())
    is_kept = given.pop("keep")
    folder = Path(tempfile.mkdtemp(prefix="lakebraid-sidecars-"))
    facts = machine()
    outcome = run(folder, given.pop("seconds"), **given)
    outcome.problems += growth(outcome.samples)
    report(outcome)
    print("*" + ", ".join(f"{name} {value}" for name, value in facts.items()) + "*")
    if is_kept or outcome.problems:
        print(f"table and notes: {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if outcome.problems else 0


def run(
    folder: Path,
    seconds: float,
    *,
    sidecars: int,
    writers: int,
    kill: float,
    victims: int = 2,
    every: str = "500ms",
    keys: int = 500,
) -> Outcome:
    """Lets them loose on a new table below the folder, heals it, accounts for every row."""
    folder.mkdir(parents=True, exist_ok=True)
    table = lb.Table.create(
        folder / "table", SCHEMA, record_keys=["id"], ordering_fields=["ts"], buckets=4, properties=PROPERTIES
    )
    outcome = Outcome()
    crew = Crew(folder, every, keys, outcome.cpu_seconds)
    with crew.at_work(writers, sidecars):
        storm(table, crew, outcome, seconds, {*range(sidecars - victims, sidecars)}, kill)
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
    cpu_seconds: dict[str, float]
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
            self.end("sidecars", self.sidecars)
            self.end("writers", self.writers)

    def end(self, role: str, processes: list[subprocess.Popen[bytes]]) -> None:
        """Waits for their ends, and notes what they cost."""
        before = children_cpu_seconds()
        for process in processes:
            process.wait()
        self.cpu_seconds[role] = self.cpu_seconds.get(role, 0.0) + children_cpu_seconds() - before

    def start_writer(self, number: int) -> subprocess.Popen[bytes]:
        notes = self.folder / f"writer-{number}.jsonl"
        # Nobody aborts: the timeline is not archived past a write that was rolled back less than a day ago.
        code = "import sys; from lakebraid.cli.torture import actor as a; a._ABORTS = 0.0; a.main(sys.argv[1:])"
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


def storm(table: lb.Table, crew: Crew, outcome: Outcome, seconds: float, victims: Collection[int], kill: float) -> None:
    chance = random.Random(7)
    while not crew.commits():
        if all(writer.poll() is not None for writer in crew.writers):
            raise SystemExit(f"No writer has started: see *.err in {crew.folder}.")
        time.sleep(0.1)  # the time of starting Python is nobody's
    begun = last = time.monotonic()
    while (elapsed := time.monotonic() - begun) < seconds:
        step, last = time.monotonic() - last, time.monotonic()
        for number, process in enumerate(crew.sidecars):
            if number in victims and chance.random() < kill * step:
                process.kill()
                crew.end("sidecars", [process])
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
    """What happened, as it stands in the documentation."""
    print("| time | commits | data files | timeline files | log files to merge | reading all, CPU |")
    print("|---|---|---|---|---|---|")
    for s in outcome.samples:
        counts = f"{s.commits:,} | {s.data_files:,} | {s.timeline_files:,} | {s.logs:,}"
        print(f"| {s.seconds:.0f} s | {counts} | {s.read_seconds * 1000:.0f} ms |")
    print()
    did = ", ".join(f"{name} {count:,}" for name, count in sorted(outcome.did.items()))
    cpu = ", ".join(f"{role} {seconds:.0f} s" for role, seconds in sorted(outcome.cpu_seconds.items()))
    lines = [
        ("sidecars killed", f"{outcome.kills:,}; healed in {outcome.healing_seconds:.1f} s"),
        ("done by sidecars", did),
        ("CPU", cpu),
        # There are no such actors here.
        *((name, value) for name, value in outcome.verdict.lines() if name not in ("compactions", "reads checked")),
    ]
    for name, value in lines:
        print(f"- {name}: {value}")
    for problem in outcome.problems[:20]:
        print(f"- PROBLEM {problem}")
    is_well = "nothing stuck, every acknowledged row is there"
    print(f"\n{f'{len(outcome.problems)} problems' if outcome.problems else is_well}")


def children_cpu_seconds() -> float:
    """CPU of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())

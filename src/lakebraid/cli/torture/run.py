# SPDX-License-Identifier: Apache-2.0
"""Real writer processes on one table, killed and stopped at random; then every row is accounted for."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import click

import lakebraid as lb
from lakebraid import spark as on_spark
from lakebraid.cli.output import columns
from lakebraid.cli.torture.actor import ON_SPARK
from lakebraid.cli.torture.audit import Verdict, audit
from lakebraid.clock import SystemClock

SCHEMA = "id bigint, ts bigint, writer int, number bigint, note string"
_STEP_SECONDS = 0.05
_STOP_SECONDS_MAX = 4.0


@dataclass
class Actor:
    """One process and its role; it is started again when it was killed."""

    role: str
    number: int
    process: subprocess.Popen[bytes] | None = None
    wakes_at: float | None = None
    is_gone: bool = False
    """Whether it was killed for good."""
    notes_bytes: int = 0
    """How long its notes were when it was started: it is left alone until it has said something."""


@dataclass
class Storm:
    """What is done to the actors, and how often it was."""

    folder: Path
    keys: int
    rows: int
    kill: float
    stop: float
    concurrency: str = "nbcc"
    table_type: str = "mor"
    index: str = "bucket"
    url: str = ""
    """Where the table is, if not in the folder of the notes."""
    clock: SystemClock = field(default_factory=SystemClock)
    kills: int = 0
    stops: int = 0

    @property
    def table(self) -> str:
        return self.url or str(self.folder / "table")

    def start(self, actor: Actor) -> None:
        log = self.folder / f"{actor.role}-{actor.number}.jsonl"
        actor.notes_bytes = log.stat().st_size if log.exists() else 0
        command = [
            sys.executable, "-m", "lakebraid.cli.torture.actor", actor.role, str(actor.number), self.table, str(log),
            str(self.keys), str(self.rows), str(int(self.clock.random() * 2**31)), self.concurrency,
        ]  # fmt: skip
        with (self.folder / f"{actor.role}-{actor.number}.err").open("ab") as errors:
            actor.process = subprocess.Popen(command, stderr=errors)  # noqa: S603 - our own module, our own arguments
        actor.wakes_at = None

    def kill_one(self, actor: Actor) -> None:
        """SIGKILL, and it is not started again."""
        if actor.process is not None:
            actor.process.kill()
            actor.process.wait()
        actor.is_gone = True
        self.kills += 1

    def is_starting(self, actor: Actor) -> bool:
        """Whether it runs and has not said anything yet."""
        log = self.folder / f"{actor.role}-{actor.number}.jsonl"
        is_silent = not log.exists() or log.stat().st_size <= actor.notes_bytes
        return is_silent and actor.process is not None and actor.process.poll() is None

    def disturb(self, actor: Actor, now: float) -> None:
        """Perhaps kills the actor, perhaps stops it for a while; `kill` and `stop` are chances per second."""
        process = actor.process
        if actor.is_gone:
            return
        if process is None or process.poll() is not None:
            self.start(actor)
        elif self.is_starting(actor):
            return
        elif actor.wakes_at is not None:
            if now >= actor.wakes_at:
                process.send_signal(signal.SIGCONT)
                actor.wakes_at = None
        elif self.clock.random() < self.kill * _STEP_SECONDS:
            process.kill()
            process.wait()
            self.kills += 1
            self.start(actor)
        elif self.clock.random() < self.stop * _STEP_SECONDS:
            process.send_signal(signal.SIGSTOP)
            actor.wakes_at = now + self.clock.random() * _STOP_SECONDS_MAX
            self.stops += 1


@click.command()
@click.argument("path", required=False)
@click.option("--writers", default=8, show_default=True, type=click.IntRange(1, 256), help="Writer processes.")
@click.option("--seconds", default=60.0, show_default=True, type=click.FloatRange(1), help="How long the storm lasts.")
@click.option(
    "--kill", default=0.1, show_default=True, type=click.FloatRange(0), help="SIGKILLs per process and second."
)
@click.option(
    "--stop", default=0.1, show_default=True, type=click.FloatRange(0), help="SIGSTOPs per process and second."
)
@click.option("--spark", default=0, show_default=True, type=click.IntRange(0, 16), help="More writers, each on Spark.")
@click.option(
    "--table", "url", help="Where the table is made, such as s3://bucket/new; beside the notes unless this is given."
)
@click.option("--services", default=0, show_default=True, type=click.IntRange(0, 16), help="Runners of all services.")
@click.option("--compactors", default=1, show_default=True, type=click.IntRange(0, 16), help="Compactors beside them.")
@click.option(
    "--keys", default=500, show_default=True, type=click.IntRange(1), help="Different keys: fewer collide more."
)
@click.option("--rows", default=20, show_default=True, type=click.IntRange(1), help="Rows of one write.")
@click.option("--buckets", default=4, show_default=True, type=click.IntRange(1), help="Buckets of the table.")
@click.option(
    "--concurrency",
    default="nbcc",
    show_default=True,
    type=click.Choice(["nbcc", "occ"]),
    help="occ: refused ones retry.",
)
@click.option(
    "--table-type", default="mor", show_default=True, type=click.Choice(["mor", "cow"]), help="Merge or copy."
)
@click.option(
    "--index", default="bucket", show_default=True, type=click.Choice(["bucket", "simple"]), help="How keys are found."
)
@click.option("--keep", is_flag=True, help="Keep the table and the writers' notes, also if nothing is wrong.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as one JSON object; the rest goes to stderr.")
def torture(
    path: str | None,
    *,
    url: str | None,
    writers: int,
    seconds: float,
    kill: float,
    stop: float,
    spark: int,
    services: int,
    compactors: int,
    keys: int,
    rows: int,
    buckets: int,
    concurrency: str,
    table_type: str,
    index: str,
    keep: bool,
    as_json: bool,
) -> int:
    r"""Kill and stop real writers on one table at random, then account for every row.

    Writer processes upsert and delete the same keys, compactors, a rescuer and a reader work beside them. At the end
    the table is compared with what the writers noted: exit code 1 if a row is missing, wrong, doubled or was never
    published, or if a read in between saw half a commit. PATH is a new folder for the notes, and for the table
    unless --table says where that is; a table that is elsewhere stays there.

    \b
    Example:
      lakebraid torture --writers 8 --seconds 60 --kill 0.1 --stop 0.1
      lakebraid torture --table s3://bucket/new --services 1
      lakebraid torture --concurrency occ --table-type cow --index simple
    """
    folder = Path(path or tempfile.mkdtemp(prefix="lakebraid-torture-"))
    if path and folder.exists() and any(folder.iterdir()):
        raise lb.InvalidArgument(f"{folder} is not empty. Nothing was changed. Name a new folder.")
    storm = Storm(folder, keys, rows, kill, stop, concurrency, table_type, index, url or "")
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        _, verdict = rage(
            storm, seconds, writers=writers, spark=spark, services=services, compactors=compactors, buckets=buckets
        )
    is_kept = keep or path is not None or not verdict.is_clean
    if not is_kept:
        shutil.rmtree(folder)
    if as_json:
        facts = {"clean": verdict.is_clean, "kills": storm.kills, "stops": storm.stops, **asdict(verdict)}
        click.echo(json.dumps({**facts, "folder": str(folder) if is_kept else None}))
    elif is_kept:
        click.echo(f"notes: {folder}, table: {storm.table}")
    elif url:
        click.echo(f"table: {storm.table}")
    return 0 if verdict.is_clean else 1


Event = tuple[float, Callable[[lb.Table, Sequence[Actor]], str]]
"""Something to do when so much of the storm is over, from 0 to 1; what it gives is told."""


def rage(
    storm: Storm,
    seconds: float,
    *,
    writers: int,
    compactors: int,
    buckets: int,
    spark: int = 0,
    services: int = 0,
    events: Sequence[Event] = (),
) -> tuple[lb.Table, Verdict]:
    """Lets the storm loose on a new table in its folder, heals it, and accounts for every row; tells it as it goes."""
    if spark:
        on_spark.versions.check_version()  # a writer without Spark would look like one that lost its rows
    storm.folder.mkdir(parents=True, exist_ok=True)
    table = _make_table(storm, buckets)
    actors = [Actor("writer", n) for n in range(writers)] + [Actor(ON_SPARK, writers + n) for n in range(spark)]
    actors += [Actor("compactor", n) for n in range(compactors)] + [Actor("services", n) for n in range(services)]
    actors += [Actor("rescuer", 0), Actor("reader", 0)]
    with _ended(actors):
        _start_all(storm, actors)
        _disturb_all(storm, actors, seconds, [(at, partial(do, table, actors)) for at, do in events])
    click.echo("storm over; healing and looking at every row …")
    verdict = audit(table, storm.folder, seconds)
    _report(verdict, storm)
    return table, verdict


def _make_table(storm: Storm, buckets: int) -> lb.Table:
    return lb.Table.create(
        storm.table,
        SCHEMA,
        record_keys=["id"],
        ordering_fields=["ts"],
        concurrency=storm.concurrency,
        table_type=storm.table_type,
        index=storm.index,
        buckets=buckets,
        properties={"hoodie.client.heartbeat.interval_in_ms": "1000"},
    )


def _start_all(storm: Storm, actors: list[Actor]) -> None:
    """Those on Spark first: the others would be done with half of their work before these begin."""
    for is_first in (True, False):
        for actor in actors:
            if (actor.role == ON_SPARK) is is_first:
                storm.start(actor)
        while any(storm.is_starting(actor) for actor in actors):
            storm.clock.sleep(_STEP_SECONDS)


def _disturb_all(
    storm: Storm, actors: list[Actor], seconds: float, events: Sequence[tuple[float, Callable[[], str]]]
) -> None:
    waiting = sorted(events, key=lambda event: event[0])
    begun = storm.clock.monotonic()
    shown = 0.0
    while (elapsed := storm.clock.monotonic() - begun) < seconds:
        for actor in actors:
            storm.disturb(actor, storm.clock.monotonic())
        while waiting and elapsed >= waiting[0][0] * seconds:
            click.echo(f"{elapsed:4.0f} s  {waiting.pop(0)[1]()}")
        if elapsed - shown >= 5:
            shown = elapsed
            done = sum(path.read_bytes().count(b'"published"') for path in storm.folder.glob("writer-*.jsonl"))
            click.echo(f"{elapsed:4.0f} s  {done:,} commits  {storm.kills} kills  {storm.stops} stops")
        storm.clock.sleep(_STEP_SECONDS)


@contextlib.contextmanager
def _ended(actors: list[Actor]) -> Iterator[None]:
    """However the storm ends, no process of ours goes on: half are told to stop, half are killed."""
    try:
        yield
    finally:
        for actor in actors:
            if actor.process is not None and actor.process.poll() is None:
                os.kill(actor.process.pid, signal.SIGCONT)
                os.kill(actor.process.pid, signal.SIGKILL if actor.number % 2 else signal.SIGTERM)
        for actor in actors:
            if actor.process is not None:
                actor.process.wait()


def _report(verdict: Verdict, storm: Storm) -> None:
    rows = [("kills, stops", f"{storm.kills:,}, {storm.stops:,}"), *verdict.lines()]
    for line in columns(rows):
        click.echo(line)
    for problem in verdict.problems[:20]:
        click.echo(f"PROBLEM {problem}")
    if verdict.is_clean:
        click.echo("every acknowledged row is there, and nothing else")
    else:
        click.echo(f"{len(verdict.problems):,} problems")

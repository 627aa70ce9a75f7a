# SPDX-License-Identifier: Apache-2.0
"""All interleavings of a few processes on one table: at every storage call another one may go on, or the caller die.

The processes run the product's code; time stands still unless one of them makes it pass. Heartbeats are beaten when a
claim is made and never again, so a process that is overtaken by time looks dead to the others and is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebraid.errors import LakebraidError
from lakebraid.format.properties import parse_properties
from lakebraid.model.config import TableConfig, parse_config
from lakebraid.services.settings import Opened, ServiceSettings, parse_settings
from lakebraid.storage import Storage
from lakebraid.table.at import TableAt
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.heartbeat import Heartbeat
from lakebraid.txn.writer import Writing
from simulator.playing.reduction import Reduction
from simulator.world.schedule import Enumeration
from simulator.world.world import Process, World


@dataclass
class Actor:
    """One process: the table as it sees it."""

    process: Process
    opened: Opened

    @property
    def ledger(self) -> Ledger:
        return self.opened.ledger

    @property
    def writing(self) -> Writing:
        return self.opened.writing

    @property
    def storage(self) -> Any:
        return self.process.storage

    def let_pass(self, milliseconds: float) -> None:
        """Time passes for everybody, at a moment of the schedule's choosing."""
        self.process.world.point("sleep", "")
        self.process.world.now += milliseconds


Body = Callable[[Actor], Any]


@dataclass
class Played:
    """One schedule, and how it ended for each process: what it gave or raised; killed ones are missing."""

    world: World
    config: TableConfig
    settings: ServiceSettings
    ends: dict[str, Any] = field(default_factory=dict)
    ended_at: dict[str, int] = field(default_factory=dict)
    """How many calls had been made by all when it ended."""

    def ended_before(self, first: str, second: str) -> bool:
        """Whether the one was done, or dead, before the other made a call. A call is noted before it takes effect."""
        calls = [at for at, line in enumerate(self.world.trace) if line[2] == second]
        return bool(calls) and self.ended_at.get(first, len(self.world.trace)) <= calls[0]

    def afterwards(self, body: Body) -> Any:
        """What one more process gets, when all others are at rest."""
        self.world.is_storm = False
        return _run(self, "afterwards", body)


class NoHeartbeat(Heartbeat):
    """Beats no more after the claim."""

    def run(self) -> None:
        pass


class QuietWriting(Writing):
    """Without threads: what an actor executes is not heard of after the claim."""

    heartbeat = NoHeartbeat


def every_schedule(
    objects: Mapping[str, bytes],
    now_ms: int,
    bodies: Mapping[str, Body],
    *,
    switches: int,
    kills: int = 0,
    runs_max: int = 1_000_000,
    is_reduced: bool = True,
) -> Iterator[Played]:
    """Plays every schedule with at most so many switches and kills, on a table of these objects; the first `runs_max`.

    Without kills only one of those is played that differ in the order of calls which commute (simulator/playing/reduction.py).
    That shows every outcome, but not who was done first: then `is_reduced` must be False.
    """
    driver = Reduction(switches) if is_reduced and not kills else Enumeration(switches, kills)
    properties = parse_properties(objects[".hoodie/hoodie.properties"], "objects")
    config, settings = parse_config(properties, "objects"), parse_settings(properties)
    for _ in range(runs_max):
        played = Played(World(0, driver, call_ms=0), config, settings)
        played.world.now = float(now_ms)
        for name, data in objects.items():
            played.world.disk.create(name, data)
        _run_all(played, bodies)
        yield played
        if not driver.restart():
            return


def objects_of(storage: Storage) -> dict[str, bytes]:
    return {info.name: storage.read(info.name, 1 << 30) for info in storage.list()}


def _run_all(played: Played, bodies: Mapping[str, Body]) -> None:
    for label, body in bodies.items():
        _spawn(played, label, body)
    played.world.run()
    assert played.world.failure is None, played.world.failure


def _run(played: Played, label: str, body: Body) -> Any:
    _spawn(played, label, body)
    played.world.run()
    assert played.world.failure is None, played.world.failure
    return played.ends.pop(label)


def _spawn(played: Played, label: str, body: Body) -> None:
    process = Process(played.world, label)

    def run() -> None:
        ledger = Ledger(TableAt(process.storage, played.config, process.clock))
        actor = Actor(process, Opened(QuietWriting(process.storage, process.clock), ledger, played.settings))
        try:
            played.ends[label] = body(actor)
        except LakebraidError as error:
            played.ends[label] = error
        finally:
            played.ended_at[label] = len(played.world.trace)

    played.world.spawn(process, label, run)

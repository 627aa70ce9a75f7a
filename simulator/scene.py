# SPDX-License-Identifier: Apache-2.0
"""One history from draw to audit: storm, healing, audit, with everybody who takes part."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from lakebraid import limits
from lakebraid.txn.ledger.entries import LEDGER, parse_entry, parse_entry_name
from simulator.actors import cast, lease, placing, writing
from simulator.checkers import ALL
from simulator.oracle import Oracle, Rows
from simulator.setting import Setting
from simulator.stand_ins import product
from simulator.stand_ins.tasks import group_of
from simulator.world.schedule import Driver, Mark
from simulator.world.tables import Plain, make_table, plain_table
from simulator.world.violation import Violation
from simulator.world.world import Line, Process, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a history ended."""

    setting: Setting
    failure: Violation | None
    tape: tuple[Mark, ...]
    trace: list[Line]
    steps: int
    published: int
    marks: dict[str, int]
    """Rare things that were reached, and how often."""


class Scene:
    """What actors and checkers share: the world, the oracle, the table's settings."""

    def __init__(self, setting: Setting, driver: Driver | None = None, only: str | None = None) -> None:
        self.setting = setting
        # Whoever waits for Hudi's lock asks for it ten times a second: with many actors most calls are of that kind.
        steps_max = 80_000 if setting.shared else 20_000
        self.world = World(setting.seed, driver or setting.driver(), call_ms=setting.call_ms, steps_max=steps_max)
        self.world.is_any_order = setting.grouped
        self.world.timeout_ms = setting.timeout_ms
        self.oracle = Oracle(lambda: self.world.now, lambda: self.world.step, by_event=setting.by_event)
        self.oracle.is_serial, self.oracle.retained = setting.cow, setting.retained
        self.oracle.partition_of = lambda key: group_of(key, setting.partitions, setting.buckets)[0]
        self.checkers = [kind(self.oracle) for kind in ALL if only is None or kind.__name__ == only]
        self.table: Plain = plain_table(
            by_event=setting.by_event,
            shared=setting.shared,
            fixed=setting.fixed,
            placed=setting.placed,
            gives_way=setting.gives_way,
            cow=setting.cow,
            captures=setting.captures,
            optimistic=setting.optimistic,
            grouped=setting.grouped,
            metadata=setting.metadata,
        )
        self.lock_owners = product.lock_owners(self)
        self.marks: dict[str, int] = {}
        self.condemned_by_hudi: set[str] = set()
        self.hudi_executors: dict[str, str] = {}
        """Which job of Hudi was the last to take a plan on itself: it rolled back the attempt of the one before."""
        self.lease_ms = 2 * setting.timeout_ms
        self.held: dict[str, tuple[Process, str]] = {}
        """Leases by their tokens: who holds which moment."""
        self.batches: dict[str, tuple[str, int]] = {}
        """By the request time of their write: whose batch, and which."""
        self.positions: dict[str, str] = {}
        """Of named consumers."""
        self.savepoints: dict[str, str] = {}
        """Request times of writes whose moment is kept, and the moment."""
        self.let_go: set[str] = set()
        """When those savepoints were set that somebody has deleted."""
        self.mirrored: dict[str, tuple[str, Rows]] = {}
        for checker in self.checkers:
            checker.scene = self
        self.oracle.listeners = list(self.checkers)
        self._effects = [c.effect for c in self.checkers if hasattr(c, "effect")]
        self._ledgers = [c.in_ledger for c in self.checkers if hasattr(c, "in_ledger")]
        self.world.observers = [self.oracle.observe, self._observe]
        self.oracle.who = self.world.who

    def tell(self, what: str, *facts: Any, **named: Any) -> None:
        """Tells the checkers what an actor saw."""
        for checker in self.checkers:
            hook = getattr(checker, what, None)
            if hook is not None:
                hook(*facts, **named)

    def mark(self, what: str) -> None:
        self.marks[what] = self.marks.get(what, 0) + 1

    def open_request_times(self) -> list[str]:
        """Writes whose files are neither published nor condemned."""
        known = self.oracle
        return [
            s for s in known.intents if s not in known.published and s not in known.sentenced and s not in known.undone
        ]

    def is_held(self, token: str) -> bool:
        """Whether a lease protects: its holder lives and was never silent for too long."""
        if token not in self.held or self.held[token][0].is_dead:
            return False
        moments = [*self.oracle.leases_ms.get(token, []), self.world.now]
        return max(b - a for a, b in pairwise(moments)) < self.lease_ms if len(moments) > 1 else False

    def held_moments(self) -> list[tuple[str, str]]:
        """Who holds which moment."""
        leases = [(process.name, time) for token, (process, time) in self.held.items() if self.is_held(token)]
        return [*leases, *self.positions.items()]

    def start_mirror(self, name: str, position: str) -> None:
        """A copy that begins as the table was at a time."""
        self.mirrored[name] = (position, dict(self.oracle.table(position)))

    def removable_plans(self) -> set[str]:
        """Request times of plans that may be executed once, by the newest entry of the ledger."""
        names = [info.name for info in self.world.disk.scan(f"{LEDGER}/")]
        newest = max((name for name in names if parse_entry_name(name) is not None), default=None)
        if newest is None:
            return set()
        state = parse_entry(self.world.disk.objects[newest][0], newest).state
        return {request_time for request_time, plan in state.plans.items() if plan.is_removable}

    def was_cleaned(self, text: str) -> bool:
        """Whether an error speaks of a file that a clean or restore removed: then a reader without a lease was too slow."""
        return any(name in text for name in self.oracle.doomed) or any(
            request_time in text for request_time in self.oracle.undone
        )

    def mirrors(self) -> Iterator[tuple[str, str, Rows]]:
        for name, (position, rows) in self.mirrored.items():
            yield name, position, rows

    def run(self) -> Outcome:
        with patch.multiple(limits, **_bounds(self.setting)), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for phase in (self._prepare, self._storm, self._heal, self._audit):
                if self.world.failure is None:
                    self._guarded(phase)
            self.world.stop()
        world = self.world
        published = len(self.oracle.published)
        return Outcome(self.setting, world.failure, tuple(world.tape), world.trace, world.step, published, self.marks)

    def _guarded(self, phase: Callable[[], None]) -> None:
        try:
            phase()
        except Violation as violation:
            self.world.fail(violation)

    def _prepare(self) -> None:
        self.world.is_storm = False
        founder = Process(self.world, "founder")
        make_table(self.world.disk, self.table)
        body = placing.found if self.setting.placed else writing.found
        body = lease.found if self.setting.protocol == "lease" else body
        self.world.spawn(founder, "founder", lambda: body(self, founder))
        self.world.run()

    def _storm(self) -> None:
        setting, world = self.setting, self.world
        world.is_storm = True
        players = lease.ACTORS if setting.protocol == "lease" else cast.ACTORS
        for name, kind, rounds in setting.names():
            if kind == "nobody":  # taken out by shrinking; the others keep their names
                continue
            rng = world.derived(f"clock of {name}")
            skew, drift = rng.randint(-setting.skew_ms, setting.skew_ms), rng.uniform(-setting.drift, setting.drift)
            process = Process(world, name, skew, drift)
            body = players[kind]
            world.spawn(process, name, partial(body, self, process, rounds))
        world.run()

    def _heal(self) -> None:
        world = self.world
        world.is_storm = False
        world.disk.full_until = 0.0
        world.steps_max = world.step + 6000
        world.now += 3 * self.setting.timeout_ms + self.setting.skew_ms
        world.note("heal", "", "")
        healer = Process(world, "healer")
        body = lease.heal if self.setting.protocol == "lease" else cast.heal
        world.spawn(healer, "healer", lambda: body(self, healer))
        world.run()

    def _audit(self) -> None:
        world = self.world
        auditor = Process(world, "auditor")
        world.spawn(auditor, "auditor", lambda: cast.audit(self, auditor))
        world.run()
        if world.failure is None:
            self.tell("healed", self)

    def _observe(self, what: str, name: str, data: bytes) -> None:
        if not name.startswith(".hoodie"):
            for effect in self._effects:
                effect(what, name)
            return
        for in_ledger in self._ledgers:
            in_ledger(what, name, data)


def _bounds(setting: Setting) -> dict[str, Any]:
    """The product's bounds, small enough for the rare to happen."""
    return {
        "LEDGER_ENTRIES_KEPT": setting.entries_kept,
        "STAGED_HELD_MAX": setting.staged_held,
        "HEARTBEAT_TIMEOUT_MS": setting.timeout_ms,
        "LEASE_MS": 2 * setting.timeout_ms,
        "PLAN_ROLLBACK_DELAY_MS": setting.timeout_ms,
        "GONE_MS": setting.gone_ms,
        "HISTORY_MERGE_FILES": 3,
        "ARCHIVE_BATCH_INSTANTS": 3,
        "CLEAN_FILES_MAX": setting.clean_files,
        "ASK_ENTRIES_MAX": setting.ask_entries,
        "ASKS_DECIDED_MAX": setting.asks_decided,
        "AHEAD_IDLE_SECONDS": setting.timeout_ms / 4000,
        "METADATA_KEPT_MS": setting.timeout_ms,
        "METADATA_SLICES_KEPT": 1,
        "ASK_CALL_SECONDS_MIN": 0.0 if setting.eager else float("inf"),
    }


def run_history(setting: Setting, driver: Driver | None = None, only: str | None = None) -> Outcome:
    """Plays one history. `only` names the one checker that watches; all of them do otherwise."""
    return Scene(setting, driver, only).run()

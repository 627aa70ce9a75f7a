# SPDX-License-Identifier: Apache-2.0
"""The part of the timeline that a commit looks at says the same as the whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import pytest

from lakebraid.clock import SystemClock
from lakebraid.format.names import State, TimelineFileName, parse_timeline_file
from lakebraid.format.timeline.rollbacks import (
    InstantInfo,
    RestorePlan,
    RollbackPlan,
    format_restore_plan,
    format_rollback_plan,
)
from lakebraid.model.conflicts import PENDING, Begun, Strategy, candidates
from lakebraid.model.timeline import timeline as timeline_module
from lakebraid.model.timeline.timeline import Timeline, build_timeline, recent_names
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_names, load_timeline, recent_timeline
from lakebraid.txn.hudi import reconcile
from lakebraid.txn.hudi.reconcile import mind_others, pending_writes
from lakebraid.txn.ledger.entries import LedgerState, OpenWrite, PendingPlan
from lakebraid.writing.request import WriteRequest
from tests.kit.models.hudi_model import CONFIG
from tests.kit.tables.scene import TickingClock, make_table, row

pytestmark = pytest.mark.unit

ENDS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
ACTIONS = ["deltacommit", "commit", "replacecommit", *ENDS, "clean", "rollback", "restore"]
MOMENTS = 60
ODD = [
    "20260101000000.deltacommit.requested",
    "20260101000000_20260101000001.commit",
    *(f"20260101{at:09d}_0-{0:015d}.commit" for at in range(0, MOMENTS, 2)),
    "hoodie.properties",
]


def time(at: int) -> str:
    return f"20260101{at:09d}"


@dataclass(frozen=True)
class Deed:
    """One action, when it began and ended, which of its files are there, and when a savepoint was set at its request time."""

    action: str
    request_time: int
    end: int
    files: int = 2
    pinned: int | None = None
    is_archived: bool = False

    def names(self, now: int) -> Iterator[str]:
        if self.request_time > now or (self.is_archived and self.end <= now):
            return
        for state in (State.REQUESTED, State.INFLIGHT)[: self.files]:
            yield TimelineFileName(time(self.request_time), None, self.action, state).format()
        if self.end <= now:
            done = ENDS.get(self.action, self.action)
            yield TimelineFileName(time(self.request_time), time(self.end), done, State.COMPLETED).format()
        if self.pinned is not None:
            yield TimelineFileName(time(self.request_time), None, "savepoint", State.INFLIGHT).format()
            yield TimelineFileName(time(self.request_time), time(self.pinned), "savepoint", State.COMPLETED).format()


def drawn(chance: Random, actions: list[str] = ACTIONS) -> list[Deed]:
    """Late finishers, services, rollbacks of old instants, pinned and archived ones: all of them overlap as they like."""
    return [
        Deed(
            chance.choice(actions),
            request_time,
            request_time + chance.choice((1, 3, chance.randrange(1, MOMENTS), 1000)),
            chance.choice((1, 2, 2)),
            request_time + chance.randrange(9) if chance.random() < 0.2 else None,
            chance.random() < 0.2,
        )
        for request_time in chance.sample(range(MOMENTS), chance.randrange(15))
    ]


def pending_at(done: list[Deed], moment: int) -> frozenset[str]:
    return frozenset(time(d.request_time) for d in done if d.request_time < moment < d.end)


@pytest.mark.parametrize("has_seen_all", [True, False])
def test_the_shortened_look_finds_the_rivals_that_the_whole_one_finds(has_seen_all: bool) -> None:
    """Unless it has seen all, what was under way at the beginning was not known: by completion that counts as well."""
    for seed in range(500):
        chance = Random(seed)
        done, moment = drawn(chance), chance.randrange(MOMENTS)
        now = moment + chance.randrange(MOMENTS)
        names = [name for deed in done for name in deed.names(now)] + chance.sample(ODD, 5)
        begun = Begun(time(moment), pending_at(done, moment) if has_seen_all else frozenset())
        whole, recent = (
            build_timeline(names),
            build_timeline(recent_names(names, begun.request_time, begun.pending or ())),
        )
        for strategy, kind, allowed in product(Strategy, PENDING, (False, True)):
            short, full = (
                list(candidates(timeline, begun, kind, strategy, updates_allowed=allowed))
                for timeline in (recent, whole)
            )
            assert short == full, seed
        assert recent.first_active_write == whole.first_active_write, seed
        assert pending_writes(recent) == pending_writes(whole), seed
        since = [[i for i in t.writes if (i.completion_time or "") > begun.request_time] for t in (recent, whole)]
        assert since[0] == since[1], seed


def stored(done: list[Deed], now: int) -> MemoryStorage:
    storage = MemoryStorage("t")
    for deed in done:
        for name in deed.names(now):
            data = b""
            if name.endswith(".rollback.requested"):
                victim = InstantInfo(
                    time(max((d.request_time for d in done if d.request_time < deed.request_time), default=0)),
                    "deltacommit",
                )
                data = format_rollback_plan(RollbackPlan(victim), "t")
            storage.create(f"{CONFIG.timeline_folder}/{name}", data)
    return storage


def test_what_hudi_did_meanwhile_is_seen_in_the_shortened_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(table: TableAt, _: LedgerState) -> Timeline:
        return load_timeline(table)

    for seed in range(400):
        chance = Random(seed)
        done, now = drawn(chance, [a for a in ACTIONS if a != "restore"]), chance.randrange(2 * MOMENTS)
        storage, known = stored(done, now), [d.request_time for d in done if chance.random() < 0.5]
        claims = [(time(s), chance.choice(("", "c"))) for s in known if s % 2]
        state = LedgerState(
            last=time(chance.randrange(2 * MOMENTS)),
            open={time(s): OpenWrite("x", "deltacommit") for s in known if s % 2 == 0},
            plans={s: PendingPlan("compaction", "p", 1, claimant, claimed_at=s) for s, claimant in claims},
        )
        short = mind_others(TableAt(storage, CONFIG, SystemClock()), state)
        with monkeypatch.context() as patched:
            patched.setattr(reconcile, "_timeline_beside", whole)
            assert short == mind_others(TableAt(storage, CONFIG, SystemClock()), state), seed


def shortened(storage: MemoryStorage, since: str = time(9)) -> Timeline | None:
    table = TableAt(storage, CONFIG, SystemClock())
    return recent_timeline(table, load_names(table), since)


def test_while_a_restore_is_unfinished_the_whole_timeline_counts() -> None:
    storage = stored([Deed("deltacommit", 1, 2), Deed("restore", 3, 4)], 5)
    assert shortened(storage) is not None
    plan = format_restore_plan(RestorePlan((InstantInfo(time(1), "deltacommit"),), time(0)))
    storage.create(f"{CONFIG.timeline_folder}/{time(6)}.restore.requested", plan)
    assert shortened(storage) is None


def test_where_completion_times_are_not_in_the_names_the_whole_timeline_counts() -> None:
    storage = stored([Deed("deltacommit", 1, 2)], 5)
    storage.create(f"{CONFIG.timeline_folder}/{time(0)}.commit", b"{}")
    assert shortened(storage) is None


@pytest.mark.parametrize("concurrency", ["occ", "nbcc"])
def test_a_commit_interprets_as_many_names_on_a_long_timeline_as_on_a_short_one(
    concurrency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def parse(name: str, layout: int = 2) -> Any:
        seen.append(name)
        return parse_timeline_file(name, layout)

    monkeypatch.setattr(timeline_module, "parse_timeline_file", parse)
    clock = TickingClock()
    table = make_table(MemoryStorage("memory://t", clock), clock, concurrency=concurrency)
    counts, written = [], 0
    for length in (2, 30):
        while written < length:
            table.upsert([row("a", "x", written)])
            written += 1
        seen.clear()
        with table._destination.begin(WriteRequest("upsert", is_isolated=True)) as changing:
            changing.write([row("b", "y")])
        counts.append(len(seen))
    assert 0 < counts[0] == counts[1] < 20

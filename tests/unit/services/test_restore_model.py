# SPDX-License-Identifier: Apache-2.0
"""Random histories of writes, services, savepoints and restores, held against a naive model after every step.

The model is a list of writes: a restore drops those that completed after its moment. Nothing else changes an answer.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from lakebraid.errors import ClaimLost, CommitRefused, InvalidArgument, SnapshotExpired
from lakebraid.services.merging.compaction import COMPACTION, plan_compaction
from lakebraid.services.settings import Opened, open_table
from lakebraid.txn.actions.restore import decide_restore
from tests.kit.tables.scene import Scene, Write, answer, row

pytestmark = [pytest.mark.unit, pytest.mark.slow]

KEYS = ("a", "b", "c")


@dataclass
class Story:
    """A table, what its users know, and dice."""

    seed: int
    lost: list[Write] = field(default_factory=list)
    open: list[Write] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)
    savepoints: dict[str, str] = field(default_factory=dict)
    """Request time and completion of what is kept."""
    unreadable_before: str = ""
    """Up to here cleans may have taken versions, but for savepoints."""
    is_archived: bool = False
    restores: int = 0
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.s = Scene(by_event=self.dice.random() < 0.5)
        self.s.write(row("a", "first"))

    def play(self, steps: int) -> None:
        kinds = ["write"] * 5 + ["begin", "commit", "delete", "compact", "compact", "plan", "run", "clean", "savepoint"]
        kinds += ["unpin"] * 3 + ["restore"] * 4 + ["leave_restore"] * 2 + ["archive", "rollback"]
        for _ in range(steps):
            kind = self.dice.choice(kinds)
            self.log.append(kind)
            getattr(self, kind)()
            self.check()

    def rows(self) -> list[dict[str, object]]:
        keys = self.dice.sample(KEYS, self.dice.randint(1, 2))
        return [row(key, f"v{len(self.log)}", self.dice.randint(1, 9)) for key in keys]

    def write(self) -> None:
        self.s.write(*self.rows())

    def delete(self) -> None:
        self.s.write(*self.rows(), kind="delete")

    def begin(self) -> None:
        write = self.s.begin(*self.rows())
        write.transaction._heartbeat.stop()
        self.open.append(write)

    def commit(self) -> None:
        if self.open:
            self.s.commit(self.open.pop(self.dice.randrange(len(self.open))))

    def compact(self) -> None:
        self.s.compact()

    def plan(self) -> None:
        request_time = plan_compaction(open_table(self.s.table._writing).ledger)
        self.plans += [request_time] if request_time is not None else []

    def run(self) -> None:
        if self.plans:
            request_time = self.plans.pop(0)
            try:
                done = COMPACTION.run(
                    Opened(self.s.table._writing, open_table(self.s.table._writing).ledger), request_time
                )
            except (ClaimLost, CommitRefused):
                return  # compact() was faster
            self.s.services.append(done.completion_time)

    def clean(self) -> None:
        if self.s.table.clean(versions=self.dice.randint(1, 2)).files:
            self.unreadable_before = max(self.s.completions())

    def archive(self) -> None:
        if self.dice.random() < 0.3:
            self.is_archived |= bool(self.s.table.archive(keep_min=2, keep_max=3).instants)

    def rollback(self) -> None:
        for write in self.open:
            self.s.writes.remove(write)
        self.s.table.rollback(timeout_seconds=0)
        for write in self.open:
            with pytest.raises(CommitRefused):
                write.transaction.commit()
        self.open = []

    def savepoint(self) -> None:
        kept = self.s.table.savepoint()
        self.savepoints[kept.instant] = kept.completion_time

    def unpin(self) -> None:
        if self.savepoints:
            request_time = self.dice.choice(sorted(self.savepoints))
            assert self.s.table.delete_savepoint(request_time)
            moment = self.savepoints.pop(request_time)
            self.unreadable_before = max(self.unreadable_before, moment)

    def restore(self, *, is_left: bool = False) -> None:
        done = [w for w in self.s.writes if w.completion]
        to = self.dice.choice([*(w.request_time for w in done), *(w.completion or "" for w in done), *self.savepoints])
        until = next((w.completion or "" for w in done if w.request_time == to), self.savepoints.get(to, to))
        is_easy = to in self.savepoints and not self.is_archived
        is_easy = is_easy and not any(moment > until for moment in self.savepoints.values())
        try:
            if is_left:
                decide_restore(open_table(self.s.table._writing).ledger, f"dead {len(self.log)}", to)
            else:
                self.s.table.restore(to)
        except (InvalidArgument, SnapshotExpired):
            assert not is_easy, "the way back to the last savepoint is open, whatever was cleaned"
            return
        self.log[-1] += f" to {until}"
        if any(c > until for c in self.s.completions()):
            self.forget(until)

    def leave_restore(self) -> None:
        self.restore(is_left=True)

    def forget(self, until: str) -> None:
        self.restores += 1
        gone = [w for w in self.s.writes if w.completion is None or w.completion > until]
        self.lost += [w for w in gone if w.completion]
        self.s.writes = [w for w in self.s.writes if w not in gone]
        self.s.services = [c for c in self.s.services if c <= until]
        for write in self.open:
            with pytest.raises(CommitRefused):
                write.transaction.commit()
        self.open, self.plans = [], []

    def check(self) -> None:
        s = self.s
        assert {r["id"]: r for r in s.table.to_arrow().to_pylist()} == s.model("9")
        assert {k.instant for k in s.table.savepoints()} == {*self.savepoints}
        moments = {*self.dice.sample(s.completions(), min(3, len(s.completions()))), *self.savepoints.values()}
        for moment in sorted(moments):
            is_kept = moment in self.savepoints.values()
            try:
                rows = {r["id"]: r for r in s.table.to_arrow(as_of=moment).to_pylist()}
            except SnapshotExpired:
                assert not is_kept and moment <= self.unreadable_before, f"{moment} should be there"
                continue
            assert rows == s.model(moment), f"as of {moment}"
        for write in self.lost[-1:]:
            with pytest.raises(SnapshotExpired):
                answer(s.table, write.completion)
            assert s.table.status(write.request_time) == "refused"


@pytest.mark.parametrize("seed", range(8))
def test_every_history_of_writes_services_savepoints_and_restores_reads_as_the_model_says(seed: int) -> None:
    story = Story(seed)
    try:
        story.play(24)
    except BaseException:
        print("\n".join(story.log))
        raise


def test_the_histories_hold_enough_restores_to_mean_something() -> None:
    stories = [Story(seed) for seed in range(100, 103)]
    for story in stories:
        story.play(24)
    assert sum(story.restores for story in stories) > 4

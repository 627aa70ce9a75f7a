# SPDX-License-Identifier: Apache-2.0
"""Partial updates make the join of what was written: whoever comes first, whatever is merged when, in every kind of table.

Random writers of whole rows, of some columns, and of deletes of both kinds overlap, with ordering values in any order;
services run in between. After every step the table is what `tests.kit.models.joined` says, also as of every moment of the past.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from lakebraid.api.table import Table
from lakebraid.errors import LakebraidError, WriteConflict
from lakebraid.model.merge_rules import MergeRules
from lakebraid.storage.memory import MemoryStorage
from lakebraid.tasks.merging import compact
from lakebraid.tasks.reading import columns, merge
from lakebraid.writing.transaction import Transaction
from tests.kit.effort import played, seeds
from tests.kit.models.joined import Row, Rule, Version, joined
from tests.kit.tables.scene import TickingClock, make_table

pytestmark = pytest.mark.unit

DDL = "id string, ts bigint, a string, b string, c string, ta bigint, tb bigint"
COLUMNS = ("id", "ts", "a", "b", "c", "ta", "tb")
KEYS = ("k1", "k2", "k3")
BY_EVENT = Rule("ts")
BY_TIME = Rule()
IN_GROUPS = Rule(groups={"ta": ["a", "c"], "tb": ["b"]})
RULES = {"event": BY_EVENT, "time": BY_TIME, "groups": IN_GROUPS}
KINDS: dict[str, dict[str, Any]] = {
    "buckets": {"buckets": 1},
    "two buckets": {"buckets": 2},
    "looked up": {"index": "simple", "buckets": 1},
    "copy-on-write": {"table_type": "cow", "buckets": 1},
    "copy-on-write, looked up": {"table_type": "cow", "index": "simple", "buckets": 1},
}


@dataclass
class Writer:
    """A write that is open."""

    transaction: Transaction
    rows: list[Row]
    columns: tuple[str, ...] | None
    is_delete: bool


@dataclass
class Life:
    """A table, the writers at it, and every version that was published."""

    rule: Rule
    kind: str
    chance: random.Random
    versions: dict[str, list[tuple[str, Version]]] = field(default_factory=dict)
    """By key, with the completion time."""
    moments: list[str] = field(default_factory=list)
    open: list[Writer] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock = TickingClock()
        ordering: Any = dict(self.rule.groups) or self.rule.ordering
        self.table: Table = make_table(
            MemoryStorage("memory://join", clock), clock, DDL, ordering_fields=ordering, **KINDS[self.kind]
        )
        self.values = (f"v{n}" for n in itertools.count())

    @property
    def is_optimistic(self) -> bool:
        """Whether writers get along by the order in which they are published; here one follows the other."""
        return self.kind not in ("buckets", "two buckets")

    @property
    def ordered_deletes(self) -> list[str]:
        """A row that comes again after its delete may come to another file group, where nobody knows of the delete."""
        return [] if self.kind == "looked up" else ["delete at"]

    def step(self) -> None:
        acts = [self.begin, self.begin, self.commit, self.commit, self.commit, self.compact, self.other_service]
        self.chance.choice(acts)()
        self.check("9")

    def begin(self) -> None:
        if len(self.open) == (1 if self.is_optimistic else 3):
            return
        shape = self.chance.choice(["whole", "a", "b", "ac", "bc", "delete", *self.ordered_deletes])
        is_delete = shape.startswith("delete")
        columns = None if shape == "whole" or is_delete else self._columns(shape)
        try:
            transaction = self.table.begin("delete" if is_delete else "upsert", columns=columns)
        except LakebraidError as error:
            self.told.append(f"not begun: {error!s:.80}")
            return
        keys = self.chance.sample(KEYS, self.chance.randint(1, 2))
        rows = [self._row(key, columns or COLUMNS, is_delete, with_order=shape == "delete at") for key in keys]
        self.open.append(Writer(transaction, rows, columns, is_delete))
        self.told.append(f"{transaction.instant} begins {shape}: {rows}")

    def _columns(self, shape: str) -> tuple[str, ...]:
        own = [*shape]
        clocks = {self.rule.clock(name) for name in own} - {None}
        return ("id", *sorted(c for c in clocks if c), *own)

    def _row(self, key: str, columns: tuple[str, ...], is_delete: bool, with_order: bool) -> Row:
        if is_delete:
            return {"id": key} | ({"ts": self.chance.randint(1, 5)} if with_order and self.rule.ordering else {})
        numbers = ("ts", "ta", "tb")
        rest = {n: self.chance.randint(1, 5) if n in numbers else next(self.values) for n in columns if n != "id"}
        return {"id": key} | rest

    def commit(self) -> None:
        if not self.open:
            return
        writer = self.open.pop(self.chance.randrange(len(self.open)))
        try:
            writer.transaction.write(writer.rows)
            done = writer.transaction.commit()
        except WriteConflict:
            self.told.append(f"{writer.transaction.instant} is refused")
            return
        self.told.append(f"{done.instant} is published")
        for place, row in enumerate(writer.rows):
            version = Version(done.instant, place, {} if writer.is_delete else row, writer.is_delete, row.get("ts"))
            self.versions.setdefault(row["id"], []).append((done.completion_time, version))
        self.moments.append(done.completion_time)

    def compact(self) -> None:
        self.moments += [done.completion_time for done in self.table.compact()]
        self.told.append("compacted")

    def other_service(self) -> None:
        service = self.chance.choice(["log_compact", "cluster"])
        try:
            done = self.table.log_compact(logs_min=2) if service == "log_compact" else self.table.cluster()
        except LakebraidError as error:  # not every kind of table has each of them
            self.told.append(f"no {service}: {error!s:.80}")
        else:
            self.told.append(f"{service}: {done}")

    def model(self, moment: str) -> dict[str, Row]:
        rows = {}
        for key, published in self.versions.items():
            seen = [v for done, v in published if done <= moment]
            row = joined(self._remembered(seen), COLUMNS, self.rule)
            if row is not None:
                rows[key] = row
        return rows

    def _remembered(self, versions: list[Version]) -> list[Version]:
        """Copy-on-write tables have no place for the delete of a row that is gone: what comes later opens it anew."""
        first = 0
        for stop in range(1, len(versions) + 1 if self.kind.startswith("copy-on-write") else 0):
            if joined(versions[first:stop], COLUMNS, self.rule) is None:
                first = stop
        return versions[first:]

    def check(self, moment: str) -> None:
        seen = self.table.to_arrow() if moment == "9" else self.table.to_arrow(as_of=moment)
        found = {row["id"]: row for row in seen.to_pylist()}
        assert len(found) == seen.num_rows, self.story("a key comes twice")
        assert found == self.model(moment), self.story(f"as of {moment}")

    def story(self, what: str) -> str:
        return "\n".join([what, *self.told, f"found {self.table.to_arrow().to_pylist()}", f"model {self.model('9')}"])


def live(rule: str, kind: str, seed: int, *, is_long: bool = True) -> None:
    """A life of so many steps; every moment of it is looked at once more at the end."""
    life = Life(RULES[rule], kind, random.Random(f"{rule} {kind} {seed}"))
    for _ in range(25):
        life.step()
    if is_long:
        for moment in life.moments:
            life.check(moment)
        life.table.compact()
        life.check("9")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_a_table_is_the_join_of_its_versions_whatever_service_runs_when(rule: str, kind: str) -> None:
    for seed in played(seeds(5)):
        live(rule, kind, seed)


def _no_ranks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compact.MergeContext, "keeping", lambda self: None)


def _no_ranks_of_deletes(patch: pytest.MonkeyPatch) -> None:
    real = columns._winning

    def wrong(below: Any, upper: Any, wins: Any, has: Any, *rest: Any) -> Any:
        return replace(real(below, upper, wins, has, *rest), known=wins | has)

    patch.setattr(columns, "_winning", wrong)


def _losers_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(columns.Keeping, "since", property(lambda self: np.iinfo(np.int64).max))


def _times_forgotten(patch: pytest.MonkeyPatch) -> None:
    real: Any = columns._noted
    patch.setattr(columns, "_noted", lambda *args: real(*args[:4], np.zeros(len(args[4]), np.bool_), *args[5:]))


def _base_rows_outlive_deletes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(merge, "_cut_times", lambda codes, versions, count: np.full(count, -1, np.int64))


def _ranks_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(columns, "kept_ranks", lambda rows, rules: [])


def _groups_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MergeRules, "clock", lambda self, column: self.order_columns)


def whole(ts: int, text: str) -> Row:
    return {"id": "k1", "ts": ts, "a": text, "b": text, "c": text, "ta": 0, "tb": 0}


def gone(table: Table, **order: int) -> None:
    delete = table.begin("delete")
    delete.write([{"id": "k1"} | order])
    delete.commit()


def after_a_delete_without_ordering_value(table: Table) -> Row:
    """The row in the base file does not come back, however low the new one's ordering value."""
    table.upsert([whole(10, "old")])
    table.compact()
    gone(table)
    table.upsert([whole(5, "new")])
    return whole(5, "new")


def beside_an_open_delete_without_ordering_value(table: Table) -> Row:
    """It takes what began before it and would have won, so what had lost must still be there."""
    table.upsert([whole(10, "before")])
    delete = table.begin("delete")
    table.upsert([whole(5, "after")])
    table.compact()
    delete.write([{"id": "k1"}])
    delete.commit()
    return whole(5, "after")


def with_equal_ordering_values_beside_an_open_write(table: Table) -> Row:
    """The row is as new as its newest column; the open write is newer than the other columns."""
    table.upsert([whole(1, "first")])
    slow = table.begin(columns=("id", "ts", "b"))
    table.upsert([{"id": "k1", "ts": 1, "a": "fast"}], columns=["id", "ts", "a"])
    table.compact()
    slow.write([{"id": "k1", "ts": 1, "b": "slow"}])
    slow.commit()
    return whole(1, "first") | {"a": "fast", "b": "slow"}


def opened_above_a_delete(table: Table) -> Row:
    """What the delete took stays away, though an update of another column is newer than the delete."""
    table.upsert([whole(3, "old")])
    gone(table, ts=5)
    table.upsert([{"id": "k1", "ts": 7, "a": "new"}], columns=["id", "ts", "a"])
    table.compact()
    table.upsert([whole(4, "late")])
    return dict.fromkeys(COLUMNS) | {"id": "k1", "ts": 7, "a": "new"}


def out_of_order_across_a_compaction(table: Table) -> Row:
    """The stream of column b is late; that of column a has a greater ordering value by then."""
    table.upsert([whole(1, "first")])
    table.upsert([{"id": "k1", "ts": 10, "a": "A"}], columns=["id", "ts", "a"])
    table.compact()
    table.upsert([{"id": "k1", "ts": 5, "b": "B"}], columns=["id", "ts", "b"])
    return whole(10, "first") | {"a": "A", "b": "B"}


def with_columns_that_came_later(table: Table) -> Row:
    """The update that opened the row could not name a column that the table did not have yet; a whole row did."""
    table.upsert([{"id": "k1", "ts": 7, "a": "new"}], columns=["id", "ts", "a"])
    table.compact()
    table.upsert([whole(4, "late") | {"n": "n"}])
    table.upsert([whole(5, "later")])
    return whole(7, "later") | {"a": "new", "n": None}


SCHEDULES: list[Callable[[Table], Row]] = [
    after_a_delete_without_ordering_value,
    beside_an_open_delete_without_ordering_value,
    with_equal_ordering_values_beside_an_open_write,
    opened_above_a_delete,
    out_of_order_across_a_compaction,
    with_columns_that_came_later,
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_no_service_changes_the_answer(schedule: Callable[[Table], Row]) -> None:
    table = Life(BY_EVENT, "buckets", random.Random(0)).table
    expected = schedule(table)
    assert table.to_arrow().to_pylist() == [expected]
    table.compact()
    assert table.to_arrow().to_pylist() == [expected]
    assert table.to_arrow(mode="read_optimized").to_pylist() == [expected], (
        "what Apache Hudi reads after our compaction"
    )


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], Callable[[Table], Row]] = {
    _no_ranks: out_of_order_across_a_compaction,
    _no_ranks_of_deletes: opened_above_a_delete,
    _losers_forgotten: beside_an_open_delete_without_ordering_value,
    _times_forgotten: with_equal_ordering_values_beside_an_open_write,
    _base_rows_outlive_deletes: after_a_delete_without_ordering_value,
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    table = Life(BY_EVENT, "buckets", random.Random(0)).table
    expected = PLANTED[plant](table)
    assert table.to_arrow().to_pylist() != [expected]


@pytest.mark.parametrize(
    ("plant", "rule", "kind"),
    [
        (_ranks_not_read, "event", "copy-on-write"),
        (_groups_forgotten, "groups", "buckets"),
        (_no_ranks, "event", "buckets"),
    ],
)
def test_random_lives_find_planted_bugs(
    plant: Callable[[pytest.MonkeyPatch], None], rule: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    def lives() -> None:
        for seed in range(100):
            live(rule, kind, seed, is_long=False)

    with pytest.raises(AssertionError, match=r"as of|comes twice"):
        lives()


def test_of_equal_keys_in_one_batch_each_group_of_columns_comes_from_the_row_that_is_newest_for_it() -> None:
    life = Life(IN_GROUPS, "buckets", random.Random(0))
    first = {"id": "k1", "ts": 1, "a": "a1", "b": "b1", "c": "c1", "ta": 9, "tb": 1}
    second = {"id": "k1", "ts": 2, "a": "a2", "b": "b2", "c": "c2", "ta": 1, "tb": 9}
    life.table.upsert([first, second])
    expected = {"id": "k1", "ts": 2, "a": "a1", "b": "b2", "c": "c1", "ta": 9, "tb": 9}
    assert life.table.to_arrow().to_pylist() == [expected]

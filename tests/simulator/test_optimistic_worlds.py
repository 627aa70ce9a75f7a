# SPDX-License-Identifier: Apache-2.0
"""Small worlds of two writers, in every interleaving of their storage calls with so many switches, and of their steps.

Of interleavings that differ in the order of calls which commute, one is played (simulator/playing/reduction.py).

Two invariants are judged from what was published alone, without the product's rules: optimistic writers are refused
exactly when they must be (RFC-71), and the table's schemas form one line by the eight rows (RFC-82).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakebraid.errors import SchemaConflict, WriteConflict
from lakebraid.model import conflicts
from lakebraid.services.merging.compaction import plan_compaction
from lakebraid.txn import writer as txn_writer
from lakebraid.txn.checks.file_groups import STRATEGY, Rivals
from lakebraid.writing.result import WriteResult
from lakebraid.writing.transaction import Transaction
from tests.kit.races.enumerating import Actor, Played
from tests.kit.tables.scene import Scene, table_on
from tests.simulator.optimistic_players import (
    S1,
    WITH_NAMES,
    End,
    check_refusals,
    check_rows,
    columns_at_begin,
    play,
    row,
    rows,
    rows_of,
    table_objects,
    writer,
)

pytestmark = [pytest.mark.simulator]

REQUEST_TIMES = "SimpleConcurrentFileWritesConflictResolutionStrategy"
ENDS = "EndTimestampBasedConcurrentFileWritesConflictResolutionStrategy"
S2 = S1.append(pa.field("x", pa.int32()))
S3 = S1.append(pa.field("y", pa.string()))
by_call = pytest.mark.parametrize(
    "switches", [pytest.param(1, id="one switch"), pytest.param(2, id="two switches", marks=pytest.mark.slow)]
)
both_ways = pytest.mark.parametrize("strategy", [REQUEST_TIMES, ENDS], ids=["by request time", "by completion"])


# --- who is refused -------------------------------------------------------------------------------------------------------


@both_ways
@by_call
@pytest.mark.parametrize("keys", [("a", "a"), ("a", "b")], ids=["one bucket", "two buckets"])
def test_writers_are_refused_exactly_when_they_met(strategy: str, keys: tuple[str, str], switches: int) -> None:
    places = dict(zip(("one", "two"), keys, strict=True))
    bodies = {name: writer(row(key)) for name, key in places.items()}
    outcomes = set()
    for played, ends in play(table_objects(strategy, "occ"), bodies, switches=switches):
        check_refusals(ends, places)
        check_rows(played, ends, places)
        outcomes.add(tuple(sorted(end.label for end in ends if end.completion is None)))
    assert outcomes == ({(), ("one",), ("two",)} if keys[0] == keys[1] else {()}), "each can lose, and both can win"


@both_ways
@by_call
def test_a_compaction_planned_meanwhile_refuses_a_writer_and_one_before_does_not(strategy: str, switches: int) -> None:
    plans: list[str | None] = []

    def planner(actor: Actor) -> str | None:
        plans.append(plan_compaction(actor.ledger))
        return plans[-1]

    outcomes = set()
    objects = table_objects(strategy, "occ", is_filled=True)
    for played, ends in play(objects, {"one": writer(row("a")), "plan": planner}, switches=switches):
        check_refusals(ends, {"one": "a"}, plans[-1])
        check_rows(played, ends, {"one": "a"}, ["a"])
        outcomes.add(ends[0].completion is None)
    assert outcomes == {True, False}


def repeating(key: str) -> Callable[[Actor], End]:
    """One call that does itself again until it is published; its row says who wrote it."""

    def body(actor: Actor) -> End:
        name = actor.process.name
        done = table_on(actor.storage, actor.process.clock).upsert(
            pa.table({"id": [key], "ts": [1], "by": [name]}, schema=WITH_NAMES)
        )
        return End(name, done.instant, done.completion_time, attempts=done.attempts)

    return body


def check_repeated(played: Played, ends: Sequence[End], places: Mapping[str, str]) -> None:
    """Both are there; those of one key in one order by every clock: whoever began later ended later, and its row stays."""
    assert all(end.completion is not None for end in ends)
    one, other = sorted(ends, key=lambda end: end.request_time)
    assert names_of(played) == {places[end.label]: end.label for end in (one, other)}, (one, other)
    if places[one.label] == places[other.label]:
        assert (one.completion or "") < (other.completion or ""), (one, other)


def names_of(played: Played) -> dict[str, str]:
    objects = tuple(sorted((name, data) for name, (data, _) in played.world.disk.objects.items()))
    return dict(zip(rows_of(objects), rows_of(objects, "by"), strict=True))


SHARED = {("a", "a"): "one key", ("a", "e"): "one bucket", ("a", "b"): "two buckets"}
REPEATED = [
    pytest.param(strategy, keys, 1, id=f"{name}, {what}")
    for name, strategy in (("by request time", REQUEST_TIMES), ("by completion", ENDS))
    for keys, what in SHARED.items()
]
LONGER_REPEATED = [
    pytest.param(REQUEST_TIMES, keys, 2, id=f"{SHARED[keys]}, two switches", marks=pytest.mark.slow)
    for keys in (("a", "a"), ("a", "e"))
]


@pytest.mark.parametrize("kind", ["mor", "cow"])
@pytest.mark.parametrize(("strategy", "keys", "switches"), [*REPEATED, *LONGER_REPEATED])
def test_writes_that_repeat_themselves_come_one_after_the_other(
    strategy: str, keys: tuple[str, str], kind: str, switches: int
) -> None:
    places = dict(zip(("one", "two"), keys, strict=True))
    attempts: set[int] = set()
    for played, ends in play(
        table_objects(strategy, "occ", kind=kind), {n: repeating(k) for n, k in places.items()}, switches=switches
    ):
        check_repeated(played, ends, places)
        attempts.add(max(end.attempts for end in ends))
    # Rows of different keys in log files have nothing to do with each other; a base file holds both.
    is_met = SHARED[keys] == "one key" or (SHARED[keys] == "one bucket" and kind == "cow")
    assert attempts == ({1, 2} if is_met else {1}), "whoever met another one writes again, nobody else does"


# --- which schema the table has ---------------------------------------------------------------------------------------------

Names = frozenset[str] | None


def judged(begun: Names, now: Names, incoming: frozenset[str]) -> Names:
    """The table's columns after a commit by the eight rows, told anew; None for a conflict."""
    own = incoming | (begun or frozenset())
    if now in (begun, own):
        return own
    return now if begun is not None and own == begun else None


def check_schemas(first: Names, ends: Sequence[End], schemas: Mapping[str, pa.Schema], last: frozenset[str]) -> None:
    """Goes through the commits in the order of their completion; each refused one must have been in conflict.

    What a write takes for the schema of its beginning is one that the table had when it began or soon after.
    """
    done = sorted((end for end in ends if end.completion is not None), key=lambda end: end.completion or "")
    line: list[tuple[str, Names]] = [("", first)]

    def could_see(end: End) -> bool:
        at_start = max(at for at, (since, _) in enumerate(line) if since < end.request_time)
        return end.begun in [names for _, names in line[at_start:]]

    for end in done:
        assert could_see(end), f"{end} took another schema for that of its beginning"
        after = judged(end.begun, line[-1][1], frozenset(schemas[end.label].names))
        assert after is not None, f"{end} is a conflict by RFC-82, and was published"
        line.append((end.completion or "", after))
    for end in ends:
        if end.completion is None:
            assert isinstance(end.error, SchemaConflict), end
            assert could_see(end), f"{end} took another schema for that of its beginning"
            against = judged(end.begun, line[-1][1], frozenset(schemas[end.label].names))
            assert against is None, f"{end} was refused without a conflict"
    assert last == line[-1][1]


PAIRS = {
    "the same rows": (S1, S1),
    "one adds a column": (S1, S2),
    "both add the same": (S2, S2),
    "each adds another": (S2, S3),
}


WORLDS = [
    pytest.param(pair, mode, has_schema, 1, id=f"{pair}, {mode}, {'S1' if has_schema else 'none'} before")
    for pair in PAIRS
    for mode in ("nbcc", "occ")
    for has_schema in (True, False)
]
LONGER = [
    pytest.param("each adds another", "occ", True, 2, id="two switches, S1 before", marks=pytest.mark.slow),
    pytest.param("each adds another", "nbcc", False, 2, id="two switches, none before", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("pair", "concurrency", "has_schema", "switches"), [*WORLDS, *LONGER])
def test_schemas_form_one_line(pair: str, concurrency: str, switches: int, *, has_schema: bool) -> None:
    schemas = dict(zip(("one", "two"), PAIRS[pair], strict=True))
    bodies = {name: writer(rows(schemas[name], key)) for name, key in (("one", "a"), ("two", "b"))}
    objects = table_objects(REQUEST_TIMES, concurrency, has_schema=has_schema)
    for played, ends in play(objects, bodies, switches=switches):
        last = played.afterwards(lambda a: frozenset(table_on(a.storage, a.process.clock).schema.names))
        check_schemas(frozenset(S1.names) if has_schema else None, ends, schemas, last)
        check_rows(played, ends, {"one": "a", "two": "b"})


# --- all orders of the steps, through the public API ------------------------------------------------------------------------

ORDERS = sorted({*itertools.permutations(("one", "one", "one", "two", "two", "two"))})


def in_steps(scene: Scene, order: Sequence[str], data: Mapping[str, pa.Table]) -> list[End]:
    """Begin, write and commit of two writers in this order."""
    open_: dict[str, Transaction] = {}
    ends: dict[str, End] = {}
    steps = {name: iter(("write", "commit")) for name in data}
    for name in order:
        if name not in open_:
            open_[name] = scene.other().begin()
        elif next(steps[name]) == "write":
            open_[name].write(data[name])
        else:
            try:
                done: WriteResult = open_[name].commit()
            except (WriteConflict, SchemaConflict) as error:
                ends[name] = End(name, open_[name].instant, None, error, columns_at_begin(open_[name]))
            else:
                seen = columns_at_begin(open_[name])
                ends[name] = End(name, open_[name].instant, done.completion_time, begun=seen)
    return [*ends.values()]


@both_ways
@pytest.mark.parametrize("keys", [("a", "a"), ("a", "b")], ids=["one place", "two places"])
@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_in_every_order_of_their_steps_writers_are_refused_exactly_when_they_met(
    strategy: str, keys: tuple[str, str], kind: str
) -> None:
    places = dict(zip(("one", "two"), keys, strict=True))
    for order in ORDERS:
        properties = {STRATEGY: "org.apache.hudi.client.transaction." + strategy}
        arguments = {"schema": S1, "concurrency": "occ", "buckets": 4, "properties": properties, "table_type": kind}
        scene = Scene(arguments=arguments)
        ends = in_steps(scene, order, {name: row(key) for name, key in places.items()})
        check_refusals(ends, places)
        wanted = sorted({places[end.label] for end in ends if end.completion is not None})
        assert sorted(scene.table.to_arrow(columns=["id"]).column("id").to_pylist()) == wanted


@pytest.mark.parametrize("concurrency", ["nbcc", "occ"])
@pytest.mark.parametrize("has_schema", [True, False], ids=["S1 before", "none before"])
@pytest.mark.parametrize("pair", [*PAIRS])
def test_in_every_order_of_their_steps_schemas_form_one_line(pair: str, concurrency: str, *, has_schema: bool) -> None:
    schemas = dict(zip(("one", "two"), PAIRS[pair], strict=True))
    for order in ORDERS:
        first = S1 if has_schema else None
        scene = Scene(arguments={"schema": first, "concurrency": concurrency, "buckets": 4})
        data = {name: rows(schemas[name], key) for name, key in (("one", "a"), ("two", "b"))}
        ends = in_steps(scene, order, data)
        last = frozenset(scene.other().schema.names)
        check_schemas(frozenset(S1.names) if has_schema else None, ends, schemas, last)


# --- the judges are awake -----------------------------------------------------------------------------------------------------


@both_ways
def test_a_writer_that_overlooks_rivals_is_found(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts, "_completed_since", lambda instant, begun, _: None)
    with pytest.raises(AssertionError, match="End"):
        test_writers_are_refused_exactly_when_they_met(strategy, ("a", "a"), 1)


@both_ways
def test_a_writer_that_is_refused_for_nothing_is_found(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts, "_completed_since", lambda instant, begun, _: "always")
    with pytest.raises(AssertionError, match="End"):
        test_writers_are_refused_exactly_when_they_met(strategy, ("a", "a"), 1)


@pytest.mark.parametrize(("kind", "keys"), [("mor", ("a", "a")), ("cow", ("a", "e"))])
def test_a_repeated_write_that_passes_over_every_rival_is_found(
    kind: str, keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rivals, "_is_accounted_for", lambda self, rival: rival.is_completed)
    with pytest.raises(AssertionError, match="End"):
        test_writes_that_repeat_themselves_come_one_after_the_other(REQUEST_TIMES, keys, kind, 1)


def test_a_schema_that_is_not_looked_at_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = txn_writer.Writing.schema_text

    def sleepy(self: Any, now: Any, begun: Any, own: pa.Schema, *, merges: bool = False) -> str:
        return real(self, now, begun, own, merges=True)

    monkeypatch.setattr(txn_writer.Writing, "schema_text", sleepy)
    with pytest.raises(AssertionError, match="is a conflict by RFC-82"):
        test_schemas_form_one_line("each adds another", "nbcc", 1, has_schema=True)

# SPDX-License-Identifier: Apache-2.0
"""Several writers that each own some columns of the same rows: the table is their join, however they interleave.

`play` runs steps of transactions in every order, with a compaction in any gap, and holds every answer, also those of
the past, against a model: completed writes in the order of their request times, one column at a time.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.api.table import Table
from lakebraid.errors import InvalidArgument, WriteConflict
from lakebraid.format.log.blocks import read_blocks
from lakebraid.model.config import META_COLUMNS
from lakebraid.model.schema.avro_text import states_skeletons
from lakebraid.storage.memory import MemoryStorage
from lakebraid.tasks.writing.skeletons import skeletons
from lakebraid.writing.transaction import Transaction
from tests.kit.tables.scene import TickingClock, WatchedStorage, files, make_table, once, table_on

pytestmark = pytest.mark.unit

COLUMNS = ("id", "ts", "a", "b", "c")
DDL = "id string, ts bigint, a string, b string, c string"
OLD, NEW = "old", "new"
Row = dict[str, Any]


@dataclass
class Write:
    """A write as the model sees it: its request time, its end, what it brought."""

    request_time: str
    end: str
    rows: list[Row]
    is_delete: bool = False


@dataclass
class Stage:
    """A table with the row `old`, and all that was written to it."""

    by_event: bool = False
    in_base: bool = False
    """Whether the old row is in a base file."""
    with_new: bool = True
    """Whether the writers also bring a key that has no row."""
    clock: TickingClock = field(default_factory=TickingClock)
    writes: list[Write] = field(default_factory=list)
    moments: list[str] = field(default_factory=list)
    time: int = 0

    def __post_init__(self) -> None:
        self.storage = MemoryStorage("memory://stage", self.clock)
        self.table = make_table(self.storage, self.clock, DDL, ordering_fields="ts" if self.by_event else None)
        row = {"id": OLD, "ts": 0, "a": "a0", "b": "b0", "c": "c0"}
        done = self.table.bulk_insert([row]) if self.in_base else self.table.upsert([row])
        self.ended(done.instant, done.completion_time, [row])

    def ended(self, request_time: str, end: str, rows: list[Row], *, is_delete: bool = False) -> None:
        self.writes.append(Write(request_time, end, rows, is_delete))
        self.moments.append(end)

    def compact(self) -> None:
        self.moments += [done.completion_time for done in self.table.compact()]

    def model(self, moment: str) -> dict[str, Row]:
        """By the rule alone. Ordering values rise with the request times, so both orders are the same."""
        rows: dict[str, Row] = {}
        for write in sorted((w for w in self.writes if w.end <= moment), key=lambda w: w.request_time):
            for given in write.rows:
                if write.is_delete:
                    rows.pop(given["id"], None)
                else:
                    rows[given["id"]] = rows.get(given["id"], dict.fromkeys(COLUMNS)) | given
        return rows

    def check(self) -> None:
        for moment in self.moments:
            assert by_key(self.table.to_arrow(as_of=moment)) == self.model(moment), f"as of {moment}"
        assert by_key(self.table.to_arrow()) == self.model("9")


def by_key(rows: pa.Table) -> dict[str, Row]:
    found = {row["id"]: row for row in rows.to_pylist()}
    assert len(found) == rows.num_rows, "a key appears twice"
    return found


class Actor:
    """A writer in three steps. What is refused is done again at once, as `Table.upsert` does."""

    def __init__(self, stage: Stage, kind: str) -> None:
        self.stage, self.kind = stage, kind
        self.transaction: Transaction | None = None
        self.steps: Iterator[Any] = iter((self.begin, self.look, self.commit))

    def step(self) -> None:
        next(self.steps)()

    def begin(self) -> None:
        self.stage.time += 1
        self.time = self.stage.time
        own = ("id", "ts", self.kind) if self.stage.by_event else ("id", self.kind)
        columns = own if self.kind in "abc" else None
        operation: Any = "delete" if self.kind == "delete" else "upsert"
        self.transaction = self.stage.table.begin(operation, columns=columns)

    def rows(self) -> list[Row]:
        keys: list[Row] = [{"id": key} for key in ([OLD, NEW] if self.stage.with_new else [OLD])]
        if self.stage.by_event:
            keys = [key | {"ts": self.time} for key in keys]
        if self.kind == "delete":
            return keys
        names = (self.kind,) if self.kind in "abc" else ("a", "b", "c")
        whole = {"ts": self.time} if self.kind == "whole" else {}
        return [key | whole | {name: f"{name} of {self.kind} {self.time}" for name in names} for key in keys]

    def look(self) -> None:
        assert self.transaction is not None
        self.transaction.write(self.rows())

    def commit(self) -> None:
        assert self.transaction is not None
        try:
            done = self.transaction.commit()
        except WriteConflict:
            assert self.kind in "abc"
            assert self.stage.with_new, "only updates that open rows may be refused"
            assert self.stage.table.status(self.transaction.instant) == "refused"
            self.begin()
            self.look()
            done = self.transaction.commit()
        self.stage.ended(done.instant, done.completion_time, self.rows(), is_delete=self.kind == "delete")


def orders(kinds: tuple[str, ...], steps: int) -> list[tuple[int, ...]]:
    """All ways to interleave the steps of some actors. Partial updates are alike, so of these the first one begins first."""
    turns = [actor for actor in range(len(kinds)) for _ in range(steps)]
    alike = [actor for actor, kind in enumerate(kinds) if kind in "abc"]
    every = sorted(set(itertools.permutations(turns)))
    return [order for order in every if sorted(alike, key=order.index) == alike]


def play(stage: Stage, kinds: tuple[str, ...], turns: tuple[int, ...], gap: int | None, joined: int = 1) -> None:
    """Takes the turns, `joined` steps at the first one of an actor, and compacts in that gap (-1: in all of them)."""
    actors = [Actor(stage, kind) for kind in kinds]
    begun: set[int] = set()
    for at, turn in enumerate(turns):
        for _ in range(1 if turn in begun else joined):
            actors[turn].step()
        begun.add(turn)
        if gap in (at, -1):
            stage.compact()
    assert by_key(stage.table.to_arrow()) == stage.model("9")
    stage.compact()
    stage.check()


PAIRS = [("a", "b"), ("a", "delete"), ("a", "whole")]
TRIPLES = [("a", "b", "c"), ("a", "b", "delete"), ("a", "b", "whole"), ("a", "whole", "delete")]


@pytest.mark.slow
@pytest.mark.parametrize("in_base", [False, True], ids=["some", "others"])
@pytest.mark.parametrize("kinds", PAIRS, ids="+".join)
def test_two_writers_leave_their_join_in_every_order_of_begin_look_and_commit(
    kinds: tuple[str, ...], in_base: bool
) -> None:
    for number, turns in enumerate(orders(kinds, 3)):
        for gap in (None, -1):
            play(Stage(in_base=in_base ^ (number % 2 == 0)), kinds, turns, gap)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", TRIPLES, ids="+".join)
def test_three_writers_leave_their_join_in_every_order_with_a_compaction_anywhere(kinds: tuple[str, ...]) -> None:
    for number, turns in enumerate(orders(kinds, 2)):
        for gap in (None, *range(5), -1):
            play(Stage(in_base=number % 2 == 0), kinds, turns, gap, joined=2)


@pytest.mark.slow
def test_three_writers_leave_their_join_by_event_time_if_events_rise() -> None:
    for number, turns in enumerate(orders(("a", "b", "c"), 2)):
        for gap in (None, *range(5), -1):
            play(Stage(by_event=True, in_base=number % 2 == 0), ("a", "b", "c"), turns, gap, joined=2)


@pytest.mark.slow
def test_readers_that_take_skeletons_for_whole_rows_see_the_join_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Apache Hudi does: the refusals are there for its sake."""
    monkeypatch.setattr("lakebraid.tasks.reading.versions.states_skeletons", lambda _: False)
    for turns in orders(("a", "b"), 3):
        play(Stage(), ("a", "b"), turns, None)
    for turns in orders(("a", "b", "c"), 2):
        play(Stage(in_base=True), ("a", "b", "c"), turns, None, joined=2)


@pytest.mark.slow
def test_updates_of_rows_that_exist_are_never_refused() -> None:
    for turns in orders(("a", "b", "c"), 2):
        play(Stage(with_new=False), ("a", "b", "c"), turns, None, joined=2)


def test_a_partial_update_of_a_deleted_row_does_not_bring_back_what_was_deleted() -> None:
    for by_event, in_base in itertools.product([False, True], repeat=2):
        stage = Stage(by_event=by_event, in_base=in_base)
        stage.table.delete([{"id": OLD}])
        stage.table.upsert([{"id": OLD, "ts": 5, "a": "anew"}], columns=["id", "ts", "a"])
        expected = {OLD: {"id": OLD, "ts": 5, "a": "anew", "b": None, "c": None}}
        assert by_key(stage.table.to_arrow()) == expected
        stage.table.compact()
        assert by_key(stage.table.to_arrow()) == expected


def test_an_older_row_fills_the_columns_that_an_update_left_open_before_and_after_a_compaction() -> None:
    for compacts in (False, True):
        stage = Stage(by_event=True)
        stage.table.upsert([{"id": NEW, "ts": 10, "a": "opened"}], columns=["id", "ts", "a"])
        if compacts:
            stage.table.compact()
        stage.table.upsert([{"id": NEW, "ts": 5, "a": "stale", "b": "stale", "c": "stale"}])
        expected = {"id": NEW, "ts": 10, "a": "opened", "b": "stale", "c": "stale"}
        assert by_key(stage.table.to_arrow())[NEW] == expected, f"compacted: {compacts}"


def skeletons_in(stage: Stage) -> list[str]:
    """The log files that have skeletons."""
    found = []
    for name in files(stage.storage):
        if ".log." in name:
            blocks = read_blocks(stage.storage.read(name, limits.LOG_FILE_BYTES_MAX), name).blocks
            if any(states_skeletons(block.schema_text) for block in blocks):
                assert states_skeletons(blocks[0].schema_text)
                assert not blocks[0].is_partial
                assert blocks[1].is_partial
                found.append(name)
    return found


@pytest.mark.parametrize("block_format", ["parquet", "avro"])
def test_only_new_keys_get_a_whole_row_before_their_partial_one(block_format: str) -> None:
    stage = Stage()
    columns = ["id", "a"]
    stage.table.upsert([{"id": OLD, "a": "x"}], columns=columns, block_format=block_format)
    assert not skeletons_in(stage)
    result = stage.table.upsert(
        [{"id": OLD, "a": "y"}, {"id": NEW, "a": "y"}], columns=columns, block_format=block_format
    )
    assert len(skeletons_in(stage)) == 1
    assert result.rows_written == 2
    stage.table.upsert([{"id": NEW, "a": "z"}], columns=columns, block_format=block_format)
    assert len(skeletons_in(stage)) == 1
    assert by_key(stage.table.to_arrow())[NEW] == {"id": NEW, "ts": None, "a": "z", "b": None, "c": None}


def test_an_update_that_names_all_columns_opens_a_row_after_a_delete_for_hudi_cannot_read_it_alone() -> None:
    stage = Stage()
    row = {"id": NEW, "ts": 1, "a": "x", "b": "x", "c": "x"}
    stage.table.delete([{"id": NEW}])
    stage.table.upsert([row], columns=list(COLUMNS))
    assert len(skeletons_in(stage)) == 1
    stage.table.upsert([row], columns=list(COLUMNS))
    assert len(skeletons_in(stage)) == 1
    assert by_key(stage.table.to_arrow())[NEW] == row


@pytest.mark.parametrize("place", [0, 2])
def test_where_a_column_flags_deletes_a_partial_update_is_refused_for_hudi_would_miss_the_row(place: int) -> None:
    clock = TickingClock()
    names = ["id string", "a string"]
    names.insert(place, "_hoodie_is_deleted boolean")
    table = make_table(MemoryStorage("memory://f", clock), clock, ", ".join(names), ordering_fields=None, buckets=1)
    table.upsert([{"id": "k", "a": "1"}])
    with pytest.raises(InvalidArgument, match="Apache Hudi's readers miss rows") as refused:
        table.upsert([{"id": "k", "a": "2"}], columns=["id", "a"])
    assert "Nothing was written" in str(refused.value)
    assert table.to_arrow(["a"]).to_pylist() == [{"a": "1"}]


def test_a_key_is_new_in_one_partition_though_it_is_known_in_another() -> None:
    clock = TickingClock()
    table = make_table(
        MemoryStorage("memory://p", clock), clock, DDL, partition_by="c", ordering_fields=None, buckets=2
    )
    table.upsert([{"id": f"k{n}", "ts": 1, "a": "a", "b": "b", "c": "x"} for n in range(10)])
    table.upsert([{"id": f"k{n}", "a": "p", "c": c} for n in range(5) for c in "xy"], columns=["id", "a", "c"])
    rows = {(r["id"], r["c"]): (r["ts"], r["a"], r["b"]) for r in table.to_arrow().to_pylist()}
    assert rows == {
        **{(f"k{n}", "x"): (1, "p" if n < 5 else "a", "b") for n in range(10)},
        **{(f"k{n}", "y"): (None, "p", None) for n in range(5)},
    }


def test_keys_of_several_columns_are_looked_up() -> None:
    clock = TickingClock()
    table = make_table(
        MemoryStorage("memory://k", clock), clock, DDL, record_keys=["id", "ts"], ordering_fields=None, buckets=2
    )
    table.upsert([{"id": "k", "ts": n, "a": "a", "b": "b", "c": "c"} for n in range(4)])
    table.compact()
    table.upsert([{"id": "k", "ts": n, "a": "p"} for n in range(2, 6)], columns=["id", "ts", "a"])
    rows = {r["ts"]: (r["a"], r["b"]) for r in table.to_arrow().to_pylist()}
    known = {0: ("a", "b"), 1: ("a", "b"), 2: ("p", "b"), 3: ("p", "b")}
    assert rows == known | {4: ("p", None), 5: ("p", None)}


def test_a_new_key_without_a_value_for_a_required_column_is_refused() -> None:
    """Tables that Hudi made may have such columns."""
    schema = pa.schema([("id", pa.string()), ("a", pa.string()), pa.field("b", pa.int64(), nullable=False)])
    meta = {name: [NEW] for name in META_COLUMNS}
    rows = pa.table(meta | {"id": [NEW], "a": ["x"]})
    with pytest.raises(InvalidArgument, match=r"'new' has no row yet.*'b'"):
        skeletons(rows, np.array([True]), schema, "t")
    assert skeletons(rows, np.array([False]), schema, "t") is None


def test_a_refused_transaction_says_to_begin_again_and_leaves_nothing() -> None:
    stage = Stage()
    slow = stage.table.begin(columns=["id", "a"])
    slow.write([{"id": NEW, "a": "slow"}])
    stage.table.upsert([{"id": NEW, "b": "fast"}], columns=["id", "b"])
    with pytest.raises(WriteConflict, match="Run it again from its begin"):
        slow.commit()
    assert stage.table.status(slow.instant) == "refused"
    assert not [name for name in files(stage.storage) if slow.instant in name]
    assert by_key(stage.table.to_arrow())[NEW]["a"] is None


def test_writers_of_other_new_keys_in_the_same_bucket_do_not_disturb_each_other() -> None:
    stage = Stage()
    slow = stage.table.begin(columns=["id", "a"])
    slow.write([{"id": "mine", "a": "slow"}])
    stage.table.upsert([{"id": "theirs", "b": "fast"}], columns=["id", "b"])
    stage.table.upsert([{"id": OLD, "ts": 1, "a": "x", "b": "x", "c": "x"}], block_format="avro")
    stage.table.delete([{"id": "nobody"}])
    stage.table.compact()
    slow.commit()
    assert {*by_key(stage.table.to_arrow())} == {OLD, "mine", "theirs"}


def test_an_upsert_of_columns_is_done_again_until_its_keys_are_settled() -> None:
    """Another writer opens the same row between the look and the commit; the rows come from a reader, once."""
    stage = Stage()
    other = table_on(stage.storage, stage.clock)
    fast = once(
        lambda call: call.name == "create" and call.target.endswith("_1000-0-0"),
        lambda: other.upsert([{"id": NEW, "b": "fast"}], columns=["id", "b"]),
    )
    slow: Table = table_on(WatchedStorage(stage.storage, after=fast), stage.clock)
    rows = pa.table({"id": [NEW], "a": ["slow"]})
    slow.upsert(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches()), columns=["id", "a"])
    assert fast.done
    assert by_key(stage.table.to_arrow())[NEW] == {"id": NEW, "ts": None, "a": "slow", "b": "fast", "c": None}
    assert len(skeletons_in(stage)) == 1


@pytest.mark.slow
def test_threads_that_join_streams_of_new_keys_lose_no_column(tmp_path: Any) -> None:
    table = lb.Table.create(tmp_path / "t", DDL, record_keys="id", buckets=2)
    failed: list[BaseException] = []

    def stream(name: str) -> None:
        try:
            own = lb.Table.open(tmp_path / "t")
            for batch in range(4):
                own.upsert([{"id": f"k{batch}{n}", name: f"{name}{batch}{n}"} for n in range(5)], columns=["id", name])
        except BaseException as error:  # noqa: BLE001  told to the test below
            failed.append(error)

    threads = [threading.Thread(target=stream, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    expected = {f"k{b}{n}": {c: f"{c}{b}{n}" for c in "abc"} for b in range(4) for n in range(5)}
    assert {k: {c: r[c] for c in "abc"} for k, r in by_key(table.to_arrow()).items()} == expected
    table.compact()
    assert {k: {c: r[c] for c in "abc"} for k, r in by_key(table.to_arrow()).items()} == expected

# SPDX-License-Identifier: Apache-2.0
"""A refused conditional change computes again what others touched, and the outcome is that of doing all of it again."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebraid import limits
from lakebraid.api.table import Table
from lakebraid.model.operations import Operation
from lakebraid.storage.memory import MemoryStorage
from lakebraid.writing import retry
from lakebraid.writing.operations.conditional import _is_by_key
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.retry import Compute, Part, Redoing, change_rows
from lakebraid.writing.transaction import Transaction
from tests.kit.tables.scene import TickingClock, make_table, row, table_on

pytestmark = pytest.mark.unit

BUCKETS = 8
COLUMNS = "id string, ts bigint, v string, w bigint"
Rival = Callable[[Table, int], None]


class Changed:
    """A table, a conditional change of it, and what others do between its reading and its commit."""

    def __init__(self, rival: Rival, **arguments: Any) -> None:
        self.clock = TickingClock()
        storage = MemoryStorage("memory://t", self.clock)
        arguments = {"buckets": BUCKETS, "concurrency": "occ"} | arguments
        self.table = make_table(storage, self.clock, COLUMNS, **arguments)
        self.other, self.rival = table_on(storage, self.clock), rival
        self.read: list[int] = []
        """How many slices each attempt has read."""

    def add(self, column: str = "w", least: int = 0, is_by_group: bool = True) -> int:
        """Every row with such a `w` gets one more, and a greater `ts`; gives the number of attempts."""

        def compute(transaction: Transaction, part: Part) -> bool:
            rows = part.snapshot.to_arrow(where=[("w", ">=", least)])
            self.read.append(len(part.snapshot.slices))
            for name in {column, "ts"}:
                more = pc.add(rows[name], 1)
                rows = rows.set_column(rows.schema.get_field_index(name), name, more)
            transaction.write(rows)
            self.rival(self.other, len(self.read))
            return is_by_group

        return self.change("upsert", compute)

    def drop(self, least: int) -> int:
        def compute(transaction: Transaction, part: Part) -> bool:
            rows = part.snapshot.to_arrow(["id", "ts", "v"], where=[("w", ">=", least)])
            self.read.append(len(part.snapshot.slices))
            transaction.write(rows)
            self.rival(self.other, len(self.read))
            return True

        return self.change("delete", compute)

    def change(self, operation: Operation, compute: Compute) -> int:
        request = WriteRequest(operation)
        return change_rows(self.table._destination, request, compute, self.table.snapshot, None).attempts

    def rows(self) -> list[dict[str, Any]]:
        return sorted(self.table.to_arrow().to_pylist(), key=lambda r: r["id"])


def filled(changed: Changed, count: int = 64) -> Changed:
    changed.table.upsert([row(f"k{k}", "x", 1, k) for k in range(count)])
    assert len(changed.table.snapshot().slices) == BUCKETS
    return changed


def first_time(table: Table, attempt: int) -> None:
    if attempt == 1:
        table.upsert([row("k0", "rival", 5, 100)])


def test_only_the_slice_that_the_winner_touched_is_read_again() -> None:
    changed = filled(Changed(first_time))
    assert changed.add() == 2
    assert changed.read == [BUCKETS, 1]
    found = {r["id"]: (r["v"], r["w"]) for r in changed.rows()}
    assert found == {f"k{k}": ("x", k + 1) for k in range(1, 64)} | {"k0": ("rival", 101)}


def test_a_refused_delete_reads_again_only_what_was_touched() -> None:
    changed = filled(Changed(first_time))
    assert changed.drop(10) == 2
    assert changed.read == [BUCKETS, 1]
    assert [r["id"] for r in changed.rows()] == sorted(f"k{k}" for k in range(1, 10))


def test_where_only_keys_are_compared_the_rest_is_kept_as_well() -> None:
    changed = filled(Changed(first_time, concurrency="nbcc"))
    assert changed.add() == 2
    assert changed.read == [BUCKETS, 1]


def test_several_refusals_each_read_what_is_new_since_the_last() -> None:
    def rival(table: Table, attempt: int) -> None:
        if attempt <= 3:
            table.upsert([row(f"k{attempt}", "rival", 5, 100)])

    changed = filled(Changed(rival))
    assert changed.add() == 4
    assert changed.read == [BUCKETS, 1, 1, 1]
    assert {r["w"] for r in changed.rows() if r["v"] == "rival"} == {101}


@pytest.mark.parametrize("why", ["rows depend on others", "too many rows", "another schema", "keys are looked up"])
def test_the_whole_is_done_again_where_rows_cannot_be_kept(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def rival(table: Table, attempt: int) -> None:
        if attempt == 1:
            if why == "another schema":
                table.alter().add("n", "int").commit()
            table.upsert([row("k0", "rival", 5, 100)])

    if why == "too many rows":
        monkeypatch.setattr(limits, "REDONE_BYTES_MAX", 100)
    if why == "keys are looked up":
        changed = Changed(rival, index="simple")
        changed.table.upsert([row(f"k{k}", "x", 1, k) for k in range(9)])
    else:
        changed = filled(Changed(rival))
    assert changed.add(is_by_group=why != "rows depend on others") == 2
    assert changed.read[0] == changed.read[1]
    assert {r["w"] for r in changed.rows() if r["id"] in ("k0", "k3")} == {4, 101}


@pytest.mark.parametrize(
    ("rows", "how", "wanted"),
    [
        ({"id": ["a"], "w": [1]}, {}, True),
        ({"id": ["a"]}, {"on": "id", "insert": None}, True),
        ({"id": ["a"]}, {"on": ["id"]}, True),
        ({"id": ["a"], "w": [1]}, {"on": ["id", "w"]}, False),
        ({"id": ["a"]}, {"on": "t.id = s.id"}, False),
        ({"id": ["a"]}, {"insert": {"id": "s.id || '1'"}}, False),
        ({"id": ["a", None]}, {}, False),
        ({"id": [1]}, {}, False),
        ({"w": [1]}, {}, False),
    ],
)
def test_a_source_is_taken_in_parts_only_if_its_keys_say_where_its_rows_go(
    rows: dict[str, Any], how: dict[str, Any], wanted: bool
) -> None:
    table = Changed(first_time).table
    how = {"on": None, "insert": "all"} | how
    assert _is_by_key(pa.table(rows), table.snapshot().schema, table._config, how["on"], how["insert"]) is wanted


def played(seed: int, **arguments: Any) -> tuple[list[dict[str, Any]], list[int]]:
    """Random rows, a random change, and random rivals in its way: the rows afterwards, and the slices of each attempt."""
    chance = Random(seed)
    deeds = [[(chance.random(), f"k{chance.randrange(32)}") for _ in range(chance.choice((1, 1, 2)))] for _ in range(2)]

    def rival(table: Table, attempt: int) -> None:
        for what, key in deeds[attempt - 1] if attempt <= len(deeds) else ():
            if what < 0.75:
                table.upsert([row(key, f"rival{attempt}", 3 + attempt, int(100 * what))])
            elif what < 0.9:
                table.delete([{"id": key}])
            else:
                table.compact()

    changed = Changed(rival, ordering_fields=None, **arguments)  # the later row wins, so one that is stale would show
    changed.table.upsert([row(f"k{k}", chance.choice("ab"), 1, chance.randrange(50)) for k in range(30)])
    if chance.random() < 0.3:
        changed.drop(chance.randrange(20))
    else:
        changed.add(least=chance.randrange(20))
    return changed.rows(), changed.read


def differences(seeds: range) -> tuple[list[int], int, int]:
    """The seeds whose outcome is not that of doing all again; how many slices were read, and would have been."""
    wrong, read, whole_read = [], 0, 0
    for seed in seeds:
        how: dict[str, Any] = {"concurrency": "nbcc"} if seed % 3 == 0 else {}
        rows, slices = played(seed, **how)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Redoing, "_places", lambda self, snapshot: None)
            whole, all_slices = played(seed, **how)
        if rows != whole:
            wrong.append(seed)
        read, whole_read = read + sum(slices), whole_read + sum(all_slices)
    return wrong, read, whole_read


@pytest.mark.slow
def test_the_outcome_is_that_of_doing_the_whole_again() -> None:
    wrong, read, whole_read = differences(range(12))
    assert wrong == []
    assert read < 0.8 * whole_read


@pytest.mark.slow
def test_rows_that_are_kept_of_a_touched_group_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = retry._lies_in

    def lies_in(places: Any, rows: pa.Table, config: Any) -> Any:
        return real(places, rows, config) & False

    monkeypatch.setattr(retry, "_lies_in", lies_in)
    wrong, _, _ = differences(range(3))
    assert wrong

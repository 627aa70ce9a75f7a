# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.errors import ClaimLost
from lakebraid.services.merging import engine

pytestmark = pytest.mark.unit


@pytest.fixture
def table(tmp_path: Path) -> lb.Table:
    made = lb.Table.create(tmp_path / "t", "id bigint, ts bigint", record_keys="id", ordering_fields="ts", buckets=2)
    made.upsert([{"id": n, "ts": 1} for n in range(10)])
    return made


def fail_once(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fails(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise error

    monkeypatch.setattr(engine, "run_local", fails)


def test_a_failed_executor_gives_its_claim_back_and_the_next_one_need_not_wait(
    table: lb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, lb.StorageError("the disk is full"))
    with pytest.raises(lb.StorageError, match="full"):
        table.compact()
    (done,) = table.compact()
    assert done.rows == 10
    assert [i for i in table.timeline() if not i.instant.is_completed] == []


def test_an_executor_that_lost_its_claim_leaves_the_heartbeat_of_the_new_one_alone(
    table: lb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, ClaimLost("taken over"))
    with pytest.raises(ClaimLost):
        table.compact()
    assert list(Path(table.path, ".hoodie/.heartbeat").iterdir())
    assert table.compact() == [], "its holder counts as alive"


def test_an_executor_whose_plan_a_restore_took_back_is_told_so_not_that_a_file_is_missing(
    table: lb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    until = table.savepoint().instant
    table.upsert([{"id": n, "ts": 2} for n in range(10)])
    real = engine.run_local

    def late(*arguments: Any, **options: Any) -> Any:
        lb.Table.open(table.path).restore(until)
        return real(*arguments, **options)

    monkeypatch.setattr(engine, "run_local", late)
    with pytest.raises(ClaimLost, match="withdrawn"):
        table.compact()
    assert table.to_arrow(columns=["ts"]).column("ts").to_pylist() == [1] * 10

# SPDX-License-Identifier: Apache-2.0
"""Late files of an executor that lost its claim: nobody reads them, no plan names them, and a sweep may remove them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakebraid as lb

pytestmark = pytest.mark.unit


@pytest.fixture
def table(tmp_path: Path) -> lb.Table:
    made = lb.Table.create(tmp_path / "t", "id bigint, ts bigint", record_keys="id", ordering_fields="ts", buckets=1)
    made.upsert([{"id": 1, "ts": 1}, {"id": 2, "ts": 1}])
    made.delete([{"id": 2, "ts": 5}])
    return made


def late_twins(table: lb.Table) -> list[Path]:
    """The base file and the log of carried deletes once more, as an executor with an earlier claim writes them."""
    (done,) = table.compact()
    made = []
    for path in sorted(Path(table.path).glob(f"*{done.instant}*")) + sorted(
        Path(table.path).glob(f".*{done.instant}*")
    ):
        token = next(part for part in path.name.split("_") if part.startswith("0-00-")).removesuffix(".parquet")
        twin = path.with_name(path.name.replace(token, "0-00-1"))
        if not twin.exists():
            shutil.copy(path, twin)
            made.append(twin)
    assert len(made) == 2, made
    return made


def test_h13_a_late_twin_of_a_carried_delete_is_no_part_of_the_next_plan(table: lb.Table) -> None:
    """Else a sweep removes it, and the plan lacks an input for ever."""
    late_twins(table)
    table.upsert([{"id": 3, "ts": 1}])
    (file_slice,) = table.snapshot().slices
    assert not any("0-00-1" in log.name for log in file_slice.logs)
    assert len(file_slice.logs) == 2


def test_a_sweep_removes_late_twins_and_the_rows_stay(table: lb.Table) -> None:
    twins = late_twins(table)
    removed = table.rollback().removed
    assert sorted(removed) == sorted(twin.name for twin in twins)
    assert [row["id"] for row in table.to_arrow().to_pylist()] == [1]
    table.upsert([{"id": 2, "ts": 4}])
    assert [row["id"] for row in table.to_arrow().to_pylist()] == [1], "an older event brought a deleted row back"


def test_a_sweep_never_removes_an_input_of_a_pending_plan(table: lb.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that names a twin, as plans of Apache Hudi may, keeps its input until it is executed."""
    twins = late_twins(table)
    table.upsert([{"id": 3, "ts": 1}])
    monkeypatch.setattr("lakebraid.table.view._without_twin_logs", lambda *args: args[1])
    monkeypatch.setattr("lakebraid.services.merging.run.MergeService.run", lambda *_, **__: None)
    table.compact()
    monkeypatch.undo()
    removed = table.rollback().removed
    log = next(twin.name for twin in twins if twin.name.startswith("."))
    assert log not in removed
    assert [twin.name for twin in twins if not twin.name.startswith(".")] == list(removed)

# SPDX-License-Identifier: Apache-2.0
"""Writes that begin in one process and end in another, as Spark's data source does them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.errors import InvalidArgument, RolledBack, WriteConflict
from lakebraid.model.config import parse_config
from lakebraid.reading.plan import Source
from lakebraid.storage import open_storage
from lakebraid.tasks.writing.rows import write_rows
from lakebraid.txn.liveness.heartbeat import heartbeat_name
from lakebraid.txn.liveness.heartbeat_process import keep_beating, start_beating, stop_beating
from lakebraid.writing.handover import Carried, begin_carried, check_spreads, commit_carried, resumed
from lakebraid.writing.request import WriteRequest
from tests.kit.waiting import until

pytestmark = pytest.mark.unit
ROWS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string())])


def table(path: Path, **arguments: Any) -> lb.Table:
    return lb.Table.create(path, ROWS, record_keys="id", ordering_fields="ts", buckets=2, **arguments)


def begin(t: lb.Table, operation: Any = "upsert", columns: pa.Schema = ROWS) -> Carried:
    return begin_carried(Source(t.path), WriteRequest(operation), columns)


def travelled(carried: Carried) -> Carried:
    arrived: Carried = pickle.loads(pickle.dumps(carried))
    return arrived


def written(carried: Carried, *rows: tuple[str, int, str], task: int = 1000) -> list[Any]:
    rows_ = pa.Table.from_pylist([dict(zip(("id", "ts", "v"), row, strict=True)) for row in rows], ROWS)
    return write_rows(open_storage(carried.source.url, {}), carried.plan, rows_, task)


def values(t: lb.Table) -> dict[str, str]:
    return {row["id"]: row["v"] for row in t.to_arrow().to_pylist()}


@pytest.mark.parametrize("concurrency", ["nbcc", "occ"])
def test_a_write_is_published_by_a_process_that_did_not_begin_it(tmp_path: Path, concurrency: str) -> None:
    t = table(tmp_path / "t", concurrency=concurrency)
    carried = travelled(begin(t))
    files = written(carried, ("a", 1, "x")) + written(carried, ("b", 1, "y"), task=1001)
    assert values(t) == {}
    result = commit_carried(travelled(carried), files)
    assert values(t) == {"a": "x", "b": "y"}
    assert (result.operation, result.rows_written, result.files) == ("upsert", 2, len(files))


def test_a_bulk_load_by_tasks_makes_log_files_and_keeps_its_name(tmp_path: Path) -> None:
    t = table(tmp_path / "t")
    carried = begin(t, "bulk_insert")
    files = written(carried, ("a", 1, "x"))
    assert not any(file.is_base for file in files)
    assert commit_carried(carried, files).operation == "bulk_insert"


def test_a_second_commit_of_the_same_write_says_the_same_and_publishes_nothing(tmp_path: Path) -> None:
    t = table(tmp_path / "t")
    carried = begin(t)
    files = written(carried, ("a", 1, "x"))
    first = commit_carried(travelled(carried), files)
    again = commit_carried(travelled(carried), files)
    assert again.completion_time == first.completion_time
    assert sum(entry.operation == "UPSERT" for entry in t.timeline()) == 1


def test_an_abort_that_comes_after_the_commit_takes_nothing_back(tmp_path: Path) -> None:
    """Spark aborts if the process that published died before it could say so."""
    t = table(tmp_path / "t")
    carried = begin(t)
    commit_carried(travelled(carried), written(carried, ("a", 1, "x")))
    resumed(travelled(carried)).abort()
    assert values(t) == {"a": "x"}


def test_a_commit_that_comes_after_the_abort_is_refused(tmp_path: Path) -> None:
    t = table(tmp_path / "t")
    carried = begin(t)
    files = written(carried, ("a", 1, "x"))
    resumed(travelled(carried)).abort()
    with pytest.raises(RolledBack):
        commit_carried(travelled(carried), files)
    assert values(t) == {}
    assert not list(Path(t.path).glob("*.log.*"))


def test_an_optimistic_write_that_travelled_is_held_against_what_others_did_meanwhile(tmp_path: Path) -> None:
    t = table(tmp_path / "t", concurrency="occ")
    carried = begin(t)
    files = written(carried, ("a", 1, "x"))
    t.upsert([{"id": "a", "ts": 1, "v": "other"}])
    with pytest.raises(WriteConflict):
        commit_carried(travelled(carried), files)
    assert values(t) == {"a": "other"}


def test_rows_that_travelled_may_bring_a_column(tmp_path: Path) -> None:
    t = table(tmp_path / "t")
    wide = ROWS.append(pa.field("note", pa.string()))
    carried = travelled(begin(t, columns=wide))
    rows = pa.Table.from_pylist([{"id": "a", "ts": 1, "v": "x", "note": "new"}], wide)
    commit_carried(carried, write_rows(open_storage(t.path, {}), carried.plan, rows, 1000))
    assert t.to_arrow().to_pylist() == [{"id": "a", "ts": 1, "v": "x", "note": "new"}]


def test_rows_that_do_not_fit_leave_no_open_write(tmp_path: Path) -> None:
    t = table(tmp_path / "t")
    with pytest.raises(InvalidArgument):
        begin(t, columns=pa.schema([("ts", pa.int64())]))
    assert not [entry for entry in t.timeline() if entry.state == "inflight"]


def test_a_write_that_needs_a_shuffle_is_refused_with_the_call_that_does_it(tmp_path: Path) -> None:
    t = table(tmp_path / "t")
    config = parse_config(t.properties, t.path)
    check_spreads(config, "delete", t.path)
    with pytest.raises(InvalidArgument, match=r"insert_overwrite needs a shuffle.*lakebraid.write\(df, path"):
        check_spreads(config, "insert_overwrite", t.path)


# --- beating ---------------------------------------------------------------------------------------------------------


def beats(t: lb.Table, request_time: str) -> int:
    return (Path(t.path) / heartbeat_name(request_time)).stat().st_mtime_ns


@pytest.mark.slow  # a process is started
def test_somebody_beats_for_an_open_write_until_it_is_told_to_stop(tmp_path: Path) -> None:
    t = table(tmp_path / "t")
    carried = begin(t)
    before = beats(t, carried.plan.request_time)
    note = start_beating(t.path, {}, carried.plan.request_time, 0.1)
    until(lambda: beats(t, carried.plan.request_time) > before, "a beat")
    stop_beating(note)
    resumed(carried).abort()


def test_nobody_beats_for_a_write_that_is_over_or_whose_driver_is_gone(tmp_path: Path) -> None:
    t = table(tmp_path / "t")
    carried = begin(t)
    note = tmp_path / "note"
    note.touch()
    nobody = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(nobody, 0)
    before = beats(t, carried.plan.request_time)
    keep_beating(t.path, {}, carried.plan.request_time, 0.0, str(note), nobody)
    assert beats(t, carried.plan.request_time) == before and not note.exists()
    commit_carried(carried, [])
    note.touch()
    keep_beating(t.path, {}, carried.plan.request_time, 0.0, str(note), os.getpid())
    assert not note.exists()

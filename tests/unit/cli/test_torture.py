# SPDX-License-Identifier: Apache-2.0
"""The torture command: a short storm is survived, and every kind of damage is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import lakebraid as lb
from lakebraid.cli.torture.audit import _in_turn, _Write, audit
from lakebraid.cli.torture.run import SCHEMA, torture

pytestmark = pytest.mark.unit


@pytest.mark.slow
def test_a_short_storm_of_kills_and_stops_loses_nothing(tmp_path: Path) -> None:
    options = ["--writers", "3", "--kill", "0.15", "--stop", "0.15", "--keys", "60"]
    # The busier the machine is, the longer a storm has to last for something to happen in it.
    for seconds in ("25", "100", "400"):
        folder = tmp_path / f"storm of {seconds} s"
        result = CliRunner().invoke(torture, [str(folder), "--seconds", seconds, *options], standalone_mode=False)
        assert result.exception is None, result.output
        assert result.return_value == 0, result.output
        assert "every acknowledged row is there" in result.output
        if len(list(lb.Table.open(folder / "table").timeline())) > 10:
            return
    pytest.fail(f"nothing was written: {result.output}")


def test_a_folder_with_something_in_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    result = CliRunner().invoke(torture, [str(tmp_path)], standalone_mode=False)
    assert isinstance(result.exception, lb.InvalidArgument)


@pytest.fixture
def table(tmp_path: Path) -> lb.Table:
    return lb.Table.create(tmp_path / "table", SCHEMA, record_keys="id", ordering_fields="ts", buckets=1)


def write(table: lb.Table, folder: Path, rows: list[tuple[int, int, int]], *, what: str = "published") -> str:
    """One upsert as a writer notes it; `what` is what it says of the end."""
    txn = table.begin("upsert")
    told = [[key, ts, 0, number, txn.instant] for key, ts, number in rows]
    txn.write([dict(zip(("id", "ts", "writer", "number", "note"), row, strict=True)) for row in told])
    completion = txn.commit().completion_time
    lines = [
        {"what": "begun", "instant": txn.instant, "deletes": False, "rows": told},
        {"what": what, "instant": txn.instant, "completion": completion, "seconds": 0.1, "why": "RolledBack"},
    ]
    with (folder / "writer-0.jsonl").open("a") as notes:
        notes.writelines(json.dumps(line) + "\n" for line in lines)
    return txn.instant


def test_the_audit_is_content_with_a_healthy_table(table: lb.Table, tmp_path: Path) -> None:
    write(table, tmp_path, [(1, 1, 1), (2, 1, 1)])
    write(table, tmp_path, [(1, 2, 2)])
    verdict = audit(table, tmp_path, 1.0)
    assert verdict.problems == []
    assert (verdict.published, verdict.rows) == (2, 2)


@pytest.mark.slow
def test_the_audit_notices_a_lost_commit(table: lb.Table, tmp_path: Path) -> None:
    instant = write(table, tmp_path, [(1, 1, 1)])
    (completed,) = Path(table.path, ".hoodie/timeline").glob(f"{instant}_*")
    completed.unlink()
    assert any("was acknowledged" in problem for problem in audit(table, tmp_path, 1.0).problems)


def test_the_audit_notices_a_lost_file(table: lb.Table, tmp_path: Path) -> None:
    instant = write(table, tmp_path, [(1, 1, 1)])
    (log,) = Path(table.path).glob(f".*_{instant}.log.*")
    log.unlink()
    assert any("key 1 must be" in problem for problem in audit(table, tmp_path, 1.0).problems)


def test_the_audit_notices_a_row_that_nobody_wrote(table: lb.Table, tmp_path: Path) -> None:
    write(table, tmp_path, [(1, 1, 1)])
    table.upsert([{"id": 9, "ts": 1, "writer": 0, "number": 0, "note": "x"}])
    assert any("key 9 must be None" in problem for problem in audit(table, tmp_path, 1.0).problems)


def test_the_audit_notices_a_refused_write_that_is_visible(table: lb.Table, tmp_path: Path) -> None:
    write(table, tmp_path, [(1, 1, 1)], what="refused")
    assert any("was refused" in problem for problem in audit(table, tmp_path, 1.0).problems)


def test_the_audit_notices_half_a_commit_in_a_read(table: lb.Table, tmp_path: Path) -> None:
    instant = write(table, tmp_path, [(1, 1, 1), (2, 1, 1)])
    time = table.snapshot().completion_time
    read = {"what": "read", "time": time, "rows": [[1, instant]]}
    (tmp_path / "reader-0.jsonl").write_text(json.dumps(read) + "\n")
    assert any("saw other rows" in problem for problem in audit(table, tmp_path, 1.0).problems)


@pytest.mark.parametrize(("said", "problems"), [("WARNING: Using incubator modules", 0), ("Traceback (most …", 1)])
def test_what_java_says_about_its_start_is_no_problem_of_a_writer_on_spark(
    table: lb.Table, tmp_path: Path, said: str, problems: int
) -> None:
    write(table, tmp_path, [(1, 1, 1)])
    (tmp_path / "writer-spark-2.err").write_text(said)
    assert len(audit(table, tmp_path, 1.0).problems) == problems


@pytest.mark.parametrize(("row_was_there", "unsure"), [(False, {1}), (True, set())])
def test_only_a_delete_that_may_have_found_nothing_leaves_a_later_row_in_doubt(
    row_was_there: bool, unsure: set[int]
) -> None:
    row, new = (1, 5, 0, 0, "a"), (1, 6, 0, 0, "b")
    writes = {
        "20": _Write(deletes=False, rows=[new], completion="41"),
        "40": _Write(deletes=True, rows=[new], completion="42"),
    }
    if row_was_there:
        writes["10"] = _Write(deletes=False, rows=[row], completion="11")
    told = _in_turn(writes, may_miss=True)
    assert told.unsure == unsure
    assert _in_turn(writes, "41", may_miss=True).rows == {1: new}
    assert _in_turn(writes, may_miss=False).rows == {}
    assert bool(told.rows) == bool(unsure)

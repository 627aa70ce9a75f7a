# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.cli import servicing
from lakebraid.cli.main import COMMANDS, main
from lakebraid.errors import StorageError
from tests.kit.present import present
from tests.kit.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.unit


@pytest.fixture
def table(tmp_path: Path) -> lb.Table:
    made = lb.Table.create(tmp_path / "t", "id bigint, ts bigint", record_keys="id", ordering_fields="ts", buckets=1)
    for n in range(5):
        made.upsert([{"id": 1, "ts": n}])
    return made


def ran(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_compact_tells_what_it_would_do_does_it_and_then_has_nothing_to_do(
    table: lb.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = ran(capsys, "compact", table.path, "--dry-run")
    assert code == 0 and "5 log files" in out
    code, out, _ = ran(capsys, "compact", table.path)
    assert code == 0 and "1 file group, 1 row" in out
    assert ran(capsys, "compact", table.path)[1] == "nothing to compact\n"


def test_a_plan_of_one_process_is_executed_by_another_and_its_result_told_again(
    table: lb.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = ran(capsys, "compact", table.path, "--plan-only", "--json")
    plan = json.loads(out)
    first = ran(capsys, "compact", table.path, "--run", plan["instant"], "--json")
    assert first[0] == 0 and json.loads(first[1])["instant"] == plan["instant"]
    assert ran(capsys, "compact", table.path, "--run", plan["instant"], "--json") == first
    code, _, err = ran(capsys, "compact", table.path, "--run", "20200101000000000")
    assert code == 1 and "never was" in err
    code, _, err = ran(capsys, "compact", table.path, "--run", plan["instant"], "--dry-run")
    assert code == 2 and "exclude" in err


def test_log_compact_makes_a_removable_plan_if_asked(table: lb.Table, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, "log-compact", table.path, "--plan-only", "--removable", "--json")
    assert code == 0 and json.loads(out)["is_removable"] is True
    assert ran(capsys, "log-compact", table.path)[0] == 0


def test_clean_rollback_and_archive_say_what_they_did(table: lb.Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.compact()
    dead = table.begin()
    code, out, _ = ran(capsys, "rollback", table.path, "--timeout", "0s")
    assert code == 0 and "rolled back 1 dead write" in out
    assert table.status(dead.instant) == "refused"
    code, out, _ = ran(capsys, "clean", table.path, "--commits", "1", "--json")
    assert code == 0 and json.loads(out)["files"]
    assert "0 files" in ran(capsys, "clean", table.path, "--dry-run")[1]
    assert ran(capsys, "archive", table.path)[1].startswith("archive: 0 instants")
    assert ran(capsys, "rollback", table.path)[1] == "rollback: nothing to roll back\n"
    assert ran(capsys, "rollback", table.path, "--timeout", "soon")[0] == 2
    assert ran(capsys, "clean", table.path, "--commits", "1", "--hours", "2")[0] == 2


def test_a_log_compaction_that_is_done_at_once_is_removable_if_that_is_asked_for(
    table: lb.Table, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def noted(_: lb.Table, **how: Any) -> list[Any]:
        asked.append(how)
        return []

    monkeypatch.setattr(lb.Table, "log_compact", noted)
    ran(capsys, "log-compact", table.path, "--removable")
    assert asked == [{"removable": True}], "the flag counted for --plan-only alone"


@pytest.mark.parametrize("command", ["rollback", "clean"])
def test_the_age_of_removable_plans_can_be_given_to_those_that_roll_back(
    command: str, table: lb.Table, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HEARTBEAT_TIMEOUT_MS", 1)
    plan = present(table.plan_log_compaction(removable=True))
    assert present(plan.instant) not in ran(capsys, command, table.path, "--table-service-rollback-delay", "1h")[1]
    assert table.status().plans
    assert ran(capsys, command, table.path, "--table-service-rollback-delay", "soon")[0] == 2
    assert ran(capsys, command, table.path, "--table-service-rollback-delay", "0s")[0] == 0
    assert not table.status().plans


def test_a_savepoint_is_set_listed_restored_to_and_deleted(table: lb.Table, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ran(capsys, "savepoint", table.path, "--comment", "before", "--json")
    instant = json.loads(out)["instant"]
    table.upsert([{"id": 2, "ts": 1}])
    assert "before" in ran(capsys, "savepoint", table.path, "--list")[1]
    code, out, _ = ran(capsys, "restore", table.path, instant, "--dry-run")
    assert code == 0 and "would remove 1 completed action" in out
    assert table.count() == 2
    code, _, err = ran(capsys, "restore", table.path, instant)
    assert code == 2 and "--yes" in err, "nobody is there to answer"
    assert table.count() == 2
    assert ran(capsys, "restore", table.path, instant, "--yes")[0] == 0
    assert table.count() == 1
    assert ran(capsys, "savepoint", table.path, "--delete", instant)[0] == 0
    assert ran(capsys, "savepoint", table.path, "--delete", instant)[0] == 1


def test_services_once_does_what_is_due_and_fails_if_a_service_did(
    table: lb.Table, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = ran(capsys, "services", table.path, "--once")
    assert code == 0 and "compaction" in out
    assert ran(capsys, "services", table.path, "--once")[:2] == (0, "nothing to do\n")

    def fails(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(lb.Table, "clean", fails)
    code, out, err = ran(capsys, "services", table.path, "--once", "--only", "clean,archive")
    assert code == 1 and "clean failed" in err and "full" in err
    code, out, _ = ran(capsys, "services", table.path, "--once", "--json")
    assert code == 1 and json.loads(out)["ran"][0]["service"] == "clean"
    assert ran(capsys, "services", table.path, "--only", "tidying")[0] == 2


@pytest.mark.slow
def test_services_go_on_until_they_are_told_to_stop(table: lb.Table) -> None:
    command = [sys.executable, "-m", "lakebraid.cli.main", "services", table.path, "--every", "100ms", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        rounds = [json.loads(present(process.stdout).readline()) for _ in range(3)]
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert [one["ran"] for one in rounds][1:] == [[], []] and rounds[0]["ran"][0]["service"] == "compact"


def test_status_prints_what_to_run_and_checks(table: lb.Table, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, "status", table.path)
    assert code == 0 and f"lakebraid compact {table.path}" in out
    assert "\x1b" not in out, "not a terminal"
    assert ran(capsys, "status", table.path, "--check")[0] == 1
    table.compact()
    assert ran(capsys, "status", table.path, "--check")[0] == 0
    told = json.loads(ran(capsys, "status", table.path, "--json")[1])
    assert told["compaction"]["logs"] == 0 and told["advice"] == []


def test_a_table_that_is_not_there_is_an_error_of_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "compact", "clean", "rollback", "archive", "services"):
        code, out, err = ran(capsys, command, str(tmp_path / "nothing"))
        assert (code, out) == (1, "") and err.startswith("error: ")


def test_every_command_that_serves_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    serving = [name for name, (home, _) in COMMANDS.items() if home.startswith(f"{servicing.__name__}:")]
    assert "services" in serving
    for name in (*serving, "status"):
        _, out, _ = ran(capsys, name, "--help")
        assert f"lakebraid {name} " in out.split("Example")[1]

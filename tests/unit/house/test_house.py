# SPDX-License-Identifier: Apache-2.0
"""The house keeps its bounds: no file and no folder that one cannot hold in the head, no short way round a door."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lakebraid
from lakebraid.model.config import parse_config
from tests.kit import house
from tests.kit.documents import ROOT

pytestmark = pytest.mark.unit

CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
ENFORCED = [name.rpartition(".")[2] for layer in CONTRACTS[0]["layers"] for name in layer.split(" | ")]


def test_no_file_is_longer_than_one_can_hold_in_the_head() -> None:
    assert house.long_files() == {}


def test_no_folder_has_more_modules_than_one_can_hold_in_the_head() -> None:
    assert house.full_folders() == {}


def test_every_call_that_hands_on_a_dictionary_of_arguments_has_a_reason() -> None:
    assert house.handed_on() == set(house.HANDED_ON)
    assert house.taking_any() == set(house.TAKING_ANY)


def test_no_layer_above_spark_imports_it_inside_of_a_function() -> None:
    assert house.late_imports() == []


def test_the_simulator_replaces_no_function_of_the_product() -> None:
    assert house.patches() == []


def test_an_upsert_passes_few_modules() -> None:
    passed = house.upsert_path()
    assert "lakebraid.tasks.writing.rows" in passed.modules, "the way was followed"
    assert len(passed.modules) <= house.UPSERT_MODULES_MAX <= 45, "\n".join(passed.modules)
    assert len(passed.before_first_row) <= house.WRITING_MODULES_MAX <= 5, passed.before_first_row


def test_the_layers_are_drawn_as_they_are_enforced() -> None:
    picture = (ROOT / "ARCHITECTURE.md").read_text().split("```")[1]
    drawn = re.findall(r"^ ([a-z]+)(?: {2,}([a-z]+)| · ([a-z]+) · ([a-z]+))?(?: {2,}|$)", picture, re.MULTILINE)
    assert [name for row in drawn for name in row if name in ENFORCED] == ENFORCED


def test_every_module_of_the_package_is_in_a_layer_and_all_but_two_are_kept_from_pyspark() -> None:
    home = Path(lakebraid.__file__).parent
    there = {path.stem for path in home.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(there - {"__init__"}) == sorted(ENFORCED)
    kept = {contract["name"]: contract for contract in CONTRACTS}
    without_pyspark = kept["Only spark and source import pyspark"]["source_modules"]
    without_click = kept["Only the command line imports click"]["source_modules"]
    assert {*ENFORCED} - {name.rpartition(".")[2] for name in without_pyspark} == {"spark", "source"}
    assert {*ENFORCED} - {name.rpartition(".")[2] for name in without_click} == {"cli"}


def test_every_module_that_the_page_of_the_architecture_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(rf"\b((?:{'|'.join(ENFORCED)})(?:\.[a-z_]+)+)\b(?!\()", text)) - {
        "services.md",
        "format.md",
        "limits.md",
        "table.md",
    }
    paths = [house.SOURCE / name.replace(".", "/") for name in named]
    assert len(paths) > 12
    assert [path for path in paths if not path.is_dir() and not path.with_suffix(".py").exists()] == []


def planted(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return root


@pytest.mark.parametrize("folder", house.WRITTEN)
def test_a_file_that_is_too_long_is_found_wherever_it_is(tmp_path: Path, folder: str) -> None:
    planted(tmp_path, f"{folder}/deep/fits.py", "pass\n" * 400)
    assert house.long_files(tmp_path) == {}
    planted(tmp_path, f"{folder}/deep/long.py", "pass\n" * 401)
    assert house.long_files(tmp_path) == {f"{folder}/deep/long.py": 401}


def test_a_folder_that_is_too_full_is_found(tmp_path: Path) -> None:
    for folder in house.ROOMY:
        for number in range(14):
            planted(tmp_path, f"{folder}/deep/m{number}.py", "")
        planted(tmp_path, f"{folder}/deep/__init__.py", "")
    assert house.full_folders(tmp_path) == {}
    for folder in house.ROOMY:
        planted(tmp_path, f"{folder}/deep/one_more.py", "")
    assert house.full_folders(tmp_path) == {f"{folder}/deep": 15 for folder in house.ROOMY}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("how = {'a': a}; return g(**how)", {"g(**how)"}),
        ("how = dict(a=a); return g(**how)", {"g(**how)"}),
        ("return g(**({'a': a} | b))", {"g(**{'a': a} | b)"}),
        ("return t.g(1, **made(a))", {"t.g(**made(a))"}),
        ("return {**a, 'b': 1}", set()),
        ("return a ** 2", set()),
    ],
)
def test_a_dictionary_of_arguments_is_found_however_it_was_made(tmp_path: Path, body: str, found: set[str]) -> None:
    source = planted(tmp_path, "api/m.py", f"def f(a):\n    {body}\n")
    assert house.handed_on(source) == {f"api/m.py {words}" for words in found}
    assert house.taking_any(source) == set()


def test_a_function_that_takes_any_name_is_found(tmp_path: Path) -> None:
    source = planted(tmp_path, "api/m.py", "class A:\n    async def f(self, **how): ...\n")
    assert house.taking_any(source) == {"api/m.py f(**how)"}


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("services/m.py", "def f():\n    from lakebraid.spark.merge import run\n", ["lakebraid.spark.merge.run"]),
        ("services/m.py", "def f():\n    from lakebraid import spark\n", ["lakebraid.spark"]),
        ("api/deep/m.py", "def f():\n    if a:\n        import pyspark.sql\n", ["pyspark.sql"]),
        ("api/m.py", "from lakebraid import spark\n", []),
        ("spark/m.py", "def f():\n    import pyspark\n", []),
    ],
)
def test_a_late_import_of_spark_is_found(tmp_path: Path, path: str, text: str, found: list[str]) -> None:
    assert [line.partition(" ")[2] for line in house.late_imports(planted(tmp_path, path, text))] == found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("from lakebraid.txn import writer\n\nwriter.begin = None\n", [3]),
        ("import lakebraid as lb\nlb.api.x = 1\nlb.y = 1\n", [3]),
        ("setattr(a, 'b', 1)\n", [1]),
        ("class A:\n    def f(self):\n        self.a = 1\n", []),
    ],
)
def test_a_replaced_attribute_is_found(text: str, lines: list[int]) -> None:
    assert [*house.replaced(ast.parse(text))] == lines


def test_the_way_of_a_call_is_followed_through_the_modules_of_its_functions() -> None:
    passed = house.followed(lambda: parse_config({"hoodie.table.name": "t", "hoodie.table.version": "9"}, "t"))
    assert {"lakebraid.model.config"} <= set(passed.modules)
    assert passed.before_first_row == ()

# SPDX-License-Identifier: Apache-2.0
"""The house, measured: how many rooms there are, how large they are, and how many of them one upsert passes.

`uv run python -m tests.kit.house` prints it; `tests/unit/house/test_house.py` holds it to its bounds.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pyarrow as pa

import lakebraid as lb
from tests.kit.documents import ROOT

SOURCE: Final = ROOT / "src" / "lakebraid"
WRITTEN: Final = ("src", "tests", "simulator", "benchmarks", "examples", "docs")
"""Where there is code of ours."""
ROOMY: Final = ("src", "simulator", "benchmarks", "tests/kit")
"""Folders whose modules one has to know to find something. Tests are found by their names, which are sentences."""
LISTS: Final = ("simulator/checkers", "benchmarks")
"""Folders that are lists, a file for each entry of a page: an invariant of docs/spec/simulation.md, a command of benchmarks/README.md."""
FILE_LINES_MAX: Final = 400
FOLDER_MODULES_MAX: Final = 14
UPSERT_MODULES_MAX: Final = 44
"""As many as on 2026-11-18, so that there are no more."""
WRITING_MODULES_MAX: Final = 5
"""Modules of `writing/` that an upsert passes before its first row is written."""
HANDED_ON: Final = {
    "api/inflow.py query.trigger(**told)": "the words of Spark's own `trigger`, as the user gave them",
    "api/reads.py InvalidArgument(**error.facts)": "an error told again: facts are of any type",
    "api/sql.py at_work.sql(**frames)": "the user's names for tables, for Spark's own `sql`",
    "errors.py kind(**facts)": "an error read back from another process",
    "model/schema/growth.py InvalidArgument(**error.facts)": "an error told again",
    "services/settings.py ServiceSettings(**{field: Setting(name, properties.get(name)) for field, name in _NAMES.items()})": (
        "all fields are of one type, which mypy checks"
    ),
    "txn/checks/opened_keys.py WriteConflict(**facts)": "a fact of an error that is not always there",
    "txn/checks/read_keys.py WriteConflict(**facts)": "the same",
    "txn/hudi/lock_owner.py Owner(**record)": "out of JSON; each field is checked in the next lines",
    "writing/transaction.py found(**named)": "a method and its own arguments (ParamSpec)",
}
"""Calls that hand a dictionary of arguments on, each with its reason."""
TAKING_ANY: Final = {
    "api/by_options.py read(**options)": "Hudi's option names, as the user gives them",
    "api/by_options.py write(**options)": "the same",
    "api/sql.py sql(**tables)": "the user's names for tables",
    "cli/torture/actor.py say(**facts)": "a line of JSON",
    "errors.py __init__(**facts)": "what an error knows, as attributes",
    "writing/transaction.py call(**named)": "a method's own arguments (ParamSpec)",
}
"""Functions that take arguments of any name, each with its reason."""
LOADED_LATE: Final = ("lakebraid.spark", "lakebraid.source", "pyspark")
"""What layers above may name only at the top of a module: `from lakebraid import spark` loads pyspark when it is used."""


@dataclass(frozen=True, slots=True)
class Passed:
    """The modules that one upsert passes, in the order of their first call."""

    modules: tuple[str, ...]
    before_first_row: tuple[str, ...]


def modules(folder: Path = SOURCE) -> Iterator[Path]:
    """All modules in a folder and below."""
    yield from sorted(folder.rglob("*.py"))


def long_files(root: Path = ROOT) -> dict[str, int]:
    """Files with more lines than one can hold in the head."""
    paths = [path for folder in WRITTEN for path in modules(root / folder)]
    lines = {path.relative_to(root).as_posix(): len(path.read_text("utf-8").splitlines()) for path in paths}
    return {name: count for name, count in lines.items() if count > FILE_LINES_MAX}


def full_folders(root: Path = ROOT) -> dict[str, int]:
    """Folders with more modules than one can hold in the head."""
    paths = [path for folder in ROOMY for path in modules(root / folder) if not path.name.startswith("__")]
    held = Counter(path.parent.relative_to(root).as_posix() for path in paths)
    return {folder: count for folder, count in held.items() if count > FOLDER_MODULES_MAX and folder not in LISTS}


def handed_on(source: Path = SOURCE) -> set[str]:
    """Calls that hand on a dictionary of arguments (`**how`): mypy cannot tell what is in most of them."""
    return {f"{_name(path, source)} {words}" for path in modules(source) for words in splats(_tree(path))}


def splats(tree: ast.AST) -> Iterator[str]:
    """The dictionaries of arguments in one module, with the functions that get them."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            yield from (f"{ast.unparse(call.func)}(**{ast.unparse(w.value)})" for w in call.keywords if w.arg is None)


def taking_any(source: Path = SOURCE) -> set[str]:
    """Functions that take arguments of any name."""
    return {
        f"{_name(path, source)} {made.name}(**{made.args.kwarg.arg})"
        for path in modules(source)
        for made in ast.walk(_tree(path))
        if isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef) and made.args.kwarg is not None
    }


def late_imports(source: Path = SOURCE) -> list[str]:
    """Imports of Spark's layers inside of functions, outside of these layers and of the command line."""
    return [
        f"{_name(path, source)}:{line} {module}"
        for path in modules(source)
        if _name(path, source).partition("/")[0] not in ("spark", "source", "cli")
        for line, module in inner_imports(_tree(path))
        if module.startswith(LOADED_LATE)
    ]


def inner_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What functions of a module import when they are called."""
    for made in ast.walk(tree):
        if isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(made):
                if isinstance(node, ast.Import):
                    yield from ((node.lineno, alias.name) for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def patches(folder: Path = ROOT / "simulator") -> list[str]:
    """Places where attributes of a module or class are replaced (`setattr`, or `module.function = …`)."""
    return [f"{_name(path, folder)}:{line}" for path in modules(folder) for line in replaced(_tree(path))]


def replaced(tree: ast.Module) -> Iterator[int]:
    """The lines of one module that replace attributes of what it imports."""
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="setattr")):
                yield node.lineno
            case ast.Attribute(ctx=ast.Store(), value=ast.Name(id=name)) if name in imported:
                yield node.lineno


def upsert_path() -> Passed:
    """The modules of which a function runs while an Arrow table is upserted in process into a bucketed merge-on-read table.

    Values that are only made do not count: nobody looks for behaviour in the constructor of a dataclass.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = lb.Table.create(f"{folder}/t", "id bigint, v string", record_keys=["id"], buckets=4)
        rows = pa.table({"id": pa.array(range(100), pa.int64()), "v": ["x"] * 100})
        table.upsert(rows)  # what is imported and remembered once is not part of the way
        # A listing that a busy machine holds up takes as long as an object store's, and then a process asks.
        ways = [followed(lambda: table.upsert(rows)) for _ in range(3)]
        return min(ways, key=lambda way: len(way.modules))


def followed(run: Callable[[], Any]) -> Passed:
    """The modules of the product of which a function is called while it runs."""
    passed: dict[str, None] = {}
    before: list[str] = []

    def follow(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            name = frame.f_globals.get("__name__", "")
            if name.startswith("lakebraid.") and frame.f_code.co_filename == frame.f_globals["__file__"]:
                if name == "lakebraid.tasks.writing.rows" and not before:
                    before.extend(passed)
                passed.setdefault(name)

    sys.setprofile(follow)
    try:
        run()
    finally:
        sys.setprofile(None)
    return Passed(tuple(passed), tuple(name for name in before if name.startswith("lakebraid.writing.")))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _listed(what: str, found: Iterable[str]) -> Iterator[str]:
    lines = sorted(found)
    yield f"{what}: {len(lines) or 'none'}"
    yield from (f"  {line}" for line in lines)


def _report() -> Iterator[str]:
    way = upsert_path()
    yield f"{len([*modules()])} modules; over {FILE_LINES_MAX} lines: {long_files() or 'none'}"
    yield f"folders over {FOLDER_MODULES_MAX} modules: {full_folders() or 'none'}"
    yield f"an upsert passes {len(way.modules)} modules (at most {UPSERT_MODULES_MAX}):"
    yield from (f"  {name}" for name in way.modules)
    yield f"of writing, before the first row: {len(way.before_first_row)} (at most {WRITING_MODULES_MAX})"
    yield from (f"  {name}" for name in way.before_first_row)
    yield from _listed("dictionaries of arguments without a reason", handed_on() - set(HANDED_ON))
    yield from _listed("functions that take any name without a reason", taking_any() - set(TAKING_ANY))
    yield from _listed("late imports of Spark", late_imports())
    yield from _listed("attributes that the simulator replaces", patches())


if __name__ == "__main__":
    print(*_report(), sep="\n")

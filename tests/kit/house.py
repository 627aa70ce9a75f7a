# SPDX-License-Identifier: Apache-2.0
"""The house, measured: how many rooms there are, how large they are, and how many of them one upsert passes.

`uv run python -m tests.kit.house` prints it; `tests/unit/house/test_house.py` holds it to its bounds.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import lakebraid as lb
from tests.kit.documents import ROOT

SOURCE = ROOT / "src" / "lakebraid"
FILE_LINES_MAX = 400
FOLDER_MODULES_MAX = 14
UPSERT_MODULES_MAX = 44
"""As many as on 2026-11-18, so that there are no more."""
WRITING_MODULES_MAX = 5
"""Modules of `writing/` that an upsert passes before its first row is written."""


@dataclass(frozen=True, slots=True)
class Passed:
    """The modules that one upsert passes, in the order of their first call."""

    modules: tuple[str, ...]
    before_first_row: tuple[str, ...]


def modules() -> Iterator[Path]:
    """All modules of the product."""
    yield from sorted(SOURCE.rglob("*.py"))


def long_files() -> dict[str, int]:
    """Files with more lines than one can hold in the head."""
    lines = {_name(path): len(path.read_text("utf-8").splitlines()) for path in modules()}
    return {name: count for name, count in lines.items() if count > FILE_LINES_MAX}


def full_folders() -> dict[str, int]:
    """Folders with more modules than one can hold in the head."""
    held = Counter(_name(path.parent) for path in modules() if path.name != "__init__.py")
    return {folder: count for folder, count in held.items() if count > FOLDER_MODULES_MAX}


def untyped_splats() -> list[str]:
    """Calls that hand a dictionary of arguments on (`**how`) which was made by hand: mypy sees Any there."""
    return [f"{_name(path)}:{line} **{name}" for path in modules() for line, name in splats(_tree(path))]


def splats(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The dictionaries of arguments in one module, with the lines of the calls that take them."""
    made = {
        node.id
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Dict)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            for word in call.keywords:
                if word.arg is None and isinstance(word.value, ast.Name) and word.value.id in made:
                    yield call.lineno, word.value.id


def upsert_path() -> Passed:
    """The modules of which a function runs while an Arrow table is upserted in process into a bucketed merge-on-read table.

    Values that are only made do not count: nobody looks for behaviour in the constructor of a dataclass.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = lb.Table.create(f"{folder}/t", "id bigint, v string", record_keys=["id"], buckets=4)
        rows = pa.table({"id": pa.array(range(100), pa.int64()), "v": ["x"] * 100})
        table.upsert(rows)  # what is imported and remembered once is not part of the way
        # A listing that a busy machine holds up takes as long as an object store's, and then a process asks.
        ways = [_followed(lambda: table.upsert(rows)) for _ in range(3)]
        return min(ways, key=lambda way: len(way.modules))


def _followed(run: Callable[[], Any]) -> Passed:
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


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _report() -> Iterator[str]:
    way = upsert_path()
    yield f"{len([*modules()])} modules; over {FILE_LINES_MAX} lines: {long_files() or 'none'}"
    yield f"folders over {FOLDER_MODULES_MAX} modules: {full_folders() or 'none'}"
    yield f"an upsert passes {len(way.modules)} modules (at most {UPSERT_MODULES_MAX}):"
    yield from (f"  {name}" for name in way.modules)
    yield f"of writing, before the first row: {len(way.before_first_row)} (at most {WRITING_MODULES_MAX})"
    yield from (f"  {name}" for name in way.before_first_row)
    found = untyped_splats()
    yield f"untyped arguments: {len(found) or 'none'}"
    yield from (f"  {where}" for where in found)


if __name__ == "__main__":
    print(*_report(), sep="\n")

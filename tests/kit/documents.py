# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation as something to run: their blocks of Python, in order, in one namespace for each page."""

from __future__ import annotations

import ast
import doctest
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
_BLOCK = re.compile(
    r"(?:<!-- (?P<needs>\w+) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One fenced block. `needs` names what a comment above it asks for: spark, objects."""

    page: Path
    line: int
    language: str
    code: str
    needs: str | None

    def run(self, names: dict[str, Any]) -> None:
        if self.language == "python":
            exec(compile("\n" * self.line + self.code, str(self.page), "exec"), names)
        elif self.language == "pycon":
            test = doctest.DocTestParser().get_doctest(self.code, names, self.page.name, str(self.page), self.line)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
            told: list[str] = []
            runner.run(test, out=told.append, clear_globs=False)
            names.update(test.globs)
            assert not runner.failures, "".join(told)


def pages() -> list[Path]:
    return sorted(DOCS.rglob("*.md"))


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(page, text.count("\n", 0, m.start("code")), m["language"], m["code"], m["needs"])
        for m in _BLOCK.finditer(text)
    ]


def read_code_cells(notebook: Path) -> list[str]:
    """The Python of a notebook, cell by cell."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(code: str, names: dict[str, Any], place: str) -> Any:
    """Runs a cell, and gives the value of its last line, which a notebook would show."""
    body = ast.parse(code, place).body
    last = body[-1] if body else None
    shown = last.value if isinstance(last, ast.Expr) else None
    if shown is not None:
        body.pop()
    exec(compile(ast.Module(body, []), place, "exec"), names)
    return eval(compile(ast.Expression(shown), place, "eval"), names) if shown is not None else None


def needs(page: Path) -> set[str]:
    """What the page needs beside plain Python; empty if it has nothing to run."""
    return {block.needs or "nothing" for block in blocks(page) if block.language in ("python", "pycon")}


def run(page: Path, *offered: str, **given: Any) -> None:
    """Runs the blocks of a page in the current folder, without those that need what is not offered."""
    names: dict[str, Any] = {"__name__": "__docs__", **given}
    for block in blocks(page):
        if block.needs is None or block.needs in offered:
            block.run(names)

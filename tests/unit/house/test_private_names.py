# SPDX-License-Identifier: Apache-2.0
"""What a module calls private (`_name`) is used in that module only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakebraid

pytestmark = pytest.mark.unit

_HOME = Path(lakebraid.__file__).parent
_MODULES = sorted(_HOME.rglob("*.py"))
_OF_OTHERS = {"_jvm", "_jsc", "_gateway", "_jsparkSession", "_jdf", "_sc", "_collect_as_arrow", "_exit"}
"""PySpark's way to its JVM, and `os._exit`."""


def accesses(source: str) -> Iterator[str]:
    """Uses of private names that the module neither defines nor has as `self`."""
    tree = ast.parse(source)
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own |= {n.target.id for n in ast.walk(tree) if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    own |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _is_stored_in_self(n)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)) if name not in own:
                used = [name]
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("lakebraid"):
                used = [alias.name for alias in names]
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]) if name not in own:
                used = [name]
            case _:
                continue
        yield from (
            f"line {node.lineno}: {n}"
            for n in used
            if n.startswith("_") and not n.startswith("__") and n not in _OF_OTHERS
        )


def _is_stored_in_self(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


@pytest.mark.parametrize("path", _MODULES, ids=lambda path: str(path.relative_to(_HOME)))
def test_no_module_uses_what_another_one_calls_private(path: Path) -> None:
    assert [*accesses(path.read_text())] == []


@pytest.mark.parametrize(
    "source",
    [
        "x._seen",
        "f(_seen=1)",
        "from lakebraid.txn.writer import _names",
        "self.table._config",
        "x._seen = 1",
        "getattr(x, '_seen')",
    ],
)
def test_a_private_access_is_found(source: str) -> None:
    assert len([*accesses(source)]) == 1

# SPDX-License-Identifier: Apache-2.0
"""`Table` is one class in four layers (docs/decisions/0029-one-table-in-four-layers.md): help, editors and the site see all of it."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from pathlib import Path

import griffe
import pytest

import lakebraid as lb

pytestmark = pytest.mark.unit

LAYERS = lb.Table.__mro__[:-1]
PUBLIC = sorted(name for name in dir(lb.Table) if not name.startswith("_"))


def _classes() -> dict[str, ast.ClassDef]:
    trees = {c.__name__: ast.parse(Path(inspect.getfile(c)).read_text()) for c in LAYERS}
    return {
        name: next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)
        for name, tree in trees.items()
    }


def test_each_layer_stands_on_one_other() -> None:
    assert [c.__name__ for c in LAYERS] == ["Table", "Writes", "Maintenance", "Reads"]
    assert all(len(c.__bases__) == 1 for c in LAYERS)


def test_no_layer_promises_or_overrides_what_another_one_has() -> None:
    found: Counter[str] = Counter()
    for made in _classes().values():
        found.update({n.name for n in ast.walk(made) if isinstance(n, ast.FunctionDef)})
    assert [name for name, count in found.items() if count > 1] == []


def test_only_the_lowest_layer_has_state() -> None:
    stored = {
        name
        for name, made in _classes().items()
        for n in ast.walk(made)
        if (isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)) or isinstance(n, ast.AnnAssign)
        if not isinstance(n, ast.AnnAssign) or n in made.body
    }
    assert stored == {"Reads"}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_of_a_table_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(inspect.getattr_static(lb.Table, name))


def test_the_site_shows_every_public_name_with_its_docstring() -> None:
    package = griffe.load("lakebraid", search_paths=[Path(lb.__file__).parent.parent])
    table = package["api.table.Table"]
    assert isinstance(table, griffe.Class)
    shown = {name: m for name, m in table.all_members.items() if not name.startswith("_")}
    assert sorted(shown) == PUBLIC
    assert [name for name, member in shown.items() if not member.has_docstring] == []

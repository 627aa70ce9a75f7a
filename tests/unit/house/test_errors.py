# SPDX-License-Identifier: Apache-2.0
"""The drawing of the errors is the tree of the classes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

import lakebraid
from lakebraid import errors
from lakebraid.errors import LakebraidError

pytestmark = pytest.mark.unit

_WIDTH = 4
"""Characters of one step to the right."""


def drawn() -> set[tuple[str, str]]:
    """Child and parent, as the docstring of the module draws them."""
    above: list[str] = []
    found = set()
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ((?:│   |    )*(?:├── |└── )?)(\w+)(?: .*)?$", line)
        if match is None or not line.startswith("    "):
            continue
        depth = len(match[1]) // _WIDTH
        above = [*above[:depth], match[2]]
        if depth:
            found.add((match[2], above[depth - 1]))
    return found


def defined() -> set[tuple[str, str]]:
    """Child and parent, of all classes of all modules of the package that need no Spark."""
    for module in pkgutil.walk_packages(lakebraid.__path__, "lakebraid."):
        if not module.name.startswith(("lakebraid.spark", "lakebraid.source", "lakebraid.cli.main")):
            importlib.import_module(module.name)
    found, waiting = set(), [LakebraidError]
    while waiting:
        parent = waiting.pop()
        children = [kind for kind in parent.__subclasses__() if kind.__module__.startswith("lakebraid.")]
        found |= {(child.__name__, parent.__name__) for child in children}
        waiting += children
    return found


def test_the_drawn_tree_of_errors_is_the_tree_of_their_classes() -> None:
    assert drawn() == defined()
    assert len(drawn()) > 20


def test_every_error_is_defined_where_the_tree_is_drawn() -> None:
    names = {name for name, _ in defined()}
    assert names <= {name for name, kind in vars(errors).items() if inspect.isclass(kind)}

# SPDX-License-Identifier: Apache-2.0
"""Planting bugs: a checker that has never failed has not been tested.

A mutant replaces one piece of the text of a function of the product. If the text is no longer there, planting it
fails: mutants cannot rot in silence.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType
from typing import Any

from simulator.setting import Setting, plain
from simulator.world.schedule import Cue


@dataclass(frozen=True, slots=True)
class Mutant:
    """`old` becomes `new` in the function `target` of a module; `weather` is where the bug shows soonest."""

    name: str
    rule: str
    """What it breaks: a rule of the ledger (H1 …) or an invariant."""
    module: str
    target: str
    old: str
    new: str
    caught_by: tuple[str, ...]
    """Numbers of the invariants that may catch it first."""
    weather: dict[str, Any] = field(default_factory=dict)
    also: tuple[tuple[str, str], ...] = ()
    """Further replacements in the same function."""
    elsewhere: tuple[tuple[str, str, str, str], ...] = ()
    """Replacements in other functions: module, target, old, new."""
    script: tuple[Cue, ...] = ()
    """The schedule in which it shows, where chance would not find it; the weather is then the whole setting."""
    first_seed: int = 0
    """Where to begin: some bugs need hundreds of histories from the start."""

    def setting(self, drawn: Setting) -> Setting:
        """The setting of a seed, bent to where this bug lives."""
        return Setting(drawn.seed, **self.weather) if self.script else replace(plain(drawn.seed), **self.weather)

    def is_caught_by(self, invariant: str) -> bool:
        """Whether this invariant speaks of this bug; what else it breaks on the way proves nothing about checkers."""
        return invariant in self.caught_by or invariant.split(maxsplit=1)[0] in self.caught_by


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The product with the bug in it."""
    places = [(mutant.module, mutant.target, ((mutant.old, mutant.new), *mutant.also))]
    places += [(module, target, ((old, new),)) for module, target, old, new in mutant.elsewhere]
    functions = [_function(mutant.name, module, target) for module, target, _ in places]
    mutated = [
        _mutated(mutant.name, function, changes) for function, (_, _, changes) in zip(functions, places, strict=True)
    ]
    before = [function.__code__ for function in functions]
    for function, code in zip(functions, mutated, strict=True):
        function.__code__ = code
    try:
        yield
    finally:
        for function, code in zip(functions, before, strict=True):
            function.__code__ = code


def _function(name: str, module: str, target: str) -> FunctionType:
    found: Any = importlib.import_module(module)
    for part in target.split("."):
        found = inspect.getattr_static(found, part, None)
        if found is None:
            raise LookupError(f"{name}: {module} has no {target}")
    while not isinstance(found, FunctionType):
        found = getattr(found, "__func__", None) or found.__wrapped__
    return found


def _mutated(name: str, function: FunctionType, changes: Iterable[tuple[str, str]]) -> CodeType:
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        if source.count(old) != 1:
            raise LookupError(f"{name}: {function.__qualname__} has {source.count(old)} times {old!r}")
        source = source.replace(old, new)
    code = compile(f"from __future__ import annotations\n{source}", f"<mutant {name}>", "exec")
    free = function.__code__.co_freevars
    if free:
        raise LookupError(f"{name}: {function.__qualname__} is a closure over {free}")
    return next(c for c in code.co_consts if inspect.iscode(c) and c.co_name == function.__name__)

# SPDX-License-Identifier: Apache-2.0
"""What `import lakebraid as lb` offers: complete, explained, typed, and loaded only when it is used."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb

pytestmark = pytest.mark.unit

INTERNAL = {"Snapshot.plan", "Changes.plan"}
"""How a read is handed to Spark."""
DEEDS = ("Alteration", "Changes", "Consumer", "Services", "Snapshot", "Table", "Transaction", "Writer")
"""The classes whose methods give results; the others are values."""


@cache
def functions(thing: Any) -> dict[str, Callable[..., Any]]:
    """The public functions of a class, with its properties; or the function itself."""
    if inspect.isfunction(thing):
        return {thing.__name__: thing}
    found = {}
    for name in dir(thing):
        member = inspect.getattr_static(thing, name)
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        elif isinstance(member, property):
            member = member.fget
        label = f"{thing.__name__}.{name}"
        if not name.startswith("_") and label not in INTERNAL and inspect.isfunction(member):
            found[label] = member
    return {label: one for label, one in found.items() if one.__module__.startswith("lakebraid")}


def classes_in(annotation: Any, module: str) -> Iterator[type]:
    """Our own classes that an annotation names."""
    words = re.findall(r"\w+", annotation if isinstance(annotation, str) else getattr(annotation, "__name__", ""))
    known = vars(sys.modules[module])
    for word in words:
        value = known.get(word)
        if isinstance(value, type) and value.__module__.startswith("lakebraid"):
            yield value


def results(thing: Any) -> Iterator[type]:
    """What its functions return."""
    for one in functions(thing).values():
        yield from classes_in(inspect.signature(one).return_annotation, one.__module__)


def fields(thing: Any) -> Iterator[type]:
    if dataclasses.is_dataclass(thing):
        for one in dataclasses.fields(thing):
            if not one.name.startswith("_"):
                yield from classes_in(one.type, thing.__module__)


@cache
def reachable() -> tuple[Any, ...]:
    """Everything that a user can get hold of, beginning with the names of the package."""
    found: dict[Any, None] = {}
    waiting = [getattr(lb, name) for name in lb.__all__]
    while waiting:
        thing = waiting.pop()
        if thing not in found:
            found[thing] = None
            waiting += [*results(thing), *fields(thing)]
    return tuple(found)


def test_every_name_of_the_package_is_there_and_in_order() -> None:
    assert lb.__all__ == sorted(set(lb.__all__))
    assert [name for name in lb.__all__ if getattr(lb, name).__name__ != name] == []
    assert {*lb.__all__} <= {*dir(lb)}
    assert len(reachable()) > len(lb.__all__)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Archival", "ArchiveResult"),
        ("Cleaned", "CleanResult"),
        ("Clustered", "ClusteringResult"),
        ("Compacted", "CompactionResult"),
        ("LogCompacted", "LogCompactionResult"),
        ("Rescue", "RollbackResult"),
    ],
)
def test_a_result_that_was_renamed_is_found_under_its_old_name_with_a_warning_that_tells_the_new_one(
    old: str, new: str
) -> None:
    with pytest.warns(DeprecationWarning, match=rf"lakebraid\.{old} .*lakebraid\.{new}") as caught:
        found = getattr(lb, old)
    assert found is getattr(lb, new)
    assert [one.filename for one in caught] == [__file__], "it points at whoever used the name"
    assert old not in lb.__all__


def test_what_a_method_gives_can_be_named() -> None:
    given = {one.__name__ for name in DEEDS for one in results(getattr(lb, name))}
    assert {"Audit", "CompactionResult", "Snapshot", "Status", "WriteResult"} <= given
    assert sorted(given - {*lb.__all__}) == []


def test_everything_that_a_user_can_reach_is_explained() -> None:
    made_up = re.compile(r"\w+\(.*\)( -> None)?$", re.DOTALL)  # what a data class writes for itself
    classes = [thing for thing in reachable() if inspect.isclass(thing)]
    bare = [one.__qualname__ for one in classes if made_up.fullmatch(vars(one).get("__doc__") or f"{one.__name__}()")]
    bare += [
        label for thing in reachable() for label, one in functions(thing).items() if not (one.__doc__ or "").strip()
    ]
    assert bare == []


def test_everything_that_a_user_can_call_is_typed() -> None:
    untyped = [
        f"{label}: {missing}"
        for thing in reachable()
        for label, one in functions(thing).items()
        for missing in unannotated(one)
    ]
    assert untyped == []


def unannotated(function: Callable[..., Any]) -> list[str]:
    signature = inspect.signature(function)
    names = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")]
    return names + ["the result"] * (signature.return_annotation is signature.empty)


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("pyarrow", "pyspark", "pandas", "numpy", "obstore", "fastavro", "datafusion")
    code = f"import sys, lakebraid; print([m for m in {heavy} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_a_write_in_process_loads_no_spark(tmp_path: Path) -> None:
    code = (
        "import sys, lakebraid as lb\n"
        f"t = lb.Table.create({str(tmp_path / 't')!r}, 'id string, n int', record_keys='id')\n"
        "t.upsert([{'id': 'a', 'n': 1}])\n"
        "t.delete([{'id': 'a'}])\n"
        "print(t.count(), [m for m in sys.modules if m.partition('.')[0] in ('pyspark', 'py4j')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "0 []"

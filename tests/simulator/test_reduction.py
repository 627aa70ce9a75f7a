# SPDX-License-Identifier: Apache-2.0
"""Leaving out schedules that differ in the order of commuting calls leaves out no outcome: held against all schedules."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from lakebraid.errors import StorageError
from simulator.playing import reduction
from simulator.playing.reduction import Reduction, commute
from simulator.world.schedule import Enumeration
from simulator.world.world import Process, World

pytestmark = pytest.mark.simulator
Step = tuple[str, str, str]
NAMES = ("d/a", "d/b", "e/a")


def drawn_program(rng: Random, length: int) -> list[Step]:
    kinds = ("read", "create", "delete", "list", "copy", "replace")
    return [(rng.choice(kinds), rng.choice(NAMES), rng.choice(NAMES)) for _ in range(length)]


def body(process: Process, program: list[Step], ends: dict[str, Any]) -> Callable[[], None]:
    """Does the program's calls; what it reads decides about later ones."""

    def call(at: int, op: str, name: str, other: str) -> Any:
        storage, data = process.storage, f"{process.name}{at}".encode()
        match op:
            case "read":
                return storage.read(name, 100)
            case "list":
                return [info.name for info in storage.list(name.partition("/")[0])]
            case "copy":
                return storage.copy(name, other)
            case "delete":
                return storage.delete([name])
            case _:
                return getattr(storage, op)(name, data)

    def run() -> None:
        seen: list[Any] = []
        for at, (op, name, other) in enumerate(program):
            is_turned = bool(seen) and isinstance(seen[-1], bytes) and seen[-1].startswith(b"p1")
            try:
                seen.append(call(at, op, other if is_turned else name, other))
            except StorageError as error:
                seen.append(type(error).__name__)
        ends[process.name] = repr(seen)

    return run


def played(driver: Any, programs: list[list[Step]]) -> Any:
    """What everybody saw and what is left."""
    world, ends = World(0, driver, call_ms=0), dict[str, Any]()
    world.disk.create("d/a", b"0")
    for at, program in enumerate(programs):
        process = Process(world, f"p{at}")
        world.spawn(process, process.name, body(process, program, ends))
    world.run()
    assert world.failure is None, world.failure
    left = sorted((name, data) for name, (data, _) in world.disk.objects.items())
    return tuple(sorted(ends.items())), tuple(left)


def all_and_reduced(seed: int) -> tuple[list[Any], list[Any]]:
    rng = Random(seed)
    count = rng.choice((2, 2, 3))
    programs = [drawn_program(rng, rng.randrange(1, 5 if count == 2 else 4)) for _ in range(count)]
    switches = rng.randrange(4 if count == 2 else 3)
    whole, every = [], Enumeration(switches, 0)
    while True:
        whole.append(played(every, programs))
        if not every.restart():
            break
    reduced, some = [], Reduction(switches)
    while True:
        reduced.append(played(some, programs))
        if not some.restart():
            break
    return whole, reduced


def check(seeds: range) -> tuple[int, int]:
    runs = [0, 0]
    for seed in seeds:
        whole, reduced = all_and_reduced(seed)
        assert {*whole} == {*reduced}, f"the programs of {seed}"
        runs[0] += len(whole)
        runs[1] += len(reduced)
    return runs[0], runs[1]


def test_one_of_each_kind_of_schedule_is_played() -> None:
    whole, reduced = check(range(60))
    assert reduced < whole / 3


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("read", "d/a", ""), ("info", "d/a", ""), True),
        (("create", "d/a", ""), ("read", "d/a", ""), False),
        (("create", "d/a", ""), ("create", "d/b", ""), True),
        (("create", "d/a", ""), ("list", "d", ""), False),
        (("create", "da", ""), ("list", "d", ""), True),
        (("delete", "e/f/a", ""), ("list_folder", "e", ""), False),
        (("delete", "s", ""), ("copy", "t", "s"), False),
        (("copy", "t", "s"), ("list", "", ""), False),
        (("copy to itself", "t", "s"), ("list", "", ""), True),
        (("copy to itself", "t", "s"), ("delete", "t", ""), False),
        (("sleep", "", ""), ("read", "d/a", ""), False),
    ],
)
def test_calls_commute_if_neither_changes_what_the_other_sees(
    one: tuple[str, str, str], other: tuple[str, str, str], expected: bool
) -> None:
    assert commute(one, other) == commute(other, one) == expected


def test_whoever_takes_a_copy_for_a_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "_READS", reduction._READS | {"copy"})
    with pytest.raises(AssertionError, match="the programs of"):
        check(range(60))


def test_whoever_leaves_out_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reduction, "_has_been_met", lambda self, label: label not in self._interrupted)
    with pytest.raises(AssertionError, match="the programs of"):
        check(range(60))

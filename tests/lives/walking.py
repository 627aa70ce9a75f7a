# SPDX-License-Identifier: Apache-2.0
"""Random walks through the life of a table, and the shortest one that still fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from tests.lives.checking import check, look
from tests.lives.choosing import Step, choose
from tests.lives.following import consume, hold, let_go
from tests.lives.kinds import Kind, random_kind
from tests.lives.life import Life

STEPS: Final[Mapping[str, Callable[..., None]]] = {"look": look, "consume": consume, "hold": hold, "let_go": let_go}
"""Steps that are no methods of a life."""


@dataclass(frozen=True)
class Failure:
    """A life that went wrong, as a script."""

    kind: Kind
    steps: Sequence[Step]
    said: str

    def __str__(self) -> str:
        lines = [
            "import datetime",
            "from datetime import date",
            "from decimal import Decimal",
            "from tests.lives.checking import check, look",
            "from tests.lives.following import consume, hold, let_go",
            "from tests.lives.kinds import Kind",
            "from tests.lives.life import Life",
            "",
            f"life = Life({self.kind!r})",
        ]
        for name, args, how in self.steps:
            told = ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in how.items())])
            comma = ", " if told else ""
            lines += [f"{name}(life{comma}{told})" if name in STEPS else f"life.{name}({told})", "check(life)"]
        return "\n".join([*lines, "check(life, is_thorough=True)", "", self.said])


def live(seed: int, length: int) -> Failure | None:
    """A whole life of so many steps, and how it failed."""
    return walk(seed, length)[2]


def walk(seed: int, length: int, **changes: Any) -> tuple[Life, list[Step], Failure | None]:
    """The same, with the table as it is at the end, and what was done to it."""
    dice = Random(seed)
    life = Life(replace(random_kind(dice), **changes))
    steps: list[Step] = []
    try:
        for number in range(length):
            step = choose(dice, life)
            steps.append(step)
            apply(life, step)
            check(life, is_thorough=number % 8 == 7)
        check(life, is_thorough=True)
    except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
        return life, steps, Failure(life.kind, steps, said_by(error))
    finally:
        end(life)
    return life, steps, None


def end(life: Life) -> None:
    """Nobody beats any more."""
    for made in life.open.values():
        made.transaction._heartbeat.stop()


def apply(life: Life, step: Step) -> None:
    name, args, how = step
    if name in STEPS:
        STEPS[name](life, *args, **how)
    else:
        getattr(life, name)(*args, **how)


def said_by(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-12))


def replay(kind: Kind, steps: Sequence[Step], *, until: Callable[[], bool] = lambda: False) -> BaseException | None:
    """What these steps raise."""
    life = Life(kind)
    try:
        for step in steps:
            if until():
                return None
            apply(life, step)
            check(life)
        check(life, is_thorough=True)
    except Exception as error:  # noqa: BLE001
        return error
    finally:
        end(life)
    return None


def shrink(failure: Failure, tries: int = 150) -> Failure:
    """The same failure with fewer steps: leaves out ever smaller pieces as long as the last line of it stays alike."""
    steps, said, size = list(failure.steps), failure.said, max(1, len(failure.steps) // 2)
    while tries > 0:
        at, was = len(steps), len(steps)
        while at > 0 and tries > 0:
            at = max(0, at - size)
            fewer = steps[:at] + steps[at + size :]
            tries -= 1
            error = replay(failure.kind, fewer)
            if error is not None and _alike(said_by(error), said):
                steps, said = fewer, said_by(error)
        if size == 1 and len(steps) == was:
            break
        size = max(1, size // 2)
    return Failure(failure.kind, steps, said)


def _alike(one: str, other: str) -> bool:
    return _essence(one) == _essence(other)


def _essence(said: str) -> tuple[str, ...]:
    """The kind of the error, and where it was raised."""
    lines = said.splitlines()
    places = [line.strip() for line in lines if line.strip().startswith("File ")]
    last = next((line for line in reversed(lines) if line and not line.startswith(" ")), "")
    return (*places[-1:], last.partition(":")[0])

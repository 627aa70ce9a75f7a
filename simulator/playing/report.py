# SPDX-License-Identifier: Apache-2.0
"""The story of a history: one line per operation, one column per actor."""

from __future__ import annotations

import re
from collections.abc import Iterator

from simulator.scene import Outcome
from simulator.setting import Setting, drawn, plain
from simulator.world.world import Line

_WIDTH = 44


def story(outcome: Outcome, last: int | None = None) -> str:
    """The last lines of the trace, each in the column of its process."""
    lines = outcome.trace if last is None else outcome.trace[-last:]
    columns = _columns(lines)
    head = " " * 15 + "".join(name.ljust(_WIDTH) for name in columns)
    return "\n".join([head, *(_row(line, columns) for line in lines)])


def verdict(outcome: Outcome) -> str:
    """Everything that is needed to see the failure again."""
    return (
        f"seed {outcome.setting.seed} fails: {outcome.failure}\n"
        f"  setting {outcome.setting.to_json()}\n"
        f"  after {outcome.steps} calls, {outcome.published} publications, {len(outcome.tape)} marks on the tape\n"
        f"  play it again: {_command(outcome.setting)}"
    )


def _command(setting: Setting) -> str:
    if setting == drawn(setting.seed):
        return f"python -m simulator --seed {setting.seed}"
    if setting == plain(setting.seed):
        return f"python -m simulator --plain --seed {setting.seed}"
    return "the setting was bent after it was drawn: run the test again"


def _columns(lines: list[Line]) -> dict[str, int]:
    names: dict[str, int] = {}
    for line in lines:
        names.setdefault(_process(line[2]), len(names))
    return names


def _process(thread: str) -> str:
    return re.split(r"[-.]", thread, maxsplit=1)[0]


def _row(line: Line, columns: dict[str, int]) -> str:
    step, now, thread, op, name, result = line
    text = " ".join(part for part in (_tail(thread), op, _short(name), _short(result)) if part)
    return f"{step:5} {now:7} | " + " " * (_WIDTH * columns[_process(thread)]) + text


def _tail(thread: str) -> str:
    return thread[len(_process(thread)) :].lstrip("-.")


def _short(name: str) -> str:
    """Names without what all of them have in common."""
    text = name.replace(".hoodie/.lakebraid/", "").replace(".hoodie/timeline/", "").replace("0000-0000-0000-", "")
    text = re.sub(r"0{12,}", "0..", text)
    return re.sub(r"20260101(\d{2})(\d{2})(\d{2})(\d{3})", r"\2\3.\4", text)


def iterate(outcome: Outcome) -> Iterator[str]:
    yield from story(outcome).splitlines()

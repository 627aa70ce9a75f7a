# SPDX-License-Identifier: Apache-2.0
"""Tapes: a setting and the choices that led to a failure. They survive changes of the draw; seeds do not."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from simulator.scene import Outcome, run_history
from simulator.setting import Setting, parse_setting
from simulator.world.schedule import Mark, Replay


@dataclass(frozen=True, slots=True)
class Tape:
    """One history, to be played again."""

    setting: Setting
    marks: tuple[Mark, ...]
    invariant: str
    """The one that did not hold."""
    story: str = ""
    only: str | None = None
    """The one checker that watches, where others would end the history earlier."""
    mutant: str | None = None
    """The planted bug under which it fails."""

    def play(self) -> Outcome:
        return run_history(self.setting, Replay(self.marks), self.only)


def save_tape(tape: Tape, path: Path) -> None:
    """Writes a tape, one mark a line: people read them."""
    record = {**dataclasses.asdict(tape), "setting": dataclasses.asdict(tape.setting)}
    marks = record.pop("marks")
    head = json.dumps(record, indent=1)[:-2]
    lines = ",\n".join(f"  {json.dumps(mark)}" for mark in marks)
    path.write_text(f'{head},\n "marks": [\n{lines}\n ]\n}}\n')


def load_tape(path: Path) -> Tape:
    record = json.loads(path.read_text())
    setting = parse_setting(record.pop("setting"))
    marks = tuple((label, calls, what, value) for label, calls, what, value in record.pop("marks"))
    return Tape(setting=setting, marks=marks, **record)

# SPDX-License-Identifier: Apache-2.0
"""A timeline as a picture in the terminal: a lane for each writer, time from left to right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakebraid.cli.output import paint

_NAME_WIDTH = 22
_COLOURS = {"compaction": "yellow", "rollback": "red", "clean": "green"}


def draw_lanes(instants: Sequence[Mapping[str, Any]], lanes: Iterable[str], width: int = 100) -> list[str]:
    """Lines of text. `━` is a write from its beginning to its completion, `X` ends one that was taken back, `┊` is where
    a compaction was planned: who began left of it and ends right of it has landed in the next slice. Commits without
    rows are left out.
    """
    names = list(lanes)
    timed = [i for i in instants if i.get("t0") is not None and i.get("rows") != 0]
    if not timed:
        return []
    first = min(i["t0"] for i in timed)
    last = max(i.get("t1") or i["t0"] for i in timed)
    cells = max(width - _NAME_WIDTH - 2, 20)

    def place(time: int) -> int:
        return min(int((time - first) / max(last - first, 1) * cells), cells - 1)

    barriers = {place(i["t0"]) for i in timed if i["kind"] == "compaction"}
    lines = []
    for number in sorted(range(len(names)), key=lambda at: (_is_service(timed, at), names[at])):
        lane = names[number]
        row = ["┊" if at in barriers else " " for at in range(cells)]
        mine = [i for i in timed if i.get("lane", 0) == number]
        if not mine:
            continue
        for instant in mine:
            _draw(row, instant, place(instant["t0"]), place(instant.get("t1") or last))
        name = lane if len(lane) <= _NAME_WIDTH else f"{lane[: _NAME_WIDTH - 1]}…"
        kind = mine[0]["kind"] if mine[0].get("service") else ""
        lines.append(f"{name:<{_NAME_WIDTH}}  {paint(''.join(row).rstrip(), _COLOURS.get(kind, 'cyan'))}".rstrip())
    seconds = (last - first) / 1000
    lines.append(" " * (_NAME_WIDTH + 2) + paint(f"0 s{f'{seconds:.0f} s':>{cells - 3}}", dim=True))
    return lines


def _draw(row: list[str], instant: Mapping[str, Any], begin: int, end: int) -> None:
    for at in range(begin, end):
        row[at] = "━" if row[at] in " ┊━" else row[at]
    row[end] = "X" if instant["state"] in ("taken back", "aborted", "refused") else "┫" if end > begin else "╋"


def _is_service(instants: Iterable[Mapping[str, Any]], lane: int) -> bool:
    return any(i.get("service") for i in instants if i.get("lane", 0) == lane)

# SPDX-License-Identifier: Apache-2.0
"""A small picture of a timeline for notebooks: inline SVG, no script. `lakebraid view` draws the large one."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from lakebraid.table.grid import printable

# Readable on light and dark paper, and by people who do not tell red from green.
_COLOURS = {
    "compaction": "#d08700",
    "logcompaction": "#a58a1c",
    "clustering": "#b8659d",
    "clean": "#1c9c77",
    "rollback": "#d9541e",
    "restore": "#a5559a",
    "savepoint": "#7479dd",
}
_WRITE = "#3f87c9"
_WIDTH, _GUTTER, _ROW = 900, 170, 18


@dataclass(frozen=True, slots=True)
class Bar:
    """One instant to draw; an open one has no end."""

    lane: str
    kind: str
    request_time: str
    end: str | None
    words: str
    is_service: bool = False


def draw_lanes(bars: Sequence[Bar]) -> str:
    """The bars in lanes, one step for each event, compactions as dashed lines; empty without bars."""
    if not bars:
        return ""
    times = sorted({time for bar in bars for time in (bar.request_time, bar.end) if time})
    step = (_WIDTH - _GUTTER - 20) / max(len(times), 2)
    places = {time: _GUTTER + at * step for at, time in enumerate(times)}
    rows = _rows(bars)
    height = (max(rows.values()) + 1) * _ROW + 8
    parts = [
        f'<line x1="{places[b.request_time]:.1f}" x2="{places[b.request_time]:.1f}" y1="0" y2="{height}" stroke="{_COLOURS["compaction"]}" '
        'stroke-dasharray="4 3" stroke-opacity=".8"/>'
        for b in bars
        if b.kind == "compaction"
    ]
    named: set[str] = set()
    for bar in bars:
        y = rows[bar] * _ROW + 4
        if bar.lane not in named:
            named.add(bar.lane)
            parts.append(f'<text x="0" y="{y + 11}" fill="currentColor">{_text(bar.lane, 26)}</text>')
        parts.append(_rectangle(bar, places[bar.request_time], places.get(bar.end or "", _WIDTH - 10), y))
    style = "font:12px system-ui,sans-serif;max-width:100%"
    return (
        f'<svg role="img" aria-label="timeline" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'style="{style}">{"".join(parts)}</svg>'
    )


def _rectangle(bar: Bar, x: float, end: float, y: int) -> str:
    colour = _COLOURS.get(bar.kind, _WRITE)
    look = (
        f'fill="{colour}"' if bar.end else f'fill="{colour}" fill-opacity=".2" stroke="{colour}" stroke-dasharray="3 2"'
    )
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{max(end - x, 3):.1f}" height="13" rx="3" {look}>'
        f"<title>{_text(bar.words, 200)}</title></rect>"
    )


def _rows(bars: Sequence[Bar]) -> dict[Bar, int]:
    """The row of each bar: lanes below one another, services last, overlapping bars of a lane in rows of their own."""
    lanes = sorted({(bar.is_service, bar.lane) for bar in bars})
    rows, first = {}, 0
    for is_service, lane in lanes:
        ends: list[str] = []
        for bar in bars:
            if (bar.is_service, bar.lane) != (is_service, lane):
                continue
            row = next((at for at, end in enumerate(ends) if end <= bar.request_time), len(ends))
            ends[row : row + 1] = [bar.end or "9"]
            rows[bar] = first + row
        first += len(ends)
    return rows


def _text(text: str, length: int) -> str:
    return html.escape(printable(text if len(text) <= length else f"{text[: length - 1]}…"))

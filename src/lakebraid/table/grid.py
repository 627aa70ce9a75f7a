# SPDX-License-Identifier: Apache-2.0
"""Values that print well: one grid, as aligned text and as HTML."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN_MAX = 50
"""Rows that are printed; the rest is counted."""

_STYLE = (
    "border-collapse:collapse;font-family:ui-monospace,monospace;font-size:12px",
    "text-align:{};padding:2px 10px;border-bottom:1px solid rgba(128,128,128,.35);white-space:nowrap",
)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of values. The columns in `right` are aligned to the right."""

    titles: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    right: Collection[int] = ()

    def __str__(self) -> str:
        shown = [tuple(_text(cell) for cell in row) for row in self.rows[-SHOWN_MAX:]]
        widths = [max(_width(line[i]) for line in (self.titles, *shown)) for i in range(len(self.titles))]
        lines = [self._line(line, widths) for line in (self.titles, tuple("─" * w for w in widths), *shown)]
        if len(self.rows) > len(shown):
            lines.insert(2, f"… {len(self.rows) - len(shown):,} earlier rows are not shown")
        return "\n".join(line.rstrip() for line in lines)

    def _line(self, cells: tuple[str, ...], widths: list[int]) -> str:
        padded = []
        for i, cell in enumerate(cells):
            space = " " * (widths[i] - _width(cell))
            padded.append(space + cell if i in self.right else cell + space)
        return "  ".join(padded)

    def html(self, caption: str) -> str:
        """The same for a notebook; whatever stands in a cell is text, never markup."""
        rows = [f"<tr>{''.join(self._cell('th', i, t) for i, t in enumerate(self.titles))}</tr>"]
        rows += [f"<tr>{self._cells(row)}</tr>" for row in self.rows[-SHOWN_MAX:]]
        left_out = len(self.rows) - min(len(self.rows), SHOWN_MAX)
        note = f"<div>… {left_out:,} earlier rows are not shown</div>" if left_out else ""
        title = f'<div style="font-weight:600;margin:4px 0">{html.escape(printable(caption))}</div>'
        return f'{title}{note}<table style="{_STYLE[0]}">{"".join(rows)}</table>'

    def _cells(self, row: tuple[Any, ...]) -> str:
        return "".join(self._cell("td", i, cell) for i, cell in enumerate(row))

    def _cell(self, tag: str, column: int, cell: object) -> str:
        side = "right" if column in self.right else "left"
        return f'<{tag} style="{_STYLE[1].format(side)}">{html.escape(_text(cell))}</{tag}>'


def text_bytes(count: int) -> str:
    """A size a person can read.

    >>> text_bytes(0), text_bytes(2048), text_bytes(5 * 1024**3)
    ('0 B', '2.0 KiB', '5.0 GiB')
    """
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"


def _text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return printable(str(cell))


def printable(text: str) -> str:
    """The text without control characters, which would steer a terminal: names come out of files."""
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else "�" for c in text)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)

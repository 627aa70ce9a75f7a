# SPDX-License-Identifier: Apache-2.0
"""How the commands print: aligned columns, sizes for people, colour only where a person looks."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from lakebraid.clock import SystemClock


def wants_colour() -> bool:
    """Whether stdout is a terminal whose user has not asked for plain text (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
    """The text in a colour, or unchanged where colour is not wanted."""
    return click.style(text, fg=colour, bold=bold or None, dim=dim or None) if wants_colour() else text


def columns(rows: Sequence[Sequence[str]], gap: int = 2) -> list[str]:
    """One line per row, the cells of a column starting at the same place.

    >>> columns([("pyspark", "4.3.0", "OK"), ("java", "17", "OK")])
    ['pyspark  4.3.0  OK', 'java     17     OK']
    """
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * gap).join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _width(cell: str) -> int:
    return len(click.unstyle(cell))


def short_path(path: Path) -> str:
    """The path with the user's home folder as ~."""
    try:
        return str(Path("~") / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path)


@contextlib.contextmanager
def progress_line() -> Iterator[Callable[[str, int, int], None]]:
    """A function to tell how far something is; one line on stderr, there only while a person looks."""
    clock, shown = SystemClock(), [0.0]
    is_seen = sys.stderr.isatty()

    def tell(what: str, done: int, every: int) -> None:
        now = clock.monotonic()
        if is_seen and (now - shown[0] >= 0.1 or done == every):
            shown[0] = now
            share = f"{done:,} of {every:,}" if every else f"{done:,}"
            click.echo(f"\r\x1b[K{what} … {share}", nl=False, err=True)

    try:
        yield tell
    finally:
        if is_seen:
            click.echo("\r\x1b[K", nl=False, err=True)

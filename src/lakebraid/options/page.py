# SPDX-License-Identifier: Apache-2.0
"""docs/options.md, made from the table: `python -m lakebraid.options.page > docs/options.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from lakebraid.options.known import OWN_OPTIONS, READ_OPTIONS, WRITE_OPTIONS
from lakebraid.options.option import Option, Use

_HEAD: Final = """\
# Options

Made by `python -m lakebraid.options.page`; a test holds it against the code.

`spark.read.format("lakebraid")`, `df.write.format("lakebraid")`, `lb.read` and `lb.write` take Hudi's own option names, so a Hudi
job moves over by changing the format's name. Names and words are taken in any case. What is not listed here is an error that
proposes the nearest name. A job may hand all its options to every read and write: each takes what concerns it.

What describes the table (keys, ordering, partitions, type, index, buckets) is used by the write that creates it. On a
table that is there already it must agree with what the table says, or the write is refused.
"""
_PARTS: Final = (
    ("Both", "", OWN_OPTIONS, Use.DONE),
    ("Writing: done", "", WRITE_OPTIONS, Use.DONE),
    ("Reading: done", "", READ_OPTIONS, Use.DONE),
    (
        "Refused",
        "These would change results, so they are errors, unless the value is one that asks for what is done anyway.",
        (*WRITE_OPTIONS, *READ_OPTIONS),
        Use.REFUSED,
    ),
    (
        "Without effect",
        "These change no row. Each is told in one line (`lakebraid.options.OptionNotice`, a warning).",
        (*WRITE_OPTIONS, *READ_OPTIONS),
        Use.TUNING,
    ),
)


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(line for part in _PARTS for line in _part(*part))])


def _part(title: str, text: str, options: Sequence[Option], use: Use) -> Iterator[str]:
    yield from (f"## {title}", "")
    if text:
        yield from (text, "")
    values = {Use.DONE: "values", Use.REFUSED: "taken all the same", Use.TUNING: ""}[use]
    yield f"| option | {values} | what is done |" if values else "| option | why |"
    yield "|---|---|---|" if values else "|---|---|"
    for option in options:
        if option.use is use:
            names = ", ".join(f"`{name}`" for name in (option.name, *option.aliases))
            middle = f" {', '.join(f'`{value}`' for value in option.values if value)} |" if values else ""
            yield f"| {names} |{middle} {option.means} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(page())

# SPDX-License-Identifier: Apache-2.0
"""One row of the table of options."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal


class Use(enum.StrEnum):
    """What becomes of an option."""

    DONE = "done"
    """It does what it does in Hudi."""
    TUNING = "tuning"
    """It changes no row; one line says that it is without effect."""
    REFUSED = "refused"
    """It would change results, so it is an error, unless its value asks for what is done anyway."""


Side = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class Option:
    """An option of Hudi's, or of ours; a name that ends in `*` stands for all that begin so."""

    name: str
    use: Use
    means: str
    """What is done, or why not, in half a sentence."""
    side: Side = "write"
    aliases: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """The values that are taken, in lower case; empty: all. Of a refused option those that are no matter."""
    is_switch: bool = False
    """Whether its value is `true` or `false`."""
    is_class: bool = False
    """Whether its values are names of Java classes: taken as they are spelled, with or without their package."""


def done(name: str, means: str, *aliases: str, values: tuple[str, ...] = (), is_switch: bool = False) -> Option:
    """An option of a write that is carried out."""
    return Option(name, Use.DONE, means, "write", aliases, ("true", "false") if is_switch else values, is_switch)


def done_by_class(name: str, means: str, *classes: str) -> Option:
    """An option of a write that names one of these Java classes, whose work is done here."""
    return Option(name, Use.DONE, means, "write", values=classes, is_class=True)


def read(name: str, means: str, *aliases: str, values: tuple[str, ...] = ()) -> Option:
    """An option of a read that is carried out."""
    return Option(name, Use.DONE, means, "read", aliases, values)


def tuning(name: str, means: str, *aliases: str, side: Side = "write") -> Option:
    return Option(name, Use.TUNING, means, side, aliases)


def refused(name: str, means: str, *aliases: str, harmless: tuple[str, ...] = (), side: Side = "write") -> Option:
    return Option(name, Use.REFUSED, means, side, aliases, harmless)

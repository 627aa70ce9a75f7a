# SPDX-License-Identifier: Apache-2.0
"""Options as given, held against the table: what is done, what is only noted, what is an error."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from lakebraid.errors import InvalidArgument
from lakebraid.options.known import OWN_OPTIONS, READ_OPTIONS, WRITE_OPTIONS
from lakebraid.options.option import Option, Side, Use

_STORAGE: Final = "lakebraid.storage."
_ALL: Final = (*OWN_OPTIONS, *WRITE_OPTIONS, *READ_OPTIONS)
_EXACT: Final = {name.lower(): option for option in _ALL for name in (option.name, *option.aliases)}
_PATTERNS: Final = tuple(option for option in _ALL if "*" in option.name)


class OptionNotice(UserWarning):
    """An option that has no effect here, and changes no row."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Options by their main names; those of the other side, which a job hands to all its reads and writes, left out."""

    values: Mapping[str, str]
    storage: Mapping[str, str]
    notices: tuple[str, ...]

    def get(self, name: str) -> str | None:
        return self.values.get(name)

    def word(self, name: str) -> str | None:
        """The value in lower case."""
        value = self.get(name)
        return None if value is None else value.lower()

    def names(self, name: str) -> tuple[str, ...] | None:
        """The value as a list of columns; None if it was not given."""
        value = self.get(name)
        return None if value is None else tuple(filter(None, (part.strip() for part in value.split(","))))

    def chosen(self, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Those of the options that were given, with their values."""
        return tuple((name, self.values[name]) for name in names if name in self.values)

    def is_set(self, name: str) -> bool:
        return self.word(name) == "true"


def sort_options(given: Mapping[str, Any], side: Side) -> Sorted:
    """The options of one side. InvalidArgument names one that is unknown, refused, contradicted, or has no such value."""
    values: dict[str, str] = {}
    storage: dict[str, str] = {}
    notices: list[str] = []
    for name, text in _texts(given):
        option = _option(name)
        if name.startswith(_STORAGE):
            storage[name.removeprefix(_STORAGE)] = text
        elif option.side == side or option in OWN_OPTIONS:
            _check_value(option, name, text)
            text = text.lower() if option.is_switch else text  # noqa: PLW2901  as it is kept
            if option.use is Use.TUNING:
                notices.append(f"{name} has no effect: {option.means}.")
            elif option.use is Use.DONE and values.setdefault(option.name, text).lower() != text.lower():
                raise InvalidArgument(
                    f"{option.name} is given twice, as {values[option.name]!r:.200} and, by {name}, as {text!r:.200}. "
                    "Nothing was read or written. Leave one of the two out.",
                    option=name,
                )
    return Sorted(values, storage, tuple(notices))


def tell(notices: tuple[str, ...]) -> None:
    """One line for each option that has no effect."""
    for notice in notices:
        warnings.warn(notice, OptionNotice, stacklevel=4)


def find_option(name: str) -> Option | None:
    """The row of the table for a name, in any case; None if there is none."""
    lower = name.lower()
    exact = _EXACT.get(lower)
    return exact or next((option for option in _PATTERNS if fnmatchcase(lower, option.name)), None)


def _texts(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        if value is not None:
            yield str(name).lower(), str(value).lower() if isinstance(value, bool) else str(value).strip()


def _option(name: str) -> Option:
    option = find_option(name)
    if option is not None:
        return option
    close = difflib.get_close_matches(name[:200], _EXACT, 1)
    hint = f" Did you mean {_spelled(close[0])}?" if close else ""
    raise InvalidArgument(
        f"The option {name[:200]!r} is not known.{hint} Nothing was read or written. docs/options.md lists all.",
        option=name,
    )


def _spelled(lower: str) -> str:
    option = _EXACT[lower]
    return next(name for name in (option.name, *option.aliases) if name.lower() == lower)


def _check_value(option: Option, name: str, text: str) -> None:
    if option.is_class:
        _check_class(option, name, text)
        return
    if option.use is Use.TUNING or (option.use is Use.DONE and not option.values) or text.lower() in option.values:
        return
    if option.use is Use.REFUSED:
        otherwise = f" Its value may be {' or '.join(option.values)}." if any(option.values) else ""
        raise InvalidArgument(
            f"The option {name}={text[:200]!r} would change results and is not supported: {option.means}.{otherwise} "
            "Nothing was read or written. Leave it out.",
            option=name,
            value=text[:200],
        )
    raise InvalidArgument(
        f"The option {name} cannot be {text[:200]!r}; it may be {', '.join(option.values)}. Nothing was read or written.",
        option=name,
        value=text[:200],
    )


def _check_class(option: Option, name: str, text: str) -> None:
    if text not in {*option.values, *(known.rpartition(".")[2] for known in option.values)}:
        raise InvalidArgument(
            f"The option {name} names the Java class {text[:200]!r}, which cannot run here; it may be "
            f"{', '.join(option.values)}. Nothing was read or written.",
            option=name,
            value=text[:200],
        )

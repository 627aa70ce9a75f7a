# SPDX-License-Identifier: Apache-2.0
"""What an entry of the ledger says to readers: which completed files it brings, and whether they appear side by side.

All entries but the newest one are on the timeline as a whole (LEDGER, "applied before next"). Where the completed files of an
entry appear side by side, a listing may show a later one of the newest entry and not an earlier one; a reader that knows what
belongs together leaves both for its next look (LEDGER, G6).
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakebraid.errors import CorruptFile
from lakebraid.format.damage import damaged
from lakebraid.format.names import parse_timeline_file
from lakebraid.format.times import is_instant_time

ENTRY_VERSION: Final = 2
"""The second one remembers how asks were decided; an entry of the first has none."""
ENTRY_VERSIONS: Final = (1, ENTRY_VERSION)


@dataclass(frozen=True, slots=True)
class Publication:
    """What readers need to know of one entry."""

    last: str = ""
    """The greatest time that was given up to this entry."""
    since: str | None = None
    """The time of the entry before, where completed files appear side by side; None: one after the other."""
    completions: tuple[tuple[str, str], ...] = ()
    """Completion times in order, each with the name of its file on the timeline."""

    def whole_until(self, seen: Container[str]) -> str | None:
        """The last time up to which nothing of this entry is missing among the names; None if nothing is missing at all.

        >>> both = Publication("4", "1", (("2", "a_2.commit"), ("4", "b_4.commit")))
        >>> [both.whole_until(seen) for seen in (["b_4.commit"], ["a_2.commit"], ["a_2.commit", "b_4.commit"])]
        ['1', '2', None]
        """
        shown = self.since
        if shown is not None:
            for time, name in self.completions:
                if name not in seen:
                    return shown
                shown = time
        return None


def completed_files(targets: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Of the timeline files of an entry those that complete something: their completion times in order, and their names."""
    parsed = {name: parse_timeline_file(name) for name in (target.rpartition("/")[2] for target in targets)}
    return tuple(sorted((p.completion_time, name) for name, p in parsed.items() if p is not None and p.completion_time))


def parse_publication(data: bytes, where: str) -> Publication:
    """What the entry in these bytes says to readers; CorruptFile if it is none, or of a newer release that knows more."""
    try:
        record = json.loads(data)
        if record["version"] not in ENTRY_VERSIONS:
            raise unknown_version(record["version"], where)
        targets = [_text(target) for _, target in record["files"]]
        since = None if record.get("since") is None else _text(record["since"])
        last = _text(record["time"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(where, f"it is no entry of the ledger ({type(error).__name__}: {error!s:.100})") from None
    if not is_instant_time(last) or not (since is None or is_instant_time(since)):
        raise damaged(where, "it has something else in the place of a time")
    return Publication(last, since, completed_files(targets))


def unknown_version(version: Any, where: str) -> CorruptFile:
    """What to raise for an entry of a version that may say what is not known here."""
    return CorruptFile(
        f"{where} has the version {version!r:.20}, this release knows {ENTRY_VERSION}. Nothing was changed. "
        "Another process writes this table with a newer lakebraid: use that one here, too.",
        path=where,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, {type(value).__name__} found")
    return value

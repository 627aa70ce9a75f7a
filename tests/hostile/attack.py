# SPDX-License-Identifier: Apache-2.0
"""What every attack has in common: a table with one thing wrong, a way to look at all of it, and the verdict.

The verdict is the same for each: rows, or a LakebraidError that a person can act on, soon. Each file or argument that was
tried is counted; the summary of the test run prints how many.
"""

from __future__ import annotations

import gc
import itertools
import re
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import lakebraid as lb
from lakebraid.errors import LakebraidError
from lakebraid.storage import Storage, open_storage
from tests.kit.counting import slowness
from tests.kit.reference import DATA
from tests.kit.tally import TALLY

SECONDS_MAX = 2.0
"""Of processor time, and more on a slower machine: neither a busy one nor a slow one fails a test."""
PROPERTIES = ".hoodie/hoodie.properties"
_numbers = itertools.count()
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@cache
def files_of(name: str) -> dict[str, bytes]:
    """The files of a reference table, by their names relative to it."""
    with zipfile.ZipFile(DATA / f"{name}.zip") as archive:
        entries = [e for e in archive.infolist() if not e.is_dir() and not e.filename.endswith(".crc")]
        return {e.filename.partition("/")[2]: archive.read(e) for e in entries}


@dataclass
class Target:
    """A reference table in memory whose files can be exchanged."""

    url: str
    files: dict[str, bytes]

    @property
    def storage(self) -> Storage:
        return open_storage(self.url)

    def put(self, name: str, data: bytes) -> None:
        self.storage.replace(name, data)

    def remove(self, name: str) -> None:
        self.storage.delete([name])

    def restore(self, name: str) -> None:
        if name in self.files:
            self.storage.replace(name, self.files[name])
        else:
            self.storage.delete([name])

    def saved(self, folder: Path) -> Path:
        """The same table as files in a folder, as it is now."""
        for info in self.storage.list():
            path = folder / info.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.storage.read(info.name, info.size))
        return folder

    def live(self) -> list[str]:
        """The base and log files that a snapshot reads."""
        slices = lb.Table.open(self.url).snapshot().slices
        return sorted(f.name for s in slices for f in (*([s.base] if s.base else ()), *s.logs))

    def named(self, pattern: str) -> list[str]:
        return sorted(n for n in self.files if re.search(pattern, n))


def target(name: str) -> Target:
    """A fresh copy of a reference table."""
    made = Target(f"memory://hostile-{next(_numbers)}", files_of(name))
    for file, data in made.files.items():
        made.put(file, data)
    return made


def look_at_everything(url: Any) -> int:
    """Reads a table in all ways that need no Spark; the number of rows."""
    table = lb.Table.open(url)
    shown = [repr(table)]
    listing = table.timeline(archived=True)
    shown += [repr(listing), listing._repr_html_()]
    snapshot = table.snapshot()
    shown += [repr(snapshot), snapshot._repr_html_()]
    for text in shown:
        assert not _STEERING.search(text), f"steers the terminal: {text!r}"
    rows = snapshot.to_arrow()
    rows.validate(full=True)
    snapshot.count()
    for name in rows.column_names[:3]:
        snapshot.count(where=f"`{name.replace('`', '``')}` is not null")  # looks at the statistics of files
    table.changes().to_arrow().validate(full=True)
    return int(rows.num_rows)


def refusal(
    kind: str, read: Callable[[], Any], *, seconds_max: float = SECONDS_MAX, what: str = ""
) -> LakebraidError | None:
    """The error that reading gave, or None for rows. Everything but those two, and everything slow, fails the test."""
    TALLY.tried[kind] += 1
    started = time.process_time()
    error: LakebraidError | None = None
    try:
        read()
    except LakebraidError as found:
        error = found
    seconds = time.process_time() - started
    TALLY.slowest = max(TALLY.slowest, (seconds, f"{kind} {what}"))
    assert is_soon(seconds, seconds_max), f"{kind} {what} took {seconds:.1f} s of processor time"
    if error is not None:
        TALLY.refused += 1
        check_message(error)
    return error


def is_soon(seconds: float, seconds_max: float) -> bool:
    return seconds < seconds_max or seconds < seconds_max * slowness()


def refused(
    kind: str, expected: type[LakebraidError] | tuple[type[LakebraidError], ...], read: Callable[[], Any], **more: Any
) -> LakebraidError:
    """The same where rows would be wrong too."""
    error = refusal(kind, read, **more)
    assert isinstance(error, expected), f"{kind}: expected {expected}, got {error!r}"
    return error


def check_message(error: LakebraidError) -> None:
    """An error says what happened, to what, and what to do; it shows no machinery and steers no terminal."""
    text = str(error)
    assert 30 <= len(text) <= 3000, text[:3000]
    assert text.rstrip().endswith((".", "?", "^")) or "\n" in text, text
    assert not _STEERING.search(text), repr(text)
    text.encode()
    shown = "".join(traceback.format_exception(error))
    for machinery in ("ArrowInvalid:", "struct.error", "JSONDecodeError", "RecursionError", "IndexError", "KeyError"):
        assert f"\n{machinery}" not in shown and not shown.startswith(machinery), shown


def read_rows(url: Any) -> int:
    """Reads a snapshot and nothing else; the number of rows."""
    rows = lb.Table.open(url).to_arrow()
    rows.validate(full=True)
    return int(rows.num_rows)


def each(
    kind: str,
    made: Target,
    name: str,
    variants: Iterable[bytes],
    *,
    read: Callable[[Any], int] = look_at_everything,
    seconds_max: float = SECONDS_MAX,
) -> Counter[str]:
    """Puts every variant in the place of a file and reads the table; how often which outcome came."""
    outcomes: Counter[str] = Counter()
    for number, data in enumerate(variants):
        made.put(name, data)
        error = refusal(kind, lambda: read(made.url), what=f"{name} variant {number}", seconds_max=seconds_max)
        outcomes[type(error).__name__ if error else "rows"] += 1
    made.restore(name)
    gc.collect()
    return outcomes

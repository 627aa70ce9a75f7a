# SPDX-License-Identifier: Apache-2.0
"""Names of files as Hudi spells them, both ways.

A name either is exactly what `format` would give for its parts, or it is not ours and parses to None. So
leftovers (`.crc` siblings, temporary files, partition metadata) need no rule of their own.

>>> parse_data_file("7f3a-0_1-0-1_20260102030405678.parquet")
BaseFileName(file_id='7f3a-0', write_token='1-0-1', request_time='20260102030405678', extension='.parquet')
>>> parse_data_file(".7f3a-0_20260102030405678.log.2_1-0-1").version
2
>>> parse_data_file(".hoodie_partition_metadata") is None
True
>>> parse_timeline_file("20260102030405678.inflight")
TimelineFileName(request_time='20260102030405678', completion_time=None, action='commit', state=<State.INFLIGHT: 'INFLIGHT'>)
>>> parse_timeline_file("20260102030405678_20260102030406789.deltacommit").completion_time
'20260102030406789'
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from lakebraid.errors import InvalidArgument
from lakebraid.limits import NAME_BYTES_MAX

_TIME = "(?:[0-9]{17}|[0-9]{14})"  # fourteen digits: releases before milliseconds
_NUMBER = "(?:0|[1-9][0-9]{0,8})"  # no leading zeros, so that a name has one spelling only

LEDGER: Final = ".hoodie/.lakebraid/ledger"
"""Where the entries of the ledger lie."""
_ENTRY_DIGITS: Final = 20
_ENTRY: Final = re.compile(rf"{LEDGER}/([0-9]{{{_ENTRY_DIGITS}}})")

_BASE_FILE: Final = re.compile(rf"([A-Za-z0-9-]+)_([A-Za-z0-9-]+)_({_TIME})(\.(?:parquet|orc|hfile|lance))")
_LOG_FILE: Final = re.compile(
    rf"\.([^._/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]+)_({_TIME})\.log\.({_NUMBER})(?:_([0-9]+-[0-9]+-[0-9]+)(\.cdc)?)?"
)
_CLAIM_TOKEN: Final = re.compile(r"(?:[0-9]+-00|0-0)-([1-9][0-9]{0,18})")
_TIMELINE_FILE: Final = re.compile(rf"({_TIME})(?:_({_TIME}))?((?:\.[a-z]+){{1,2}})")
_MARKER: Final = re.compile(r"(?:(.+)/)?([^/]+)\.marker\.(CREATE|MERGE|APPEND)")
_HISTORY_FILE: Final = re.compile(rf"({_TIME})_({_TIME})_({_NUMBER})\.parquet")
_MANIFEST: Final = re.compile(rf"manifest_({_NUMBER})")


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """`<file id>_<write token>_<request time>.parquet`."""

    file_id: str
    write_token: str
    request_time: str
    extension: str

    def format(self) -> str:
        """The file's name, which parses back to these parts."""
        name = f"{self.file_id}_{self.write_token}_{self.request_time}{self.extension}"
        return _checked(self, name, parse_data_file(name))


@dataclass(frozen=True, slots=True)
class LogFileName:
    """`.<file id>_<request time>.log.<version>[_<write token>[.cdc]]`."""

    file_id: str
    request_time: str
    version: int
    write_token: str | None
    suffix: str

    @property
    def sort_key(self) -> tuple[str, int, str, str]:
        """The order in which the log files of a slice are applied."""
        return self.request_time, self.version, self.write_token or "", self.suffix

    def format(self) -> str:
        """The file's name, which parses back to these parts."""
        token = "" if self.write_token is None else f"_{self.write_token}"
        name = f".{self.file_id}_{self.request_time}.log.{self.version}{token}{self.suffix}"
        return _checked(self, name, parse_data_file(name))


def parse_data_file(name: str) -> BaseFileName | LogFileName | None:
    """The parts of a base or log file's name (without folder); None for every other file."""
    if name.startswith("."):
        match = _LOG_FILE.fullmatch(name)
        if match is None:
            return None
        file_id, request_time, version, token, suffix = match.groups()
        return LogFileName(file_id, request_time, int(version), token, suffix or "")
    match = _BASE_FILE.fullmatch(name)
    return None if match is None else BaseFileName(*match.groups())


def partition_numbers(paths: Iterable[str]) -> dict[str, int]:
    """A number for each of these partitions. In write tokens they tell files of several partitions apart: buckets have the same
    file ids in each, and readers of Hudi's metadata table know a file by its name alone (MDT, T1).
    """
    return {path: number for number, path in enumerate(sorted({*paths}))}


def write_token(task: int, partition: int = 0) -> str:
    """The token of the files that a task of a write puts into one partition, given by its number among those of the task."""
    return f"{task}-{partition}-0"


def claim_token(epoch: int, partition: int = 0) -> str:
    """The token of the files that an executor of a plan puts into one partition, given by its number among those of the plan.

    No two executors meet under one name. Apache Hudi writes no number with a zero in front, so its own files for the
    same plan, whose last part is no epoch, are told from ours.
    """
    return f"{partition}-00-{epoch}"


def epoch_of_token(token: str | None) -> int:
    """The epoch of the claim under which a file was written; 0 for all other files. Before 0-00 it was 0-0."""
    found = _CLAIM_TOKEN.fullmatch(token or "")
    return int(found[1]) if found else 0


def in_partition(partition: str, name: str) -> str:
    """The name below the table of a file in a partition; the empty partition is the table's own folder."""
    return f"{partition}/{name}" if partition else name


class State(enum.StrEnum):
    """How far an instant has come, in Hudi's own words."""

    REQUESTED = "REQUESTED"
    INFLIGHT = "INFLIGHT"
    COMPLETED = "COMPLETED"


_WRITES: Final = ("commit", "deltacommit", "replacecommit")
_OTHERS: Final = ("clean", "rollback", "restore", "indexing")

# The word on a pending plan differs from the one it completes under: compaction -> commit, logcompaction ->
# deltacommit, clustering -> replacecommit.
_TAILS: Final[dict[str, tuple[str, State]]] = {
    **{f".{action}": (action, State.COMPLETED) for action in (*_WRITES, *_OTHERS, "savepoint")},
    **{
        f".{action}.{state.value.lower()}": (action, state)
        for action in (*_WRITES, *_OTHERS, "compaction", "logcompaction", "clustering")
        for state in (State.REQUESTED, State.INFLIGHT)
        if (action, state) != ("commit", State.INFLIGHT)
    },
    ".inflight": ("commit", State.INFLIGHT),
    ".savepoint.inflight": ("savepoint", State.INFLIGHT),
}
_TAIL_OF: Final = {meaning: tail for tail, meaning in _TAILS.items()}


@dataclass(frozen=True, slots=True)
class TimelineFileName:
    """One state of one instant. `action` is the word on disk, so a finished compaction is a "commit"."""

    request_time: str
    completion_time: str | None
    action: str
    state: State

    def format(self, layout: int = 2) -> str:
        completion = "" if self.completion_time is None else f"_{self.completion_time}"
        name = f"{self.request_time}{completion}{_TAIL_OF.get((self.action, self.state), '')}"
        return _checked(self, name, parse_timeline_file(name, layout))


def parse_timeline_file(name: str, layout: int = 2) -> TimelineFileName | None:
    """The parts of a timeline file's name; None for files that are not one.

    Layout 1 (table version 6) has no completion times; in layout 2 a completed file without one is left from an
    upgrade, and its time of writing takes that place.
    """
    match = _TIMELINE_FILE.fullmatch(name)
    if match is None:
        return None
    request_time, completion_time, tail = match.groups()
    meaning = _TAILS.get(tail)
    if meaning is None:
        return None
    action, state = meaning
    if completion_time is not None and (layout == 1 or state is not State.COMPLETED):
        return None
    return TimelineFileName(request_time, completion_time, action, state)


@dataclass(frozen=True, slots=True)
class MarkerName:
    """What a running write is about to make; `kind` is CREATE, MERGE or (version 6 only) APPEND."""

    partition_path: str
    data_file_name: str
    kind: str

    def format(self) -> str:
        """The marker's name below `.hoodie/.temp/<request time>/`."""
        folder = f"{self.partition_path}/" if self.partition_path else ""
        name = f"{folder}{self.data_file_name}.marker.{self.kind}"
        return _checked(self, name, parse_marker(name))


def parse_marker(name: str) -> MarkerName | None:
    """The data file a marker announces, from its name below `.hoodie/.temp/<request time>/` or a line of a
    `MARKERS<n>` file; None for anything else.
    """
    match = _MARKER.fullmatch(name)
    if match is None:
        return None
    folder, data_file_name, kind = match.groups()
    partition_path = folder or ""
    # A rollback deletes what markers name; a marker cannot send it elsewhere.
    if parse_data_file(data_file_name) is None or (partition_path and not _is_plain_path(partition_path)):
        return None
    return MarkerName(partition_path, data_file_name, kind)


def _is_plain_path(path: str) -> bool:
    return all(part not in {"", ".", ".."} for part in path.split("/"))


@dataclass(frozen=True, slots=True)
class HistoryFileName:
    """`<least request time>_<greatest request time>_<layer>.parquet` of the archived timeline."""

    first: str
    last: str
    layer: int

    def format(self) -> str:
        name = f"{self.first}_{self.last}_{self.layer}.parquet"
        return _checked(self, name, parse_history_file(name))


def parse_history_file(name: str) -> HistoryFileName | None:
    """The parts of an archived file's name; None for anything else."""
    match = _HISTORY_FILE.fullmatch(name)
    return None if match is None else HistoryFileName(match[1], match[2], int(match[3]))


def history_file_name(first: str, last: str, layer: int) -> str:
    """The name of an archived file whose instants have request times from `first` to `last`."""
    return HistoryFileName(first, last, layer).format()


def manifest_name(number: int) -> str:
    """The name of the archived timeline's manifest of that number."""
    name = f"manifest_{number}"
    return _checked(number, name, parse_manifest_name(name))


def parse_manifest_name(name: str) -> int | None:
    """The number of a manifest; None for anything else."""
    match = _MANIFEST.fullmatch(name)
    return None if match is None else int(match[1])


def file_name(path: str) -> str:
    """The last part of a path. Plans hold absolute URIs of where the table was when they were made; only the
    name, with the partition, still means something after a move.

    >>> file_name("file:/lake/trips/p0/.7f3a-0_20260102030405678.log.1_1-0-1")
    '.7f3a-0_20260102030405678.log.1_1-0-1'
    """
    return path.rsplit("/", 1)[-1]


def _checked(parts: object, name: str, parsed: Any) -> str:
    if parsed != parts:
        raise InvalidArgument(
            f"{parts!r} cannot be written as a file name: {name!r} would be read as {parsed!r}. Nothing was written.",
            name=name,
        )
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise InvalidArgument(f"A file name of {len(name)} characters is too long. Nothing was written.", name=name)
    return name


def entry_name(number: int) -> str:
    """The name of an entry, so long that names sort as numbers.

    >>> entry_name(7)
    '.hoodie/.lakebraid/ledger/00000000000000000007'
    """
    return f"{LEDGER}/{number:020d}"


def parse_entry_name(name: str) -> int | None:
    """The number of an entry, from its full name; None for anything else that lies there."""
    found = _ENTRY.fullmatch(name)
    return None if found is None else int(found[1])

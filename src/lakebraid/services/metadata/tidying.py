# SPDX-License-Identifier: Apache-2.0
"""Files and instants of a metadata table that no reader needs any more leave it.

What lies before a compaction that is old enough is dead for ever, and its names are never made again once its staged objects are
swept: so any process may remove it at any time, and nothing of it is decided (LEDGER, P10).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.format.metadata.commits import FOLDER
from lakebraid.format.names import BaseFileName, LogFileName, parse_data_file
from lakebraid.format.times import format_instant_time, parse_instant_time
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.services.settings import Opened
from lakebraid.table.loading import load_timeline
from lakebraid.table.metadata.layout import load_metadata_timeline
from lakebraid.txn.actions.archive import archive_metadata


@dataclass(frozen=True, slots=True)
class MetadataTidied:
    """What left the metadata table."""

    files: int = 0
    instants: int = 0

    def __bool__(self) -> bool:
        return bool(self.files or self.instants)


def tidy_metadata(opened: Opened) -> MetadataTidied:
    """Removes files of slices that were compacted long ago, and moves instants that ended before the timeline of the table, and
    before the last compactions, into the history of the metadata table.
    """
    ledger = opened.ledger
    if not ledger.config.metadata_partitions:
        return MetadataTidied()
    entry, data = ledger.settled(), load_timeline(ledger.table)
    metadata, storage = load_metadata_timeline(ledger.storage), ledger.storage
    zone = ledger.config.zone
    now = min(entry.state.last, format_instant_time(ledger.clock.now_ms(), zone))
    since = format_instant_time(parse_instant_time(now, zone) - limits.METADATA_KEPT_MS, zone)
    files = list[str]()
    if (cut := cut_of(data, metadata, since)) is not None:
        for partition in ledger.config.metadata_partitions:
            names = storage.list_names(f"{FOLDER}/{partition}")
            files += [f"{FOLDER}/{partition}/{name}" for name in superseded(names, metadata, cut)]
    if files:
        ledger.sweep_staged(entry.number)  # a late copy must find no source
        storage.delete(files)
    until = archivable_until(data, metadata)
    return MetadataTidied(len(files), 0 if until is None else archive_metadata(ledger, until))


def cut_of(data: Timeline, metadata: Timeline, since: str) -> str | None:
    """The compaction before which files are needed no more; None if there is none yet. Readers that began `since` have them all,
    and Hudi restores a savepoint only over a compaction that is older (MDT, M10).
    """
    done = _compactions(metadata)[: -limits.METADATA_SLICES_KEPT]
    pinned = min((i.request_time for i in data.completed if i.action == "savepoint"), default="9")
    return max((request for request, completion in done if completion <= since and request < pinned), default=None)


def superseded(names: Iterable[str], metadata: Timeline, cut: str) -> list[str]:
    """Of the files in one partition those that lie before the last base file which their file group had at the cut."""
    parsed = [(name, p) for name in names if (p := parse_data_file(name)) is not None]
    bases: dict[str, str] = {}
    for _, file in parsed:
        if isinstance(file, BaseFileName) and file.request_time <= cut and metadata.completion_of(file.request_time):
            bases[file.file_id] = max(file.request_time, bases.get(file.file_id, ""))
    return sorted(name for name, file in parsed if _is_before(file, metadata, bases.get(file.file_id, "")))


def _is_before(file: BaseFileName | LogFileName, metadata: Timeline, base: str) -> bool:
    if isinstance(file, BaseFileName):
        return file.request_time < base
    completion = metadata.completion_of(file.request_time)
    return completion is not None and completion < base


def archivable_until(data: Timeline, metadata: Timeline) -> str | None:
    """The request time up to which instants may leave the timeline of the metadata table: their logs are in no slice that is read,
    and the table's own timeline begins later (MDT, M9). None if none may.
    """
    done = _compactions(metadata)
    first = data.first_active_write
    if len(done) <= limits.METADATA_SLICES_KEPT or first is None:
        return None
    compacted, _ = done[-limits.METADATA_SLICES_KEPT - 1]
    until = None
    for instant in metadata:
        is_needed = (instant.completion_time or "9") >= compacted
        if is_needed or instant.request_time >= min(first, compacted):
            break
        until = instant.request_time
    return until


def _compactions(metadata: Timeline) -> list[tuple[str, str]]:
    """Request and completion times of the completed compactions, oldest first."""
    return sorted((i.request_time, i.completion_time or "") for i in metadata.writes if i.action == "commit")

# SPDX-License-Identifier: Apache-2.0
"""The metadata table of a history: how it begins, and what Apache Hudi's readers take from it, modelled naively (MDT, section 4)."""

from __future__ import annotations

from functools import lru_cache

from lakebraid.format.hfile.read import EVERYTHING, parse_hfile
from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.metadata.log import format_empty_log, format_metadata_base, parse_metadata_log
from lakebraid.format.metadata.records import ALL_PARTITIONS, Files, RecordParser
from lakebraid.format.names import BaseFileName, State, parse_data_file, parse_timeline_file
from lakebraid.format.properties import checksum, format_properties
from simulator.world.storage import Disk

_DATA_TIMELINE = ".hoodie/timeline/"
_FIRST = "0" * 17
_FILES = f"{FOLDER}/files/"


def make_metadata_table(disk: Disk) -> None:
    """An empty one with the partition `files`, as Hudi makes it."""
    entries = {
        "hoodie.table.name": "sim_metadata",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
    }
    entries["hoodie.table.checksum"] = str(checksum(entries))
    disk.create(f"{FOLDER}/.hoodie/hoodie.properties", format_properties(entries))
    nothing = {ALL_PARTITIONS: Files({}, frozenset(), is_partitions=True)}
    disk.create(f"{_FILES}files-0000-0_0-0-0_{_FIRST}.hfile", format_metadata_base(nothing, _FIRST))
    disk.create(f"{_FILES}.files-0000-0_{_FIRST}.log.1_0-0-0", format_empty_log(_FIRST))
    disk.create(f"{TIMELINE}/{_FIRST}_20200101000000000.deltacommit", b"")


def hudi_lists(disk: Disk) -> set[str]:
    """The data files that Hudi's readers take from the metadata table at this moment, by their names below the table."""
    done, first = _completions(disk, f"{TIMELINE}/")
    pending, completed = _states(disk)

    def completion(request_time: str) -> str | None:
        return done.get(request_time, request_time if request_time < first else None)

    parsed = [(info.name, parse_data_file(info.name[len(_FILES) :])) for info in disk.scan(_FILES)]
    bases = [(p.request_time, n) for n, p in parsed if isinstance(p, BaseFileName) and completion(p.request_time)]
    barrier, base = max(bases)
    logs = []
    for name, file in parsed:
        if file is None or isinstance(file, BaseFileName):
            continue
        at = completion(file.request_time)
        counts = file.request_time in completed or (at is not None and file.request_time not in pending)
        if at is not None and at >= barrier and counts:
            logs.append((file.request_time, name))
    listed: dict[str, set[str]] = {}
    for name in (base, *(name for _, name in sorted(logs))):
        for key, live, gone in _records(disk.objects[name][0], name):
            listed[key] = (listed.get(key, set()) | live) - gone
    partitions = listed.pop(ALL_PARTITIONS)
    return {f"{path}/{name}" for path in partitions for name in listed.get(path, ())}


def _completions(disk: Disk, folder: str) -> tuple[dict[str, str], str]:
    """Completion times by request times, and the first request time of the timeline."""
    parsed = [parse_timeline_file(info.name[len(folder) :]) for info in disk.scan(folder)]
    known = [p for p in parsed if p is not None and p.action != "compaction"]
    done = {p.request_time: p.completion_time for p in known if p.completion_time is not None}
    return done, min((p.request_time for p in known), default="")


def _states(disk: Disk) -> tuple[set[str], set[str]]:
    """Request times of what is pending on the table's timeline, and of what is completed."""
    parsed = [parse_timeline_file(info.name[len(_DATA_TIMELINE) :]) for info in disk.scan(_DATA_TIMELINE)]
    completed = {p.request_time for p in parsed if p is not None and p.state is State.COMPLETED}
    return {p.request_time for p in parsed if p is not None} - completed, completed


@lru_cache(10_000)
def _records(data: bytes, name: str) -> list[tuple[str, frozenset[str], frozenset[str]]]:
    """Of each partition the files that are there, and those that are gone."""
    found = []
    if name.endswith(".hfile"):
        files = [parse_hfile(data, name)]
    else:
        files = [part.entries for part in parse_metadata_log(data, name) if part.entries is not None]
    for file in files:
        for key, value in file.entries(EVERYTHING):
            record = RecordParser(name, has_meta_fields=True).parse(value)
            assert isinstance(record, Files)
            found.append((key.decode(), frozenset(record.live), record.gone))
    return found

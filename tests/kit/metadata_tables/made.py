# SPDX-License-Identifier: Apache-2.0
"""A table with a metadata table of which our own functions wrote every byte, and how it is opened."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from lakebraid.clock import SystemClock
from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.metadata.log import format_empty_log, format_metadata_base, format_metadata_log
from lakebraid.format.metadata.records import Record
from lakebraid.model.metadata.keys import by_group
from lakebraid.model.metadata.ranges import ColumnRange
from lakebraid.storage import open_storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config, load_timeline
from lakebraid.table.metadata.lookups import (
    load_files,
)
from lakebraid.table.metadata.opening import MetadataTable, open_metadata_table
from tests.hostile.attack import files_of
from tests.kit.present import present

TIME, LATER, LATEST = "20271118002156123", "20271118002256123", "20271118002356123"
_numbers = itertools.count()


def new_url() -> str:
    return f"memory://metadata-{next(_numbers)}"


def opened(url: str, as_of: str | None = None) -> MetadataTable:
    return present(maybe(url, as_of))


def maybe(url: str, as_of: str | None = None) -> MetadataTable | None:
    storage = open_storage(url)
    at = TableAt(storage, load_config(storage)[0], SystemClock())
    return open_metadata_table(at, load_timeline(at).as_of(as_of))


@dataclass
class Made:
    """A table with a metadata table of which our own functions wrote every byte; its data files are only spoken of."""

    url: str = field(default_factory=new_url)
    groups: int = 2

    def __post_init__(self) -> None:
        files = files_of("mdt_nbcc_bucket")
        for name in (".hoodie/hoodie.properties", f"{FOLDER}/.hoodie/hoodie.properties"):
            self.put(name, files[name])
        self.instant(TIMELINE, "0" * 17, "20270101000000000")
        for partition, file_id in self.ids():
            self.put(f"{FOLDER}/{partition}/.{file_id}_{'0' * 17}.log.1_0-0-0", format_empty_log("0" * 17))

    def ids(self) -> list[tuple[str, str]]:
        stats = [("column_stats", f"col-stats-{number:04}-0") for number in range(self.groups)]
        return [("files", "files-0000-0"), *stats, ("partition_stats", "partition-stats-0000-0")]

    def put(self, name: str, data: bytes) -> None:
        open_storage(self.url).replace(name, data)

    def instant(self, folder: str, request: str, completion: str | None, action: str = "deltacommit") -> None:
        self.put(f"{folder}/{request}.{action}.requested", b"")
        if completion:
            self.put(f"{folder}/{request}_{completion}.{action}", b"")

    def data_instant(self, request: str, completion: str | None, action: str = "deltacommit") -> None:
        self.instant(".hoodie/timeline", request, completion, action)

    def write(
        self,
        request: str,
        completion: str | None,
        partition: str,
        records: dict[str, Any],
        deleted: Collection[str] = (),
    ) -> None:
        """One commit of the metadata table into one of its partitions."""
        ids = [file_id for name, file_id in self.ids() if name == partition]
        for file_id, own in zip(ids, by_group(records, len(ids)), strict=True):
            data = format_metadata_log(own, request, deleted=deleted, partition=partition)
            self.put(f"{FOLDER}/{partition}/.{file_id}_{request}.log.1_0-0-0", data)
        self.instant(TIMELINE, request, completion)

    def base(self, request: str, completion: str, records: dict[str, Record]) -> None:
        """A compaction of the partition of files."""
        data = format_metadata_base(records, request)
        self.put(f"{FOLDER}/files/files-0000-0_0-0-0_{request}.hfile", data)
        self.put(f"{TIMELINE}/{request}.compaction.requested", b"")
        self.put(f"{TIMELINE}/{request}_{completion}.commit", b"")

    def files(self) -> dict[str, dict[str, int]]:
        return present(load_files(opened(self.url)))


def plus(time: str, milliseconds: int) -> str:
    return str(int(time) + milliseconds)


def holds(found: ColumnRange, value: Any) -> bool:
    return bool(found.has_values and found.min <= value <= found.max)

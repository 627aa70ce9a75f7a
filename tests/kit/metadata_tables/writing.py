# SPDX-License-Identifier: Apache-2.0
"""A table with a metadata table in memory, writers that publish into both through the ledger, and two ways to list its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.metadata.index_definitions import INDEX_DEFINITIONS, IndexDefinition, format_index_definitions
from lakebraid.format.metadata.log import format_empty_log, format_metadata_base
from lakebraid.format.metadata.records import ALL_PARTITIONS, Files
from lakebraid.format.names import LogFileName
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat
from lakebraid.model.metadata.delta import AddedFile, MetadataDelta, delta_of_commit
from lakebraid.model.metadata.ranges import ColumnRange
from lakebraid.model.metadata.scope import metadata_scope
from lakebraid.model.metadata.value_types import LONG, V2, ValueType
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config, load_table, load_timeline
from lakebraid.table.metadata.layout import MetadataLayout, load_layout
from lakebraid.table.metadata.lookups import load_files
from lakebraid.table.metadata.opening import MetadataTable, open_metadata_table
from lakebraid.txn.actions.write import begin_write, publish_write
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.metadata.files import Tell, ahead_of
from tests.hostile.attack import files_of
from tests.kit.present import present
from tests.kit.tables.scene import TickingClock

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
GROUPS = (("files", "files-0000-0"), ("column_stats", "col-stats-0000-0"), ("column_stats", "col-stats-0001-0"),
          ("partition_stats", "partition-stats-0000-0"))  # fmt: skip
_FIRST = "0" * 17


@dataclass(frozen=True)
class Write:
    """A write that has begun, and the log file that it has put."""

    decider: str
    request_time: str
    partition: str
    name: str
    size: int
    values: tuple[int, int]

    @property
    def content(self) -> CommitMetadata:
        stat = WriteStat(path=f"{self.partition}/{self.name}", partition_path=self.partition, num_writes=1)
        return CommitMetadata({self.partition: (stat,)}, operation="UPSERT")

    def tell(self, _: CommitMetadata, layout: MetadataLayout) -> MetadataDelta:
        least, most = self.values
        found = ColumnRange("v", least, most, 0, 2, ValueType(LONG))
        scope = metadata_scope(layout.groups, layout.indexes, SCHEMA, "here")
        return delta_of_commit([AddedFile(self.partition, self.name, self.size, (found,))], scope)


@dataclass
class Kept:
    """The table. `storage` may be watched; each process has a ledger of its own, and all have one clock."""

    storage: Any = field(default_factory=lambda: MemoryStorage("memory://kept", TickingClock()))
    clock: TickingClock = field(init=False)
    puts: int = 0

    def __post_init__(self) -> None:
        self.clock = self.storage.clock
        files = files_of("mdt_nbcc_bucket")
        for name in (".hoodie/hoodie.properties", f"{FOLDER}/.hoodie/hoodie.properties"):
            self.storage.create(name, files[name])
        indexed = IndexDefinition("column_stats", "column_stats", ("v",), V2, function="column_stats")
        self.storage.create(INDEX_DEFINITIONS, format_index_definitions([indexed]))
        nothing = {ALL_PARTITIONS: Files({}, frozenset(), is_partitions=True)}
        self.storage.create(f"{FOLDER}/files/files-0000-0_0-0-0_{_FIRST}.hfile", format_metadata_base(nothing, _FIRST))
        for partition, file_id in GROUPS:
            self.storage.create(f"{FOLDER}/{partition}/.{file_id}_{_FIRST}.log.1_0-0-0", format_empty_log(_FIRST))
        self.storage.create(f"{TIMELINE}/{_FIRST}_20200101000000000.deltacommit", b"")
        for partition in ("p0", "p1", "p2"):
            self.storage.create(f"{partition}/.hoodie_partition_metadata", b"")

    def at(self, storage: Storage | None = None) -> TableAt:
        return TableAt(storage or self.storage, load_config(self.storage)[0], self.clock)

    def ledger(self, storage: Storage | None = None) -> Ledger:
        return Ledger(self.at(storage))

    def begin(self, partition: str = "p0", values: tuple[int, int] = (1, 2), on: Ledger | None = None) -> Write:
        """A write that has put one log file, which readers need only list."""
        decider = self.clock.token()
        request_time = begin_write(on or self.ledger(), decider)
        self.puts += 1
        name = LogFileName("00000001-0000-0000-0000-000000000000-0", request_time, 1, f"{self.puts}-0-0", "").format()
        data = b"#" * self.puts
        self.storage.create(f"{partition}/{name}", data)
        return Write(decider, request_time, partition, name, len(data), values)

    def publish(self, write: Write, on: Ledger | None = None, tell: Tell | None = None) -> str:
        return publish_write(
            on or self.ledger(), write.decider, write.request_time, lambda _: write.content, tell=tell or write.tell
        )

    def put_metadata(self, write: Write) -> None:
        """What Hudi's job puts into the metadata table, right before it completes the write and dies."""
        layout = load_layout(self.at())
        completion = f"{int(write.request_time) + 1}"
        for data, name in ahead_of(layout, write.request_time, completion, write.tell(write.content, layout)).files:
            self.storage.create(name, data)
        for state in ("requested", "inflight"):
            self.storage.create(f"{TIMELINE}/{write.request_time}.deltacommit.{state}", b"")

    def by_folders(self) -> dict[str, dict[str, int]]:
        """The files of completed writes, by partition and name, with their sizes."""
        at, found = self.at(), dict[str, dict[str, int]]()
        loaded = load_table(at)
        for file in loaded.files:
            if loaded.timeline.completion_of(file.parsed.request_time) is not None:
                partition, _, name = file.name.rpartition("/")
                found.setdefault(partition, {})[name] = file.size
        return found

    def by_metadata(self) -> dict[str, dict[str, int]]:
        """The same as the metadata table lists them."""
        return {path: files for path, files in present(load_files(self.opened())).items() if files}

    def opened(self) -> MetadataTable:
        at = self.at()
        return present(open_metadata_table(at, load_timeline(at)))

    def check(self) -> None:
        """A reader through the metadata table sees what a reader through the folders sees."""
        assert self.by_metadata() == self.by_folders()

    def metadata_names(self) -> list[str]:
        return sorted(self.storage.list_names(TIMELINE))

    def logs(self, request_time: str) -> list[str]:
        """The log files of an instant in the metadata table, by their names below it."""
        names = (info.name.removeprefix(f"{FOLDER}/") for info in self.storage.list(FOLDER))
        return sorted(name for name in names if f"_{request_time}.log." in name)

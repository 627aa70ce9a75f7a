# SPDX-License-Identifier: Apache-2.0
"""A table in memory, written by the tasks of the product and published by hand: for tests of what lies in files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakebraid.format.log.blocks import LogBlock, read_blocks
from lakebraid.format.properties import checksum, format_properties
from lakebraid.format.timeline.commit import CommitMetadata, format_commit
from lakebraid.model.config import TableConfig
from lakebraid.model.schema.avro_text import table_schema_text
from lakebraid.storage.memory import MemoryStorage
from lakebraid.tasks.staged_file import StagedFile, write_stats
from lakebraid.tasks.writing.rows import WritePlan, write_rows
from tests.kit.tables.builder import StillClock, open_table
from tests.kit.tables.built_files import t

PLAIN = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string())])


@dataclass
class Lake:
    """A table in memory to which tasks write and which readers read; each write is published at once."""

    schema: pa.Schema = PLAIN
    properties: dict[str, str] = field(default_factory=dict)
    buckets: int = 4
    storage: MemoryStorage = field(default_factory=lambda: MemoryStorage("memory://lake", StillClock()))
    writes: int = 0

    def __post_init__(self) -> None:
        keys = self.properties.get("hoodie.table.recordkey.fields", "id")
        partitions = self.properties.get("hoodie.table.partition.fields", "")
        entries = {
            "hoodie.table.name": "lake-1",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": "9",
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.recordkey.fields": keys,
            "hoodie.table.keygenerator.type": "COMPLEX" if "," in keys else "SIMPLE" if partitions else "NON_PARTITION",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(self.buckets),
        } | self.properties
        entries["hoodie.table.checksum"] = str(checksum(entries))
        self.storage.replace(".hoodie/hoodie.properties", format_properties(entries))

    @property
    def config(self) -> TableConfig:
        return open_table(self.storage)._config

    def plan(self, **changes: Any) -> WritePlan:
        request_time = changes.pop("request_time", t(10 * self.writes + 1))
        return WritePlan(self.storage.url, (), request_time, self.schema, self.config, self.buckets, **changes)

    def write(self, rows: pa.Table | list[dict[str, Any]], task: int = 0, **changes: Any) -> list[StagedFile]:
        plan = self.plan(**changes)
        files = write_rows(self.storage, plan, self.table(rows), task)
        self.publish(plan, files)
        return files

    def table(self, rows: pa.Table | list[dict[str, Any]]) -> pa.Table:
        if isinstance(rows, pa.Table):
            return rows
        return pa.Table.from_pylist(rows, pa.schema([f for f in self.schema if f.name in rows[0]]))

    def publish(self, plan: WritePlan, files: list[StagedFile]) -> None:
        self.writes += 1
        extra = {"schema": table_schema_text(self.schema, "lake-1")}
        metadata = CommitMetadata(write_stats(files, plan.request_time), extra=extra, operation="UPSERT")
        folder, completion = ".hoodie/timeline", str(int(plan.request_time) + 1)
        self.storage.create(f"{folder}/{plan.request_time}.deltacommit.requested", b"")
        self.storage.create(f"{folder}/{plan.request_time}.deltacommit.inflight", b"")
        self.storage.create(f"{folder}/{plan.request_time}_{completion}.deltacommit", format_commit(metadata))

    def rows(self, by: str = "id") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = open_table(self.storage).to_arrow().sort_by(by).to_pylist()
        return found

    def blocks(self, file: StagedFile) -> list[LogBlock]:
        return list(read_blocks(self.storage.read(file.path, 1 << 30), file.name).blocks)


def commit_time() -> Lake:
    return Lake(properties={"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING", "hoodie.table.ordering.fields": ""})


def row(key: str, ts: int, v: str | None = "v") -> dict[str, Any]:
    return {"id": key, "ts": ts, "v": v}

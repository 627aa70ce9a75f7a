# SPDX-License-Identifier: Apache-2.0
"""The table that a history plays on, before anything is written to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from lakebraid.format.properties import checksum, format_properties
from lakebraid.model.config import CDC, CLOCK_SKEW, PUBLICATION_ORDER, TableConfig, parse_config
from lakebraid.model.file_sizing import FULL, SMALL
from lakebraid.model.writable import FILE_LOCK, FIXED_IDS
from simulator.world.metadata_table import make_metadata_table
from simulator.world.storage import Disk

SCHEMA = (
    '{"type":"record","name":"sim","fields":[{"name":"id","type":["null","string"],"default":null},'
    '{"name":"ts","type":["null","long"],"default":null},{"name":"v","type":["null","string"],"default":null}]}'
)


SKEW_MS = 80
"""How far the clocks of two processes may differ on a table that is shared with Apache Hudi."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A merge-on-read table with fixed buckets, or one whose rows are placed, of either type."""

    properties: bytes
    config: TableConfig


@lru_cache
def plain_table(
    *,
    by_event: bool,
    shared: bool = False,
    fixed: bool = False,
    placed: bool = False,
    gives_way: bool = False,
    cow: bool = False,
    captures: bool = False,
    optimistic: bool = False,
    grouped: bool = False,
    metadata: bool = False,
) -> Plain:
    entries = {
        "hoodie.table.name": "sim",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "part",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING" if by_event else "COMMIT_TIME_ORDERING",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.table.create.schema": SCHEMA,
    }
    if placed:
        del entries["hoodie.bucket.index.num.buckets"]
        entries["hoodie.index.type"] = "SIMPLE"
        entries["hoodie.write.concurrency.mode"] = "OPTIMISTIC_CONCURRENCY_CONTROL"
    if optimistic:
        entries["hoodie.write.concurrency.mode"] = "OPTIMISTIC_CONCURRENCY_CONTROL"
    if cow:
        # Base files of some three rows.
        entries |= {"hoodie.table.type": "COPY_ON_WRITE", SMALL: "150", FULL: "220"}
    if gives_way:
        entries["hoodie.clustering.updates.strategy"] = "SparkAllowUpdateStrategy"
    if captures:
        entries[CDC] = "true"
    if grouped:
        entries[PUBLICATION_ORDER] = "group"
    if metadata:
        entries["hoodie.table.metadata.partitions"] = "files"
    if fixed:
        entries[FIXED_IDS] = entries.get("hoodie.bucket.index.num.buckets", "0")
    if shared:
        entries["hoodie.write.lock.provider"] = FILE_LOCK
        entries[CLOCK_SKEW] = str(SKEW_MS)
    if by_event:
        entries["hoodie.table.ordering.fields"] = "ts"
    entries["hoodie.table.checksum"] = str(checksum(entries))
    return Plain(format_properties(entries), parse_config(entries, "memory://sim"))


def make_table(disk: Disk, table: Plain) -> None:
    disk.create(".hoodie/hoodie.properties", table.properties)
    if table.config.metadata_partitions:
        make_metadata_table(disk)

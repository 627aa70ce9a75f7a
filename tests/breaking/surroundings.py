# SPDX-License-Identifier: Apache-2.0
"""Ways to break what stands around a timeline: properties, history, ledger, locks, and what others left."""

from __future__ import annotations

from lakebraid.format.properties import checksum, format_properties, parse_properties
from lakebraid.txn.ledger.asks import mark_name
from tests.breaking.table import (
    HOURS,
    PROPERTIES,
    TIMELINE,
    Broken,
    archived,
    breaks,
    rich,
)
from tests.kit.tables.scene import row


@breaks("properties-damaged")
def wrong_checksum() -> Broken:
    b = rich()
    entries = parse_properties(b.read(PROPERTIES), PROPERTIES)
    entries["hoodie.table.checksum"] = str(checksum(entries) + 1)
    b.storage.replace(PROPERTIES, format_properties(entries))
    return b


@breaks("properties-damaged")
def main_file_gone() -> Broken:
    b = rich()
    b.move(PROPERTIES, f"{PROPERTIES}.backup")
    return b


@breaks("properties-damaged")
def both_files_gone() -> Broken:
    b = rich()
    b.storage.delete([PROPERTIES])
    return b


@breaks("properties-backup")
def old_backup() -> Broken:
    b = rich()
    b.storage.create(f"{PROPERTIES}.backup", b.read(PROPERTIES).replace(b"buckets=2", b"buckets=3"))
    return b


@breaks("crc-stale")
def stale_checksum_file() -> Broken:
    b = rich()
    b.storage.create(".hoodie/.hoodie.properties.crc", b"crc\x00\x00\x00\x02\x00" + b"\x00" * 8)
    return b


@breaks("history-damaged")
def history_file_gone() -> Broken:
    b = archived()
    b.storage.delete([b.one("/history/", ".parquet")])
    return b


@breaks("history-damaged")
def torn_history_file() -> Broken:
    b = archived()
    name = b.one("/history/", ".parquet")
    b.storage.replace(name, b.read(name)[:-4] + b"XXXX")
    return b


@breaks("history-damaged")
def torn_manifest() -> Broken:
    b = archived()
    for name in b.names("/history/manifest_"):
        b.storage.replace(name, b"{")
    return b


@breaks("history-stray")
def history_file_that_nobody_names() -> Broken:
    b = archived()
    name = b.one("/history/", ".parquet")
    b.storage.create(f"{name.rpartition('_')[0]}_7.parquet", b.read(name))
    b.clock.ms += HOURS
    return b


@breaks("ledger-damaged")
def torn_entry() -> Broken:
    b = rich()
    b.storage.replace(b.one(".lakebraid/ledger/"), b'{"version":1')
    return b


@breaks("ledger-unfulfilled")
def decision_without_its_file() -> Broken:
    b = rich()
    name = b.commits()[-1]
    entry = b.table._writing.ledger(b.table._config).newest()
    b.storage.create(entry.files[-1][0], b.read(name))
    b.storage.delete([name])
    b.clock.ms += HOURS
    return b


@breaks("ledger-disagrees")
def open_write_off_the_timeline() -> Broken:
    b = rich()
    txn = b.table.begin()
    txn._heartbeat.stop()
    b.table.upsert([row("a", "5", 5)])
    b.storage.delete(b.names(TIMELINE, f"{txn.instant}."))
    return b


@breaks("ledger-disagrees")
def write_without_the_ledger() -> Broken:
    b = rich()
    request_time = b.commits()[-2].rpartition("/")[2][18:35]
    for state in ("requested", "inflight"):
        b.storage.create(f"{TIMELINE}/{int(request_time) - 1}.deltacommit.{state}", b"")
    return b


@breaks("metadata-table-behind")
def metadata_table_that_nobody_tends() -> Broken:
    b = rich()
    b.set_properties(**{"table.metadata.partitions": "files"})
    return b


@breaks("lock-stale")
def lock_file_left() -> Broken:
    b = rich()
    b.storage.create(".hoodie/lock", b"")
    b.clock.ms += HOURS
    return b


@breaks("lock-stale")
def lease_left() -> Broken:
    b = rich()
    text = f'{{"expired":false,"validUntil":{b.clock.ms},"owner":"somebody"}}'
    b.storage.create(".hoodie/.locks/table_lock.json", text.encode())
    b.clock.ms += HOURS
    return b


@breaks("marker-leftover")
def markers_left() -> Broken:
    b = rich()
    request_time = b.commits()[-1].rpartition("/")[2][:17]
    b.storage.create(f".hoodie/.temp/{request_time}/{b.logs()[-1]}.marker.CREATE", b"")
    b.clock.ms += HOURS
    return b


@breaks("heartbeat-leftover")
def heartbeat_left() -> Broken:
    b = rich()
    b.storage.create(f".hoodie/.heartbeat/{b.commits()[-1].rpartition('/')[2][:17]}", b"")
    b.clock.ms += HOURS
    return b


@breaks("staged-leftover")
def staged_object_left() -> Broken:
    b = rich()
    b.storage.create(f".hoodie/.lakebraid/staged/{1:020d}.left", b"")
    b.clock.ms += HOURS
    return b


@breaks("staged-leftover")
def mark_left() -> Broken:
    b = rich()
    b.storage.create(mark_name(1), b"")
    b.clock.ms += HOURS
    return b

# SPDX-License-Identifier: Apache-2.0
"""Which tables may be written: whatever a write would damage, or hide from Hudi, is refused by name before it begins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakebraid.digits import whole_number
from lakebraid.errors import UnsupportedTable
from lakebraid.format.hudi_types import hudi_types
from lakebraid.format.times import parse_instant_time
from lakebraid.limits import ZONE_DIFFERENCE_MS_MAX
from lakebraid.model.config import (
    CDC_MODES,
    CONCURRENCY_MODES,
    LOOKED_UP,
    PUBLICATION_ORDER,
    PUBLICATION_ORDERS,
    PartialMode,
    TableConfig,
    TableType,
    custom_payload,
)
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.timeline.slicing import GroupId

VERSIONS_WRITTEN: Final = (9,)

LOCK_PACKAGE: Final = "org.apache.hudi.client.transaction.lock"
FILE_LOCK: Final = f"{LOCK_PACKAGE}.FileSystemBasedLockProvider"
STORAGE_LOCK: Final = f"{LOCK_PACKAGE}.StorageBasedLockProvider"

FIXED_IDS: Final = "hoodie.lakebraid.fixed.file.ids"
"""In the properties of tables that were made here, whose buckets never had other file ids than the fixed ones: how many
buckets that are, 0 for a table without; `true` in tables that were made before the number was stated.
"""

_Problem = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason why a table is not written."""

    topic: str
    """What it is about: version, concurrency, merging, metadata table, columns, keys, index, lock, order or time zone."""
    what: str
    hint: str
    """What to do, as a sentence without its full stop."""


def obstacles(
    config: TableConfig,
    properties: Mapping[str, str],
    *,
    completed: Mapping[str, int] | None = None,
    bucket_index_folders: Collection[str] = (),
    schema: pa.Schema | None = None,
) -> Iterator[Obstacle]:
    """What must not be written (FORMAT, section 17, point 1), the most telling first; with a `schema`, the types of its columns, too.

    `completed` are completion times of the timeline and when the files that carry them were last modified (ms); a
    timeline in the LOCAL zone is refused without it. `bucket_index_folders` are the folders below `.hoodie/.bucket_index`.
    """
    found = {
        "version": _version_problems(config),
        "concurrency": _concurrency_problems(config, properties),
        "merging": _merging_problems(config, properties),
        "metadata table": _metadata_problems(config, properties),
        "columns": (*_column_problems(config, properties), *_type_problems(schema or ())),
        "keys": _key_problems(config, properties),
        "index": _bucket_problems(config, properties, bucket_index_folders),
        "lock": _lock_problems(config, properties),
        "order": _order_problems(config),
        "time zone": _zone_problems(config, completed),
    }
    for topic, problems in found.items():
        yield from (Obstacle(topic, what, hint) for what, hint in problems)


def check_writable(
    config: TableConfig,
    properties: Mapping[str, str],
    url: str,
    *,
    completed: Mapping[str, int] | None = None,
    bucket_index_folders: Collection[str] = (),
) -> None:
    """Raises UnsupportedTable for the first of the `obstacles`."""
    for found in obstacles(config, properties, completed=completed, bucket_index_folders=bucket_index_folders):
        raise UnsupportedTable(
            f"Cannot write to {url}: it uses {found.what}. Nothing was changed. {found.hint}.",
            path=url,
            feature=found.what,
        )


def has_fixed_ids(properties: Mapping[str, str]) -> bool:
    """Whether the buckets of the table never had other file ids than the fixed ones."""
    stated = properties.get(FIXED_IDS) or ""
    return stated == "true" or whole_number(stated) is not None


def check_buckets(config: TableConfig, groups: Iterable[GroupId], url: str) -> None:
    """Raises UnsupportedTable if one of these file groups is none of the buckets that the table states: the keys that are
    in it hash to another group, so that a write by hashes would give each of them a second row.
    """
    for group in groups if config.buckets is not None else ():
        bucket = bucket_of_file_id(group.file_id)
        if bucket is None or bucket >= (config.buckets or 0):
            is_none = "no bucket" if bucket is None else f"bucket {bucket}"
            what = f"{config.buckets} buckets (hoodie.properties)"
            raise UnsupportedTable(
                f"Cannot write to {url}: it states {what}, but its file group {group.file_id!r:.100} in the partition "
                f"{group.partition!r:.200} is {is_none}, so its keys would get second rows. Nothing was changed. "
                "`lakebraid adopt` finds out from its files and keys what belongs into hoodie.properties; with --dry-run it "
                "only says so.",
                path=url,
                feature=what,
                partition=group.partition,
                file_id=group.file_id,
            )


def check_tended(
    config: TableConfig, properties: Mapping[str, str], url: str, *, completed: Mapping[str, int] | None = None
) -> None:
    """Raises UnsupportedTable for what no service may touch. More than may be written: who only removes files or moves
    instants need not know how rows find their place.
    """
    problems = (
        *_version_problems(config),
        *_metadata_problems(config, properties),
        *_lock_problems(config, properties),
        *_order_problems(config),
        *_zone_problems(config, completed),
    )
    for what, hint in problems:
        raise UnsupportedTable(
            f"Cannot tend {url}: it uses {what}. Nothing was changed. {hint}.", path=url, feature=what
        )


def check_rewritable(config: TableConfig, properties: Mapping[str, str], url: str) -> None:
    """Raises UnsupportedTable for tables whose base files cannot be written anew. How rows find their place does not
    matter for that, nor how writers agree.
    """
    problems = (
        *_version_problems(config),
        *_merging_problems(config, properties),
        *_metadata_problems(config, properties),
        *_column_problems(config, properties),
    )
    for what, hint in problems:
        raise UnsupportedTable(
            f"Cannot rewrite files of {url}: it uses {what}. Nothing was changed. {hint}.", path=url, feature=what
        )


def check_columns_writable(schema: pa.Schema, url: str) -> None:
    """Raises UnsupportedTable for columns whose values Apache Hudi would not find in what is written here."""
    for what, hint in _type_problems(schema):
        raise UnsupportedTable(
            f"Cannot write to {url}: it uses {what}. Nothing was changed. {hint}.", path=url, feature=what
        )


def _type_problems(schema: Iterable[pa.Field]) -> Iterator[_Problem]:
    hint = (
        "Write it with Apache Hudi, which also compacts and clusters it; or copy its rows into a table of plain types"
    )
    for name, hudi_type in hudi_types(schema):
        yield f"the type {hudi_type} in the column {name!r:.200}, which is read and not written", hint


def _version_problems(config: TableConfig) -> Iterator[_Problem]:
    if config.version not in VERSIONS_WRITTEN:
        yield f"table version {config.version}", "Upgrade it to version 9 with Apache Hudi"
    if config.layout != 2:
        yield f"timeline layout {config.layout}", "Upgrade it to version 9 with Apache Hudi"


def _concurrency_problems(config: TableConfig, properties: Mapping[str, str]) -> Iterator[_Problem]:
    stated = properties.get("hoodie.write.concurrency.mode")
    if stated and config.concurrency not in CONCURRENCY_MODES:
        yield f"the concurrency mode {stated}", f"Known are {', '.join(CONCURRENCY_MODES.values())}"
    elif config.concurrency == "nbcc" and config.is_placed:
        what = config.table_type if config.table_type is TableType.COW else f"the index {config.index.upper()}"
        hint = (
            "Only fixed buckets of a MERGE_ON_READ table let writers go on without looking at each other; use "
            "OPTIMISTIC_CONCURRENCY_CONTROL (occ) or SINGLE_WRITER (single)"
        )
        yield f"the concurrency mode {stated} with {what}", hint


def _merging_problems(config: TableConfig, properties: Mapping[str, str]) -> Iterator[_Problem]:
    if payload := custom_payload(properties):
        yield f"the custom merger {payload!r}", "It is Java code; write the table with Apache Hudi"
    if config.partial_mode is not PartialMode.NONE:
        yield f"the partial update mode {config.partial_mode}", "Write it with Apache Hudi"


def _metadata_problems(config: TableConfig, properties: Mapping[str, str]) -> Iterator[_Problem]:
    # A writer that does not maintain a metadata table makes its own rows invisible to Hudi, silently (FORMAT, trap 3).
    building = properties.get("hoodie.table.metadata.partitions.inflight", "").strip()
    if listed := ", ".join(config.metadata_partitions) or building:
        hint = (
            "Hudi would not see the new rows. Write once with Apache Hudi and hoodie.metadata.enable=false, "
            "which removes it, and put that line into hoodie.properties"
        )
        yield f"a metadata table ({listed})", hint


def _column_problems(config: TableConfig, properties: Mapping[str, str]) -> Iterator[_Problem]:
    if config.cdc_enabled and config.cdc_mode not in CDC_MODES:
        yield f"change data capture in the mode {config.cdc_mode}", f"Known are {', '.join(CDC_MODES)}"
    if not config.populate_meta:
        yield "rows without Hudi's meta columns (hoodie.populate.meta.fields=false)", "Write it with Apache Hudi"
    if _is_set(properties, "hoodie.allow.operation.metadata.field"):
        yield "the meta column _hoodie_operation", "Write it with Apache Hudi"
    if config.drop_partition_columns:
        yield "files without their partition columns", "Write it with Apache Hudi"


def _key_problems(config: TableConfig, properties: Mapping[str, str]) -> Iterator[_Problem]:
    keys, parts, generator = len(config.record_keys), len(config.partition_fields), config.key_generator
    fits = {"SIMPLE": keys == 1 and parts == 1, "COMPLEX": True, "NON_PARTITION": parts == 0}
    if not keys:
        yield "keys that Hudi generates (no hoodie.table.recordkey.fields)", "Rows need a key column"
    elif not generator:
        yield "an unstated key generator", "State it in hoodie.table.keygenerator.type"
    elif generator not in fits:
        yield f"the key generator {generator}", "SIMPLE, COMPLEX and NON_PARTITION are written; use Apache Hudi"
    elif not fits[generator]:
        yield f"the key generator {generator} with {keys} key and {parts} partition columns", "The two do not fit"
    if _is_set(properties, "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"):
        yield "timestamps as text in keys (…consistent.logical.timestamp.enabled)", "Write it with Apache Hudi"


def _bucket_problems(
    config: TableConfig, properties: Mapping[str, str], folders: Collection[str]
) -> Iterator[_Problem]:
    engine = (properties.get("hoodie.index.bucket.engine") or "SIMPLE").strip().upper()
    names = {folder.rpartition("/")[2] for folder in folders}
    moves = f"hoodie.{config.index.removeprefix('global_')}.index.update.partition.path"
    if config.index in LOOKED_UP:
        if config.is_global and (properties.get(moves) or "true").strip().lower() != "true":
            yield f"rows that stay in the partition of their key ({moves}=false)", "Write it with Apache Hudi"
    elif config.index not in ("bucket", ""):
        yield f"the index {config.index.upper()}", "BUCKET, SIMPLE and BLOOM are written; write it with Apache Hudi"
    elif not config.index and config.table_type is TableType.COW:
        return  # every writer may look keys up
    elif engine != "SIMPLE" or "consistent_hashing_metadata" in names:
        yield "consistent hashing buckets", "They allow only one writer; write it with Apache Hudi"
    elif properties.get("hoodie.bucket.index.partition.expressions") or "partition_bucket_index_meta" in names:
        yield "another number of buckets in each partition", "Write it with Apache Hudi"
    elif config.buckets is None:
        hint = (
            "A wrong one would double its keys. `lakebraid adopt` finds out from its files and keys how rows find their "
            "place, and states it in hoodie.properties; with --dry-run it only says so"
        )
        yield "an index, or a number of buckets, that it does not state", hint
    elif (made := whole_number(properties.get(FIXED_IDS) or "")) is not None and made != config.buckets:
        hint = (
            f"Its keys would get second rows. Put the {made} back"
            if made
            else "Take hoodie.index.type=BUCKET out again"
        )
        yield f"{config.buckets} buckets, and was made with {made or 'none'}", hint
    elif not set(config.bucket_fields) <= set(config.record_keys):
        yield "buckets by columns that are not in the key", "Correct hoodie.bucket.index.hash.field"


def _lock_problems(config: TableConfig, properties: Mapping[str, str]) -> Iterator[_Problem]:
    if config.lock_provider is None:
        return
    if config.lock_provider not in (FILE_LOCK, STORAGE_LOCK):
        name = config.lock_provider.rpartition(".")[2]
        yield (
            f"the lock {name}",
            "It cannot be taken from here. Use FileSystemBasedLockProvider or StorageBasedLockProvider",
        )
    elif properties.get("hoodie.write.lock.filesystem.path"):
        yield "a lock outside of the table (hoodie.write.lock.filesystem.path)", "Leave the lock in .hoodie"


def _order_problems(config: TableConfig) -> Iterator[_Problem]:
    stated = f"{PUBLICATION_ORDER}={config.publication_order}"
    if config.publication_order not in PUBLICATION_ORDERS:
        yield f"the order of publication {stated}", f"Known are {' and '.join(PUBLICATION_ORDERS)}"
    elif config.lock_provider is not None and not config.publishes_in_order:
        hint = (
            "On a table that Apache Hudi writes as well, commits appear one after the other. Remove that line from "
            "hoodie.properties"
        )
        yield f"{stated} and a lock of Apache Hudi", hint


def _zone_problems(config: TableConfig, completed: Mapping[str, int] | None) -> Iterator[_Problem]:
    """LOCAL means the zone of the writer. It is ours if the newest completion is when its file was made."""
    if config.timezone == "UTC":
        return
    if completed is None:
        yield "a timeline in local time", "Whether this machine has the same zone is not known"
    elif completed:
        newest = max(completed)
        away_ms = completed[newest] - parse_instant_time(newest, config.zone)
        if abs(away_ms) > ZONE_DIFFERENCE_MS_MAX:
            hours = f"{newest} was written {away_ms / 3_600_000:+.2f} hours from then"
            hint = "Set TZ to the zone of its writers; a copied table must first be written once by one of them"
            yield f"a timeline in local time that is not this machine's ({hours})", hint


def _is_set(properties: Mapping[str, str], key: str) -> bool:
    return (properties.get(key) or "").strip().lower() == "true"

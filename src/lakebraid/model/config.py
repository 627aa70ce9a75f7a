# SPDX-License-Identifier: Apache-2.0
"""What a table's hoodie.properties say, checked and typed; what we cannot read is refused here by name."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from lakebraid.digits import whole_number
from lakebraid.errors import UnsupportedTable
from lakebraid.format.metadata.index_definitions import INDEX_DEFINITIONS
from lakebraid.format.times import table_zone

RECORD_KEY = "_hoodie_record_key"
META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    RECORD_KEY,
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
OPERATION_COLUMN = "_hoodie_operation"
IS_DELETED_COLUMN = "_hoodie_is_deleted"

CLOCK_SKEW = "hoodie.time.generator.max_expected_clock_skew_ms"
_CLOCK_SKEW_MS = 200
_CLOCK_SKEW_MS_MAX = 10_000

VERSIONS_READ = (6, 8, 9)
_MERGE_PREFIX = "hoodie.record.merge.property."


class TableType(enum.StrEnum):
    MOR = "MERGE_ON_READ"
    COW = "COPY_ON_WRITE"


class MergeMode(enum.StrEnum):
    EVENT_TIME = "EVENT_TIME_ORDERING"
    COMMIT_TIME = "COMMIT_TIME_ORDERING"


class PartialMode(enum.StrEnum):
    """What a value that is 'not there' looks like in a full row (FORMAT, section 10)."""

    NONE = ""
    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"


_EVENT_TIME_PAYLOADS = ("DefaultHoodieRecordPayload", "EventTimeAvroPayload", "PartialUpdateAvroPayload")
_COMMIT_TIME_PAYLOADS = ("OverwriteWithLatestAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload")
_PARTIAL_PAYLOADS = ("PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload")
_MERGE_STRATEGIES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME,
}


LOOKED_UP = ("simple", "global_simple", "bloom", "global_bloom")
"""Indexes under which a key may lie in any file group, so that writers look it up."""
ORDERING_GROUPS = "lakebraid.ordering.groups"
"""Columns that are ordered in groups, each by a column of its own: `order_ts:status,price;pay_ts:paid`."""
PUBLICATION_ORDER = "hoodie.lakebraid.publication.order"
PUBLICATION_ORDERS = ("each", "group")
"""Commits that are decided together appear one after the other, or side by side (LEDGER, G6)."""
CDC = "hoodie.table.cdc.enabled"
CDC_MODE = "hoodie.table.cdc.supplemental.logging.mode"
CDC_MODES = ("OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER")


@dataclass(frozen=True, slots=True)
class TableConfig:
    """The settings of a table that readers and writers need."""

    name: str
    table_type: TableType
    version: int
    layout: int
    record_keys: tuple[str, ...]
    partition_fields: tuple[str, ...]
    key_generator: str
    ordering_fields: tuple[str, ...]
    merge_mode: MergeMode
    partial_mode: PartialMode
    unavailable_value: str | None
    delete_field: str | None
    delete_marker: str | None
    populate_meta: bool
    hive_style: bool
    url_encode: bool
    drop_partition_columns: bool
    timeline_folder: str
    history_folder: str
    timezone: str
    create_schema: str | None
    metadata_partitions: tuple[str, ...]
    buckets: int | None
    bucket_fields: tuple[str, ...]
    cdc_enabled: bool
    """Whether commits carry what Hudi's CDC query needs."""
    may_share_logs: bool
    """Whether one log file may hold blocks of several instants, as before version 8."""
    concurrency: str = "single"
    """How writers get along: nbcc, occ or single (Hudi's default); other text as it is stated."""
    index: str = ""
    """How a row finds its file group: bucket, simple or another of Hudi's; empty if every writer may choose."""
    lock_provider: str | None = None
    """The class of Hudi's lock, if the table is shared with Apache Hudi writers."""
    heartbeat_interval_ms: int | None = None
    heartbeat_misses: int | None = None
    """How often writers must beat, and how many beats they may miss, where the table says so."""
    clock_skew_ms: int = _CLOCK_SKEW_MS
    """By how much the clocks of writers may differ, as Hudi's writers assume."""
    ordering_groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Groups of columns that are ordered by a column of their own: that column, and the columns of its group."""
    cdc_mode: str = CDC_MODES[-1]
    """What is captured of each changed row beside a base file: one of `CDC_MODES`, or another word as it is stated."""
    publication_order: str = PUBLICATION_ORDERS[0]
    """How commits that are decided together appear: one of `PUBLICATION_ORDERS`, or another word as it is stated."""
    index_definitions: str = INDEX_DEFINITIONS
    """Where it stands which columns have statistics in the metadata table; as it is stated."""

    def orderings_of(self, columns: Collection[str] | None) -> tuple[str, ...]:
        """The ordering columns that a write of these columns must bring: None for whole rows."""
        if self.merge_mode is MergeMode.EVENT_TIME:
            return self.ordering_fields
        groups = self.ordering_groups
        return tuple(by for by, own in groups if columns is None or by in columns or not {*own}.isdisjoint(columns))

    @property
    def every_ordering_field(self) -> tuple[str, ...]:
        """The columns that order rows or groups of columns."""
        return (*self.ordering_fields, *(by for by, _ in self.ordering_groups))

    @property
    def zone(self) -> tzinfo:
        return table_zone(self.timezone)

    @property
    def publishes_in_order(self) -> bool:
        """Whether completed files appear one after the other, so that each listing of them is one moment's."""
        return self.publication_order == PUBLICATION_ORDERS[0]

    @property
    def is_placed(self) -> bool:
        """Whether a writer must look at the table to know where a row goes, or rewrites what is there."""
        return self.table_type is TableType.COW or self.index in LOOKED_UP

    @property
    def has_filters(self) -> bool:
        """Whether base files carry filters of their keys: where keys are looked up, not hashed."""
        return self.is_placed and self.buckets is None

    @property
    def is_global(self) -> bool:
        """Whether a key is there once in the whole table, not once in each partition."""
        return self.index in LOOKED_UP and self.index.startswith("global_")

    @property
    def write_action(self) -> str:
        """The word on the timeline for a write of rows."""
        return "commit" if self.table_type is TableType.COW else "deltacommit"

    @property
    def has_complex_keys(self) -> bool:
        """Whether record keys are written as `field:value,…`."""
        return self.key_generator.startswith("COMPLEX") or len(self.record_keys) > 1

    @property
    def has_text_partitions(self) -> bool:
        """Whether a partition folder renders its columns' values plainly, so that it can be compared with them."""
        return self.key_generator in ("SIMPLE", "COMPLEX", "NON_PARTITION", "")


def parse_config(properties: Mapping[str, str], where: str) -> TableConfig:
    """The table's settings. UnsupportedTable names whatever cannot be read, before any data is touched."""
    version = _version(properties, where)
    _refuse_unreadable(properties, where)
    layout = 1 if version < 8 else 2
    merge = {k.removeprefix(_MERGE_PREFIX): v for k, v in properties.items() if k.startswith(_MERGE_PREFIX)}
    timeline = _under_hoodie(properties.get("hoodie.timeline.path") or "timeline", where)
    history = properties.get("hoodie.timeline.history.path") or "history"
    keys = _names(properties, "hoodie.table.recordkey.fields")
    return TableConfig(
        name=properties["hoodie.table.name"],
        table_type=_table_type(properties, where),
        version=version,
        layout=layout,
        record_keys=keys,
        partition_fields=tuple(f.split(":")[0] for f in _names(properties, "hoodie.table.partition.fields")),
        key_generator=_key_generator(properties),
        ordering_fields=_names(properties, "hoodie.table.ordering.fields", "hoodie.table.precombine.field"),
        ordering_groups=_ordering_groups(properties, where),
        merge_mode=_merge_mode(properties, where),
        partial_mode=_partial_mode(properties, where),
        unavailable_value=merge.get("hoodie.write.partial.update.unavailable.value"),
        delete_field=merge.get("hoodie.payload.delete.field"),
        delete_marker=merge.get("hoodie.payload.delete.marker"),
        populate_meta=_flag(properties, "hoodie.populate.meta.fields", default=True),
        hive_style=_flag(properties, "hoodie.datasource.write.hive_style_partitioning"),
        url_encode=_flag(properties, "hoodie.datasource.write.partitionpath.urlencode"),
        drop_partition_columns=_flag(properties, "hoodie.datasource.write.drop.partition.columns"),
        timeline_folder=".hoodie" if layout == 1 else f".hoodie/{timeline}",
        history_folder=".hoodie/archived" if layout == 1 else f".hoodie/{timeline}/{_under_hoodie(history, where)}",
        timezone=(properties.get("hoodie.table.timeline.timezone") or "LOCAL").upper(),
        create_schema=properties.get("hoodie.table.create.schema") or None,
        metadata_partitions=_names(properties, "hoodie.table.metadata.partitions"),
        index_definitions=properties.get("hoodie.table.index.defs.path") or INDEX_DEFINITIONS,
        buckets=_bucket_count(properties, where),
        bucket_fields=_names(properties, "hoodie.bucket.index.hash.field") or keys,
        cdc_enabled=_flag(properties, CDC),
        may_share_logs=layout == 1 or properties.get("hoodie.table.initial.version", "9") < "8",
        concurrency=_concurrency(properties),
        index=(properties.get("hoodie.index.type") or "").strip().lower(),
        lock_provider=(properties.get("hoodie.write.lock.provider") or "").strip() or None,
        heartbeat_interval_ms=_number(properties, "hoodie.client.heartbeat.interval_in_ms"),
        heartbeat_misses=_number(properties, "hoodie.client.heartbeat.tolerable.misses"),
        clock_skew_ms=_skew_ms(properties),
        cdc_mode=(properties.get(CDC_MODE) or CDC_MODES[-1]).strip().upper(),
        publication_order=(properties.get(PUBLICATION_ORDER) or PUBLICATION_ORDERS[0]).strip().lower(),
    )


def _refuse_unreadable(properties: Mapping[str, str], where: str) -> None:
    table_zone(properties.get("hoodie.table.timeline.timezone"))
    base_format = (properties.get("hoodie.table.base.file.format") or "PARQUET").upper()
    if base_format != "PARQUET":
        raise _unsupported(where, f"base files in {base_format} format", "Only Parquet base files are read")
    if _flag(properties, "hoodie.table.multiple.base.file.formats.enable"):
        raise _unsupported(where, "several base file formats in one table", "Only Parquet base files are read")
    if properties.get("hoodie.bootstrap.base.path") or properties.get("hoodie.table.bootstrap.base.path"):
        raise _unsupported(
            where, "a bootstrapped table (part of its rows lie in another table)", "Rewrite it with Hudi"
        )
    if (properties.get("hoodie.table.format") or "native").lower() != "native":
        raise _unsupported(
            where, f"table format {properties['hoodie.table.format']!r}", "Only native Hudi tables are read"
        )


def _version(properties: Mapping[str, str], where: str) -> int:
    text = properties.get("hoodie.table.version") or "9"
    version = whole_number(text) or -1
    if version in VERSIONS_READ:
        return version
    known = ", ".join(map(str, VERSIONS_READ))
    hint = "Use a newer lakebraid" if version > max(VERSIONS_READ) else "Upgrade the table with Apache Hudi"
    raise _unsupported(where, f"table version {text!r}", f"Versions {known} are read. {hint}")


def _table_type(properties: Mapping[str, str], where: str) -> TableType:
    text = (properties.get("hoodie.table.type") or TableType.COW).upper()
    if text not in TableType.__members__.values():
        raise _unsupported(where, f"table type {text!r}", "COPY_ON_WRITE and MERGE_ON_READ are read")
    return TableType(text)


def _merge_mode(properties: Mapping[str, str], where: str) -> MergeMode:
    """The stated mode; else from the merge strategy or payload class of older versions; else Hudi's default."""
    mode = (properties.get("hoodie.record.merge.mode") or "").upper()
    payload = _payload(properties)
    strategy = properties.get("hoodie.record.merge.strategy.id") or ""
    if mode in MergeMode.__members__.values():
        return MergeMode(mode)
    if mode not in ("", "CUSTOM"):
        raise _unsupported(where, f"merge mode {mode!r}", "EVENT_TIME_ORDERING and COMMIT_TIME_ORDERING are read")
    if payload in _EVENT_TIME_PAYLOADS:
        return MergeMode.EVENT_TIME
    if payload in _COMMIT_TIME_PAYLOADS:
        return MergeMode.COMMIT_TIME
    if payload or mode == "CUSTOM":
        raise _unsupported(
            where, f"the custom merger {payload or strategy!r}", "It is Java code; read the table with Hudi"
        )
    if strategy in _MERGE_STRATEGIES:
        return _MERGE_STRATEGIES[strategy]
    has_order = _names(properties, "hoodie.table.ordering.fields", "hoodie.table.precombine.field")
    return MergeMode.EVENT_TIME if has_order else MergeMode.COMMIT_TIME


def _ordering_groups(properties: Mapping[str, str], where: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    text = (properties.get(ORDERING_GROUPS) or "").strip()
    groups = []
    for part in filter(None, text.split(";")):
        by, colon, columns = (word.strip() for word in part.partition(":"))
        if not by or not colon:
            raise _unsupported(
                where, f"{ORDERING_GROUPS}={text[:200]!r}", "It must read 'column:columns;column:columns'"
            )
        groups.append((by, tuple(dict.fromkeys(filter(None, (name.strip() for name in columns.split(",")))))))
    if groups and _merge_mode(properties, where) is MergeMode.EVENT_TIME:
        raise _unsupported(where, "ordering by groups of columns and by the row at once", "One of the two must go")
    return tuple(groups)


def _partial_mode(properties: Mapping[str, str], where: str) -> PartialMode:
    text = (properties.get("hoodie.table.partial.update.mode") or "").upper()
    if text in PartialMode.__members__.values():
        mode = PartialMode(text)
    else:
        raise _unsupported(where, f"partial update mode {text!r}", "IGNORE_DEFAULTS and FILL_UNAVAILABLE are read")
    return PartialMode.IGNORE_DEFAULTS if not mode and _payload(properties) in _PARTIAL_PAYLOADS else mode


def custom_payload(properties: Mapping[str, str]) -> str:
    """The class that merges rows in a way of its own, whatever merge mode is stated; empty if there is none."""
    payload = _payload(properties)
    return "" if payload in (*_EVENT_TIME_PAYLOADS, *_COMMIT_TIME_PAYLOADS) else payload


def _payload(properties: Mapping[str, str]) -> str:
    names = ("hoodie.table.payload.class", "hoodie.compaction.payload.class")
    return next((properties[n] for n in names if properties.get(n)), "").rpartition(".")[2]


_KEY_GENERATORS = {
    "SimpleKeyGenerator": "SIMPLE",
    "ComplexKeyGenerator": "COMPLEX",
    "ComplexAvroKeyGenerator": "COMPLEX",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "NonpartitionedAvroKeyGenerator": "NON_PARTITION",
    "TimestampBasedKeyGenerator": "TIMESTAMP",
    "TimestampBasedAvroKeyGenerator": "TIMESTAMP",
    "CustomKeyGenerator": "CUSTOM",
    "CustomAvroKeyGenerator": "CUSTOM",
    "SimpleAvroKeyGenerator": "SIMPLE",
}


def _key_generator(properties: Mapping[str, str]) -> str:
    kind = (properties.get("hoodie.table.keygenerator.type") or "").upper().removesuffix("_AVRO")
    if kind:
        return kind
    return _KEY_GENERATORS.get((properties.get("hoodie.table.keygenerator.class") or "").rpartition(".")[2], "")


CONCURRENCY = "hoodie.write.concurrency.mode"
CONCURRENCY_MODES = {
    "nbcc": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "occ": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "single": "SINGLE_WRITER",
}


def _number(properties: Mapping[str, str], key: str) -> int | None:
    number = whole_number((properties.get(key) or "").strip())
    return number if number is not None and 0 < number < 10**9 else None


def _skew_ms(properties: Mapping[str, str]) -> int:
    stated = _number(properties, CLOCK_SKEW)
    return _CLOCK_SKEW_MS if stated is None else min(stated, _CLOCK_SKEW_MS_MAX)


def _concurrency(properties: Mapping[str, str]) -> str:
    text = (properties.get(CONCURRENCY) or CONCURRENCY_MODES["single"]).strip().upper()
    return next((short for short, mode in CONCURRENCY_MODES.items() if mode == text), text.lower())


def _bucket_count(properties: Mapping[str, str], where: str) -> int | None:
    """The pinned bucket count, where the simple bucket index is pinned too."""
    text = properties.get("hoodie.bucket.index.num.buckets") or ""
    is_bucket = (properties.get("hoodie.index.type") or "").upper() == "BUCKET"
    is_simple = (properties.get("hoodie.index.bucket.engine") or "SIMPLE").upper() == "SIMPLE"
    if not (text and is_bucket and is_simple):
        return None
    count = whole_number(text)
    if count is not None and 0 < count < 2**31:
        return count
    raise _unsupported(where, f"hoodie.bucket.index.num.buckets={text!r}", "It must be a positive number")


def _under_hoodie(folder: str, where: str) -> str:
    is_plain = folder.isprintable() and "\\" not in folder and folder.count("/") < 8 and len(folder) < 1000
    if not is_plain or any(part in ("", ".", "..") for part in folder.split("/")):
        raise _unsupported(where, f"a timeline folder {folder!r} that leaves the table", "It must lie under .hoodie")
    return folder


def _names(properties: Mapping[str, str], *keys: str) -> tuple[str, ...]:
    text = next((properties[k] for k in keys if properties.get(k)), "")
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _flag(properties: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    text = (properties.get(key) or "").strip().lower()
    return default if text == "" else text == "true"


def _unsupported(where: str, what: str, hint: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"Cannot read {where}: it uses {what}. Nothing was read or changed. {hint}.", path=where, feature=what
    )

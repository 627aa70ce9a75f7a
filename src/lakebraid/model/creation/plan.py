# SPDX-License-Identifier: Apache-2.0
"""Planning a new table: arguments in, a checked schema and the lines of hoodie.properties out. Nothing is touched.

Hudi keeps neither the index nor the concurrency mode of a table; but lines of hoodie.properties that its table config
does not know act as defaults of its Spark writers (FORMAT, section 2). So all that a writer must get right is pinned
there, and a plain Hudi job without any options writes the table as we do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import pyarrow as pa

from lakebraid.errors import InvalidArgument, UnsupportedTable
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.properties import CHECKSUM, TABLE_NAME, checksum, format_properties
from lakebraid.limits import BUCKETS_MAX, TABLE_NAME_CHARACTERS_MAX
from lakebraid.model.config import (
    CDC,
    CDC_MODE,
    CDC_MODES,
    CLOCK_SKEW,
    CONCURRENCY_MODES,
    LOOKED_UP,
    ORDERING_GROUPS,
    PUBLICATION_ORDER,
    PUBLICATION_ORDERS,
    MergeMode,
    TableConfig,
    TableType,
    parse_config,
)
from lakebraid.model.creation.columns import check_columns, check_groups, column_names, ordering_groups
from lakebraid.model.creation.properties import Line, combine, property_texts
from lakebraid.model.schema.avro_text import table_schema_text
from lakebraid.model.schema.user_schema import read_schema
from lakebraid.model.writable import FILE_LOCK, STORAGE_LOCK, check_writable

BUCKETS: Final = 8
"""How many buckets a table has if nothing is said."""
_TABLE_TYPES: Final = {"mor": TableType.MOR, "cow": TableType.COW}
_INDEXES: Final = {"bucket": "BUCKET"} | {name: name.upper() for name in LOOKED_UP}
_ORDERS: Final = {order: order for order in PUBLICATION_ORDERS}
_LOCK_PATIENCE: Final = {
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.num_retries": "3000",
}
"""Hudi looks at a taken lock every five seconds and stands in no queue; beside busy writers of ours it would starve."""
_SKEW_ON_ONE_MACHINE: Final = "25"
"""A folder is mostly written by one machine, or by some with NTP; Hudi's 200 ms would be waited out twice a commit."""
_COMPARED: Final = (
    "table_type",
    "record_keys",
    "partition_fields",
    "ordering_fields",
    "ordering_groups",
    "merge_mode",
    "hive_style",
    "url_encode",
    "index",
    "buckets",
    "bucket_fields",
    "concurrency",
    "lock_provider",
    "publication_order",
    "delete_field",
    "delete_marker",
)
"""What two descriptions of one table must agree in; its schema and other settings may have moved on."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table that is to be made, fully checked."""

    url: str
    schema: pa.Schema | None
    """Its columns in the types that it will hold; None leaves them to the first commit."""
    properties: Mapping[str, str]
    config: TableConfig
    """What the properties say, as every opener of the table will read it."""
    seed_base: bool
    """Whether every bucket begins with an empty base file, so that no reader of Hudi's hides one behind a pending first
    write (FORMAT, trap 1)."""


def plan_table(
    url: str,
    schema: Any,
    *,
    record_keys: str | Sequence[str],
    ordering_fields: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    partition_by: str | Sequence[str] | None = None,
    table_type: str = "mor",
    buckets: int = BUCKETS,
    concurrency: str | None = None,
    index: str = "bucket",
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    seed_base: bool | None = None,
    hive_style_partitioning: bool | None = None,
    shared: bool = False,
    publication_order: str | None = None,
) -> TableSpec:
    """The table that these arguments describe; InvalidArgument names the one that makes no sense.

    `schema` is an Arrow schema, DDL text, or None. `shared` pins Hudi's lock, for tables that Apache Hudi writes too.
    Without `concurrency` writers never wait where that is possible, and are optimistic elsewhere. `ordering_fields` may
    give each of some groups of columns an ordering column of its own. `publication_order` is "each" or "group".
    """
    columns = None if schema is None else read_schema(schema)
    keys = column_names("record_keys", record_keys)
    groups = ordering_groups(ordering_fields) if isinstance(ordering_fields, Mapping) else ()
    ordering = () if isinstance(ordering_fields, Mapping) else column_names("ordering_fields", ordering_fields)
    parts = column_names("partition_by", partition_by)
    given = property_texts(properties)
    if not keys:
        raise InvalidArgument(
            "record_keys is empty, so nothing would identify a row. Nothing was created. Name a column."
        )
    title = _table_name(url, name or given.get(TABLE_NAME))
    kind, way = _choice("table_type", table_type, _TABLE_TYPES), _choice("index", index, _INDEXES)
    if concurrency is None:
        concurrency = "nbcc" if (kind, way) == (TableType.MOR, "BUCKET") else "occ"
    lines = [
        Line(TABLE_NAME, title, "name" if name else ""),
        Line("hoodie.table.type", kind, "table_type"),
        *_format_lines(),
        *_column_lines(keys, ordering, parts),
        Line(ORDERING_GROUPS, ";".join(f"{by}:{','.join(own)}" for by, own in groups), "ordering_fields"),
        *_layout_lines(hive_style_partitioning),
        *_index_lines(way, buckets),
        *_cdc_lines(given),
        *_concurrency_lines(_choice("concurrency", concurrency, CONCURRENCY_MODES), url, shared=shared),
        _order_line(publication_order),
        Line("hoodie.table.create.schema", "" if columns is None else _schema_line(columns, title), "schema"),
    ]
    merged = combine(lines, given)
    merged[CHECKSUM] = str(checksum(merged))
    config = _checked_config(merged, url)
    check_groups(config, is_shared=shared)
    if columns is not None:
        check_columns(columns, config)
    return TableSpec(url, columns, merged, config, _seeds(seed_base, columns, config))


def check_agrees(spec: TableSpec, existing: TableConfig) -> None:
    """Raises InvalidArgument if the table that is already there is another one than the one described."""
    for field in fields(TableConfig):
        ours, theirs = getattr(spec.config, field.name), getattr(existing, field.name)
        if field.name in _COMPARED and ours != theirs:
            raise InvalidArgument(
                f"The table at {spec.url} exists already with another {field.name}: {theirs!r}, not {ours!r}. "
                "Nothing was changed. Open it as it is, or create yours at another path.",
                path=spec.url,
                setting=field.name,
            )


def _choice(argument: str, value: Any, known: Mapping[str, str]) -> str:
    """Hudi's word for a short one; its own words are taken as well."""
    text = value.strip().lower() if isinstance(value, str) else ""
    short = next((k for k, word in known.items() if text in (k, word.lower())), None)
    if short is None:
        raise InvalidArgument(
            f"{argument} must be {' or '.join(map(repr, known))}, not {value!r:.200}. Nothing was created.",
            argument=argument,
        )
    return str(known[short])


def _format_lines() -> list[Line]:
    return [
        Line("hoodie.table.version", "9"),
        Line("hoodie.table.initial.version", "9"),
        Line("hoodie.timeline.layout.version", "2"),
        Line("hoodie.timeline.path", "timeline"),
        Line("hoodie.timeline.history.path", "history"),
        Line("hoodie.archivelog.folder", "history"),
        Line("hoodie.table.timeline.timezone", "UTC"),
        Line("hoodie.table.base.file.format", "PARQUET"),
        Line("hoodie.table.format", "native"),
        Line("hoodie.table.multiple.base.file.formats.enable", "false"),
        Line("hoodie.partition.metafile.use.base.format", "false"),
        Line("hoodie.populate.meta.fields", "true"),
        Line("hoodie.table.metadata.partitions", ""),
    ]


def _column_lines(keys: Sequence[str], ordering: Sequence[str], parts: Sequence[str]) -> list[Line]:
    generator = "NON_PARTITION" if not parts else "SIMPLE" if len(parts) == len(keys) == 1 else "COMPLEX"
    mode = MergeMode.EVENT_TIME if ordering else MergeMode.COMMIT_TIME
    return [
        Line("hoodie.table.recordkey.fields", ",".join(keys), "record_keys"),
        # The same once more in a writer's words: Hudi's SQL procedures check the bucket index against these.
        Line("hoodie.datasource.write.recordkey.field", ",".join(keys), "record_keys"),
        Line("hoodie.table.partition.fields", ",".join(parts), "partition_by"),
        Line("hoodie.table.keygenerator.type", generator, "partition_by"),
        Line("hoodie.table.ordering.fields", ",".join(ordering), "ordering_fields"),
        Line("hoodie.record.merge.mode", mode.value, "ordering_fields"),
    ]


def _layout_lines(hive_style: bool | None) -> list[Line]:
    if not isinstance(hive_style, bool | None):
        raise InvalidArgument(f"hive_style_partitioning must be True or False, not {hive_style!r:.200}.")
    return [
        Line(
            "hoodie.datasource.write.hive_style_partitioning",
            str(bool(hive_style)).lower(),
            "hive_style_partitioning",
            is_default=hive_style is None,
        ),
        Line("hoodie.datasource.write.partitionpath.urlencode", "false", is_default=True),
        Line("hoodie.datasource.write.drop.partition.columns", "false"),
    ]


def _index_lines(index: str, buckets: Any) -> list[Line]:
    if not isinstance(buckets, int) or isinstance(buckets, bool) or not 1 <= buckets <= BUCKETS_MAX:
        raise InvalidArgument(
            f"buckets must be a whole number from 1 to {BUCKETS_MAX:,}, not {buckets!r:.200}. Nothing was created. "
            "It cannot be changed later; a bucket is fine up to a GiB or so.",
            argument="buckets",
        )
    return [
        Line("hoodie.index.type", index, "index"),
        Line("hoodie.index.bucket.engine", "SIMPLE" if index == "BUCKET" else "", "index"),
        Line("hoodie.bucket.index.num.buckets", str(buckets) if index == "BUCKET" else "", "buckets"),
    ]


def _cdc_lines(given: Mapping[str, str]) -> list[Line]:
    is_on = given.get(CDC, "").lower() == "true"
    return [
        Line(CDC, "false", is_default=True),
        Line(CDC_MODE, CDC_MODES[-1] if is_on else "", is_default=True),
    ]


def _concurrency_lines(mode: str, url: str, *, shared: bool) -> list[Line]:
    return [
        Line("hoodie.write.concurrency.mode", mode, "concurrency"),
        Line("hoodie.clean.failed.writes.policy", "LAZY"),
        Line("hoodie.metadata.enable", "false"),
        Line("hoodie.write.lock.provider", _lock(url) if shared else "", "shared", is_default=not shared),
        *(Line(key, value if shared else "", "shared", is_default=True) for key, value in _LOCK_PATIENCE.items()),
        Line(CLOCK_SKEW, _SKEW_ON_ONE_MACHINE if shared and _lock(url) == FILE_LOCK else "", "shared", is_default=True),
    ]


def _order_line(order: str | None) -> Line:
    known = "" if order is None else _choice("publication_order", order, _ORDERS)
    return Line(PUBLICATION_ORDER, known, "publication_order", is_default=order is None)


def _lock(url: str) -> str:
    scheme = url.partition(":")[0].lower() if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", url) else "file"
    if scheme == "memory":
        raise InvalidArgument(
            f"shared=True makes no sense for {url}: no Apache Hudi writer can reach this process's memory. "
            "Nothing was created. Leave it out.",
            argument="shared",
        )
    return FILE_LOCK if scheme == "file" else STORAGE_LOCK


def _schema_line(columns: pa.Schema, name: str) -> str:
    text = table_schema_text(columns, name)
    if parse_avro_schema(text, "the new schema") != columns:
        raise InvalidArgument(f"The schema of {name} would not be read back as it is. Nothing was created.")
    return text


def _table_name(url: str, name: Any) -> str:
    if name is None:
        folder = url.rstrip("/").rpartition("/")[2]
        return re.sub(r"[^\w-]", "_", folder)[:TABLE_NAME_CHARACTERS_MAX] or "table"
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name) or len(name) > TABLE_NAME_CHARACTERS_MAX:
        raise InvalidArgument(
            f"{name!r:.300} cannot be the name of a table. Nothing was created. Use up to {TABLE_NAME_CHARACTERS_MAX} "
            "letters, digits, underscores and hyphens.",
            argument="name",
        )
    return name


def _checked_config(properties: Mapping[str, str], url: str) -> TableConfig:
    """What every opener will read. What could not be opened or written again is not made."""
    format_properties(properties)
    try:
        config = parse_config(properties, url)
        check_writable(config, properties, url)
    except UnsupportedTable as error:
        raise InvalidArgument(
            f"Such a table could not be used: {error.message} Nothing was created. Change or leave out that property.",
            path=url,
        ) from error
    return config


def _seeds(seed_base: bool | None, columns: pa.Schema | None, config: TableConfig) -> bool:
    possible = columns is not None and not config.partition_fields and not config.is_placed
    if seed_base and not possible:
        why = "the table has partitions, which come with their first rows" if columns else "there is no schema yet"
        why = "only buckets of a MERGE_ON_READ table need it" if config.is_placed else why
        raise InvalidArgument(f"seed_base=True is not possible: {why}. Nothing was created.", argument="seed_base")
    return possible if seed_base is None else bool(seed_base)

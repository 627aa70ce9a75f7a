# SPDX-License-Identifier: Apache-2.0
"""The public face of a table: how it is opened and created. What it can do stands in the layers below, from reads to writes
(docs/decisions/0029-one-table-in-four-layers.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lakebraid.api.writes import Writes
from lakebraid.clock import Clock, SystemClock
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.creation.plan import BUCKETS, check_agrees, plan_table
from lakebraid.reading.plan import Source
from lakebraid.storage import open_storage
from lakebraid.table.at import TableAt
from lakebraid.table.grid import printable
from lakebraid.table.loading import load_config
from lakebraid.txn.actions.create import create_table
from lakebraid.writing.request import SCHEMA_CONFLICT, SchemaConflicts, arrow_schema, check_schema_conflict


class Table(Writes):
    """An Apache Hudi table, made by lakebraid, Hudi or any engine that writes the format.

    Every call looks at the table anew; nothing is cached but where it lies and what its properties say.
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
    ) -> Table:
        """The table at a path or URL (`s3://`, `gs://`, `az://`, with options for obstore).

        NotATable if there is none; UnsupportedTable, before any data is read, names a feature that cannot be read.
        """
        storage = open_storage(path, storage_options)
        config, properties = load_config(storage)
        source = Source(storage.url, tuple(sorted((storage_options or {}).items())))
        return cls(TableAt(storage, config, clock or SystemClock()), source, properties)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: Any = None,
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
        schema_conflict: SchemaConflicts = "abort",
        exist_ok: bool = False,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> Table:
        """A new table of version 9; `schema` is an Arrow schema, a Spark StructType, DDL text, or None: the first rows say.

        With `ordering_fields` the greatest ordering value of a key wins, else the last writer; as
        `{"order_ts": ["status", "price"], "pay_ts": ["paid"]}` they order groups of columns apart. `table_type` is "mor" or
        "cow"; `index` "bucket", or "simple" and "global_simple", which look keys up. Only "mor" with buckets lets writers
        never wait ("nbcc", the default there); others are optimistic ("occ") or have one writer ("single"). `shared=True` if Apache
        Hudi jobs write the table as well: then every decision is made inside Hudi's own lock. `publication_order="group"` lets
        commits that are decided together appear side by side: faster on object stores with many writers, for tables whose
        changes are not read with Apache Hudi; "each" is the default. `schema_conflict="merge"`
        joins schema changes of concurrent writers where they fit together, instead of refusing the second one.
        """
        check_schema_conflict(schema_conflict)
        if schema_conflict != "abort":
            properties = {**(properties or {}), SCHEMA_CONFLICT: schema_conflict}
        storage = open_storage(path, storage_options)
        clock = clock or SystemClock()
        spec = plan_table(
            storage.url,
            arrow_schema(schema),
            record_keys=record_keys,
            ordering_fields=ordering_fields,
            partition_by=partition_by,
            table_type=table_type,
            buckets=buckets,
            concurrency=concurrency,
            index=index,
            properties=properties,
            name=name,
            seed_base=seed_base,
            hive_style_partitioning=hive_style_partitioning,
            shared=shared,
            publication_order=publication_order,
        )
        try:
            create_table(storage, clock, spec)
        except InvalidArgument as error:
            if not (exist_ok and error.facts.get("exists")):
                raise
            check_agrees(spec, load_config(storage)[0])
        return cls.open(path, storage_options, clock=clock)

    def __repr__(self) -> str:
        config = self._config
        facts: list[tuple[str, Any]] = [
            ("path", self.path),
            ("type", f"{config.table_type.replace('_', ' ').lower()}, version {config.version}"),
            ("record key", ", ".join(config.record_keys) or "(none)"),
            ("partitioned by", ", ".join(config.partition_fields) or "(not partitioned)"),
            ("ordered by", f"{_ordering(config)} ({config.merge_mode.lower().replace('_', ' ')})"),
        ]
        if config.buckets is not None:
            facts.append(("buckets", config.buckets))
        width = max(len(name) for name, _ in facts)
        lines = [f"  {name:<{width}}  {printable(str(value))}" for name, value in facts]
        return "\n".join([f"Table {config.name!r}", *lines])

    def _told(self, told: Mapping[str, str]) -> Table:
        return Table(self._table, self._source, self._properties, told)


def told_table(table: Table, told: Mapping[str, str]) -> Table:
    """The same table, with writes that get along with others as they are told, whatever its properties say."""
    return table._told(told) if told else table  # noqa: SLF001  its own module


def _ordering(config: TableConfig) -> str:
    groups = "; ".join(f"{by}: {', '.join(own)}" for by, own in config.ordering_groups)
    return ", ".join(config.ordering_fields) or groups or "nothing"

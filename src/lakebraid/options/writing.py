# SPDX-License-Identifier: Apache-2.0
"""What a write is told by Hudi's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakebraid.digits import whole_number
from lakebraid.errors import InvalidArgument
from lakebraid.options.parsing import Sorted, sort_options, tell

_KEPT: Final = (
    "hoodie.bucket.index.hash.field",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.payload.delete.field",
    "hoodie.payload.delete.marker",
    "hoodie.table.cdc.enabled",
    "hoodie.table.cdc.supplemental.logging.mode",
)
"""Options that a new table keeps in its properties, and that say what its rows are."""
_SERVED: Final = (
    "hoodie.clean.commits.retained",
    "hoodie.clean.fileversions.retained",
    "hoodie.clean.hours.retained",
    "hoodie.clean.policy",
    "hoodie.client.heartbeat.interval_in_ms",
    "hoodie.client.heartbeat.tolerable.misses",
    "hoodie.compact.inline.max.delta.commits",
    "hoodie.compact.inline.max.delta.seconds",
    "hoodie.compact.inline.trigger.strategy",
    "hoodie.keep.max.commits",
    "hoodie.keep.min.commits",
    "hoodie.lakebraid.clustering.plans.removable",
    "hoodie.lakebraid.logcompaction.plans.removable",
    "hoodie.lakebraid.publication.order",
    "hoodie.lakebraid.table.service.rollback.delay.minutes",
    "hoodie.log.compaction.blocks.threshold",
    "hoodie.log.compaction.inline",
)
"""Options that a new table keeps for its services."""
_TOLD: Final = (
    "hoodie.clustering.updates.strategy",
    "hoodie.write.concurrency.early.conflict.detection.enable",
    "hoodie.write.lock.conflict.resolution.strategy",
)
"""Options that count for the write that is told them; a new table keeps them for the others."""
_GENERATORS: Final = {
    "org.apache.hudi.keygen.simplekeygenerator": "SIMPLE",
    "org.apache.hudi.keygen.complexkeygenerator": "COMPLEX",
    "org.apache.hudi.keygen.nonpartitionedkeygenerator": "NON_PARTITION",
}
_MODES: Final = {
    "non_blocking_concurrency_control": "nbcc",
    "optimistic_concurrency_control": "occ",
    "single_writer": "single",
}
_TYPES: Final = {"merge_on_read": "mor", "copy_on_write": "cow"}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Which write it is, and what the table must be, or become. None and empty: nothing was said."""

    path: str | None = None
    operation: str = "upsert"
    record_keys: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] | None = None
    partition_by: tuple[str, ...] | None = None
    name: str | None = None
    table_type: str | None = None
    index: str | None = None
    buckets: int | None = None
    concurrency: str | None = None
    hive_style: bool | None = None
    lock_provider: str | None = None
    key_generator: str | None = None
    merge_mode: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    """Lines that a new table keeps, and that one which is there must have."""
    served: tuple[tuple[str, str], ...] = ()
    """Lines that a new table keeps for its services."""
    told: tuple[tuple[str, str], ...] = ()
    """How this write gets along with others, in the words of the table's properties, before which it goes."""
    block_format: str = "parquet"
    runs_services: bool = False
    evolve: bool = True
    schema_conflict: str | None = None
    partitions: tuple[str, ...] = ()
    """For delete_partition."""
    replaces_all: bool = False
    """For insert_overwrite: the whole table instead of the partitions that rows are given for."""
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """May hold credentials."""

    @property
    def new_properties(self) -> dict[str, str]:
        """The properties of a new table, besides those that `Table.create` makes of its other arguments."""
        stated = (("hoodie.table.keygenerator.type", self.key_generator), ("hoodie.record.merge.mode", self.merge_mode))
        return dict(self.properties + self.served + self.told) | {n: value for n, value in stated if value is not None}


def write_options(given: Mapping[str, Any]) -> WriteOptions:
    """Hudi's options of a write, checked; those without effect are told as warnings."""
    found = sort_options(given, "write")
    tell(found.notices)
    operation = found.word("hoodie.datasource.write.operation") or "upsert"
    return WriteOptions(
        path=found.get("path"),
        operation=operation,
        record_keys=found.names("hoodie.datasource.write.recordkey.field") or (),
        ordering_fields=found.names("hoodie.datasource.write.precombine.field"),
        partition_by=_partitions(found),
        name=found.get("hoodie.table.name"),
        table_type=_word(found, "hoodie.datasource.write.table.type", _TYPES),
        index=found.word("hoodie.index.type"),
        buckets=_whole(found, "hoodie.bucket.index.num.buckets"),
        concurrency=_word(found, "hoodie.write.concurrency.mode", _MODES),
        hive_style=_switch(found, "hoodie.datasource.write.hive_style_partitioning"),
        lock_provider=found.get("hoodie.write.lock.provider"),
        key_generator=_generator(found),
        merge_mode=_upper(found.get("hoodie.record.merge.mode")),
        properties=found.chosen(_KEPT),
        served=found.chosen(_SERVED),
        told=found.chosen(_TOLD),
        block_format=found.word("hoodie.logfile.data.block.format") or "parquet",
        runs_services=found.is_set("hoodie.compact.inline"),
        evolve=found.word("lakebraid.evolve") != "false",
        schema_conflict=found.word("hoodie.lakebraid.schema.conflict"),
        partitions=found.names("hoodie.datasource.write.partitions.to.delete") or (),
        replaces_all=operation == "insert_overwrite_table"
        or found.word("hoodie.datasource.overwrite.mode") == "static",
        storage=tuple(sorted(found.storage.items())),
    )


def _partitions(found: Sorted) -> tuple[str, ...] | None:
    """The partition columns, of which the custom generator's form `column:simple` is the same as `column`."""
    names = found.names("hoodie.datasource.write.partitionpath.field")
    return None if names is None else tuple(name.removesuffix(":simple").removesuffix(":SIMPLE") for name in names)


def _generator(found: Sorted) -> str | None:
    by_class = found.word("hoodie.datasource.write.keygenerator.class")
    return _upper(found.get("hoodie.datasource.write.keygenerator.type")) or _GENERATORS.get(by_class or "")


def _word(found: Sorted, name: str, words: Mapping[str, str]) -> str | None:
    word = found.word(name)
    return None if word is None else words.get(word, word)


def _upper(text: str | None) -> str | None:
    return None if text is None else text.upper()


def _switch(found: Sorted, name: str) -> bool | None:
    return None if found.get(name) is None else found.is_set(name)


def _whole(found: Sorted, name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    number = whole_number(text.strip())
    if number is None:
        raise InvalidArgument(
            f"The option {name} must be a whole number, not {text[:200]!r}. Nothing was written.", option=name
        )
    return number

# SPDX-License-Identifier: Apache-2.0
"""What a table's metadata table holds, as far as a writer has to keep it: partitions, and columns with statistics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from lakebraid.errors import UnsupportedTable
from lakebraid.format.metadata.index_definitions import IndexDefinition
from lakebraid.limits import INDEXED_COLUMNS_MAX
from lakebraid.model.config import META_COLUMNS
from lakebraid.model.metadata.keys import COLUMN_STATS, FILES, PARTITION_STATS
from lakebraid.model.metadata.ranges import indexed_columns
from lakebraid.model.metadata.value_types import NOTHING, STRING, V1, V2, ValueType, value_type

KEPT: Final = frozenset({FILES, COLUMN_STATS, PARTITION_STATS})
"""The partitions of a metadata table that lakebraid's writers keep."""


class IndexedColumn(NamedTuple):
    """A column with statistics, nested ones with dots, and its type in the table; `NOTHING` if the table has no such column."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class MetadataScope:
    """What is kept of each file: where it is, and ranges of these columns."""

    partitions: frozenset[str]
    """Of the metadata table, as the table's properties list them."""
    columns: tuple[IndexedColumn, ...] = ()
    version: str = V2
    """How values are wrapped."""

    @property
    def has_statistics(self) -> bool:
        """Whether ranges of files are kept."""
        return COLUMN_STATS in self.partitions

    @property
    def column_names(self) -> tuple[str, ...]:
        """What a task is told: the columns whose ranges it has to find, none where no statistics are kept."""
        return tuple(column.name for column in self.columns) if self.has_statistics else ()


def metadata_scope(
    listed: Collection[str], definitions: Mapping[str, IndexDefinition], schema: pa.Schema, where: str
) -> MetadataScope:
    """What the writers of a table keep whose properties list these partitions; `schema` is the table's, with or without Hudi's
    own columns. UnsupportedTable if something is kept that they cannot keep, which would hide rows from Hudi.
    """
    if strange := sorted({*listed} - KEPT):
        raise _unsupported(
            f"its metadata table has the index {strange[0]!r:.80}",
            "drop that index with Apache Hudi (DROP INDEX, or its option set to false)",
            where,
        )
    if PARTITION_STATS in listed and COLUMN_STATS not in listed:
        raise _unsupported("its metadata table has statistics of partitions and none of files", "rebuild it", where)
    if COLUMN_STATS not in listed:
        return MetadataScope(frozenset(listed))
    found = definitions.get(COLUMN_STATS)
    if found is None or not found.columns:
        raise _unsupported("it does not say which columns have statistics", "rebuild the metadata table", where)
    if found.version not in (V1, V2):
        raise _unsupported(f"its statistics have the version {found.version!r:.20}", "write with Apache Hudi", where)
    names = tuple(dict.fromkeys((*found.columns, *_to_come(schema))))
    if len(names) > INDEXED_COLUMNS_MAX:
        what = f"{len(names):,} of its columns have statistics; {INDEXED_COLUMNS_MAX:,} are kept"
        raise _unsupported(what, "let Hudi index fewer columns", where)
    columns = tuple(IndexedColumn(name, _type(name, schema, where)) for name in names)
    return MetadataScope(frozenset(listed), columns, found.version)


def _to_come(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that Hudi indexes from its next write on, also those that a writer has added: it then takes a file of which other
    columns are told, and not these, for one without values of them.
    """
    return indexed_columns(pa.schema([field for field in schema if field.name not in META_COLUMNS]))


def _type(name: str, schema: pa.Schema, where: str) -> ValueType:
    if name in META_COLUMNS:
        return ValueType(STRING)
    kind = column_type(schema, name)
    if kind is None:
        return NOTHING
    found = value_type(kind)
    if found is None:
        what = f"its column {name!r:.80} of the type {kind!s:.80} has statistics"
        raise _unsupported(what, "let Hudi index other columns", where)
    return found


def check_types_kept(before: pa.Schema | None, after: pa.Schema | None, where: str) -> None:
    """UnsupportedTable if a column would get another type: the ranges that are told of it could not be compared with new ones."""
    if before is None or after is None:
        return
    for field in after:
        at = before.get_field_index(field.name)
        if at >= 0 and _is_changed(before.field(at).type, field.type):
            what = f"the type of the column {field.name!r:.80} would change, of which its metadata table has statistics"
            raise _unsupported(what, "keep the type", where)


def _is_changed(before: pa.DataType, after: pa.DataType) -> bool:
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        shared = {field.name for field in before} & {field.name for field in after}
        return any(_is_changed(before.field(name).type, after.field(name).type) for name in shared)
    return value_type(before) != value_type(after)


def column_type(schema: pa.Schema, name: str) -> pa.DataType | None:
    """The type of a column, or of a field inside of one, named with dots; None if there is no such column."""
    at = schema.get_field_index(name)
    if at >= 0:
        return schema.field(at).type
    first, *inner = name.split(".")
    at = schema.get_field_index(first)
    kind = schema.field(at).type if at >= 0 else None
    for step in inner:
        place = kind.get_field_index(step) if kind is not None and pa.types.is_struct(kind) else -1
        kind = kind.field(place).type if kind is not None and place >= 0 else None
    return kind


def _unsupported(what: str, hint: str, where: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"Cannot write to {where}: {what}, which lakebraid does not keep, and Hudi would miss rows. Nothing was changed. To go on, "
        f"{hint}; or drop the metadata table, and keep it off with hoodie.metadata.enable=false.",
        path=where,
    )

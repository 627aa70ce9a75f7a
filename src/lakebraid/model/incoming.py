# SPDX-License-Identifier: Apache-2.0
"""Rows as users bring them, checked and put into the table's columns and types before anything is written.

A column is taken if each of its values is one of the table's type as it is (`model.values.exact`): `int` for `long`, milliseconds
for microseconds, a dictionary for its values. Texts are not parsed, times without a zone get none, no digit is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import IS_DELETED_COLUMN, META_COLUMNS, MergeMode, TableConfig, TableType
from lakebraid.model.keys.keys import check_distinct_keys
from lakebraid.model.keys.partitions import check_partition_values
from lakebraid.model.values.arrow_casts import conformed, missing_inside
from lakebraid.model.values.cutting import check_sizes


def prepare(
    rows: pa.Table | pa.RecordBatch,
    schema: pa.Schema,
    config: TableConfig,
    *,
    operation: str = "upsert",
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """The rows with the columns to write, in the table's order and types; InvalidArgument names what does not fit.

    A full write gives NULL to columns that may be null and are absent. A partial one (`columns`) writes exactly those.
    A delete needs keys and partition columns; ordering columns count if they are there. Hudi's own columns are ignored.
    """
    _check_names(rows.schema.names, schema)
    wanted = _wanted(rows.schema.names, schema, config, operation, columns)
    given = set(rows.schema.names)
    arrays = [
        _conformed(rows.column(f.name), f) if f.name in given else pa.nulls(rows.num_rows, f.type) for f in wanted
    ]
    ready = pa.Table.from_arrays(arrays, schema=wanted)
    _check_valid(ready)
    for name in config.orderings_of(None):
        if name in wanted.names:
            _check_ordered(ready.column(name), name)
    check_distinct_keys(ready, config.record_keys)
    check_partition_values(ready, config)
    if ready.nbytes > min(limits.KEY_BYTES_MAX, limits.ROW_BYTES_MAX):  # else no row and no key is too large
        check_sizes(ready, config.record_keys)
    return ready


def _check_names(names: Sequence[str], schema: pa.Schema) -> None:
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise InvalidArgument(
            f"The rows have several columns named {twice[0]!r}. Nothing was written. Rename or drop all but one.",
            column=twice[0],
        )
    known = {*schema.names, *META_COLUMNS}
    strange = [name for name in names if name not in known]
    if strange:
        raise InvalidArgument(
            f"The table has no column {strange[0]!r}. Nothing was written. Drop it, or add it to the table's schema "
            f"first. The table's columns: {_listed(schema.names)}.",
            column=strange[0],
        )


def _wanted(
    given: Sequence[str], schema: pa.Schema, config: TableConfig, operation: str, columns: Sequence[str] | None
) -> pa.Schema:
    """The columns to write; all that must be in the rows are."""
    identity = tuple(_root(name, schema) for name in (*config.record_keys, *config.partition_fields))
    if operation == "delete":
        ordering = config.orderings_of(None) if config.merge_mode is MergeMode.EVENT_TIME else ()
        return _only(schema, _check_given((*identity, *_delete_ordering(given, ordering)), given, schema))
    ordering = config.orderings_of(columns)
    _check_given((*identity, *ordering), given, schema)
    if columns is not None:
        _check_no_flag(schema, config)
        lacking = [name for name in (*identity, *ordering) if name not in columns]
        if lacking:
            raise InvalidArgument(
                f"A partial update of {_listed(columns)} lacks {lacking[0]!r}. Nothing was written. Keys, partition and "
                "ordering columns must be among the columns: they say which row is meant and whether the update is new.",
                column=lacking[0],
            )
        return _only(schema, _check_given(columns, given, schema))
    _check_given([f.name for f in schema if not f.nullable], given, schema)
    return _only(schema, schema.names)


def _check_no_flag(schema: pa.Schema, config: TableConfig) -> None:
    """Hudi 1.2.0 looks for its flag of deletes in a partial row where it stands in a whole one: it finds another column."""
    if config.table_type is TableType.MOR and IS_DELETED_COLUMN in schema.names:
        raise InvalidArgument(
            f"The table has a column {IS_DELETED_COLUMN}, and Apache Hudi's readers miss rows that were updated in part in such "
            "a table. Nothing was written. Write whole rows, or keep partial updates in a table without that column.",
            column=IS_DELETED_COLUMN,
        )


def _delete_ordering(given: Sequence[str], ordering: tuple[str, ...]) -> tuple[str, ...]:
    """All ordering columns if one of them is there: half an ordering value orders nothing."""
    return ordering if any(name in given for name in ordering) else ()


def _root(name: str, schema: pa.Schema) -> str:
    """The column in which a key field lies, which may be a field inside of it (`a.b`)."""
    return name if name in schema.names else name.split(".", maxsplit=1)[0]


def _check_given(names: Iterable[str], given: Sequence[str], schema: pa.Schema) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(names))
    for name in names:
        if name not in schema.names:
            raise InvalidArgument(
                f"The table has no column {name!r}. Nothing was written. Its columns: {_listed(schema.names)}.",
                column=name,
            )
        if name not in given:
            raise InvalidArgument(
                f"The rows have no column {name!r}, which this write needs. Nothing was written. Add it; the rows have "
                f"{_listed(given)}.",
                column=name,
            )
    return names


def _only(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    kept = set(names)
    return pa.schema([field.remove_metadata() for field in schema if field.name in kept])


def _conformed(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """The values in the table's type."""
    target = field.type
    column = column if column.type == target else conformed(column, target, field.name)
    is_nested = pa.types.is_nested(target)
    if (column.null_count and not field.nullable) or (is_nested and missing_inside(column, target)):
        raise InvalidArgument(
            f"Column {field.name!r} holds a null where the table's type {target!s:.300} allows none. Nothing was "
            "written. Fill it or filter such rows out.",
            column=field.name,
        )
    return column


def _check_valid(rows: pa.Table) -> None:
    """Readers refuse texts that are not UTF-8 and decimals with too many digits; better now than then."""
    try:
        rows.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidArgument(
            f"The rows hold values that no reader would accept: {error!s:.300}. Nothing was written. Correct them."
        ) from error


def _check_ordered(column: pa.ChunkedArray, name: str) -> None:
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise InvalidArgument(
            f"Row {row} has no value in the ordering column {name!r}. Nothing was written. Readers cannot tell which "
            "version of such a row is newer: fill it or filter such rows out.",
            column=name,
            row=row,
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[: limits.NAMES_SHOWN_MAX])
    return shown if len(names) <= limits.NAMES_SHOWN_MAX else f"{shown}, …"

# SPDX-License-Identifier: Apache-2.0
"""Deleting by key where the user gave no ordering values: the rows as they are now are what shall go.

A delete without ordering value would be weaker than it looks: if an older event arrives after it, Hudi's readers bring
the row back that was deleted (docs/differences.md). So every delete gets the ordering value of the row it removes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import spark as on_spark
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig, TableType
from lakebraid.model.keys.keys import check_distinct_keys, record_keys
from lakebraid.model.keys.partitions import check_partition_values, partition_paths
from lakebraid.model.values.arrow_casts import conformed
from lakebraid.writing.request import taken


def with_ordering(
    read: Callable[[list[str]], pa.Table], columns: pa.Schema | None, config: TableConfig, keys: Any
) -> Any:
    """The keys with the ordering values of their rows now; keys without a row are left out, there is nothing to delete.

    `read` gives columns of the table as it is; `columns` are those that it has.
    """
    given: Any = taken(keys, columns)
    is_here = isinstance(given, pa.Table)
    names = {*given.column_names} if is_here else {*given.columns}
    if is_here and not names:
        return given  # an empty list
    if {*config.ordering_fields} <= names:
        return _without_stale_zeros(read, config, given) if is_here else given
    wanted = _identifying(config, names)
    if not is_here:
        given = on_spark.versions.rows_of(given.select(*wanted))
    rows = read([*wanted, *config.ordering_fields])
    chosen = _keys(given, wanted, rows.schema)
    check_distinct_keys(chosen, config.record_keys)
    check_partition_values(chosen, config)
    return rows.filter(pc.is_in(_identities(rows, config), value_set=_identities(chosen, config)))


def _without_stale_zeros(read: Callable[[list[str]], pa.Table], config: TableConfig, given: pa.Table) -> pa.Table:
    """The keys without those that a delete of the ordering value 0 must spare, since their rows are newer.

    In a log file's list of deletes an int 0 says "no ordering value", and such a delete takes newer rows as well.
    """
    name = config.ordering_fields[0]
    if config.table_type is TableType.COW or len(config.ordering_fields) > 1:
        return given
    values = given.column(name)
    if not pa.types.is_integer(values.type) or not pc.any(_are_zero(values)).as_py():
        return given
    wanted = _identifying(config, {*given.column_names})
    rows = read([*dict.fromkeys([*wanted, name])])
    if rows.schema.field(name).type != pa.int32():
        return given
    keys = _keys(given, wanted, rows.schema)
    newer = rows.filter(pc.greater(rows.column(name), 0))
    is_newer = pc.is_in(_identities(keys, config), value_set=_identities(newer, config))
    return given.filter(pc.invert(pc.and_(_are_zero(values), is_newer)))


def _keys(given: pa.Table, names: list[str], schema: pa.Schema) -> pa.Table:
    """The keys in the table's types; InvalidArgument for one that no row can have."""
    return pa.table({name: conformed(given.column(name), schema.field(name).type, name) for name in names})


def _are_zero(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(values, 0), fill_value=False)


def _identities(rows: pa.Table, config: TableConfig) -> pa.Array:
    """One text for each row. A join of the columns would not do: it takes no NULL for equal to another one."""
    keys = record_keys(rows, config.record_keys, config.has_complex_keys)
    if not config.partition_fields:
        return keys
    paths = partition_paths(rows, config.partition_fields, config.hive_style, config.url_encode)
    return pc.binary_join_element_wise(paths, keys, "\n")


def _identifying(config: TableConfig, names: set[str]) -> list[str]:
    wanted = list(dict.fromkeys([*config.record_keys, *config.partition_fields]))
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InvalidArgument(
            f"To delete rows, their key and partition columns must be given; {', '.join(missing)} is missing. "
            "Nothing was deleted. Add it to the keys; delete(where=…) finds the rows of a condition by itself.",
            columns=missing,
        )
    return wanted

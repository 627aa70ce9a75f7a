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

from lakebraid.api.inputs import arrow_pieces, is_spark
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.evolution import conform
from lakebraid.model.keys import record_keys
from lakebraid.model.partitions import partition_paths


def with_ordering(read: Callable[[list[str]], pa.Table], config: TableConfig, keys: Any) -> Any:
    """The keys with the ordering values of their rows now; keys without a row are left out, there is nothing to delete.

    `read` gives columns of the table as it is.
    """
    given = keys if is_spark(keys) else pa.concat_tables(arrow_pieces(keys))
    names = {*(given.columns if is_spark(given) else given.column_names)}
    is_empty_list = not names and not is_spark(given)
    if is_empty_list or {*config.ordering_fields} <= names:
        return given
    wanted = _identifying(config, names)
    if is_spark(given):
        given = given.select(*wanted).toArrow()
    rows = read([*wanted, *config.ordering_fields])
    given = conform(given.select(wanted), pa.schema([rows.schema.field(name) for name in wanted]), "keys to delete")
    return rows.filter(pc.is_in(_identities(rows, config), value_set=_identities(given, config)))


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
            "Nothing was deleted.",
            columns=missing,
        )
    return wanted

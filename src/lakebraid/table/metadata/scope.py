# SPDX-License-Identifier: Apache-2.0
"""Which columns of a table have statistics, as its definitions of indexes say."""

from __future__ import annotations

from lakebraid.errors import CorruptFile, ObjectNotFound
from lakebraid.format.metadata.index_definitions import IndexDefinition, parse_index_definitions
from lakebraid.limits import INDEX_DEFINITIONS_BYTES_MAX
from lakebraid.model.metadata.keys import COLUMN_STATS
from lakebraid.table.at import TableAt


def load_index_definitions(table: TableAt) -> dict[str, IndexDefinition]:
    """The definitions by their names; nothing is read if the table keeps no statistics, as nothing then depends on them.

    CorruptFile if the file is not there or holds none.
    """
    if COLUMN_STATS not in table.config.metadata_partitions:
        return {}
    name, url = table.config.index_definitions, table.storage.url
    parts = name.split("/")
    if parts[0] != ".hoodie" or any(part in ("", ".", "..") for part in parts) or not name.isprintable():
        raise CorruptFile(
            f"The properties of {url} say that its index definitions are at {name!r:.120}, which is not below .hoodie. Nothing was "
            "changed. Correct hoodie.table.index.defs.path.",
            path=url,
        )
    try:
        data = table.storage.read(name, INDEX_DEFINITIONS_BYTES_MAX)
    except ObjectNotFound as error:
        raise CorruptFile(
            f"{url} keeps statistics of columns, and {name} is not there, which says of which. Nothing was changed. Let Apache Hudi "
            "build its metadata table anew.",
            path=f"{url}/{name}",
        ) from error
    return parse_index_definitions(data, f"{url}/{name}")


def load_indexed_columns(table: TableAt) -> tuple[str, ...]:
    """The columns whose ranges a writer has to find; none if the table keeps no statistics."""
    found = load_index_definitions(table).get(COLUMN_STATS)
    return () if found is None else tuple(dict.fromkeys(found.columns))

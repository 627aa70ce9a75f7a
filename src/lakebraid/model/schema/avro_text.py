# SPDX-License-Identifier: Apache-2.0
"""The Avro schema text that a write states: of the table in its commit, of its rows in the headers of log blocks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import pyarrow as pa

from lakebraid.format.avro.types import format_avro_schema
from lakebraid.model.schema.conform import with_meta, without_meta

_SKELETON: Final = '{"doc":"lakebraid: these rows open keys for the partial rows after them",'


@lru_cache(maxsize=64)  # a small commit costs less than making the text of a wide table anew
def table_schema_text(schema: pa.Schema, table: str) -> str:
    """What the `schema` of a commit says: the table's columns without Hudi's own."""
    return _text(without_meta(schema), table)


@lru_cache(maxsize=64)
def row_schema_text(schema: pa.Schema, table: str) -> str:
    """What the header of a log block says: Hudi's five columns, then those of `schema`."""
    return _text(with_meta(schema), table)


@lru_cache(maxsize=64)
def skeleton_schema_text(schema: pa.Schema, table: str) -> str:
    """The same for a block of skeleton rows; it says so in its `doc`, which other readers pass over."""
    return _SKELETON + row_schema_text(schema, table).removeprefix("{")


def states_skeletons(text: str | None) -> bool:
    """Whether a block with this schema text holds skeleton rows: see `tasks.writing.skeletons`."""
    return text is not None and text.startswith(_SKELETON)


def _text(schema: pa.Schema, table: str) -> str:
    name = avro_table_name(table)
    return format_avro_schema(schema, f"{name}_record", f"hoodie.{name}")


def avro_table_name(table: str) -> str:
    """The table's name as Hudi puts it into schemas: two underscores for whatever Avro does not take.

    >>> avro_table_name("trips"), avro_table_name("2026-trips")
    ('trips', '__026__trips')
    """
    return re.sub("[^A-Za-z0-9_]", "__", re.sub("^[^A-Za-z_]", "__", table))

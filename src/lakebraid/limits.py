# SPDX-License-Identifier: Apache-2.0
"""Every bound in one place, each with its reason.

Nothing read from a file is allocated, looped over or recursed into before it was held against one of these and
against the bytes that remain.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

PROPERTIES_BYTES_MAX: Final = 4 * MIB
"""hoodie.properties; a table schema of thousands of columns is some hundred KiB."""

PROPERTIES_ENTRIES_MAX: Final = 10_000
"""Lines in a properties file; Hudi writes about thirty."""

TIMELINE_FILE_BYTES_MAX: Final = 512 * MIB
"""One timeline record: a commit that touched a million files is about 300 MiB."""

TIMELINE_FILES_MAX: Final = 1_000_000
"""Names in the timeline folder; Hudi archives beyond about ninety."""

AVRO_HEADER_ENTRIES_MAX: Final = 64
"""Metadata entries in an Avro container header; Avro itself needs two."""

SCHEMA_BYTES_MAX: Final = 16 * MIB
"""Avro schema text in a block header or commit."""

SCHEMA_DEPTH_MAX: Final = 32
"""Nesting of a schema. Deeper ones exhaust the stacks of readers, ours or others'."""

SCHEMA_FIELDS_MAX: Final = 100_000
"""Fields of a schema, all levels together."""

BLOCK_BYTES_MAX: Final = 2 * GIB - 1
"""One log block; Java Hudi cannot hold more than an int's worth in memory."""

BLOCK_HEADER_ENTRIES_MAX: Final = 64
"""Entries in a block's header or footer map; nine keys exist."""

BLOCK_HEADER_VALUE_BYTES_MAX: Final = 64 * MIB
"""One header value; the largest seen is a schema or a bitmap of record positions."""

BLOCK_RECORDS_MAX: Final = 100_000_000
"""Records a data or delete block may announce."""

LOG_FILE_BYTES_MAX: Final = 8 * GIB
"""One log file; Hudi rolls over at 1 GiB by default."""

CORRUPT_SCAN_BYTES: Final = 1 * MIB
"""How much is looked at in one go when searching the next block after a damaged one."""

HISTORY_MANIFEST_BYTES_MAX: Final = 16 * MIB
"""manifest_<n> of the archived timeline."""

HISTORY_FILE_BYTES_MAX: Final = 4 * GIB
"""One Parquet file of the archived timeline."""

PARQUET_FOOTER_BYTES_MAX: Final = 256 * MIB
"""Footer of a base file; it is decoded in one piece."""

PARQUET_ROW_GROUP_BYTES_MAX: Final = 16 * GIB
"""Uncompressed bytes that one row group may announce; Hudi's default is 120 MiB."""

PARQUET_EXPANSION_MAX: Final = 20_000
"""Announced uncompressed bytes per stored byte of a column chunk; the best honest columns (one value) reach
about a thousand times, a decompression bomb a million."""

PARTITION_DEPTH_MAX: Final = 64
"""Folder levels below a table."""

NAME_BYTES_MAX: Final = 4096
"""Length of an object's name relative to the table (PATH_MAX on Linux)."""

PREDICATE_DEPTH_MAX: Final = 100
"""Nesting of a `where` expression."""

PREDICATE_BYTES_MAX: Final = 1 * MIB
"""Text of a `where` expression."""

READ_ATTEMPTS_MAX: Final = 12
"""How often a reader starts again because a cleaner or rollback worked beside it."""

EMPTY_COMPLETED_RETRIES: Final = 3
"""How often a completed but still empty timeline file is read again (Hudi creates, then fills, it)."""

BATCH_ROWS: Final = 65_536
"""Rows of one Arrow batch on the way through a merge: a few MiB, so that memory stays flat."""

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

EMPTY_COMPLETED_MS_MAX: Final = 60_000
"""After this time nobody will fill an empty completed timeline file any more; waiting for each of many takes hours."""

BATCH_ROWS: Final = 65_536
"""Rows of one Arrow batch on the way through a merge: a few MiB, so that memory stays flat."""

TIMELINE_SCHEMA_BYTES_MAX: Final = 1 * MIB
"""Schema text in the header of a timeline record; Hudi's largest is 5 KiB. Parsed ones are kept, so it is small."""

AVRO_INFLATED_BYTES_MAX: Final = 64 * MIB
"""A compressed block of a timeline record once inflated; Hudi itself does not compress them."""

HISTORY_ROWS_MAX: Final = 10_000_000
"""Instants in one Parquet file of the archived timeline; Hudi merges upward ten files at a time."""

HISTORY_DECODED_BYTES_MAX: Final = 4 * GIB
"""Decoded values of one archived file. A dictionary page can repeat one large value for every row."""

JAVA_RELEASE_BYTES_MAX: Final = 64 * KIB
"""How much of a Java's `release` file is read; real ones are about 2 KiB."""

JAVA_ANSWER_SECONDS_MAX: Final = 10
"""How long a Java without a `release` file may take to tell its version."""

DRIVER_MEMORY_BYTES_MAX: Final = 4 * GIB
"""Heap of the local Spark that `session()` starts; beyond that, garbage collection is the user's to tune."""

DRIVER_MEMORY_BYTES_MIN: Final = 640 * MIB
"""Spark refuses to start below about 450 MiB."""

STORE_RETRIES_MAX: Final = 6
"""How often an object store's reads and other repeatable calls are tried again; conditional creates never are."""

STORE_RETRY_SECONDS_MAX: Final = 60
"""For how long; a request signed minutes ago is refused by most stores."""

BUCKETS_MAX: Final = 100_000_000
"""Buckets of a partition: a file id has eight digits for the number."""

PREDICATE_VALUES_MAX: Final = 100_000
"""Values in the IN lists of one `where`; more belong into a join."""

PREDICATE_TERMS_MAX: Final = 500
"""Conditions of one `where`. Arrow recurses over chains of AND and OR and crashes at some thousands of them."""

KEY_COMBINATIONS_MAX: Final = 1000
"""Keys that a `where` may pin before looking each of them up costs more than scanning."""

LOG_BLOCKS_MAX: Final = 200_000
"""Blocks and damaged fragments of one log file; Hudi writes one to three. Keeps a file of nothing but magics cheap."""

AVRO_RECORD_BYTES_MAX: Final = 256 * MIB
"""One encoded row of an Avro block; rows near this size cannot pass Spark either."""

AVRO_CHUNK_BYTES: Final = 1 * GIB
"""Arrow bytes that one step of decoding an Avro block may need at worst; larger blocks are decoded in steps."""

AVRO_BLOCK_ARROW_BYTES_MAX: Final = 16 * GIB
"""Arrow bytes that the rows of one Avro block may take in all; null structs take one byte there and many here."""

AVRO_BATCH_ROWS: Final = 8192
"""Rows that the fast Avro reader makes at a time, at most."""

ORDERING_FIELDS_MAX: Final = 1000
"""Ordering values of one delete; tables have one or two."""

PARQUET_PAGE_BYTES_FREE: Final = 64 * MIB
"""A page of a Parquet file may always unfold to this; honest ones have about one MiB."""

PARQUET_PAGE_EXPANSION_MAX: Final = 256
"""Beyond that, how many times its stored bytes a page may unfold to."""

PARQUET_UNFOLDED_BYTES_FREE: Final = 128 * MIB
"""What the rows of a Parquet file may always take in memory; beyond, PARQUET_EXPANSION_MAX times its bytes. Columns
that are all null in a wide table reach thousands of times, so less would refuse honest files."""

PARQUET_TEXT_EXPANSION_MAX: Final = 500
"""The same for texts and lists, which do not shrink so far: their keys lie beside them, and no two are equal."""

PARQUET_HELD_BYTES: Final = 128 * MIB
"""When so much is decoded, it is handed on, even if it is less than a batch."""

PARQUET_STEP_BYTES_FREE: Final = 128 * MIB
"""What one step may take at worst, if every row repeats the largest text that a dictionary can hold; beyond,
PARQUET_PAGE_EXPANSION_MAX times the bytes of the file."""

NAMES_SHOWN_MAX: Final = 200
"""Names of columns that a message lists, and that are compared with a misspelt one."""

SPARK_TASK_BYTES: Final = 32 * MIB
"""File bytes of small slices that share one Spark task: each task costs some 80 ms of CPU before it reads anything."""

PARQUET_STEP_ROWS: Final = 4096
"""Rows that are decoded at once where the pages cannot be looked at beforehand."""

PARQUET_WHOLE_BYTES_MAX: Final = 4 * MIB
"""Base files up to this size are fetched from an object store in one request, not column by column."""

SCHEMA_BRANCHES_MAX: Final = 100
"""Types in a union of a schema; columns have two, null and their own."""

PARQUET_BUFFER_BYTES: Final = 1 * MIB
"""How much of a column chunk is read ahead: about a page."""

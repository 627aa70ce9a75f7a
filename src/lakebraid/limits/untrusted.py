# SPDX-License-Identifier: Apache-2.0
"""What bytes, names and texts from outside may claim.

Nothing read from a file is allocated, looped over or recursed into before it was held against one of these and
against the bytes that remain.
"""

from __future__ import annotations

from typing import Final

from lakebraid.limits.units import GIB, KIB, MIB

PROPERTIES_BYTES_MAX: Final = 4 * MIB
"""hoodie.properties; a table schema of thousands of columns is some hundred KiB."""

PROPERTIES_ENTRIES_MAX: Final = 10_000
"""Lines in a properties file; Hudi writes about thirty."""

TIMELINE_FILE_BYTES_MAX: Final = 512 * MIB
"""One timeline record: a commit that touched a million files is about 300 MiB."""

TIMELINE_FILES_MAX: Final = 10_000_000
"""Names in the timeline folder; Hudi archives beyond about ninety. Each is an object that is there: three million writes that
that is never archived, and some GB of names."""

AVRO_HEADER_ENTRIES_MAX: Final = 64
"""Metadata entries in an Avro container header; Avro itself needs two."""

SCHEMA_BYTES_MAX: Final = 16 * MIB
"""Avro schema text in a block header or commit."""

SCHEMA_DEPTH_MAX: Final = 36
"""Nesting of a schema. Deeper ones exhaust the stacks of readers, ours or others'."""

SCHEMA_DEPTH_WRITTEN_MAX: Final = 32
"""The same of a table that we create or change: blocks of captured changes wrap the rows."""

SCHEMA_FIELDS_MAX: Final = 250_000
"""Fields of a schema, all levels together."""

SCHEMA_FIELDS_WRITTEN_MAX: Final = 100_000
"""The same of a table that we create or change: files add Hudi's five columns, and captured changes have the rows twice."""

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

HISTORY_MANIFEST_BYTES_MAX: Final = 16 * MIB
"""manifest_<n> of the archived timeline."""

HISTORY_FILE_BYTES_MAX: Final = 4 * GIB
"""One Parquet file of the archived timeline."""

PARQUET_FOOTER_BYTES_MAX: Final = 256 * MIB
"""Footer of a base file; it is decoded in one piece."""

PARQUET_ROWS_PER_BYTE_MAX: Final = 1000
"""Rows of a Parquet file for each of its bytes: every row has a key of its own. Keys that only count up, which are the smallest,
reach 2 as Hudi, Spark and we write them, and 200 in the narrowest encoding there is."""

PARQUET_ROWS_FREE: Final = 1_000_000
"""Rows that a Parquet file may always have."""

NESTED_EXPANSION_FREE: Final = 64
"""How many times its stored bytes a column inside of lists may take in memory, should all of it belong to one row; more only if
that memory is there."""

HELD_BYTES_FREE: Final = 256 * MIB
"""What a read may always hold at once; beyond, half of the memory that is left."""

MEMORY_BYTES_UNKNOWN: Final = 1 << 62
"""Stands for a limit of memory that is not set."""

PARTITION_DEPTH_MAX: Final = 64
"""Folder levels below a table."""

NAME_BYTES_MAX: Final = 4096
"""Length of an object's name relative to the table (PATH_MAX on Linux)."""

LEVEL_BYTES_MAX: Final = 255
"""Length of a folder's name (NAME_MAX on Linux, and HDFS's default)."""

PREDICATE_DEPTH_MAX: Final = 100
"""Nesting of a `where` expression."""

PREDICATE_BYTES_MAX: Final = 1 * MIB
"""Text of a `where` expression."""

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

BUCKETS_MAX: Final = 100_000_000
"""Buckets of a partition: a file id has eight digits for the number."""

PREDICATE_VALUES_MAX: Final = 100_000
"""Values in the IN lists of one `where`; more belong into a join."""

PREDICATE_TERMS_MAX: Final = 500
"""Conditions of one `where`. Arrow recurses over chains of AND and OR and crashes at some thousands of them."""

LOG_BLOCKS_MAX: Final = 200_000
"""Blocks and damaged fragments of one log file; Hudi writes one to three. Keeps a file of nothing but magics cheap."""

AVRO_BLOCK_ARROW_BYTES_MAX: Final = 16 * GIB
"""Arrow bytes that one record of an Avro block could take, by its length, without a closer look: null structs in a list take one
byte there and many here."""

ORDERING_FIELDS_MAX: Final = 1000
"""Ordering values of one delete; tables have one or two."""

SCHEMA_BRANCHES_MAX: Final = 100
"""Types in a union of a schema; columns have two, null and their own."""

LEDGER_ENTRY_BYTES_MAX: Final = 64 * MIB
"""One entry of the ledger: every open write takes about 100 bytes of it."""

TASKS_MAX: Final = 8999
"""Tasks of one write. They are numbered from 1000 to 9999, since Hudi compares their numbers as text."""

TABLE_NAME_CHARACTERS_MAX: Final = 255
"""Of a table's name; catalogs and file systems take no longer ones."""

LOCK_FILE_BYTES_MAX: Final = 1 * MIB
"""A lock file: ours has 200 bytes, Hudi's at most the stack trace of its owner."""

MARKERS_FILE_BYTES_MAX: Final = 256 * MIB
"""One MARKERS file of Hudi's timeline server: a line of about 150 bytes for each data file of a write."""

LEASES_MAX: Final = 1000
"""Readers that may hold files back at once: each takes some 80 bytes of every entry of the ledger."""

CONSUMERS_MAX: Final = 1000
"""Named consumers of changes; as leases, they are in every entry of the ledger."""

CONSUMER_NAME_CHARACTERS_MAX: Final = 200
"""Of a consumer's name: it stands in every entry of the ledger, too."""

REPLACED_MAP_BYTES_MAX: Final = 64 * MIB
"""The map of overwrites: every partition that was ever overwritten takes about 60 bytes of it."""

BLOOM_HASHES_MAX: Final = 64
"""Hashes of a filter that we read; Hudi's usual ones have 30."""

BLOOM_TEXT_BYTES_MAX: Final = 64 * MIB
"""Text of a filter that we read; a longer one counts as none."""

CLUSTER_OUTPUTS_MAX: Final = 10_000
"""Files that one task of a clustering makes, whatever its plan says: a plan of Hudi's may ask for one for each GiB."""

BATCH_WRITERS_MAX: Final = 500
"""Writers that number their batches; each takes about 100 bytes of every entry of the ledger."""

WRITER_NAME_CHARACTERS_MAX: Final = 200
"""Of the name of such a writer: it stands in every entry of the ledger, too."""

BATCH_NUMBER_MAX: Final = 2**63 - 1
"""Spark's batch ids are Java longs."""

TASK_NUMBER_MAX: Final = 10**9
"""Numbers of tasks in file names; Java's ints hold them."""

HFILE_BLOCK_BYTES_MAX: Final = 128 * MIB
"""One block of an HFile once inflated. Hudi begins a new one past 64 KiB, but a record is never split, and the files of one partition
are one record: a million files are about 90 MB."""

HFILE_INDEX_BYTES_MAX: Final = 64 * MIB
"""The index and the file info of an HFile, as they lie on storage: a block takes some 60 bytes of it."""

HFILE_INFO_ENTRIES_MAX: Final = 1000
"""Entries in the file info of an HFile; Hudi writes about ten."""

METADATA_LOGS_MAX: Final = 10_000
"""Log files of one file group of a metadata table that a look at it reads; Hudi compacts after ten."""

METADATA_GROUPS_MAX: Final = 100_000
"""File groups of one partition of a metadata table; Hudi makes 10,000 at most for a record index."""

INDEX_DEFINITIONS_BYTES_MAX: Final = 4 * MIB
"""The definitions of a table's indexes: the names of its columns, and little else."""

INDEXED_COLUMNS_MAX: Final = 1000
"""Columns of which statistics are kept, some hundred bytes each for every new file; Hudi chooses 35 by itself."""

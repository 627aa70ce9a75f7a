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

DECIDE_ATTEMPTS_MAX: Final = 10_000
"""How often a decision is tried again because another writer was faster; hundreds happen with 64 busy writers."""

LEDGER_ENTRIES_KEPT: Final = 1000
"""Entries of the ledger that are kept at least; one is enough to be right, the others tell what happened."""

LEDGER_ENTRY_BYTES_MAX: Final = 64 * MIB
"""One entry of the ledger: every open write takes about 100 bytes of it."""

CLOCK_AHEAD_MS_MAX: Final = 120_000
"""How far this machine's clock may be ahead of the storage's: times never run back, so one bad clock drags all."""

STAGED_HELD_MAX: Final = 64
"""Staged objects of beginnings that are removed together with later ones."""

GONE_STARTS_MAX: Final = 1000
"""Rolled-back starts that the ledger remembers, the newest of them."""

PLACE_ATTEMPTS_MAX: Final = 3
"""How often a data file is created again whose creation was not answered; then the task fails and may run again."""

LOG_BLOCK_ARROW_BYTES: Final = 96 * MIB
"""Rows of one data block in memory; more make several blocks. Readers hold a block whole, and it stays below
PARQUET_UNFOLDED_BYTES_FREE, so that no honest block is ever refused."""

LOG_BLOCK_SMALL_BYTES: Final = 1 * MIB
"""If all rows of a task take less, their blocks are written for speed, not for size: footers are a good part of them."""

BASE_ROW_GROUP_ROWS: Final = 131_072
"""Rows of a row group in base files: readers pass over whole ones by their statistics."""

BASE_ROW_GROUP_BYTES: Final = 128 * MIB
"""Bytes in memory of a row group in base files, whatever its rows."""

DICTIONARY_SAMPLE_ROWS: Final = 4096
"""Rows that are looked at to tell whether the values of a column repeat."""

HEARTBEAT_INTERVAL_MS: Final = 20_000
"""How often a writer shows that it lives. Hudi's judges allow two minutes, and so do ours: five beats may be missed."""

HEARTBEAT_TIMEOUT_MS: Final = 120_000
"""After this silence a writer may be rolled back: Hudi's own default (60 s, twice)."""

WRITE_TASK_ROWS: Final = 4_000_000
"""Rows that one task writes in process at a time: some hundred MiB of ordinary rows."""

TASKS_MAX: Final = 8999
"""Tasks of one write. They are numbered from 1000 to 9999, since Hudi compares their numbers as text."""

ZONE_DIFFERENCE_MS_MAX: Final = 7 * 60_000
"""How far a completion time may be from when its file was made, in a table in local time: zones differ by quarters of
an hour, and a completion is written at once."""

TABLE_NAME_CHARACTERS_MAX: Final = 255
"""Of a table's name; catalogs and file systems take no longer ones."""

COMPACT_ON_SPARK_BYTES: Final = 256 * MIB
"""File bytes from which a compaction is worth Spark's tasks, if a session is there: below, this process takes seconds."""

SPARK_DRIVER_BYTES: Final = 16 * MIB
"""Data frames that are certainly no larger are fetched and written by the driver: a task costs more than their rows."""

SPARK_PLAIN_BYTES: Final = 128 * MIB
"""Estimated bytes of Parquet files that the driver reads and writes by itself, in a second or two, where Spark would take
ten for Python workers and a shuffle. Twice as many in truth, and Spark does it: estimates may be far off."""

SPARK_PLAIN_FILES_MAX: Final = 64
"""Files that it reads so: asking Java for the name of each takes time."""

SPARK_COUNT_BYTES: Final = 128 * MIB
"""File bytes of slices with logs that the driver counts by itself: it reads little more than keys, Spark has to be told rows."""

SPARK_SCAN_EXPANSION: Final = 4
"""How many times its bytes on storage a scanned file is taken to have in memory."""

SPARK_HANDED_BYTES: Final = 32 * MIB
"""Rows of small partitions that the tasks of a write hand back to the driver, all together."""

SPARK_HANDED_ROWS: Final = 16_384
"""Rows of a partition that is handed back; a partition with more is worth files of its own."""

SOURCE_HANDED_BYTES: Final = MIB // 4
"""The same of one partition in the data source, which is not told how many there are: a thousand of them fit into memory."""

SPARK_WRITE_FILES_MAX: Final = 512
"""Log files that tasks may make each for itself; if there could be more, and small ones, rows are shuffled first."""

SPARK_SMALL_FILE_BYTES: Final = 1 * MIB
"""Bytes in memory of what is a small log file in that sense."""

SPARK_TASK_ROWS_BYTES_MAX: Final = 2 * GIB - 1
"""Rows that one Spark task may hold when it writes: Arrow's texts have 31-bit places, and executors little memory."""

LOCK_WAIT_SECONDS_MAX: Final = 120
"""How long one decision waits for Hudi's lock; Hudi holds it for parts of a second, seldom for seconds."""

LOCK_POLL_SECONDS_MAX: Final = 0.25
"""The longest pause between two looks at a lock that somebody else holds."""

LOCK_FILE_BYTES_MAX: Final = 1 * MIB
"""A lock file: ours has 200 bytes, Hudi's at most the stack trace of its owner."""

LOCK_HEIRS_MAX: Final = 100
"""How many processes may die, one after the other, while they remove the lock of a dead one."""

LOCK_VALID_MS: Final = 300_000
"""How long a lock on an object store is valid without being renewed: Hudi's default."""

LOCK_RENEW_SECONDS: Final = 30
"""How often it is renewed while it is held: Hudi's default."""

LOCK_DRIFT_MS: Final = 500
"""How far the clocks of two holders may differ, as Hudi has it; nobody takes an expired lock before that."""

LOCK_MARGIN_MS: Final = 60_000
"""A lock that is valid for less than this is renewed before anything is decided under it."""

UNLOCK_ATTEMPTS_MAX: Final = 5
"""How often giving a lock back is tried before the user is told that it stays behind."""

MARKERS_FILE_BYTES_MAX: Final = 256 * MIB
"""One MARKERS file of Hudi's timeline server: a line of about 150 bytes for each data file of a write."""

CONFLICT_RETRIES: Final = 30
"""How often a write is done again because another one was in the way: one of them always gets through, so this is only
reached if thirty others were faster, one after the other."""

CHECKED_ROWS_MAX: Final = 100_000
"""Rows that are looked at before a write begins, so that bad input leaves no trace; more are looked at while they are written."""

PLAN_ROLLBACK_DELAY_MS: Final = 60 * 60_000
"""How long a removable plan may wait for its executor before it is rolled back: longer than a queue of services takes,
shorter than what its groups can do without cleaning (RFC-79's `table_service_rollback_delay`)."""

HISTORY_READ_WHOLE_BYTES: Final = 4 * MIB
"""A file of the history up to this size is fetched whole; of a larger one only the times, a hundredth of it."""

ARCHIVE_INSTANTS_MAX: Final = 20_000
"""Instants that one archiving moves; the next one takes the others. Some seconds on a local disk."""

ARCHIVE_BATCH_INSTANTS: Final = 2_000
"""Instants in one new file of the history."""

ARCHIVE_BATCH_BYTES: Final = 64 * MIB
"""Bytes of the timeline files in one new file of the history: they are held in memory together."""

HISTORY_ATTEMPTS_MAX: Final = 100
"""How often an archiver looks again because another one wrote the next manifest first, or the store did not answer."""

HISTORY_MERGE_FILES: Final = 10
"""Files of one layer of the history that are merged into one of the next: Hudi's own number."""

HISTORY_MERGE_BYTES_MAX: Final = 16 * MIB
"""Stored bytes of the files that are merged at once; larger ones stay as they are. Unfolded they take some
hundred MiB of memory."""

HISTORY_MERGES_MAX: Final = 8
"""Merges of one archiving; the next one goes on."""

HISTORY_MANIFESTS_KEPT: Final = 3
"""Manifests of the history that stay for readers who have just looked at one: Hudi's own number."""

GONE_MS: Final = 60 * 60_000
"""How long late files of a write that was rolled back are reckoned with: tasks of Spark end minutes after their driver.
Until then the timeline is not archived past it, for Hudi takes every file older than its timeline for committed."""

CLEAN_FILES_MAX: Final = 100_000
"""Files that one clean removes, the longest unneeded first; some ten MB of plan. Another one takes the others."""

CLEANS_MAX: Final = 100
"""Cleans that one call makes one after the other, if there is more than fits in one."""

LEASE_INTERVAL_MS: Final = 60_000
"""How often a reader shows that it still needs its files."""

LEASE_MS: Final = 10 * 60_000
"""After this silence a reader's lease no longer protects its files. Too long costs space, too short costs a reader."""

LEASES_MAX: Final = 1000
"""Readers that may hold files back at once: each takes some 80 bytes of every entry of the ledger."""

CONSUMERS_MAX: Final = 1000
"""Named consumers of changes; as leases, they are in every entry of the ledger."""

CONSUMER_NAME_CHARACTERS_MAX: Final = 200
"""Of a consumer's name: it stands in every entry of the ledger, too."""

RESTORES_FINISHED_MAX: Final = 8
"""How many unfinished restores a writer brings to their end before it begins: each is the will of a person, so there are few."""

RESTORES_KEPT: Final = 16
"""Finished restores that the ledger remembers, so that a restorer whose answer got lost does not restore twice."""

LOG_COMPACT_FILES_MIN: Final = 5
"""Log files that a group must have for a log compaction to be worth its while; Hudi's own threshold."""

LOG_COMPACT_BYTES_MAX: Final = 512 * MIB
"""Log bytes that one log compaction puts into one file: it is decoded in memory; beyond this a compaction is due."""

LOG_COMPACT_SMALL_BYTES: Final = 1 * MIB
"""Log files up to this size are rewritten with every log compaction: opening one costs more than its bytes."""

DUE_LOG_BYTES_MIN: Final = 1 * MIB
"""Log bytes of a group below which their share of the base file does not matter: they are read in a moment anyway."""

SERVICE_INTERVAL_SECONDS: Final = 30.0
"""How often a service runner looks at a table: a dead writer is found after two minutes, log files gather by the minute."""

COMPACT_SORT_BYTES: Final = 1 * GIB
"""Rows of one file group that are sorted at once, in memory; a larger one becomes several sorted stretches."""

COMPACT_JOB_ATTEMPTS_MAX: Final = 2
"""Runs of a Spark job that compacts; a cluster repeats failed tasks by itself, a local Spark does not."""

TURN_ROUNDS_LOST: Final = 3
"""After so many lost rounds a service asks the others to wait while it decides: it looks at the whole table in each."""

TURN_MS_MAX: Final = 3000
"""After this time such a wish is void: whoever had it is dead, or slower than anybody should wait for."""

TURN_WAIT_SECONDS_MAX: Final = 1.0
"""How long one decision waits for those who asked for their turn; looking at a large table takes some tenths of that."""

VIEW_INSTANTS_MAX: Final = 10_000
"""Instants that the viewer shows, the newest ones: more make a page of several megabytes, and no screen has the pixels."""

VIEW_FILES_MAX: Final = 20_000
"""Files that the viewer names, those that readers use first: about 50 bytes of the page each."""

VIEW_POLL_SECONDS: Final = 2.0
"""How often a live page asks for news."""

VIEW_REST_FACTOR: Final = 9
"""For so many times as long as reading a table took, the live viewer leaves it alone: a tenth of a core at most."""

AUDIT_FINDINGS_MAX: Final = 100
"""Findings of one kind that an audit keeps; further ones are counted. A hundred say what a million would."""

AUDIT_LEFTOVER_MS: Final = 60 * 60_000
"""Markers, heartbeats and staged objects of ended writes are untidy after this: until then somebody may be about to remove
them. Also how long a decision may be on its way to the timeline."""

AUDIT_AHEAD_MS: Final = 26 * 60 * 60_000
"""An instant this far ahead of the clock is of a wrong clock: zones differ by up to 26 hours."""

AUDIT_KEYS_MAX: Final = 4_000_000
"""Keys whose hashes are held at once to find equal ones, some 100 MB; more keys are read in several passes."""

REPLACED_MAP_BYTES_MAX: Final = 64 * MIB
"""The map of overwrites: every partition that was ever overwritten takes about 60 bytes of it."""

BLOOM_ERROR_RATE: Final = 0.001
"""How often a base file's filter takes a strange key for its own. Hudi's own has a billionth, which costs three times
the hashing and the bytes, and saves the reading of one key column in a thousand."""

BLOOM_BITS_MAX: Final = 1 << 23
"""Bits of a base file's filter: more would make footers of megabytes, which every reader of the file has to fetch. It is
enough for 580,000 keys; of files with more keys it errs more often."""

BLOOM_HASHES_MAX: Final = 64
"""Hashes of a filter that we read; Hudi's usual ones have 30."""

BLOOM_TEXT_BYTES_MAX: Final = 64 * MIB
"""Text of a filter that we read; a longer one counts as none."""

CLUSTER_TARGET_BYTES: Final = 128 * MIB
"""Size of the files that a clustering makes: about Hudi's own size of base files; a task holds one such file in memory."""

CLUSTER_SMALL_BYTES: Final = 100 * MIB
"""Slices below this size are clustered: Hudi's limit of a small file beside a target of about this size."""

CLUSTER_GROUP_BYTES: Final = 2 * GIB
"""Bytes that one task of a clustering sorts together: Hudi's own number."""

CLUSTER_GROUPS_MAX: Final = 30
"""Tasks of one clustering: Hudi's own number. The next clustering takes the others."""

CLUSTER_PART_BYTES: Final = 256 * MIB
"""File bytes whose rows a task of a clustering holds at once, some GiB unfolded; of more, its files are made in parts, and
the slices are read once for each."""

CLUSTER_OUTPUTS_MAX: Final = 10_000
"""Files that one task of a clustering makes, whatever its plan says: a plan of Hudi's may ask for one for each GiB."""

BLOOM_ASK_COST: Final = 8
"""Asking a filter for one key takes as long as reading so many from a key column (0.4 against 0.05 microseconds)."""

ROW_SIZE_FILE_BYTES: Final = 1 * MIB
"""Base files from this size on say how much room a row takes; in smaller ones footers and dictionaries prevail."""

STORY_GROUPS_MAX: Final = 20
"""File groups that the story of a refused write names: it stays on the timeline, and twenty say which they were."""

BATCH_WRITERS_MAX: Final = 500
"""Writers that number their batches; each takes about 100 bytes of every entry of the ledger."""

WRITER_NAME_CHARACTERS_MAX: Final = 200
"""Of the name of such a writer: it stands in every entry of the ledger, too."""

BATCH_NUMBER_MAX: Final = 2**63 - 1
"""Spark's batch ids are Java longs."""

TASK_NUMBER_MAX: Final = 10**9
"""Numbers of tasks in file names; Java's ints hold them."""

AUDIT_HELD_BYTES: Final = 64 * MIB
"""Timeline files that an audit keeps, since it looks at each several times; further ones are read again."""

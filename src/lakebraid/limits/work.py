# SPDX-License-Identifier: Apache-2.0
"""How work is cut up: rows and bytes that are taken at once, and when a job is worth its machinery."""

from __future__ import annotations

from typing import Final

from lakebraid.limits.units import GIB, KIB, MIB

BATCH_ROWS: Final = 65_536
"""Rows of one Arrow batch on the way through a merge: a few MiB, so that memory stays flat."""

STORE_CALLS_AT_ONCE_MAX: Final = 96
"""Calls to object stores that one process makes at once, and threads that wait for them. A store takes thousands a second for
each prefix of names; a scan of 64 buckets with ten log files each takes 773 calls. Idle threads cost some KiB each."""

STORE_BYTES_AT_ONCE_MAX: Final = 256 * MIB
"""Bytes of files that these calls fetch or put at the moment: large files are read by few threads, small ones by many."""

ANNOUNCED_GROUPS_MAX: Final = 1024
"""File groups whose files a task announces in one object, of some 150 kB, before it puts them."""

ANNOUNCED_AHEAD_MAX: Final = 256
"""Log files that a write which is begun ahead announces before it has rows, in some 25 kB: as many buckets of a few partitions. One
that is not among them is announced when its rows are there, for one call more."""

SLICE_UNFOLDS: Final = 4
"""So many times the bytes of its files a slice takes in memory while it is merged, about: compressed columns unfold."""

DRIVER_MEMORY_BYTES_MAX: Final = 4 * GIB
"""Heap of the local Spark that `session()` starts; beyond that, garbage collection is the user's to tune."""

DRIVER_MEMORY_BYTES_MIN: Final = 640 * MIB
"""Spark refuses to start below about 450 MiB."""

KEY_COMBINATIONS_MAX: Final = 1000
"""Keys that a `where` may pin before looking each of them up costs more than scanning."""

TAKEN_BYTES: Final = 512 * MIB
"""Rows from this size on are put into another order piece by piece: a copy of all of them may be too much."""

AVRO_CHUNK_BYTES: Final = 1 * GIB
"""Arrow bytes that one step of decoding an Avro block may need at worst; larger blocks are decoded in steps."""

AVRO_TOGETHER_BYTES: Final = 16 * MIB
"""Avro blocks that are decoded at once: one call takes as long as the rows of some hundred KiB, and their bytes are copied for it."""

AVRO_BATCH_ROWS: Final = 8192
"""Rows that the fast Avro reader makes at a time, at most."""

PARQUET_HELD_BYTES: Final = 64 * MIB
"""What one step of decoding a Parquet file may take at worst, and when so much is decoded, it is handed on: even if it is less
than a batch, or one row."""

NAMES_SHOWN_MAX: Final = 200
"""Names of columns that a message lists, and that are compared with a misspelt one."""

SPARK_TASK_BYTES: Final = 32 * MIB
"""File bytes of small slices that share one Spark task: each task costs some 80 ms of CPU before it reads anything."""

PARQUET_STEP_ROWS: Final = 512
"""Rows that are decoded at once where the pages cannot be looked at beforehand."""

PARQUET_WHOLE_BYTES_MAX: Final = 4 * MIB
"""Base files up to this size are fetched from an object store in one request, not column by column."""

PARQUET_BUFFER_BYTES: Final = 1 * MIB
"""How much of a column chunk is read ahead: about a page."""

LOG_BLOCK_ARROW_BYTES: Final = 96 * MIB
"""Rows of one data block in memory; more make several blocks. Readers hold a block whole, and it stays below HELD_BYTES_FREE."""

LOG_BLOCK_SMALL_BYTES: Final = 1 * MIB
"""If all rows of a task take less, their blocks are written for speed, not for size: footers are a good part of them."""

BASE_ROW_GROUP_ROWS: Final = 131_072
"""Rows of a row group in base files: readers pass over whole ones by their statistics."""

BASE_ROW_GROUP_BYTES: Final = 128 * MIB
"""Bytes in memory of a row group in base files, whatever its rows."""

DICTIONARY_SAMPLE_ROWS: Final = 4096
"""Rows that are looked at to tell whether the values of a column repeat."""

DICTIONARY_TEXT_BYTES_MAX: Final = 64 * KIB
"""A text of a dictionary in base files; columns with longer ones have none."""

ROW_BYTES_MAX: Final = 256 * MIB
"""One row in memory, when it is written: readers hold rows whole and several times, and larger ones do not pass Spark."""

KEY_BYTES_MAX: Final = 1 * MIB
"""One key, when it is written: the footer of a base file holds its least and its greatest key."""

WRITE_TASK_ROWS: Final = 4_000_000
"""Rows that one task writes in process at a time: some hundred MiB of ordinary rows."""

PLAIN_ROWS: Final = 4_000
"""Dictionaries of which all columns are taken before the next ones: about what a processor keeps near."""

COMPACT_ON_SPARK_BYTES: Final = 256 * MIB
"""File bytes from which a compaction is worth Spark's tasks, if a session is there: below, this process takes seconds."""

SPARK_DRIVER_BYTES: Final = 16 * MIB
"""Data frames that are certainly no larger are fetched and written by the driver: a task costs more than their rows."""

SPARK_COUNT_BYTES: Final = 128 * MIB
"""File bytes of slices with logs that the driver counts by itself: it reads little more than keys, Spark has to be told rows."""

SPARK_CHANGES_BYTES: Final = 8 * MIB
"""File bytes of new logs whose changes the driver reads by itself: handing over their rows is cheaper than a Python task."""

SPARK_CHANGES_TASKS_MAX: Final = 64
"""File groups that it compares so: each costs some 15 ms, and a store several requests."""

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

CHECKED_ROWS_MAX: Final = 100_000
"""Rows that are looked at before a write begins, so that bad input leaves no trace; more are looked at while they are written."""

HISTORY_READ_WHOLE_BYTES: Final = 4 * MIB
"""A file of the history up to this size is fetched whole; of a larger one only the times, a hundredth of it."""

ARCHIVE_INSTANTS_MAX: Final = 20_000
"""Instants that one archiving moves; the next one takes the others. Some seconds on a local disk."""

ARCHIVE_BATCH_INSTANTS: Final = 2_000
"""Instants in one new file of the history."""

ARCHIVE_BATCH_BYTES: Final = 64 * MIB
"""Bytes of the timeline files in one new file of the history: they are held in memory together."""

HISTORY_MERGE_FILES: Final = 10
"""Files of one layer of the history that are merged into one of the next: Hudi's own number."""

HISTORY_MERGE_BYTES_MAX: Final = 16 * MIB
"""Stored bytes of the files that are merged at once; larger ones stay as they are. Unfolded they take some
hundred MiB of memory."""

HISTORY_MERGES_MAX: Final = 8
"""Merges of one archiving; the next one goes on."""

CLEAN_FILES_MAX: Final = 100_000
"""Files that one clean removes, the longest unneeded first; some ten MB of plan. Another one takes the others."""

CLEANS_MAX: Final = 100
"""Cleans that one call makes one after the other, if there is more than fits in one."""

LOG_COMPACT_FILES_MIN: Final = 5
"""Log files that a group must have for a log compaction to be worth its while; Hudi's own threshold."""

LOG_COMPACT_BYTES_MAX: Final = 512 * MIB
"""Log bytes that one log compaction puts into one file: it is decoded in memory; beyond this a compaction is due."""

LOG_COMPACT_SMALL_BYTES: Final = 1 * MIB
"""Log files up to this size are rewritten with every log compaction: opening one costs more than its bytes."""

DUE_LOG_BYTES_MIN: Final = 1 * MIB
"""Log bytes of a group below which their share of the base file does not matter: they are read in a moment anyway."""

COMPACT_SORT_BYTES: Final = 1 * GIB
"""Rows of one file group that are sorted at once, in memory; a larger one becomes several sorted stretches."""

VIEW_INSTANTS_MAX: Final = 10_000
"""Instants that the viewer shows, the newest ones: more make a page of several megabytes, and no screen has the pixels."""

VIEW_FILES_MAX: Final = 20_000
"""Files that the viewer names, those that readers use first: about 50 bytes of the page each."""

ADOPTION_SLICES_MAX: Final = 1_000
"""File slices whose keys are read to find out what a table is: a minute of work; what they prove, the others rarely contradict."""

AUDIT_FINDINGS_MAX: Final = 100
"""Findings of one kind that an audit keeps; further ones are counted. A hundred say what a million would."""

AUDIT_KEYS_MAX: Final = 4_000_000
"""Keys whose hashes are held at once to find equal ones, some 100 MB; more keys are read in several passes."""

BLOOM_ERROR_RATE: Final = 0.001
"""How often a base file's filter takes a strange key for its own. Hudi's own has a billionth, which costs three times
the hashing and the bytes, and saves the reading of one key column in a thousand."""

BLOOM_BITS_MAX: Final = 1 << 23
"""Bits of a base file's filter: more would make footers of megabytes, which every reader of the file has to fetch. It is
enough for 580,000 keys; of files with more keys it errs more often."""

CLUSTER_TARGET_BYTES: Final = 128 * MIB
"""Size of the files that a clustering makes: about Hudi's own size of base files; a task holds one such file in memory."""

CLUSTER_SMALL_BYTES: Final = 100 * MIB
"""Slices below this size are clustered: Hudi's limit of a small file beside a target of about this size."""

CLUSTER_GROUP_BYTES: Final = 2 * GIB
"""Bytes that one task of a clustering sorts together: Hudi's own number."""

CLUSTER_GROUPS_MAX: Final = 30
"""Tasks of one clustering: Hudi's own number. The next clustering takes the others."""

CLUSTER_PART_BYTES: Final = 1 * GIB
"""Rows that a task of a clustering holds at once, as they lie in memory; of more, its files are made in parts, and the slices are
read again for each."""

BLOOM_ASK_COST: Final = 8
"""Asking a filter for one key takes as long as reading so many from a key column (0.4 against 0.05 microseconds)."""

ROW_SIZE_FILE_BYTES: Final = 1 * MIB
"""Base files from this size on say how much room a row takes; in smaller ones footers and dictionaries prevail."""

STORY_GROUPS_MAX: Final = 20
"""File groups that the story of a refused write names: it stays on the timeline, and twenty say which they were."""

AUDIT_HELD_BYTES: Final = 64 * MIB
"""Timeline files that an audit keeps, since it looks at each several times; further ones are read again."""

KEPT_BLOCKS_BYTES: Final = 64 * MIB
"""Rows of log blocks that a process keeps for its next read, as they lie in memory: half a million ordinary rows, and little
beside what one merge holds."""

KEPT_BLOCK_BYTES_MAX: Final = 4 * MIB
"""A larger log block is decoded each time: it would drive out many small ones, which take the most time for their bytes."""

LOG_BLOCK_TINY_BYTES: Final = 32 * KIB
"""Log blocks of this size on average are decoded whole for a comparison: looking for keys in them first takes as long."""

CHANGES_TOGETHER_MAX: Final = 16
"""Small file groups that are compared together: a step costs as much for the rows of all as for those of one, and a table of
64 buckets still has work for four cores."""

CHANGES_TOGETHER_BYTES: Final = 4 * MIB
"""File bytes of these: they are decoded at once."""

KEPT_KEYS_BYTES: Final = 64 * MIB
"""Key columns of base files that a process keeps for its next look at a table's changes: two million keys of 25 letters. Who
follows a larger table reads them each time."""

KEPT_FILES_BYTES: Final = 64 * MIB
"""Log files of object stores that a process keeps for its next read, and as much of base files: six thousand small ones each. Who
reads a larger table again and again fetches it each time."""

KEPT_FILE_BYTES_MAX: Final = 1 * MIB
"""A larger file of an object store is fetched each time: of those that take long to fetch for their bytes many can be kept."""

REDONE_BYTES_MAX: Final = 32 * MIB
"""Rows of a conditional change that are kept, in case it is refused, so that only those of touched file groups are computed
again: as many as the tasks of a write hand to the driver at most."""

KEYS_COMPARED_BYTES_MAX: Final = 16 * MIB
"""Log files whose keys are read to see whether two optimistic writes that met in a file group have different ones: while
that is done no other process's round waits, but ours may have to be done again."""

RANGE_END_MAX: Final = 256
"""Characters, or bytes, of the ends of a range of texts in a metadata table: an end is kept for each file and indexed column, and
what is looked for differs before that."""

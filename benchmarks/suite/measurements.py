# SPDX-License-Identifier: Apache-2.0
"""The measurements of the suite, in the order of the page: what is run, and which columns its table has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.suite import deleting, joining, reading, recovering, timelines, writing
from benchmarks.suite.row import Rows


class Run(Protocol):
    """Measures in an empty folder; raises SystemExit if an answer is wrong."""

    def __call__(self, folder: Path, *, quick: bool) -> Rows: ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """`columns`: the names in a row, and the headings of the table on the page."""

    run: Run
    columns: Mapping[str, str]
    alt: str
    """What the picture shows, for those who do not see it."""


MEASUREMENTS: Mapping[str, Measurement] = {
    "contention": Measurement(
        writing.contention,
        {
            "mode": "table",
            "writers": "writers",
            "commits_per_s": "commits/s",
            "p50_s": "p50, s",
            "p99_s": "p99, s",
            "slowest_s": "slowest, s",
            "cpu_ms": "CPU a commit, ms",
            "refused_per_s": "refused/s",
        },
        "Commits per second and their latency by the number of writers",
    ),
    "small_commits": Measurement(
        writing.small_commits,
        {"rows": "rows", "commits": "commits", "p50_ms": "p50, ms", "p99_ms": "p99, ms", "cpu_ms": "CPU, ms"},
        "Latency of a commit by its rows",
    ),
    "upsert": Measurement(
        writing.upsert,
        {"kind": "table", "changed_rows": "rows", "share": "of the table", "cpu_s": "CPU, s", "wall_s": "wall, s"},
        "CPU of an upsert by the share of rows it changes",
    ),
    "merge_read": Measurement(
        reading.merge_read,
        {
            "state": "table",
            "upserts": "upserts",
            "scan_cpu_ms": "scan, CPU ms",
            "count_cpu_ms": "count, CPU ms",
            "lookup_cpu_ms": "lookup, CPU ms",
            "pyarrow_scan_cpu_ms": "pyarrow, base files alone, CPU ms",
        },
        "CPU of queries by the number of upserts that are not compacted",
    ),
    "compaction": Measurement(
        reading.compaction,
        {"rows": "rows", "cpu_s": "compaction, CPU s", "pyarrow_cpu_s": "pyarrow, CPU s", "ratio": "ratio"},
        "CPU of a compaction by the rows of the table",
    ),
    "join": Measurement(
        joining.join,
        {
            "streams": "streams",
            "round": "round",
            "new_rows": "new rows",
            "keys": "keys",
            "write_cpu_s": "partial updates, CPU s",
            "read_cpu_s": "reading, CPU s",
            "batch_join_cpu_s": "batch join, CPU s",
            "partial_updates_cpu_s_sum": "partial updates and reading so far",
            "batch_join_cpu_s_sum": "batch joins so far",
        },
        "CPU so far of partial updates and of repeated batch joins by round",
    ),
    "gdpr_delete": Measurement(
        deleting.gdpr_delete,
        {
            "what": "",
            "commits_per_s": "commits/s",
            "ingest_p50_s": "commit p50, s",
            "ingest_p99_s": "commit p99, s",
            "persons": "persons",
            "find_p50_s": "find p50, s",
            "find_p99_s": "find p99, s",
            "delete_p50_s": "delete p50, s",
            "delete_p99_s": "delete p99, s",
            "off_the_disk_s": "off the disk, s",
        },
        "Commits per second of an ingest with and without deletes beside it, and the latency of the deletes",
    ),
    "timeline": Measurement(
        timelines.timeline,
        {
            "instants": "instants",
            "state": "which are",
            "open_ms": "open, ms",
            "read_ms": "read, ms",
            "first_commit_ms": "first commit, ms",
            "next_commit_ms": "next commit, ms",
            "whole_history_ms": "whole history, ms",
            "archive_s": "archiving them, s",
        },
        "Time to open, read and commit by the number of instants",
    ),
    "recovery": Measurement(
        recovering.recovery,
        {
            "what": "killed",
            "silence_s": "dead after a silence of, s",
            "kills": "kills",
            "p50_s": "p50, s",
            "slowest_s": "slowest, s",
        },
        "Seconds from a kill to the recovery by the silence that the table allows",
    ),
}

# SPDX-License-Identifier: Apache-2.0
"""What an audit can find: every kind with how bad it is, whether rows are affected, what it means and what to do."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lakebraid import limits


class Severity(enum.StrEnum):
    """How bad a finding is."""

    DAMAGE = "damage"  # rows are missing, doubled or wrong, or readers fail
    RISK = "risk"  # nothing is lost, but a reader, a writer or a service may stumble over it
    UNTIDY = "untidy"  # costs space or a moment's thought, and nothing else


class FindingKind(NamedTuple):
    """One kind of finding."""

    severity: Severity
    affects_rows: bool
    """Whether some reader gets other rows than were committed, or none."""
    meaning: str
    advice: str


_D, _R, _U = Severity.DAMAGE, Severity.RISK, Severity.UNTIDY
_COPY = "Bring the file back from a copy of the table, or restore to a savepoint from before it."
_AGAIN = "Write those rows again; `lakebraid why` tells of the instant."
_ROLLBACK = "Run `lakebraid rollback`."
_REMOVE = "Remove it when no process writes, or run `lakebraid rollback`."

KINDS: Final[dict[str, FindingKind]] = {
    # the table's own description
    "properties-damaged": FindingKind(_D, True, "hoodie.properties is missing, torn or has a wrong checksum.", "Put it right from its backup or from a copy; the checksum is CRC-32 of `<database>.<table>`."),
    "properties-backup": FindingKind(_R, False, "A backup of hoodie.properties lies beside it and says something else: an update died half-way.", "Compare the two, keep the right one, remove the backup."),
    "crc-stale": FindingKind(_R, False, "Hadoop's checksum file does not fit the file beside it: Spark with Apache Hudi refuses to read that file.", "Remove the .crc file if the file itself is right."),
    # the timeline
    "instant-unreadable": FindingKind(_D, True, "The metadata of a completed instant cannot be read.", _COPY),
    "instant-empty": FindingKind(_R, True, "A completed write has no metadata, as if it had written nothing.", "Compare the files of that request time with what its writer reports; write again if in doubt."),
    "time-order": FindingKind(_D, True, "An instant completed before it began: incremental readers and slices go wrong.", "Find out whose clock was wrong, and restore to a moment before."),
    "time-twice": FindingKind(_D, True, "Two instants have the same time, so it is not known which came first.", "Restore to a moment before, and write again through one kind of lock."),
    "completed-twice": FindingKind(_D, True, "An instant has two completed files.", "Keep the one whose files are there, remove the other."),
    "state-missing": FindingKind(_R, False, "A completed or inflight instant has no requested or inflight file: others may have rolled it back.", "Check that its files are all there (`lakebraid show PATH INSTANT`)."),
    "time-ahead": FindingKind(_R, False, "An instant lies in the future: one bad clock drags the times of all writers along.", "Set the clock of that writer (NTP)."),
    "plan-unreadable": FindingKind(_R, False, "A pending plan cannot be read, so no process can execute it.", "Roll it back with Apache Hudi, or remove its files while no process writes."),
    "plan-input-missing": FindingKind(_D, True, "A pending plan names a file that is not there.", _COPY),
    "undo-unfinished": FindingKind(_R, False, "A rollback, restore or clean was begun long ago and not ended.", _ROLLBACK),
    "writer-dead": FindingKind(_R, False, "A write is open and its writer shows no sign of life: it holds back archiving.", _ROLLBACK),
    "hidden-from-hudi": FindingKind(_R, True, "A dead writer's log is the oldest of a file group without base file: Apache Hudi shows nothing of the group.", _ROLLBACK),
    # which files count
    "file-missing": FindingKind(_D, True, "A committed file that readers need is not there.", _COPY),
    "file-removed-by-clean": FindingKind(_D, True, "A clean removed a file that readers need now.", _COPY),
    "old-file-missing": FindingKind(_R, True, "A committed file of an older version is gone, and no clean took it: reads as of that time are short, without an error.", _COPY),
    "file-unreachable": FindingKind(_D, True, "A committed file is there, and no reader takes it.", "Compare its name with its commit (`lakebraid show PATH INSTANT`). " + _AGAIN),
    "file-misnamed": FindingKind(_D, True, "A commit names a file of another instant or file group, or one that is no data file.", _AGAIN),
    "uncommitted-visible": FindingKind(_D, True, "Readers take a file that its commit does not name: rows that no write committed.", "Remove the file when no process writes: its writer never counted it."),
    "orphan-visible": FindingKind(_D, True, "A file of no known instant is older than the timeline, so readers take it for committed.", _ROLLBACK),
    "slice-differs": FindingKind(_D, True, "Readers take another set of files than the commits say.", "Please report this, with the output of `lakebraid files`."),
    "late-twin": FindingKind(_U, False, "A second file of an executed plan that its commit does not name; it holds the same rows.", _ROLLBACK),
    "orphan-file": FindingKind(_U, False, "A data file of no known instant. No reader takes it now.", _ROLLBACK),
    "partition-mark-missing": FindingKind(_D, True, "A folder with committed files has no .hoodie_partition_metadata: readers do not see it.", "Create the file: `commitTime=<request time>` and `partitionDepth=<folders below the table>`."),
    "partition-mark-damaged": FindingKind(_R, False, "A .hoodie_partition_metadata cannot be read, or has the wrong depth.", "Write it again: `commitTime=<request time>` and `partitionDepth=<folders below the table>`."),
    "compaction-missed-log": FindingKind(_D, True, "A compaction left out a log that had completed before it was planned: its rows are in no slice.", _AGAIN),
    "compaction-took-uncommitted": FindingKind(_D, True, "A compaction merged a log of a write that is not completed.", "Restore to a moment before that compaction."),
    "log-compaction-hides": FindingKind(_D, True, "A log compaction says it holds the rows of a write that its plan did not merge: readers pass over them.", _AGAIN),
    "replaced-group-written": FindingKind(_D, True, "A write into a file group completed after an overwrite or clustering replaced the group: its rows are hidden.", _AGAIN),
    "clean-too-far": FindingKind(_R, True, "A clean removed what a read as of a time needs that it promised to keep.", "Read later times; keep more with `hoodie.clean.commits.retained`, or take savepoints."),
    "clean-left-file": FindingKind(_U, False, "A clean says it deleted a file that is still there.", "Run `lakebraid clean`."),
    "savepoint-file-missing": FindingKind(_D, True, "A savepoint names a file that is not there: it cannot be returned to.", "Delete the savepoint and take a new one, or bring the file back from a copy."),
    # what is in files
    "file-size": FindingKind(_D, True, "A file has another size than its commit says.", _COPY),
    "file-rows": FindingKind(_D, True, "A file has another number of rows than its commit says.", _COPY),
    "file-damaged": FindingKind(_D, True, "A base file is no whole Parquet file.", _COPY),
    "log-torn": FindingKind(_D, True, "A part of a log file is no whole block; readers skip it without a word.", _COPY),
    "log-damaged": FindingKind(_D, True, "A log file cannot be read.", _COPY),
    "block-instant": FindingKind(_D, True, "A log block carries another instant than its file.", _AGAIN),
    "file-schema": FindingKind(_D, True, "A file holds a column in a type that the table's schema cannot read.", "Evolve the table's column to a type that holds both (`t.alter()`), or write the rows again."),
    "schema-unreadable": FindingKind(_D, True, "A commit states a schema that cannot be read.", "State it again: `t.alter()`, or any write with the right columns."),
    "schema-break": FindingKind(_D, True, "A commit's schema has a column in a type that the table's schema cannot read.", "Evolve the table's column to a type that holds both (`t.alter()`)."),
    "schema-masked": FindingKind(_R, True, "A commit that began earlier and completed later added a column which the table's schema does not show.", "Write once more with the column, or add it with `t.alter()`."),
    # keys
    "bucket-twice": FindingKind(_D, True, "Two file groups of one partition are of the same bucket: keys may be there twice, and Hudi's writers fail.", "Rewrite the partition (`insert_overwrite`)."),
    "bucket-out-of-range": FindingKind(_D, True, "A file group's bucket is beyond the table's number of buckets: look-ups do not find its rows.", "Find the writer with another bucket number; correct hoodie.bucket.index.num.buckets, or rewrite the table (`insert_overwrite_table`): other writes are refused."),
    "key-wrong-bucket": FindingKind(_D, True, "A key lies in another bucket than its hash says: updates go past it.", "Delete and write those rows again; find the writer with another bucket number."),
    "key-two-groups": FindingKind(_D, True, "A key lies in two file groups: it is read twice.", "Delete the key in one of them; find out which two writers inserted it."),
    "key-twice": FindingKind(_D, True, "A key lies twice in one base file.", "Rewrite the file group: upsert the key and compact."),
    "key-inserted-twice": FindingKind(_R, True, "A key is there more than once, in a table whose writers insert without looking.", "Nothing, if that was meant; else upsert instead of insert."),
    "key-wrong-partition": FindingKind(_D, True, "A row says it is of another partition than the folder it lies in.", "Delete and write those rows again."),
    "key-missing": FindingKind(_D, True, "A row has no record key.", "Write the rows again with a key."),
    # history, ledger, traces
    "history-damaged": FindingKind(_D, True, "The archived timeline cannot be read, or its manifest names a file that is not there.", _COPY),
    "history-stray": FindingKind(_U, False, "A file lies in the archived timeline that its manifest does not name.", "Run `lakebraid archive`; it goes with the next round."),
    "ledger-damaged": FindingKind(_D, False, "The newest entry of the ledger cannot be read: no process can write.", "Bring it back from a copy, or move .hoodie/.lakebraid away while no process writes, and run `lakebraid rollback`."),
    "ledger-unfulfilled": FindingKind(_R, False, "The newest decision of the ledger is not on the timeline yet.", "Nothing: the process that decides next brings it there. `lakebraid rollback` does it now."),
    "ledger-disagrees": FindingKind(_R, False, "Ledger and timeline do not agree on which writes are open.", "Find out who writes without the ledger; create tables that Hudi writes, too, with shared=True."),
    "metadata-table-behind": FindingKind(_R, True, "Hudi's metadata table does not know a completed write: Apache Hudi misses its rows.", "Empty hoodie.table.metadata.partitions and remove .hoodie/metadata, or let Hudi rebuild it."),
    "lock-stale": FindingKind(_R, False, "Hudi's lock is held by a process that is dead: Hudi's writers wait.", "Remove the lock file when you are certain that its holder is gone."),
    "marker-leftover": FindingKind(_U, False, "Markers of a write that has ended.", _REMOVE),
    "heartbeat-leftover": FindingKind(_U, False, "The heartbeat of a write that has ended.", _REMOVE),
    "staged-leftover": FindingKind(_U, False, "Staged objects or asks of decisions that were made long ago.", _ROLLBACK),
    "reading-fails": FindingKind(_D, True, "Reading the table fails.", "See the other findings; they say why."),
}  # fmt: skip
"""Every kind of finding, by name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    kind: str
    where: str
    """The object, instant, file group or key that it is about."""
    what: str
    """What was found there."""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return KINDS[self.kind].severity

    @property
    def affects_rows(self) -> bool:
        """Whether readers get wrong rows, or none, because of it."""
        return KINDS[self.kind].affects_rows

    @property
    def advice(self) -> str:
        """What to do."""
        return KINDS[self.kind].advice

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "severity": self.severity.value,
            "kind": self.kind,
            "where": self.where,
            "what": self.what,
            "meaning": KINDS[self.kind].meaning,
            "affects_rows": self.affects_rows,
            "advice": self.advice,
        }


@dataclass(frozen=True, slots=True)
class Findings:
    """All findings, the worst first; of one kind no more than are worth reading, but counted."""

    shown: tuple[Finding, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    """How many there are of each kind, also those that are not shown."""

    def of(self, severity: Severity) -> int:
        """How many findings there are of that severity."""
        return sum(count for kind, count in self.counts.items() if KINDS[kind].severity is severity)


def gather(found: Iterable[Finding]) -> Findings:
    """The findings in order, each once; only the first of each kind are kept."""
    counts: Counter[str] = Counter()
    kept: dict[Finding, None] = {}
    for finding in found:
        if finding in kept:
            continue
        counts[finding.kind] += 1
        if counts[finding.kind] <= limits.AUDIT_FINDINGS_MAX:
            kept[finding] = None
    place = {kind: at for at, kind in enumerate(KINDS)}
    rank = {severity: at for at, severity in enumerate(Severity)}
    ordered = sorted(kept, key=lambda f: (rank[f.severity], place[f.kind], f.where, f.what))
    return Findings(tuple(ordered), dict(counts))

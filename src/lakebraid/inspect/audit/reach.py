# SPDX-License-Identifier: Apache-2.0
"""Audit: what commits name, held against what lies there and against what readers take."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lakebraid.errors import CorruptFile, ObjectNotFound, SnapshotExpired
from lakebraid.format.names import BaseFileName, State, in_partition
from lakebraid.format.timeline.plans import parse_compaction_plan
from lakebraid.format.timeline.services import parse_clean_plan, parse_savepoint_metadata
from lakebraid.inspect.audit.evidence import Evidence, Object
from lakebraid.inspect.audit.findings import Finding
from lakebraid.model.timeline.instant import COMPLETED_AS, Instant
from lakebraid.model.timeline.named_files import Floors, Named, change_files, misnamed, missed_logs, named_files
from lakebraid.model.timeline.slicing import FileSlice, GroupId
from lakebraid.table.view import load_view
from lakebraid.txn.checks.pending_plans import load_planned


@dataclass
class Reach:
    """What the commits say: which files there must be, and which of them readers must take."""

    floors: Floors = field(default_factory=Floors)
    named: dict[str, Named] = field(default_factory=dict)
    """Files that lie there, and files that readers need, by path."""
    stated: dict[str, int] = field(default_factory=dict)
    """Of each completed write with metadata, how many files it names."""
    superseded: list[Named] = field(default_factory=list)
    """Files that are named by the active timeline, not needed now, and not there."""
    changes: dict[str, Named] = field(default_factory=dict)
    """Files of change data that commits name, by path."""
    findings: list[Finding] = field(default_factory=list)


def load_reach(evidence: Evidence) -> Reach:
    """Reads all commits twice, so that only what still matters need be held: first what is superseded, then the rest."""
    layout, reach = evidence.config.layout, Reach()
    for instant, metadata in evidence.commits():
        reach.floors.add(instant, metadata, layout=layout)
        reach.stated[instant.request_time] = sum(len(stats) for stats in metadata.write_stats.values())
    for instant, metadata in evidence.commits():
        reach.findings += [
            Finding("file-misnamed", path, f"The commit {instant.request_time} names it, and {problem}.")
            for path, problem in misnamed(instant, metadata, layout=layout)
        ]
        reach.changes |= {file.path: file for file in change_files(instant, metadata)}
        for file in named_files(instant, metadata, layout=layout):
            if file.path in evidence.objects or reach.floors.is_needed(file):
                reach.named[file.path] = file
            elif instant.request_time in evidence.request_times:
                reach.superseded.append(file)
            if reach.floors.is_lost(file):
                by = reach.floors.replaced[file.group]
                reach.findings.append(
                    Finding(
                        "replaced-group-written",
                        file.path,
                        f"The write {file.instant} completed {file.completion}; {by.request_time} had replaced the file "
                        f"group at {by.completion_time}.",
                    )
                )
    return reach


def check_reach(evidence: Evidence, reach: Reach) -> Iterator[Finding]:
    """Committed but unreachable, reachable but uncommitted, in both query modes."""
    yield from reach.findings
    cleaned = _cleaned(evidence)
    yield from _missing(evidence, reach, cleaned)
    yield from _changes(evidence, reach, cleaned)
    yield from _unmarked(evidence, reach)
    if evidence.view is not None:
        yield from _compared(evidence, reach, evidence.view.slices(), "a snapshot", bases_only=False)
        yield from _compared(evidence, reach, evidence.view.base_slices(), "a read-optimised query", bases_only=True)
    yield from _orphans(evidence, reach)
    yield from _left_by_clean(evidence, cleaned)
    yield from _savepoints(evidence)


def _cleaned(evidence: Evidence) -> dict[str, str]:
    """What cleans removed, or are about to, by full name, and which clean it was."""
    found: dict[str, str] = {}
    for instant in evidence.listed.pending:
        if instant.action == "clean":
            with contextlib.suppress(CorruptFile, ObjectNotFound):
                plan = parse_clean_plan(evidence.read(instant, State.REQUESTED), instant.request_time)
                found |= {in_partition(p, n): instant.request_time for p, names in plan.files.items() for n in names}
    for instant, metadata in evidence.cleans():
        for partition, names in metadata.deleted_files.items():
            found |= {in_partition(partition, name): instant.request_time for name in names}
    return found


def _missing(evidence: Evidence, reach: Reach, cleaned: dict[str, str]) -> Iterator[Finding]:
    for path, file in reach.named.items():
        if path in evidence.objects:
            continue
        if path in cleaned:
            yield Finding(
                "file-removed-by-clean", path, f"The clean {cleaned[path]} removed it; {file.instant} wrote it."
            )
        else:
            yield Finding("file-missing", path, f"The commit {file.instant} names it.")
    if evidence.config.layout == 1:
        return  # its archived cleans cannot be read, so it is not known what they removed
    whole = {partition for _, metadata in evidence.cleans() for partition in metadata.deleted_partitions}
    for file in reach.superseded:
        if file.path not in cleaned and file.group.partition not in whole:
            yield Finding("old-file-missing", file.path, f"The commit {file.instant} names it.")


def _changes(evidence: Evidence, reach: Reach, cleaned: dict[str, str]) -> Iterator[Finding]:
    """Files of change data: those of the newest base files must be there; of older ones it is enough if they are whole."""
    for path, file in reach.changes.items():
        found = evidence.objects.get(path)
        if found is None and path not in cleaned and reach.floors.is_needed(file):
            yield Finding("file-missing", path, f"The commit {file.instant} names it.")
        elif found is not None and found.info.size != file.size:
            yield Finding(
                "file-size", path, f"It has {found.info.size:,} bytes; {file.instant} wrote {file.size or 0:,}."
            )


def _unmarked(evidence: Evidence, reach: Reach) -> Iterator[Finding]:
    folders: dict[str, int] = defaultdict(int)
    for path, file in reach.named.items():
        if path in evidence.objects and file.group.partition not in evidence.marks:
            folders[file.group.partition] += 1
    for folder, count in folders.items():
        yield Finding("partition-mark-missing", folder or ".", f"{count:,} committed files lie in it.")


def _compared(
    evidence: Evidence, reach: Reach, slices: list[FileSlice], mode: str, *, bases_only: bool
) -> Iterator[Finding]:
    read = {base.name: s.group for s in slices if (base := s.base) is not None}
    read |= {log.name: s.group for s in slices for log in s.logs}
    needed = {p for p, f in reach.named.items() if reach.floors.is_needed(f) and (f.is_base or not bases_only)}
    needed = {p for p in needed if not _is_change_data(evidence, p)}
    for path in sorted(needed - {*read}):
        file = reach.named[path]
        if path in evidence.objects and file.group.partition in evidence.marks:
            yield Finding("file-unreachable", path, f"The commit {file.instant} names it; {mode} does not read it.")
    for path in sorted({*read} - needed):
        if path in reach.named and path in evidence.objects:
            yield Finding("slice-differs", path, f"By the commits it is superseded; {mode} reads it.")


def _is_change_data(evidence: Evidence, path: str) -> bool:
    found = evidence.objects.get(path)
    return found is not None and not isinstance(found.parsed, BaseFileName) and bool(found.parsed.suffix)


def _orphans(evidence: Evidence, reach: Reach) -> Iterator[Finding]:
    """Files that belong to no instant."""
    read = set()
    if evidence.view is not None:
        read = {f.name for g in evidence.view.groups.values() for s in g.slices for f in (s.base, *s.logs) if f}
    oldest = min(evidence.archived, default="9")
    for path, found in evidence.objects.items():
        request_time = found.parsed.request_time
        if path in reach.named or path in reach.changes:
            continue
        if request_time not in evidence.request_times and request_time not in reach.stated:
            if not evidence.timeline.is_archived_request_time(request_time):
                yield Finding("orphan-file", path, f"The request time {request_time} is nowhere on the timeline.")
            elif evidence.config.layout == 2 and oldest < request_time:
                yield Finding("orphan-visible", path, f"Neither the timeline nor the history know {request_time}.")
        elif reach.stated.get(request_time) and evidence.config.layout == 2:
            kind = "uncommitted-visible" if path in read else _kind_unread(evidence, found)
            yield Finding(kind, path, f"The commit {request_time} does not name it.")


def _kind_unread(evidence: Evidence, found: Object) -> str:
    instant = evidence.timeline.write(found.parsed.request_time)
    is_plan = instant is not None and (instant.kind in COMPLETED_AS or instant.action == "commit")
    return "late-twin" if is_plan else "orphan-file"


def _left_by_clean(evidence: Evidence, cleaned: dict[str, str]) -> Iterator[Finding]:
    pending = {instant.request_time for instant in evidence.listed.pending}
    for path, clean in cleaned.items():
        if path in evidence.objects and clean not in pending:
            yield Finding("clean-left-file", path, f"The clean {clean} lists it as deleted.")


def _savepoints(evidence: Evidence) -> Iterator[Finding]:
    gone = {} if evidence.entry is None else evidence.entry.state.unpinned
    for instant in evidence.timeline.completed:
        if instant.action != "savepoint" or instant.completion_time in gone:
            continue
        with contextlib.suppress(CorruptFile, ObjectNotFound):
            saved = parse_savepoint_metadata(evidence.read(instant), instant.request_time)
            for partition, names in saved.files.items():
                for path in (in_partition(partition, name) for name in names):
                    if path not in evidence.objects:
                        yield Finding("savepoint-file-missing", path, f"The savepoint {instant.request_time} names it.")


def check_plans(evidence: Evidence, reach: Reach) -> Iterator[Finding]:
    """Pending plans whose input is gone; compactions that took too little or too much."""
    by_group: dict[GroupId, list[Named]] = defaultdict(list)
    for file in (*reach.named.values(), *reach.superseded):
        by_group[file.group].append(file)
    for instant in evidence.timeline.active:
        if instant.kind not in COMPLETED_AS or evidence.config.layout == 1:
            continue
        if not instant.is_completed:
            yield from _inputs(evidence, instant)
        elif instant.kind == "compaction":
            yield from _merged(evidence, by_group, instant)


def _inputs(evidence: Evidence, instant: Instant) -> Iterator[Finding]:
    try:
        parts = load_planned(evidence.table, instant)
    except ObjectNotFound:
        return  # done and archived since, or without a requested file, which is a finding of its own
    except CorruptFile:
        return
    for path in (path for part in parts for path in part.files):
        if path not in evidence.objects:
            yield Finding("plan-input-missing", path, f"The pending {instant.kind} {instant.request_time} names it.")


def _merged(evidence: Evidence, named: Mapping[GroupId, list[Named]], instant: Instant) -> Iterator[Finding]:
    """A completed compaction, as far as its plan is still on the timeline and its logs are still named."""
    try:
        plan = parse_compaction_plan(evidence.read(instant, State.REQUESTED), instant.request_time)
    except (CorruptFile, ObjectNotFound):
        return
    inputs = {
        GroupId(o.partition_path, o.file_id): frozenset((*o.delta_file_names, o.data_file_name or ""))
        for o in plan.operations
    }
    known = (file for group in inputs for file in named.get(group, ()))
    for log in missed_logs(known, inputs, instant.request_time):
        yield Finding(
            "compaction-missed-log",
            log.path,
            f"It completed {log.completion}, before the compaction {instant.request_time} was planned, which does not name it.",
        )
    for group, names in inputs.items():
        for name in names:
            found = evidence.objects.get(in_partition(group.partition, name))
            if found is not None and evidence.timeline.completion_of(found.parsed.request_time) is None:
                yield Finding(
                    "compaction-took-uncommitted",
                    found.info.name,
                    f"The compaction {instant.request_time} merged it; {found.parsed.request_time} is not completed.",
                )


def check_retained_times(evidence: Evidence) -> Iterator[Finding]:
    """Whether the times that the last clean promised to keep can be read."""
    last = None
    for instant, metadata in evidence.cleans():
        if last is None or instant.request_time > last[0].request_time:
            last = (instant, metadata)
    if last is None or evidence.view is None:
        return
    promised = evidence.timeline.write(last[1].earliest_commit_to_retain)
    if promised is None or promised.completion_time is None:
        return
    try:
        load_view(evidence.table, promised.completion_time)
    except SnapshotExpired as error:
        yield Finding("clean-too-far", promised.request_time, error.message)

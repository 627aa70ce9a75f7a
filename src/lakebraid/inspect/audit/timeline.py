# SPDX-License-Identifier: Apache-2.0
"""Audit: the timeline's own order, states and contents; the schemas that its commits state; the archived part of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument, LakebraidError, ObjectNotFound
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.names import State, parse_history_file
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.times import parse_instant_time
from lakebraid.inspect.audit.evidence import Evidence
from lakebraid.inspect.audit.findings import Finding
from lakebraid.inspect.detail import COMPLETED, PLANS
from lakebraid.model.schema.conform import without_meta
from lakebraid.model.schema.readable import unreadable_columns
from lakebraid.model.timeline.instant import COMPLETED_AS, Instant, action_family
from lakebraid.table.grid import printable
from lakebraid.table.history import load_history_file, load_manifest
from lakebraid.table.schema import KEEPS_SCHEMA
from lakebraid.txn.liveness.heartbeat import heartbeat_name, silence_ms_max


def check_timeline(evidence: Evidence) -> Iterator[Finding]:
    """Times, states and contents of the active timeline, and who has left something unfinished there."""
    yield from _times(evidence)
    yield from _states(evidence)
    yield from _contents(evidence)
    yield from _unfinished(evidence)


def _times(evidence: Evidence) -> Iterator[Finding]:
    request_times: dict[str, set[str]] = defaultdict(set)
    completions: dict[str, set[str]] = defaultdict(set)
    for name, parsed in evidence.parsed.items():
        if parsed.action != "savepoint":  # it has the request time of the write that it pins
            request_times[parsed.request_time].add(action_family(parsed.action))
        done = parsed.completion_time
        if done is not None:
            completions[done].add(name)
            if done <= parsed.request_time:
                yield Finding("time-order", name, f"It began {parsed.request_time} and completed {done}.")
        if _is_ahead(evidence, max(parsed.request_time, done or "")):
            yield Finding("time-ahead", name, "The clock of this machine is more than a day behind it.")
    for request_time, families in request_times.items():
        if len(families) > 1:
            yield Finding("time-twice", request_time, f"It is the request time of {' and '.join(sorted(families))}.")
    for done, names in completions.items():
        if len(names) > 1:
            yield Finding("time-twice", done, f"It is the completion of {' and '.join(sorted(names))}.")


def _is_ahead(evidence: Evidence, time: str) -> bool:
    try:
        return parse_instant_time(time, evidence.config.zone) - evidence.now_ms > limits.AUDIT_AHEAD_MS
    except InvalidArgument:
        return False  # a mark of Hudi's that no calendar has


def _states(evidence: Evidence) -> Iterator[Finding]:
    states: dict[tuple[str, str], dict[State, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, parsed in evidence.parsed.items():
        states[parsed.request_time, action_family(parsed.action)][parsed.state].append(name)
    leaving = _leaving(evidence)
    for (request_time, family), found in states.items():
        completed = found.get(State.COMPLETED, [])
        if len(completed) > 1 and family != "savepoint":
            yield Finding("completed-twice", request_time, f"{' and '.join(sorted(completed))} are both there.")
        if evidence.config.layout == 1 or family == "savepoint" or request_time in leaving:
            continue  # layout 1 renames; savepoints are not requested; the archiver takes the earlier states away first
        missing = [s for s in (State.REQUESTED, State.INFLIGHT) if s not in found and _is_past(found, s)]
        for state in missing:
            what = f"It is {'completed' if completed else 'inflight'}; its {state.value.lower()} file is not there."
            yield Finding("state-missing", request_time, what)


def _is_past(found: dict[State, list[str]], state: State) -> bool:
    return State.COMPLETED in found or (state is State.REQUESTED and State.INFLIGHT in found)


def _leaving(evidence: Evidence) -> set[str]:
    """Request times whose files are on their way off the timeline, or came from an older version that kept fewer."""
    up_to = evidence.entry.state.archived if evidence.entry is not None else ""
    upgraded = {
        p.request_time for p in evidence.parsed.values() if p.state is State.COMPLETED and not p.completion_time
    }
    return (
        upgraded
        | {request_time for request_time in evidence.request_times if request_time <= up_to}
        | ({*evidence.archived} & evidence.request_times)
    )


def _contents(evidence: Evidence) -> Iterator[Finding]:
    for instant in evidence.timeline.active:
        parse = (COMPLETED if instant.is_completed else PLANS).get(instant.action)
        if parse is None:
            continue
        state = State.COMPLETED if instant.is_completed else State.REQUESTED
        try:
            data = evidence.read(instant, state)
            if data or not instant.is_write:
                parse(data, instant.file_name(state, evidence.config.layout))
        except ObjectNotFound:
            continue
        except CorruptFile as error:
            kind = "instant-unreadable" if instant.is_completed else "plan-unreadable"
            yield Finding(kind, instant.request_time, error.message)
        else:
            if instant.is_completed and not data:
                yield Finding("instant-empty", instant.request_time, f"The file of the {instant.action} has no bytes.")


def _unfinished(evidence: Evidence) -> Iterator[Finding]:
    silence_ms = silence_ms_max(evidence.config)
    for instant in evidence.timeline.pending:
        if instant.kind in COMPLETED_AS or instant.is_completed:
            continue  # plans may wait
        silent_ms = silent_for_ms(evidence, instant.request_time)
        if silent_ms < silence_ms:
            continue
        kind = "writer-dead" if action_family(instant.action) == "write" else "undo-unfinished"
        who = f"The {instant.kind}{_of_whom(evidence, instant.request_time)}"
        yield Finding(kind, instant.request_time, f"{who} has shown no sign of life for {silent_ms // 1000:,} s.")


def _of_whom(evidence: Evidence, request_time: str) -> str:
    writer = None if evidence.entry is None else evidence.entry.state.writer_of(request_time)
    return "" if writer is None else f" of {printable(writer)}"


def silent_for_ms(evidence: Evidence, request_time: str) -> int:
    """Since its last heartbeat, or without any since it began."""
    try:
        return evidence.now_ms - evidence.storage.info(heartbeat_name(request_time)).modified_ms
    except ObjectNotFound:
        pass
    try:
        return evidence.now_ms - parse_instant_time(request_time, evidence.config.zone)
    except InvalidArgument:
        return 0


def check_hidden(evidence: Evidence) -> Iterator[Finding]:
    """Groups that Apache Hudi does not show because of a dead writer (FORMAT, trap 1)."""
    if evidence.view is None or evidence.config.layout == 1:
        return
    first: dict[Any, str] = {}
    for found in evidence.objects.values():
        request_time = found.parsed.request_time
        first[found.group] = min(request_time, first.get(found.group, request_time))
    silence_ms = silence_ms_max(evidence.config)
    for group, slices in evidence.view.groups.items():
        request_time = first.get(group, "")
        opener = evidence.timeline.write(request_time)
        is_hidden = slices.latest_base() is None and opener is not None and not opener.is_completed
        if is_hidden and silent_for_ms(evidence, request_time) >= silence_ms:
            where = f"{group.partition or '.'}/{group.file_id}"
            yield Finding(
                "hidden-from-hudi",
                where,
                f"The oldest log is of {request_time}{_of_whom(evidence, request_time)}, which is not completed.",
            )


def check_schemas(evidence: Evidence) -> Iterator[Finding]:
    """Schemas of the active timeline's commits, held against the one that readers take."""
    stated: list[tuple[Instant, CommitMetadata, pa.Schema]] = []
    for instant, metadata in evidence.commits(archived=False):
        if not metadata.schema:
            continue
        try:
            schema = without_meta(parse_avro_schema(metadata.schema, f"the schema of {instant.request_time}"))
        except LakebraidError as error:
            yield Finding("schema-unreadable", instant.request_time, error.message)
            continue
        stated.append((instant, metadata, schema))
    if evidence.view is None or not stated or evidence.has_schema_on_read:
        return
    table = evidence.view.schema
    for instant, _, schema in stated:
        for column, problem in unreadable_columns(schema, table):
            yield Finding("schema-break", instant.request_time, f"Column {column}: {problem}.")
    yield from _masked(stated, table)


def _masked(stated: list[tuple[Instant, CommitMetadata, pa.Schema]], table: pa.Schema) -> Iterator[Finding]:
    """Columns of a late finisher that the schema of the greatest request time does not have (FORMAT, trap 33)."""
    telling = [row for row in stated if row[1].operation not in KEEPS_SCHEMA] or stated
    newest = max(telling, key=lambda row: row[0].request_time)[0]
    for instant, metadata, schema in stated:
        if metadata.operation in KEEPS_SCHEMA or (instant.completion_time or "") <= (newest.completion_time or ""):
            continue
        hidden = [name for name in schema.names if name not in table.names]
        if hidden:
            yield Finding(
                "schema-masked", instant.request_time,
                f"Its columns {', '.join(hidden)} are hidden by {newest.request_time}, which began later and completed earlier.",
            )  # fmt: skip


def check_history(evidence: Evidence) -> Iterator[Finding]:
    """The archived timeline: its manifest, and that every file which counts can be read."""
    storage, config = evidence.storage, evidence.config
    if config.layout == 1:
        return
    try:
        manifest = load_manifest(evidence.table)
    except LakebraidError as error:
        yield Finding("history-damaged", config.history_folder, error.message)
        return
    for file in manifest.files:
        path = f"{config.history_folder}/{file.name}"
        try:
            found = storage.info(path).size
            if found == file.size:
                load_history_file(evidence.table, file)
            else:
                yield Finding("history-damaged", path, f"It has {found:,} bytes; its manifest says {file.size:,}.")
        except LakebraidError as error:
            yield Finding("history-damaged", path, error.message)
    known = {file.name for file in manifest.files}
    for name in sorted(manifest.names - known):
        info = _info(evidence, f"{config.history_folder}/{name}")
        if (
            parse_history_file(name) is not None
            and info is not None
            and evidence.age_ms(info) > limits.AUDIT_LEFTOVER_MS
        ):
            yield Finding("history-stray", info.name, f"manifest_{manifest.number} does not name it.")


def _info(evidence: Evidence, name: str) -> Any:
    try:
        return evidence.storage.info(name)
    except ObjectNotFound:
        return None

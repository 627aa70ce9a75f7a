# SPDX-License-Identifier: Apache-2.0
"""A view: the file groups, slices and schema of a table at one completion time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lakebraid import limits
from lakebraid.digits import whole_number
from lakebraid.errors import CorruptFile, InvalidArgument, ObjectNotFound
from lakebraid.format.names import BaseFileName, State
from lakebraid.format.timeline.plans import CompactionPlan
from lakebraid.model.config import TableConfig
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import BaseFile, FileGroup, FileSlice, GroupId, LogFile, build_groups
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.storage.parallel import map_calls, together
from lakebraid.table.at import TableAt
from lakebraid.table.expiry import check_retained
from lakebraid.table.loading import DataFile, Loaded, load_commit, load_compaction_plan, load_table, pause
from lakebraid.table.replaced import load_replaced
from lakebraid.table.restores import check_not_restored
from lakebraid.table.schema import parse_schema, stated_schema


@dataclass(frozen=True)
class View:
    """Everything a read needs to know; a value, never refreshed."""

    config: TableConfig
    timeline: Timeline
    completion_time: str
    """Completions up to this time are in the view; "0" if there are none."""
    schema: pa.Schema
    """Without meta columns."""
    groups: dict[GroupId, FileGroup]
    partitions: tuple[str, ...]
    replaced: Mapping[GroupId, Instant] = field(default_factory=dict)
    """Groups that were taken away by then, each with what did so last."""

    def slices(self) -> list[FileSlice]:
        """What a snapshot reads."""
        latest = (group.latest() for group in self.groups.values())
        return [s for s in latest if s is not None]

    def base_slices(self) -> list[FileSlice]:
        """What a read-optimised query reads: base files alone."""
        bases = ((group.group, group.latest_base()) for group in self.groups.values())
        return [FileSlice(group, base.request_time, base, ()) for group, base in bases if base is not None]


def load_view(table: TableAt, as_of: str | None = None) -> View:
    """The table as of a completion time, or now. SnapshotExpired if files of that time were cleaned away."""
    return load_views(table, (as_of,))[0]


def load_views(table: TableAt, times: Sequence[str | None]) -> list[View]:
    """Views of several moments out of one loading. What vanishes under our hands makes us start again."""
    for attempt in range(limits.READ_ATTEMPTS_MAX):
        try:
            return map_calls(table.storage, partial(_build_view, table, load_table(table)), times)
        except ObjectNotFound:
            if attempt + 1 == limits.READ_ATTEMPTS_MAX:
                raise
            pause(table.clock, attempt)
    raise InvalidArgument("limits.READ_ATTEMPTS_MAX must be positive.")


def _build_view(table: TableAt, loaded: Loaded, as_of: str | None) -> View:
    newest = loaded.timeline.until or "0"
    time = newest if as_of is None else min(as_of, newest)
    timeline = loaded.timeline.as_of(time)

    def retained() -> dict[GroupId, Instant]:
        replaced = load_replaced(table, timeline)
        if as_of is not None and as_of < newest:
            together(
                table.storage,
                lambda: check_not_restored(table, loaded.timeline, time),
                lambda: check_retained(table, loaded, time, replaced),
            )
        return replaced

    replaced, planned, stated = together(
        table.storage, retained, lambda: _planned(table, timeline), lambda: stated_schema(table, timeline)
    )
    bases, logs = _committed(loaded.files, timeline, table.config)
    bases = _without_twins(table, bases, timeline)
    logs = _without_twin_logs(table, logs, timeline)
    groups = build_groups(bases, logs, planned, replaced)
    schema = parse_schema(table, stated, bases)
    return View(table.config, timeline, time, schema, groups, loaded.partitions, replaced)


def _committed(
    files: Iterable[DataFile], timeline: Timeline, config: TableConfig
) -> tuple[dict[GroupId, list[BaseFile]], dict[GroupId, list[LogFile]]]:
    """The files that count, by group. Only committed ones: a pending first log hides nothing (scenario F1)."""
    bases: dict[GroupId, list[BaseFile]] = defaultdict(list)
    logs: dict[GroupId, list[LogFile]] = defaultdict(list)
    for file in files:
        request_time = file.parsed.request_time
        completion = timeline.completion_of(request_time)
        if isinstance(file.parsed, BaseFileName):
            if completion is not None and file.parsed.extension == ".parquet":
                bases[file.group].append(BaseFile(file.name, file.parsed, file.size, completion, file.version))
        elif file.parsed.suffix:
            continue  # change data (.cdc), no rows of the table
        elif config.layout == 1:
            # The name carries the request time of the base file, and the blocks inside say which instants wrote them.
            logs[file.group].append(LogFile(file.name, file.parsed, file.size, request_time, file.version))
        elif completion is not None:
            logs[file.group].append(LogFile(file.name, file.parsed, file.size, completion, file.version))
    return bases, logs


def _without_twins(
    table: TableAt,
    bases: dict[GroupId, list[BaseFile]],
    timeline: Timeline,
) -> dict[GroupId, list[BaseFile]]:
    """Of several base files of one group and request time only the one its commit names (LEDGER, H13; scenario F9)."""
    result = {}
    for group, files in bases.items():
        by_request_time: dict[str, list[BaseFile]] = defaultdict(list)
        for file in files:
            by_request_time[file.request_time].append(file)
        result[group] = [_named(table, twins, timeline) for twins in by_request_time.values()]
    return result


def _without_twin_logs(
    table: TableAt, logs: dict[GroupId, list[LogFile]], timeline: Timeline
) -> dict[GroupId, list[LogFile]]:
    """The same for logs of a compaction, which hold the deletes it carries on, or of a log compaction: one for each
    group is the real one.

    A late twin says the same, but it may be swept away, and a plan that named it could then never be executed.
    """
    if table.config.layout == 1:
        return logs  # all logs over a base file bear its request time: they are no twins
    result = {}
    for group, files in logs.items():
        request_times = [file.request_time for file in files]
        doubled = {
            request_time
            for request_time in request_times
            if request_times.count(request_time) > 1 and _is_compaction(timeline.write(request_time))
        }
        named = {name for request_time in doubled for name in _paths(table, request_time, timeline)}
        result[group] = [f for f in files if f.request_time not in doubled or f.name in named]
    return result


def _is_compaction(instant: Instant | None) -> bool:
    """Log files of a completed `commit` are those of a compaction: writers of logs complete as delta commits."""
    return instant is not None and (instant.action == "commit" or instant.kind == "logcompaction")


def _paths(table: TableAt, request_time: str, timeline: Timeline) -> tuple[str, ...]:
    instant = timeline.write(request_time) or Instant(request_time, "commit", State.COMPLETED)
    return load_commit(table, instant).file_paths


def _named(table: TableAt, twins: list[BaseFile], timeline: Timeline) -> BaseFile:
    if len(twins) == 1:
        return twins[0]
    paths = _paths(table, twins[0].request_time, timeline)
    named = [t for t in twins if t.name in paths]
    return named[0] if named else max(twins, key=lambda t: _numbers(t.parsed.write_token))


def _numbers(token: str) -> tuple[int, ...]:
    """A write token's parts as numbers, so that attempt 10 comes after attempt 9."""
    return tuple(whole_number(part) or 0 for part in token.split("-"))


def _planned(table: TableAt, timeline: Timeline) -> dict[GroupId, set[str]]:
    """Which groups wait for which pending compaction. A torn plan is passed over: it opens no slice (scenario F20)."""
    planned: dict[GroupId, set[str]] = defaultdict(set)
    pending = [i for i in timeline.pending if i.kind == "compaction"]
    for instant, plan in zip(pending, map_calls(table.storage, partial(_plan, table), pending), strict=True):
        for operation in plan.operations if plan is not None else ():
            planned[GroupId(operation.partition_path, operation.file_id)].add(instant.request_time)
    return planned


def _plan(table: TableAt, instant: Instant) -> CompactionPlan | None:
    try:
        return load_compaction_plan(table, instant)
    except CorruptFile:
        return None

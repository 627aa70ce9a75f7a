# SPDX-License-Identifier: Apache-2.0
"""Which groups a compaction is about, and in which order: strategies by their names, ours and Apache Hudi's.

The table's settings give the thresholds that the caller does not give.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from lakebraid import limits
from lakebraid.digits import whole_number
from lakebraid.errors import InvalidArgument
from lakebraid.format.timeline.plans import CompactionPlan
from lakebraid.limits import MIB
from lakebraid.model.timeline.slicing import FileSlice, GroupId
from lakebraid.services.settings import ServiceSettings, Setting


@dataclass(frozen=True, slots=True)
class Scope:
    """Which groups a compaction is about. Every limit holds at once."""

    logs_min: int = 1
    """Groups with fewer new log files wait."""
    partitions: tuple[str, ...] | None = None
    """Only these partitions; None for all."""
    groups: frozenset[GroupId] | None = None
    """Only these groups; None for all."""
    log_bytes_min: int = 0
    """Groups with fewer bytes in log files wait."""
    before: str | None = None
    """Groups whose oldest log file began at this time or later wait."""
    io_bytes_max: int | None = None
    """No more groups once reading and writing them adds up to this; the first one is always taken."""
    order: str = "groups"
    """Which groups come first: "groups" by name, "log_bytes" and "logs" most first, "age" oldest first,
    "partitions" last by name first."""
    partitions_max: int | None = None
    """At most so many partitions, those that come first in the order."""


_EVERYTHING = Scope()
STRATEGIES: Final[Mapping[str, Scope]] = {
    "everything": _EVERYTHING,
    "log_size": Scope(order="log_bytes"),
    "log_count": Scope(order="logs"),
    "age": Scope(order="age"),
    "bounded_io": _EVERYTHING,
    "newest_partitions": Scope(order="partitions"),
}
_HUDIS: Final = {
    "UnBoundedCompactionStrategy": "everything",
    "LogFileSizeBasedCompactionStrategy": "log_size",
    "LogFileNumBasedCompactionStrategy": "log_count",
    "BoundedIOCompactionStrategy": "bounded_io",
    "DayBasedCompactionStrategy": "newest_partitions",
}
_IS_BOUNDED: Final = frozenset({"log_size", "log_count", "bounded_io", "newest_partitions"})
"""Those that Hudi bounds by `hoodie.compaction.target.io` too."""


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """What the caller of a compaction asks for; None for what the table's settings are to say."""

    strategy: str | None = None
    partitions: Sequence[str] | None = None
    target_io_mb: int | None = None
    logs_min: int | None = None
    log_mb_min: float | None = None
    older_than_seconds: float | None = None
    sort_by: Sequence[str] = ()


def compaction_scope(
    settings: ServiceSettings, request: CompactionRequest | None = None, *, before: str | None = None
) -> Scope:
    """The scope of a request on a table with these settings; InvalidArgument for what is not known.

    Without a strategy the table's `hoodie.compaction.strategy` counts, and without that everything is compacted.
    `before` is the time that lies `older_than_seconds` back.
    """
    request = request or CompactionRequest()
    strategy, partitions, logs_min = request.strategy, request.partitions, request.logs_min
    target_io_mb, log_mb_min = request.target_io_mb, request.log_mb_min
    name = _known(strategy or settings.compaction_strategy.text or "everything")
    scope = STRATEGIES[name]
    count = logs_min or (_number(settings.compaction_logs_min) if name == "log_count" else None)
    log_bytes = _bytes(log_mb_min) or (_number(settings.compaction_log_bytes_min) if name == "log_size" else None)
    io_mb = target_io_mb or (_number(settings.compaction_io_mb) if name in _IS_BOUNDED else None)
    days = _number(settings.compaction_partitions) or 10 if name == "newest_partitions" else None
    checked = {"target_io_mb": target_io_mb, "logs_min": logs_min, "log_mb_min": log_mb_min}
    for word, value in checked.items():
        if value is not None and value <= 0:
            raise InvalidArgument(f"compact({word}={value!r}): it must be positive. Nothing was changed.")
    return replace(
        scope,
        logs_min=max(count or 1, 1),
        partitions=None if partitions is None else list_of_names(partitions),
        log_bytes_min=log_bytes or 0,
        before=before,
        io_bytes_max=None if io_mb is None else io_mb * MIB,
        partitions_max=days,
    )


def _known(text: str) -> str:
    short = text.rpartition(".")[2]
    name = _HUDIS.get(short, text)
    if name in STRATEGIES:
        return name
    raise InvalidArgument(
        f"The compaction strategy {text[:100]!r} is not known. Nothing was changed. Known are "
        f"{', '.join(STRATEGIES)}; of Apache Hudi's classes {', '.join(_HUDIS)}.",
        strategy=text[:100],
    )


def _number(setting: Setting) -> int | None:
    if setting.text is not None and setting.number is None:
        text = setting.text[:40]
        raise InvalidArgument(f"The table's {setting.name} is {text!r}; it must be a number. Nothing was changed.")
    return setting.number


def log_compaction_scope(
    settings: ServiceSettings, *, logs_min: int | None = None, partitions: Sequence[str] | None = None
) -> Scope:
    """The scope of a log compaction: what is not given is as the table's settings have it."""
    known = whole_number((settings.log_compaction_logs_min.text or "").strip(), 9)
    known = limits.LOG_COMPACT_FILES_MIN if known is None else known
    if logs_min is not None and logs_min < 2:
        raise InvalidArgument(
            f"log_compact(logs_min={logs_min!r}): it takes two log files at least. Nothing was changed."
        )
    return Scope(logs_min=logs_min or known, partitions=None if partitions is None else list_of_names(partitions))


def list_of_names(names: Sequence[str]) -> tuple[str, ...]:
    """InvalidArgument for a text where a list of names is wanted."""
    if isinstance(names, str):
        raise InvalidArgument(f"A list of names is wanted, not the text {names[:100]!r}. Nothing was changed.")
    return tuple(names)


def _bytes(mebibytes: float | None) -> int | None:
    return None if mebibytes is None else int(mebibytes * MIB)


def is_due(file_slice: FileSlice, scope: Scope) -> bool:
    """Whether the slice has enough to compact."""
    # A log file of the compaction that wrote the base holds only the deletes it carried: nothing new.
    own = file_slice.base.request_time if file_slice.base else ""
    fresh = [log for log in file_slice.logs if log.request_time != own]
    if len(fresh) < max(scope.logs_min, 1) or sum(log.size for log in fresh) < scope.log_bytes_min:
        return False
    return scope.before is None or min(log.request_time for log in fresh) < scope.before


_ORDERS: Final[Mapping[str, Callable[[FileSlice], int | str]]] = {
    "log_bytes": lambda s: -sum(log.size for log in s.logs),
    "logs": lambda s: -len(s.logs),
    "age": lambda s: min(log.request_time for log in s.logs),
}


def by_urgency(slices: Iterable[FileSlice], scope: Scope) -> list[FileSlice]:
    """The slices in the order of the scope, as far as it allows their partitions."""
    if scope.order in _ORDERS:
        ordered = sorted(slices, key=_ORDERS[scope.order])
    else:
        ordered = sorted(slices, key=lambda s: s.group.partition, reverse=scope.order == "partitions")
    if scope.partitions_max is None:
        return ordered
    wanted = set(list(dict.fromkeys(s.group.partition for s in ordered))[: scope.partitions_max])
    return [s for s in ordered if s.group.partition in wanted]


def within_budget(slices: Iterable[FileSlice], scope: Scope) -> Iterator[FileSlice]:
    """The first of the slices, as many as the scope allows to read and write."""
    spent = 0
    for file_slice in slices:
        spent += io_bytes(file_slice)
        if scope.io_bytes_max is not None and spent > max(scope.io_bytes_max, io_bytes(file_slice)):
            return
        yield file_slice


def io_bytes(file_slice: FileSlice) -> int:
    """What compacting the slice reads and writes, as far as can be told before."""
    return file_slice.size + (file_slice.base.size if file_slice.base else file_slice.size)


SORT_BY: Final = "lakebraid.sort_by"
"""In a plan's extra metadata: the columns by which its base files are sorted, as JSON."""


def sorted_by(plan: CompactionPlan, columns: Sequence[str], schema: pa.Schema) -> CompactionPlan:
    """The plan with base files that are sorted by these columns; InvalidArgument if they cannot be."""
    if not columns:
        return plan
    for name in columns:
        at = schema.get_field_index(name)
        if at < 0 or pa.types.is_nested(schema.field(at).type):
            why = "is not one of the table's" if at < 0 else "has no order"
            raise InvalidArgument(f"compact(sort_by=…): the column {name[:100]!r} {why}. Nothing was changed.")
    return replace(plan, extra={**plan.extra, SORT_BY: json.dumps(list(columns))})


def parse_sort_columns(plan: CompactionPlan) -> tuple[str, ...]:
    """The columns by which the plan's base files are sorted."""
    try:
        return tuple(str(name) for name in json.loads(plan.extra.get(SORT_BY, "[]")))
    except (ValueError, TypeError):
        return ()

# SPDX-License-Identifier: Apache-2.0
"""What one task is told: a slice, the rules, and what the caller wants to see. Small, and it pickles."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebraid import limits
from lakebraid.model.merge_rules import MergeRules
from lakebraid.model.predicate.parse import Predicate, columns_of
from lakebraid.model.predicate.tree import column_path
from lakebraid.model.timeline.timeline import Visibility


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What all tasks of one read have in common."""

    url: str
    options: tuple[tuple[str, str], ...]
    rules: MergeRules
    schema: pa.Schema
    """The table's columns, meta columns first."""
    columns: tuple[str, ...]
    """The columns to give back, in this order."""
    where: Predicate | None
    """Already bound to the schema."""
    keys: pa.Array | None = None
    """The only keys that can match, in the form of the rules, if the filter pins them."""
    layout: int = 2

    def __repr__(self) -> str:
        # `options` may hold credentials.
        return f"ReadPlan(url={self.url!r}, columns={self.columns!r}, where={self.where!r})"

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.columns])

    def of_columns(self, columns: tuple[str, ...]) -> ReadPlan:
        """The same read with other columns and no filter."""
        return replace(self, columns=columns, where=None, keys=None)

    def read_schema(self, columns: Iterable[str], task: SliceTask) -> pa.Schema:
        """The columns that must be read: the wanted ones, those of the filter, and for a merge those of the rules."""
        names = {*columns}
        if self.where is not None:
            names |= {column_path(column)[0] for column in columns_of(self.where)}
        if task.log_names:
            names |= {*self.rules.columns}
            names |= {"_hoodie_commit_time"} if task.has_late_log else set()
        if not names:
            # Only the number of rows is wanted: the narrowest column carries it.
            names = {min(self.schema, key=lambda f: _width(f.type)).name}
        return pa.schema([f for f in self.schema if f.name in names])


@dataclass(frozen=True, slots=True)
class SliceTask:
    """One slice to read. Names are relative to the table."""

    partition: str
    base_name: str | None
    base_size: int
    base_request_time: str
    log_names: tuple[str, ...]
    log_request_times: tuple[str, ...]
    visible: Visibility
    """Which writes count: old log files hold blocks of several."""
    size: int = 0
    """Bytes of all its files."""
    bucket: int | None = None
    """The number of its bucket, if its file id begins with one."""
    constants: tuple[tuple[str, str | None], ...] = ()
    """Partition columns whose value is the folder's and not the file's, as text."""
    fillings: tuple[tuple[str, str], ...] = ()
    """Partition columns that a partial row of a new key may lack: the folder knows them, as text."""
    before: str = ""
    """Only versions that rank before this count, if it is given: see `tasks.merging.compact`."""
    unsure_logs: tuple[str, ...] = ()
    """Log files that may hold keys which the base file has not: see `tasks.lookup.find`."""
    versions: Mapping[str, str] = field(default_factory=dict, compare=False)
    """What tells the bytes of a file from all others of its name, as far as the store says so."""

    def of_logs(self, names: Container[str]) -> SliceTask:
        """The slice with these of its log files alone, and no base file."""
        kept = [(n, t) for n, t in zip(self.log_names, self.log_request_times, strict=True) if n in names]
        log_names, times = (tuple(n for n, _ in kept), tuple(t for _, t in kept))
        return replace(self, base_name=None, base_size=0, log_names=log_names, log_request_times=times)

    @property
    def held_bytes(self) -> int:
        """What a merge of the slice holds in memory, about: all of its logs, and a piece of its base file."""
        base = min(self.base_size, limits.PARQUET_WHOLE_BYTES_MAX)
        return limits.SLICE_UNFOLDS * (max(0, self.size - self.base_size) + base)

    @property
    def has_late_log(self) -> bool:
        """Whether a log may rank before a row of the base file; see `FileSlice.has_late_log`."""
        return self.base_name is not None and any(t <= self.base_request_time for t in self.log_request_times)


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width)
    except ValueError:
        return 10_000

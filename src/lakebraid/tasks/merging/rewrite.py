# SPDX-License-Identifier: Apache-2.0
"""What one task of a placed write does to a file group: its base file and the changes in, its next base file out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.format.names import BaseFileName, LogFileName
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.grouping import sort_keys
from lakebraid.model.merge_rules import MergeRules, merge_rules
from lakebraid.model.ordering import Bools, winners
from lakebraid.model.schema.conform import with_meta
from lakebraid.model.values.arrow_numpy import take_pieces
from lakebraid.storage.parallel import map_calls
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.new_files import put_file
from lakebraid.tasks.reading.columns import Keeping
from lakebraid.tasks.reading.merge import merge
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.reading.versions import Versions, row_keys
from lakebraid.tasks.slice_task import ReadPlan, SliceTask
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.base_file import format_base_file
from lakebraid.tasks.writing.cdc_log import Captured, format_captured
from lakebraid.tasks.writing.rows import WritePlan


@dataclass(frozen=True, slots=True)
class Target:
    """A file group that gets a base file."""

    partition: str
    file_id: str
    slice: SliceTask | None = None
    """What it holds; None for a new one."""


def rewrite_group(
    storage: Storage, plan: WritePlan, target: Target, versions: Versions, token: str
) -> StagedFile | None:
    """The group's next base file, put but not visible; None if the changes change nothing there. It has been announced,
    with all `names_of_rewrite` that have this write token.

    What is written is a function of the base file, the changes and their sequence, so a second attempt meets its own.
    """
    rules = merge_rules(plan.config, plan.schema)
    base = target.slice
    read = whole_rows(plan, rules)
    tally = _Tally(versions, rules)
    captured = Captured(versions.keys, rules) if plan.config.cdc_enabled and base is not None else None
    keeping = Keeping.of(rules)
    kept = iter(()) if base is None else tally.watched(read_slice(storage, read, base, keeping=keeping))
    before = kept if captured is None else captured.before(kept)
    merged = merge(before, versions, rules, late=False, keeping=keeping)
    rows = tally.counted(merged if base is not None else _in_key_order(merged))
    rows = rows if captured is None else captured.after(rows)
    name, log_name = names_of_rewrite(plan, target, token)
    content = format_base_file(rows, plan.schema, name, has_filter=plan.config.has_filters, ranges=plan.ranges)
    events = None if captured is None else captured.events(read.schema, plan.request_time)
    if (not tally.inserts and not tally.matched) or (events is not None and not events.num_rows):
        return None
    files = [(name, content.data)]
    if events is not None:
        files.append(
            (log_name, format_captured(events, plan.schema, plan.config.name, plan.config.cdc_mode, plan.request_time))
        )
    map_calls(storage, lambda file: put_file(storage, plan.request_time, target.partition, *file), files)
    return StagedFile(
        partition=target.partition,
        file_id=target.file_id,
        name=name,
        size=len(content.data),
        rows=content.rows,
        deletes=tally.deletes,
        is_base=True,
        min_key=content.min_key,
        max_key=content.max_key,
        previous="" if base is None else base.base_request_time,
        inserts=tally.inserts,
        updates=tally.matched - tally.deletes,
        changes="" if events is None else log_name,
        changes_size=0 if events is None else len(files[1][1]),
        ranges=content.ranges,
    )


def names_of_rewrite(plan: WritePlan, target: Target, token: str) -> tuple[str, str]:
    """The group's next base file, and the log file of what it changes, which a table that captures changes has beside it."""
    log = LogFileName(target.file_id, plan.request_time, 1, token, ".cdc")
    return BaseFileName(target.file_id, token, plan.request_time, ".parquet").format(), log.format()


def whole_rows(plan: WritePlan, rules: MergeRules) -> ReadPlan:
    """Reads all columns that the write's base files have."""
    schema = with_meta(plan.schema)
    return ReadPlan(plan.url, plan.options, rules, schema, tuple(schema.names), None, layout=plan.config.layout)


class _Tally:
    """How many rows a rewrite inserts, updates and deletes."""

    def __init__(self, versions: Versions, rules: MergeRules) -> None:
        encoded = versions.keys.dictionary_encode()
        codes = np.asarray(encoded.indices).astype(np.int64)
        best = winners(codes, versions.order, versions.unconditional, len(encoded.dictionary))
        self._keys, self._rules = encoded.dictionary, rules
        self._lives: Bools = ~versions.deleted[best]
        self._matched: Bools = np.zeros(len(self._keys), np.bool_)
        self._before = self._after = 0

    def watched(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for batch in batches:
            found = pc.index_in(row_keys(batch, self._rules), value_set=self._keys).drop_null()
            self._matched[np.asarray(found)] = True
            self._before += batch.num_rows
            yield batch

    def counted(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for batch in batches:
            self._after += batch.num_rows
            yield batch

    @property
    def matched(self) -> int:
        return int(self._matched.sum())

    @property
    def inserts(self) -> int:
        return int((self._lives & ~self._matched).sum())

    @property
    def deletes(self) -> int:
        return self._before + self.inserts - self._after


def _in_key_order(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The rows of a new group, sorted: their keys' statistics then say more, and equal rows make equal files."""
    rows = pa.concat_tables(list(batches)).combine_chunks()
    yield from take_pieces(rows, sort_keys(rows.column(RECORD_KEY).combine_chunks())[0])

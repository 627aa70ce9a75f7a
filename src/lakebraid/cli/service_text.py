# SPDX-License-Identifier: Apache-2.0
"""What a service did, in one line or a few, for a person."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from lakebraid.inspect.status_text import counted
from lakebraid.services.archiving import ArchiveResult
from lakebraid.services.merging.clustering import ClusteringResult
from lakebraid.services.merging.compaction import CompactionResult
from lakebraid.services.merging.log_compaction import LogCompactionResult
from lakebraid.services.savepoints import RestoreResult
from lakebraid.table.grid import printable, text_bytes
from lakebraid.txn.actions.rescue import RollbackResult
from lakebraid.txn.actions.savepoints import Savepoint


@singledispatch
def told(result: Any) -> str:
    """The result as text; plans and cleans say it themselves."""
    return str(result)


@told.register
def _(done: CompactionResult) -> str:
    what = f"{counted(done.groups, 'file group')}, {counted(done.rows, 'row')}, {text_bytes(done.bytes)}"
    return f"compaction {done.instant}: {what}; completed {done.completion_time}"


@told.register
def _(done: LogCompactionResult) -> str:
    what = f"{counted(done.logs, 'log file')} of {counted(done.groups, 'file group')}, {text_bytes(done.bytes)}"
    return f"log compaction {done.instant}: {what}; completed {done.completion_time}"


@told.register
def _(done: ClusteringResult) -> str:
    what = f"{counted(done.replaced, 'file group')} put into {done.groups:,}, {counted(done.rows, 'row')}, {text_bytes(done.bytes)}"
    return f"clustering {done.instant}: {what}; completed {done.completion_time}"


@told.register
def _(done: RollbackResult) -> str:
    parts = [
        (f"rolled back {counted(len(done.rolled_back), 'dead write')}", done.rolled_back),
        (f"withdrew {counted(len(done.plans), 'plan')}", done.plans),
        (f"finished {counted(len(done.finished), 'rollback')} of others", done.finished),
        (f"removed {counted(len(done.removed), 'stray file')}", done.removed),
    ]
    return f"rollback: {', '.join(text for text, found in parts if found) or 'nothing to roll back'}"


@told.register
def _(done: ArchiveResult) -> str:
    held = f"; held back: {done.held_back_by}" if done.held_back_by else ""
    return f"archive: {counted(done.instants, 'instant')}{held}"


@told.register
def _(kept: Savepoint) -> str:
    note = f"  {printable(kept.comment)}" if kept.comment else ""
    return f"savepoint {kept.instant}: as of {kept.completion_time}, {counted(kept.files, 'file')}{note}"


@told.register
def _(done: RestoreResult) -> str:
    what = f"{counted(len(done.undone), 'completed action')} and {counted(len(done.refused), 'open one')}"
    if done.instant is None:
        return f"restore to {done.until} would remove {what}"
    return f"restore {done.instant}: back to {done.until}, removed {what}; {counted(done.files, 'file')} removed"

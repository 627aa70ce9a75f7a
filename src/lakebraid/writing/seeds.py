# SPDX-License-Identifier: Apache-2.0
"""The empty base files that a transaction puts beside its rows, where Hudi needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lakebraid.errors import InvalidArgument
from lakebraid.model.timeline.slicing import FileGroup, GroupId
from lakebraid.table.view import load_view
from lakebraid.tasks.engine import Engine
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.writing.operations.overwrite import Overwriting


def bases_beside(
    ledger: Ledger,
    engine: Engine,
    overwriting: Overwriting | None,
    plan_of: Callable[[], WritePlan],
    files: Sequence[StagedFile],
) -> Iterator[StagedFile]:
    """Base files without rows: of an overwrite, and of file groups that begin where the table captures changes."""
    if overwriting is not None:
        _check_no_logs(ledger, files)
        yield from overwriting.seeds(ledger, engine, plan_of(), files)
    elif ledger.config.cdc_enabled:
        yield from _first_bases(ledger, engine, plan_of, files)


def _check_no_logs(ledger: Ledger, files: Sequence[StagedFile]) -> None:
    if ledger.config.cdc_enabled and not all(file.is_base for file in files):
        raise InvalidArgument(
            f"The overwrite of {ledger.storage.url}, which captures changes (hoodie.table.cdc.enabled), has rows that are "
            "deletes, or got its rows by several calls of `write`. Those lie in log files, and Hudi's CDC query could not "
            "read the commit. Nothing was replaced. Leave deletes out: whatever an overwrite does not bring is gone anyway. "
            "Give all other rows in one call.",
            path=ledger.storage.url,
        )


def _first_bases(
    ledger: Ledger, engine: Engine, plan_of: Callable[[], WritePlan], files: Sequence[StagedFile]
) -> Iterator[StagedFile]:
    """Empty base files for the file groups that these log files begin: Hudi's CDC query reads no slice without one.

    A base file hides whatever completed before its write began, so a group gets one only if nothing did. Several writers
    may begin a group at once, each with its own: what any of them publishes is published after all of them began.
    """
    based = {(file.partition, file.file_id) for file in files if file.is_base}
    begun = dict.fromkeys((file.partition, file.file_id) for file in files)
    wanted = [group for group in begun if group not in based]
    if not wanted:
        return
    plan, groups = plan_of(), load_view(ledger.table).groups
    new = [group for group in wanted if _is_new(groups.get(GroupId(*group)), plan.request_time)]
    yield from engine.seeds(plan, new)


def _is_new(held: FileGroup | None, request_time: str) -> bool:
    """Whether the group has no base file, and had nothing at all when the write began."""
    if held is None:
        return True
    bases = [part.base for part in held.slices if part.base is not None]
    return not bases and all(log.completion_time > request_time for part in held.slices for log in part.logs)

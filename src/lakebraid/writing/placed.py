# SPDX-License-Identifier: Apache-2.0
"""The rows of a placed write: kept until its commit, then each put into the file group that has its key.

A copy-on-write table rewrites that group's base file. Two base files of one group in one write would hide one another,
so all rows of a transaction are placed together. docs/decisions/0013-placed-writes.md
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from lakebraid import limits
from lakebraid.errors import UnsupportedTable
from lakebraid.model.file_sizing import Sizes
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.timeline.slicing import FileSlice, GroupId
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.reading.plan import slice_task
from lakebraid.table.view import View, load_view
from lakebraid.tasks.engine import Engine, Kept
from lakebraid.tasks.lookup.assign import Ground
from lakebraid.tasks.lookup.changes import Piece
from lakebraid.tasks.merging.rewrite import Target
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.writer import Writing
from lakebraid.writing.gate import Gate, Seen


@dataclass(frozen=True, slots=True)
class _Look:
    timeline: Timeline
    ground: Ground
    began_seconds: float

    def at(self, targets: Iterable[Target], now_seconds: float) -> Seen:
        chosen = list(targets)
        groups = frozenset(GroupId(t.partition, t.file_id) for t in chosen)
        is_closed = any((group.partition, group.file_id) in self.ground.closed for group in groups)
        size = sum(t.slice.base_size for t in chosen if t.slice is not None)
        return Seen(self.timeline, groups, is_closed, size, now_seconds - self.began_seconds)


class Placing:
    """The rows that one transaction has been given so far, and how they come into files."""

    def __init__(self, writing: Writing, sizes: Sizes, *, overwrites: bool = False) -> None:
        """An overwrite takes no notice of the file groups that are there."""
        self._writing, self._sizes, self._overwrites = writing, sizes, overwrites
        self._kept: list[Piece | Kept] = []

    @property
    def is_empty(self) -> bool:
        """Whether no rows came: changes of the schema bring none, and are no kind of write that tasks know."""
        return not self._kept

    def keep(self, rows: Piece | Kept | None) -> None:
        """Takes what an engine keeps until the commit."""
        if rows is not None:
            self._kept.append(rows)

    def stage(self, engine: Engine, plan: WritePlan, task: int, gate: Gate) -> list[StagedFile]:
        """Writes all rows into files that no reader sees yet; what the gate refuses is not written.

        A write that gives way to others looks again where its rows go, if its engine can assign them twice.
        """
        gathered, self._kept = engine.gather(plan, self._kept, task), []
        try:
            for left in reversed(range(limits.LOOKS_MAX if gathered.looks_again else 1)):
                look = self._look(plan)
                seen = look.at(gathered.assign(look.ground), self._writing.clock.monotonic())
                gate.check(seen)
                if not left or not gate.give_way(seen):
                    break
            return [*gate.each(gathered.write())]
        finally:
            gathered.release()

    def _look(self, plan: WritePlan) -> _Look:
        began_seconds = self._writing.clock.monotonic()
        view = load_view(self._writing.at(plan.config))
        return _Look(view.timeline, self._ground(view, plan.request_time), began_seconds)

    def release(self) -> None:
        """Lets go of whatever was kept."""
        kept, self._kept = self._kept, []
        for rows in kept:
            if not isinstance(rows, Piece):
                rows.release()

    def _ground(self, view: View, request_time: str) -> Ground:
        self._check_index(view)
        visible = view.timeline.visibility()
        groups: dict[str, list[Target]] = defaultdict(list)
        for found in () if self._overwrites else view.slices():
            group = found.group
            held = replace(slice_task(found, view.config, visible), unsure_logs=_unsure_logs(found))
            groups[group.partition].append(Target(group.partition, group.file_id, held))
        ids = self._new_ids(request_time)
        clustered = any(i.kind == "clustering" for i in view.timeline.pending)
        closed = planned_parts(self._writing.at(view.config), view.timeline) if clustered else ()
        return Ground(
            groups, self._sizes, lambda: next(ids), frozenset((p.group.partition, p.group.file_id) for p in closed)
        )

    def _check_index(self, view: View) -> None:
        """A table that does not state its index, and whose groups are numbered like buckets, most likely has some."""
        ids = [group.file_id for group in view.groups]
        if not view.config.index and ids and all(bucket_of_file_id(file_id) is not None for file_id in ids):
            raise UnsupportedTable(
                f"Cannot write to {self._writing.storage.url}: its file groups look like buckets, and it does not say how "
                "many there are. Nothing was changed. `lakebraid adopt` finds out from its keys whether they are, and states "
                "it in hoodie.properties; with --dry-run it only says so.",
                path=self._writing.storage.url,
            )

    def _new_ids(self, request_time: str) -> Iterator[str]:
        """File ids in the shape of Hudi's. No other write has this request time, so none has these ids, whatever chance gives;
        the first letter says that they are no buckets.
        """
        drawn = self._writing.clock.token()
        head = "abcdef"[int(drawn[0], 16) % 6] + drawn[1:8]
        stem = "-".join(
            (head, request_time[:4], request_time[4:8], request_time[8:12], request_time[12:] + drawn[9:16])
        )
        for number in count():
            yield f"{stem}-{number}"


def _unsure_logs(held: FileSlice) -> tuple[str, ...]:
    """Log files whose writers may have looked at an older base file. Those that were merged into others are still there."""
    base = held.base
    if base is None:
        return ()  # then all of them are looked at
    return tuple(log.name for log in held.logs if log.request_time < base.completion_time)

# SPDX-License-Identifier: Apache-2.0
"""The rows of a placed write: kept until its commit, then each put into the file group that has its key.

A copy-on-write table rewrites that group's base file. Two base files of one group in one write would hide one another,
so all rows of a transaction are placed together. docs/decisions/0013-placed-writes.md
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import UnsupportedTable
from lakebraid.model.file_sizing import sizes_of
from lakebraid.model.incoming import prepare
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.timeline.slicing import FileSlice, GroupId
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.reading.plan import slice_task
from lakebraid.table.view import View, load_view
from lakebraid.tasks.lookup.assign import Ground, finder
from lakebraid.tasks.lookup.changes import Piece, gather
from lakebraid.tasks.lookup.stage import place, write_placed
from lakebraid.tasks.merging.rewrite import Target
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.writer import Writing
from lakebraid.writing.evaluated import Evaluated
from lakebraid.writing.gate import Gate, Seen

if TYPE_CHECKING:
    from lakebraid.spark.place import KeptFrame


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
    """What one transaction has been given so far, and how it comes into files."""

    def __init__(
        self,
        writing: Writing,
        properties: Mapping[str, str],
        tag: str,
        evaluated: Evaluated | None = None,
        *,
        overwrites: bool = False,
    ) -> None:
        """Spark's jobs run under `tag`. One that overwrites takes no notice of what is there."""
        self._evaluated = evaluated
        self._writing, self._tag, self._overwrites = writing, tag, overwrites
        self._sizes = sizes_of(properties)
        self._kept: list[Piece | KeptFrame] = []

    @property
    def is_empty(self) -> bool:
        """Whether no rows came: changes of the schema bring none, and are no kind of write that tasks know."""
        return not self._kept

    def keep(self, plan: WritePlan, rows: pa.Table) -> None:
        """Takes rows; InvalidArgument, before anything is written, if one does not fit."""
        config = plan.config
        ready = prepare(rows, plan.schema, config, operation=plan.operation, columns=plan.columns)
        record_keys(ready, config.record_keys, config.has_complex_keys)
        if ready.num_rows:
            self._kept.append(Piece(plan.operation, ready))

    def keep_frame(self, plan: WritePlan, df: Any) -> None:
        """Takes the rows of a Spark data frame, which is evaluated now, once."""
        from lakebraid.spark.place import keep_frame  # noqa: PLC0415  only those who use Spark pay for it

        frames = self._frames
        evaluate = partial(keep_frame, plan, df, self._tag, frames[0].tasks if frames else None)
        rows = evaluate() if self._evaluated is None else self._evaluated.placed(plan.schema, evaluate)
        if isinstance(rows, pa.Table):
            self.keep(plan, rows)
        else:
            self._kept.append(rows)

    def stage(self, plan: WritePlan, task: int, gate: Gate) -> tuple[list[StagedFile], int]:
        """Writes all rows into files that nobody sees yet: these, and the next free task number.

        What the gate refuses is not written. Who gives way to others looks again where its rows go; rows on Spark are not
        placed twice, so they do not, and pass the gate once for all files.
        """
        storage, clock = self._writing.storage, self._writing.clock
        if self._frames:
            look = self._look(plan)

            def ask(targets: Iterable[Target]) -> None:
                gate.check(look.at(targets, clock.monotonic()))
                gate.check_meanwhile()

            return self._stage_frames(plan, look.ground, task, ask), task
        pieces = [kept for kept in self._kept if isinstance(kept, Piece)]
        self._kept = []
        given = gather(plan, pieces, task)
        for left in reversed(range(limits.LOOKS_MAX)):
            look = self._look(plan)
            changes, placed = place(storage, plan, given, look.ground, finder(storage, plan, given.rules))
            seen = look.at(placed.targets, clock.monotonic())
            gate.check(seen)
            if not left or not gate.give_way(seen):
                break
        files = gate.each(write_placed(storage, plan, changes, placed, task))
        return [*files], task + 1 + len(changes.pieces)

    def _look(self, plan: WritePlan) -> _Look:
        began_seconds = self._writing.clock.monotonic()
        view = load_view(self._writing.storage, plan.config, self._writing.clock)
        return _Look(view.timeline, self._ground(view, plan.start), began_seconds)

    def release(self) -> None:
        """Lets go of whatever was kept."""
        frames, self._kept = self._frames, []
        if frames and self._evaluated is None:  # else the next attempt may need them
            from lakebraid.spark.place import release  # noqa: PLC0415  as above

            release(frames)

    @property
    def _frames(self) -> list[KeptFrame]:
        return [kept for kept in self._kept if not isinstance(kept, Piece)]

    def _stage_frames(
        self, plan: WritePlan, ground: Ground, task: int, ask: Callable[[Iterable[Target]], None]
    ) -> list[StagedFile]:
        from lakebraid.spark.place import keep_rows, stage_frames  # noqa: PLC0415  as above

        tasks, spark = self._frames[0].tasks, self._frames[0].pieces.sparkSession
        for at, kept in enumerate(self._kept):
            if isinstance(kept, Piece):
                piece_plan = replace(plan, operation=kept.operation)
                self._kept[at] = keep_rows(piece_plan, spark.createDataFrame(kept.rows), tasks)
        try:
            return stage_frames(
                self._writing.storage, plan, self._frames, ground, first_task=task, tag=self._tag, check=ask
            )
        finally:
            self.release()

    def _ground(self, view: View, start: str) -> Ground:
        self._check_index(view)
        visible = view.timeline.visibility()
        groups: dict[str, list[Target]] = defaultdict(list)
        for found in () if self._overwrites else view.slices():
            group = found.group
            held = replace(slice_task(found, view.config, visible), unsure_logs=_unsure_logs(found))
            groups[group.partition].append(Target(group.partition, group.file_id, held))
        ids = self._new_ids(start)
        storage = self._writing.storage
        clustered = any(i.kind == "clustering" for i in view.timeline.pending)
        closed = planned_parts(storage, view.config, view.timeline) if clustered else ()
        return Ground(
            groups, self._sizes, lambda: next(ids), frozenset((p.group.partition, p.group.file_id) for p in closed)
        )

    def _check_index(self, view: View) -> None:
        """A table that does not state its index, and whose groups are numbered like buckets, most likely has some."""
        ids = [group.file_id for group in view.groups]
        if not view.config.index and ids and all(bucket_of_file_id(file_id) is not None for file_id in ids):
            raise UnsupportedTable(
                f"Cannot write to {self._writing.storage.url}: its file groups look like buckets, and it does not say how "
                "many there are. Nothing was changed. Put hoodie.index.type=BUCKET and hoodie.bucket.index.num.buckets, or "
                "hoodie.index.type=SIMPLE, into hoodie.properties.",
                path=self._writing.storage.url,
            )

    def _new_ids(self, start: str) -> Iterator[str]:
        """File ids in the shape of Hudi's. No other write has this start, so none has these ids, whatever chance gives;
        the first letter says that they are no buckets.
        """
        drawn = self._writing.clock.token()
        head = "abcdef"[int(drawn[0], 16) % 6] + drawn[1:8]
        stem = "-".join((head, start[:4], start[4:8], start[8:12], start[12:] + drawn[9:16]))
        for number in count():
            yield f"{stem}-{number}"


def _unsure_logs(held: FileSlice) -> tuple[str, ...]:
    """Log files whose writers may have looked at an older base file. Those that were merged into others are still there."""
    base = held.base
    if base is None:
        return ()  # then all of them are looked at
    return tuple(log.name for log in held.logs if log.request_time < base.completion_time)

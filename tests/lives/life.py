# SPDX-License-Identifier: Apache-2.0
"""One table and its oracle side by side: each step is done to both, and must lead to the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from lakebraid.clock import Clock
from lakebraid.errors import CommitRefused, InvalidArgument, RolledBack, SchemaConflict, SnapshotExpired, WriteConflict
from lakebraid.storage import Storage
from lakebraid.writing.result import WriteResult
from tests.kit.present import present
from tests.kit.tables.scene import TickingClock, table_on
from tests.lives.judging import OVERWRITES, Done, Open, done_of, is_excused, justified, must_be_refused, schemas_clash
from tests.lives.kinds import TYPES, Columns, Kind, Row, as_arrow
from tests.lives.world import Change, World


class Life:
    """Steps are methods; whatever they are told is a plain value, so that a failed life prints as a script."""

    def __init__(self, kind: Kind, clock: Clock | None = None, storage: Storage | None = None) -> None:
        self.kind, self.clock = kind, clock or TickingClock()
        self.table = kind.create(self.clock, storage)
        self.other = table_on(self.table._storage, self.clock)
        self.world = World(dict(kind.columns))
        first = present(self.table.snapshot().completion_time)
        self.past: list[tuple[str, World]] = [(first, self.world)]
        self.open: dict[str, Open] = {}
        self.begun: list[str] = []
        """The request times of all of them."""
        self.done: list[Done] = []
        self.plans: dict[str, tuple[str, str]] = {}
        """Names, kinds and instants of plans that nobody has run."""
        self.planned: list[str] = []
        self.pins: dict[str, str] = {}
        """Savepoints: instants and their completions."""
        self.consumers: dict[str, tuple[str, World]] = {}
        self.since = ""
        """Everything from here on must be readable."""
        self.lost: list[tuple[str, str]] = []
        """Moments that a restore took away: after the first, before the second."""
        self.has_cleaned = self.had_dead = False
        self.held: list[tuple[Any, World, int]] = []
        """Readers that read later."""
        self.refusals: list[str] = []
        self.fresh: tuple[str, World, World] | None = None
        """The request time of the last write, and the table before and after it."""
        self.waited = self.checks = self.archivings = 0

    # --- writes ------------------------------------------------------------------------------------------------------

    def write(
        self,
        operation: str,
        rows: list[Row],
        new: Columns | None = None,
        partial: Sequence[str] | None = None,
        batch: tuple[str, int] | None = None,
        *,
        is_inline: bool = False,
    ) -> None:
        """A write in one call."""
        given = self._given(rows, new)
        how: dict[str, Any] = {"services": "inline"} if is_inline else {}
        if operation not in OVERWRITES:
            how["block_format"] = self.kind.block_format
        if partial is not None:
            how["columns"] = list(partial)
        if batch is not None:
            how |= {"writer": batch[0], "batch": batch[1]}
        if self.has_clusterings():
            how["retries"] = 0
        made = self.opening(operation, partial, rows, new)
        result = self.tried(made, lambda: getattr(self.table, operation)(given, **how))
        if result is None:
            return
        if batch is not None and batch[1] <= self.world.batches.get(batch[0], -1):
            assert result.is_repeated, "an old batch was published again"
            return
        assert not result.is_repeated, "a new batch passed for an old one"
        self.published(made, result)
        if batch is not None:
            self.world = replace(self.world, batches={**self.world.batches, batch[0]: batch[1]})
            self.past[-1] = (result.completion_time, self.world)
        if is_inline:
            assert result.services is not None
            self._tended(result.services)

    def delete(self, keys: list[Row]) -> None:
        """Deletes by key; ordering values count if they are there."""
        made, ordering = self.opening("delete", None, [], None), self.kind.ordering
        has_order = bool(ordering and keys) and ordering[0] in keys[0]
        made.changes += [change for key in keys for change in self._deletes(key, has_order=has_order)]
        how: dict[str, Any] = {"retries": 0} if self.has_clusterings() else {}
        result = self.tried(made, lambda: self.table.delete(as_arrow(self.kind, keys, self.world.columns), **how))
        if result is not None:
            self.published(made, result)

    def delete_partitions(self, partitions: list[Row]) -> None:
        """Deletes all rows of partitions."""
        made = self.opening("delete_partition", None, partitions, None)
        how: dict[str, Any] = {"retries": 0} if self.has_clusterings() else {}
        result = self.tried(made, lambda: self.table.delete_partitions(partitions, missing_ok=True, **how))
        if result is not None:
            made.changes = []
            self.published(made, result, {self.kind.partition(p) for p in partitions})

    def begin(self, name: str, operation: str, partial: Sequence[str] | None = None) -> None:
        """Opens a transaction."""
        try:
            transaction = self.table.begin(
                operation,  # type: ignore[arg-type]
                columns=None if partial is None else list(partial),
                block_format=self.kind.block_format,
            )
        except WriteConflict as refused:
            justified(refused, self.kind.concurrency == "single" and self.living())
            return
        made = self.opening(operation, partial, [], None)
        made.transaction = transaction
        self.begun.append(transaction.instant)
        self.open[name] = made

    def more(self, name: str, rows: list[Row], new: Columns | None = None) -> None:
        """Rows for an open transaction."""
        if name in self.open:
            made = self.open[name]
            made.calls += 1
            known = {**made.began.columns, **made.columns, **(new or {})}
            rows = [{n: v for n, v in row.items() if n in known} for row in rows]
            made.transaction.write(as_arrow(self.kind, rows, self.world.columns, known))
            self._take(made, rows, new)

    def less(self, name: str, keys: list[Row]) -> None:
        """Deletes for an open transaction."""
        if name in self.open:
            made = self.open[name]
            made.transaction.write_deletes(as_arrow(self.kind, keys, self.world.columns))
            made.changes += [Change(key, is_delete=True) for key in keys]

    def commit(self, name: str) -> None:
        """Publishes an open transaction."""
        if name in self.open:
            made = self.open.pop(name)
            result = self.tried(made, made.transaction.commit)
            if result is not None:
                assert not made.is_dead, "what was rolled back was published"
                self.published(made, result)

    def abort(self, name: str) -> None:
        """Gives a transaction up."""
        if name in self.open:
            self.open.pop(name).transaction.abort()

    def alter(self, steps: list[tuple[Any, ...]]) -> None:
        """Changes the schema."""
        alteration = self.table.alter()
        columns = dict(self.world.columns)
        for step, *told in steps:
            match step:
                case "add":
                    alteration.add(told[0], TYPES[told[1]])
                    columns[told[0]] = told[1]
                case "widen":
                    alteration.widen(told[0], TYPES[told[1]])
                    columns[told[0]] = told[1]
                case "nullable":
                    alteration.nullable(told[0])
                case "reorder":
                    alteration.reorder(told[0])
                    columns = {n: columns[n] for n in dict.fromkeys((*told[0], *columns))}
        made = self.opening("alter", None, [], None)
        result = self.tried(made, alteration.commit)
        if result is not None:
            self.world = replace(self.world, columns=columns)
            self._remember(made, result)

    def misfit(self, row: Row, column: str, value: Any) -> None:
        """A value that the column cannot hold as it is: refused by name, and nothing changes."""
        before = self.table.snapshot().completion_time
        refusal = self._refusal([row | {column: value}])
        assert refusal is not None, f"{value!r:.80} was taken into {column}, a {self.world.columns[column]}"
        assert column in str(refusal), f"the refusal does not name {column}: {refusal}"
        assert self.table.snapshot().completion_time == before, "what was refused is on the timeline"

    def _refusal(self, rows: list[Row]) -> InvalidArgument | None:
        try:
            self.table.upsert(rows, evolve=False)
        except InvalidArgument as refused:
            return refused
        return None

    def _given(self, rows: list[Row], new: Columns | None) -> Any:
        """The rows in one of the forms in which users have them."""
        if self.checks % 3 == 1 and rows and not new and {*rows[0]} <= {*self.world.columns}:
            return rows
        return as_arrow(self.kind, rows, self.world.columns, new)

    # --- services ----------------------------------------------------------------------------------------------------

    def compact(self, **how: Any) -> None:
        self.planned.append("compact")
        self.table.compact(**how)

    def log_compact(self) -> None:
        self.planned.append("log_compact")
        self.table.log_compact()

    def cluster(self, **how: Any) -> None:
        self.planned.append("cluster")
        try:
            self.table.cluster(**how)
        except WriteConflict as refused:
            justified(refused, self.living() or self.plans)

    def plan(self, name: str, kind: str, **how: Any) -> None:
        """Plans a service that is run later, or never."""
        plan = getattr(self.table, f"plan_{kind}")(**how)
        if plan is not None and plan.instant is not None:
            self.plans[name] = (kind, plan.instant)
            if kind == "clean":
                self.has_cleaned, self.since = True, self.past[-1][0]
            else:
                self.planned.append(plan.instant)

    def run(self, name: str) -> None:
        """Runs what was planned."""
        if name in self.plans:
            kind, instant = self.plans.pop(name)
            try:
                self.table.run(instant)
            except CommitRefused as refused:
                is_late = kind == "log_compaction" and self.waited > 3600
                justified(refused, is_late or (kind == "clustering" and self._is_hindered(instant)))

    def take_back(self, name: str) -> None:
        """Takes the plan of a clustering or log compaction back."""
        if name in self.plans and self.plans[name][0] in ("clustering", "log_compaction"):
            self.table.rollback(plan=self.plans.pop(name)[1])

    def clean(self, **how: Any) -> None:
        done = self.table.clean(**how)
        self.bury_rolled_back()
        if done.files:
            assert done.readable_since is not None
            self.has_cleaned, self.since = True, max(self.since, done.readable_since)
        self.plans = {n: p for n, p in self.plans.items() if p[0] != "clean"}

    def archive(self, least: int, most: int) -> None:
        self.archivings += bool(self.table.archive(keep_min=least, keep_max=most).instants)

    def tend(self) -> None:
        """Everything that is due."""
        self._tended(self.table.services.run(once=True))

    def rescue(self) -> None:
        """All open writers are taken for dead."""
        self.table.rollback(timeout_seconds=0)
        self._bury()

    def savepoint(self) -> None:
        kept = self.table.savepoint()
        self.pins[kept.instant] = kept.completion_time

    def unpin(self, number: int) -> None:
        if self.pins:
            instant = sorted(self.pins)[number % len(self.pins)]
            assert self.table.delete_savepoint(instant)
            del self.pins[instant]

    def restore(self, number: int) -> None:
        """Goes back by so many writes."""
        moment = self.past[-1 - number % len(self.past)][0]
        later = [p for p in self.pins.values() if p > moment]
        try:
            done = self.table.restore(moment)
        except (SnapshotExpired, InvalidArgument, CommitRefused) as refused:
            justified(refused, later or self.has_cleaned or self.archivings)
            self.refusals.append(f"restore: {refused}")
            return
        if done.instant is None:
            return
        assert not later, "a restore went behind a savepoint"
        self._returned(moment, done.completion_time or "")

    def wait(self, seconds: int) -> None:
        self.clock.sleep(seconds)
        self.waited += seconds

    def swap(self) -> None:
        """Another process goes on."""
        self.table, self.other = self.other, self.table

    def reopen(self) -> None:
        self.table = table_on(self.table._storage, self.clock)

    # --- what becomes of a write ---------------------------------------------------------------------------------------

    def opening(self, operation: str, partial: Sequence[str] | None, rows: list[Row], new: Columns | None) -> Open:
        made = Open(
            None,  # type: ignore[arg-type]
            operation,
            None if partial is None else tuple(partial),
            self.world,
            len(self.done),
            len(self.planned),
            archivings=self.archivings,
        )
        self._take(made, rows, new)
        return made

    def _take(self, made: Open, rows: list[Row], new: Columns | None) -> None:
        is_delete = made.operation == "delete"
        made.changes += [Change(row, is_delete, made.partial is not None) for row in rows]
        made.columns |= {n: t for n, t in (new or {}).items() if rows and n in rows[0]}

    def _deletes(self, key: Row, *, has_order: bool) -> Iterable[Change]:
        """What a delete by key means: the row as it is now, unless it says how old it is."""
        if not self.kind.ordering or has_order:
            yield Change(key, is_delete=True)
            return
        row = self.world.rows().get(self.kind.identity(key))
        if row is not None and self.kind.partition(row) == self.kind.partition(key):
            yield Change({**key, **{name: row[name] for name in self.kind.ordering}}, is_delete=True)

    def tried(self, made: Open, call: Callable[[], WriteResult]) -> WriteResult | None:
        """What the write gave; None if it was refused, for a good reason."""
        try:
            result = call()
        except SchemaConflict as refused:
            justified(refused, schemas_clash(self, made))
            self.refusals.append(f"{made.operation}: {refused}")
            return None
        except RolledBack as refused:
            justified(refused, made.is_dead)
            return None
        except WriteConflict as refused:
            justified(refused, made.is_dead or is_excused(self, made))
            self.refusals.append(f"{made.operation}: {refused}")
            return None
        assert not must_be_refused(self, made), "two writers of one key at once, and neither was refused"
        assert self.kind.merges or not schemas_clash(self, made), "two schemas, and neither was refused"
        return result

    def published(self, made: Open, result: WriteResult, partitions: set[Any] | None = None) -> None:
        world, kind = self.world, self.kind
        if made.operation in OVERWRITES:
            gone = {kind.partition(change.row) for change in made.changes} if partitions is None else partitions
            world = world.without(kind, None if made.operation == "insert_overwrite_table" else gone)
        columns = {**world.columns, **{n: t for n, t in made.columns.items() if n not in made.began.columns}}
        wider = {n: t for n, t in made.columns.items() if n in made.began.columns}
        world = replace(world, columns={**columns, **wider})
        self.world = world.after(kind, made.changes, result.instant)
        self._remember(made, result, partitions)

    def _remember(self, made: Open, result: WriteResult, partitions: set[Any] | None = None) -> None:
        moment, world = self.past[-1]
        assert result.completion_time > moment, "a completion time did not rise"
        self.fresh = (result.instant, world, self.world)
        self.past.append((result.completion_time, self.world))
        self.done.append(done_of(self.kind, made, result, partitions))

    def _returned(self, moment: str, completion: str) -> None:
        self.world = next(world for time, world in reversed(self.past) if time <= moment)
        self.lost.append((moment, completion))
        self.past = [(t, w) for t, w in self.past if t <= moment]
        self.past.append((completion, self.world))
        self._bury()
        self.plans = {}

    def _bury(self) -> None:
        for made in self.open.values():
            made.is_dead = self.had_dead = True

    def living(self) -> list[Open]:
        return [made for made in self.open.values() if not made.is_dead]

    def has_clusterings(self) -> bool:
        return any(kind == "clustering" for kind, _ in self.plans.values())

    def _is_hindered(self, instant: str) -> bool:
        return any(done.completion > instant for done in self.done) or bool(self.living())

    def bury_rolled_back(self) -> None:
        """Who has been silent for long may have been taken for dead."""
        for made in self.open.values():
            if not made.is_dead and self.table.status(made.transaction.instant) == "refused":
                assert self.waited > 100, "a living writer was taken for dead"
                made.is_dead = self.had_dead = True

    def _tended(self, ended: Any) -> None:
        assert not ended.errors, ended
        self.planned.append("services")
        self.bury_rolled_back()
        self.has_cleaned, self.archivings = True, self.archivings + 1
        cleaned = [one.result for one in ended.ran if one.service == "clean" and one.result]
        self.since = max([self.since, *(one.readable_since or "" for one in cleaned)])

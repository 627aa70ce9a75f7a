# SPDX-License-Identifier: Apache-2.0
"""One write, from begin to commit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import pyarrow as pa

from lakebraid import limits
from lakebraid.api.inputs import arrow_pieces, is_spark
from lakebraid.api.looking import look
from lakebraid.api.overwriting import OVERWRITES, Overwriting
from lakebraid.api.own_schema import SCHEMA_CONFLICT, OwnSchema, SchemaConflicts, check_answer
from lakebraid.api.placing import Placing
from lakebraid.api.planning import Source
from lakebraid.api.rivalry import Rivalry
from lakebraid.errors import CommitUnknown, InvalidArgument, LakebraidError, RolledBack, StorageError, WriteConflict
from lakebraid.format.commit import CommitMetadata
from lakebraid.model.config import CONCURRENCY, TableConfig
from lakebraid.model.incoming import prepare
from lakebraid.model.keys import record_keys
from lakebraid.model.slicing import GroupId
from lakebraid.services.runner import ServiceRound
from lakebraid.table.view import load_view
from lakebraid.tasks.known_keys import KnownKeys
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.write_task import WritePlan, write_rows
from lakebraid.txn import operations
from lakebraid.txn.alone import clear_dead
from lakebraid.txn.batches import BatchRepeated, named_batch
from lakebraid.txn.conflicts import WRITER
from lakebraid.txn.heartbeat import Heartbeat, beat, beat_interval_ms
from lakebraid.txn.ledger import Ledger, Round
from lakebraid.txn.lock_owner import process_name
from lakebraid.txn.markers import forget
from lakebraid.txn.new_keys import Looked
from lakebraid.txn.rollback import finish_rollback, roll_back, take_back
from lakebraid.txn.session import Writing
from lakebraid.txn.stats import write_stats
from lakebraid.txn.stories import given_up, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Operation = Literal[
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "alter_schema",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partition",
]
_FIRST_TASK = 1000
_NO_ROWS = object()


@dataclass(frozen=True, slots=True)
class WriteResult:
    """How a write ended."""

    instant: str
    completion_time: str
    operation: str
    rows_written: int
    rows_deleted: int
    files: int
    seconds: dict[str, float] = field(default_factory=dict, compare=False)
    """How long each phase took."""
    attempts: int = 1
    """How often it was written until no other writer was in the way."""
    groups_replaced: int = 0
    """File groups that an overwrite took away."""
    services: ServiceRound | None = field(default=None, compare=False)
    """What was done after the commit, and what of it failed, with `services="inline"`. The write is published anyway."""
    is_repeated: bool = False
    """Whether the batch was published before: then nothing was written, and instant and time are the earlier commit's (for
    an old batch those of its writer's newest)."""


class Transaction:
    """A write that nobody sees before `commit`. For one use: after commit or abort it is over.

    As a context manager it commits at the end of the block, and aborts if the block raises.
    """

    def __init__(
        self,
        writing: Writing,
        source: Source,
        operation: Operation,
        *,
        columns: Sequence[str] | None = None,
        block_format: str = "parquet",
        evolve: bool = True,
        schema_conflict: SchemaConflicts | None = None,
        writer: str | None = None,
        batch: int | None = None,
        stream: str = "",
        token: str | None = None,
        is_isolated: bool = False,
        spark: SparkSession | None = None,
        rows: Any = _NO_ROWS,
        partitions: frozenset[str] = frozenset(),
        afterwards: Callable[[], ServiceRound] | None = None,
    ) -> None:
        """With `rows` they are looked at before the transaction begins, and written: what does not fit leaves no trace.

        `afterwards` is called when the commit is done; `partitions` go with `delete_partition`. An isolated one writes what it has computed from rows that it read
        after it began: its commit is refused if another writer has changed them. `stream` says who numbers the batches.
        Those who begin with the same `token` begin the same write, as long as it is open.
        """
        self._writing, self._source, self._operation, self._spark = writing, source, operation, spark
        self._clock = writing.clock
        self._afterwards = afterwards
        self._seconds: dict[str, float] = {}
        self._txn = token or self._clock.token()
        self._files: list[StagedFile] = []
        self._task = _FIRST_TASK
        self._end: str | None = None
        self._is_lost = self._has_failed = False
        self._looked: tuple[KnownKeys, Looked] | None = None
        self._clash: WriteConflict | None = None
        self._writer = writer or process_name()
        self._batch = named_batch(writer, batch, stream)
        self._repeated: WriteResult | None = None
        merging = check_answer(schema_conflict)
        with self._timed("begin"):
            config, properties = writing.settings()
            self._ledger = writing.ledger(config)
            merges = (merging or properties.get(SCHEMA_CONFLICT)) == "merge"
            self._schema = OwnSchema(writing.schema(self._ledger), evolve and operation != "delete", merges)
            chosen = None if columns is None else tuple(columns)
            rows = self._checked(rows, config, chosen)
            placement = writing.placement(properties, self._ledger)
            is_optimistic = config.concurrency == "occ" or config.is_placed
            overwrites = operation in OVERWRITES
            is_alone = config.concurrency == "single" and CONCURRENCY in properties
            self._placing = Placing(writing, properties, self._txn, overwrites=overwrites) if config.is_placed else None
            self._rivalry = Rivalry(
                properties,
                self._writer,
                is_optimistic=is_optimistic,
                is_isolated=is_isolated,
                overwrites=overwrites,
                is_alone=is_alone,
                has_unique_keys=config.has_filters,
            )
            if is_alone:
                clear_dead(self._ledger, self._txn)
            try:
                self.instant, into_base = self._begin(chosen)
            except BatchRepeated as repeated:
                self.instant, self._repeated = repeated.start, self._repetition(repeated)
                return
            self._overwriting = Overwriting.of(
                operation, self._rivalry.begun, partitions, updates_allowed=self._rivalry.updates_allowed
            )
            self._placement = (
                self._overwriting.placement() if self._overwriting else writing.placed_since(self._ledger, placement)
            )
            self._schema.begun = writing.schema_since(self._ledger, self._schema.begun)
            self._heartbeat = self._start_beating(beat_interval_ms(config))
        self._plan_of: Callable[[pa.Schema], WritePlan] = lambda schema: WritePlan(
            url=source.url,
            options=source.options,
            start=self.instant,
            schema=schema,
            config=config,
            buckets=config.buckets or 1,
            operation=operation,
            block_format=block_format,
            columns=chosen,
            into_base=into_base,
            file_ids=self._placement.listed,
            replaced=self._placement.replaced,
        )
        if rows is not _NO_ROWS:
            try:
                self.write(rows)
            except BaseException:
                self._give_up()
                raise

    def write(self, data: Any) -> None:
        """Writes rows into files that nobody sees yet; may be called several times, later rows win ties.

        If it raises, some files may be there already, so the transaction can only be aborted.
        """
        self._check_usable("write")
        if self.is_repeated:
            return
        with self._timed("write"):
            try:
                self._write_spark(data) if is_spark(data) else self._write_arrow(data)
            except BaseException:
                self._has_failed = True
                raise

    @property
    def is_repeated(self) -> bool:
        """Whether its batch was published before it began: then it writes nothing, and `commit` tells of the earlier one."""
        return self._repeated is not None

    def write_deletes(self, keys: Any) -> None:
        """Deletes these keys in the same commit, whatever kind of write it is."""
        wanted, self._operation = self._operation, "delete"
        try:
            self.write(keys)
        finally:
            self._operation = wanted

    def restate(self, change: Callable[[pa.Schema], pa.Schema]) -> None:
        """Changes the table's columns with this write, from what they were when it began."""
        self._check_usable("change the schema")
        self._schema.restate(change, self._writing.storage.url)

    def commit(self) -> WriteResult:
        """Publishes the write: from now on everybody sees all of it.

        RolledBack: certainly nothing is visible. CommitUnknown: ask `table.status(txn.instant)`. WriteConflict, also
        certain: another writer was faster with what this one could not know of: the same file groups in optimistic
        tables, a key that was new to a partial update, a partition that was overwritten, or that this one overwrites.
        """
        self._check_usable("commit")
        if self._repeated is not None:
            self._end = "committed"
            return self._repeated
        with self._timed("commit"):
            self._stage()
            if self._overwriting is not None and self._schema.columns is not None:
                plan = self._plan_of(self._schema.columns)
                self._files += self._overwriting.seeds(self._ledger, self._writing.storage, plan, self._files)
            self._end = "interrupted"
            self._heartbeat.stop()
            try:
                completion = self._publish()
            except BatchRepeated as repeated:
                self._end = "committed"
                return self._repetition(repeated)
            except LakebraidError as error:
                self._end = "left unknown" if isinstance(error, CommitUnknown) else "refused"
                raise
            self._end = "committed"
            self._writing.remember(self._ledger)
            forget(self._writing.storage, self.instant)
        serviced = self._serviced()
        return WriteResult(
            self.instant,
            completion,
            self._operation,
            sum(f.rows_written for f in self._files),
            sum(f.deletes for f in self._files),
            len(self._files),
            dict(self._seconds),
            groups_replaced=0 if self._overwriting is None else self._overwriting.count,
            services=serviced,
        )

    def _repetition(self, repeated: BatchRepeated) -> WriteResult:
        self._writing.remember(self._ledger)
        seconds = dict(self._seconds)
        return WriteResult(repeated.start, repeated.completion, self._operation, 0, 0, 0, seconds, is_repeated=True)

    def _serviced(self) -> ServiceRound | None:
        if self._afterwards is None:
            return None
        with self._timed("services"):
            return self._afterwards()

    def abort(self) -> None:
        """Gives the write up and removes its files; nothing of it is ever visible. Twice is fine."""
        if self._end is not None:
            return
        self._end = "aborted"
        if self._placing is not None:
            self._placing.release()
        if self._repeated is not None:
            return
        self._heartbeat.stop()
        story = given_up(self._writer) if self._clash is None else refused(self._clash, self._writer)
        roll_back(self._ledger, self._txn, self.instant, story=story)
        self._writing.remember(self._ledger)

    def _give_up(self) -> None:
        with contextlib.suppress(LakebraidError):  # the error that brought us here says more
            self.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._end is None:
                self.commit()
        finally:
            self._give_up()  # unless it has ended

    def __repr__(self) -> str:
        return f"Transaction({self._operation} {self.instant}, {self._end or 'open'}, {len(self._files)} files)"

    def _checked(self, rows: Any, config: TableConfig, columns: tuple[str, ...] | None) -> Any:
        """The rows as Arrow, if they are few and at hand; InvalidArgument if they do not fit the table."""
        if rows is _NO_ROWS or is_spark(rows) or isinstance(rows, pa.RecordBatchReader) or self._schema.begun is None:
            return rows
        table = pa.concat_tables(arrow_pieces(rows, self._schema.begun.columns))
        if table.num_columns and table.num_rows <= limits.CHECKED_ROWS_MAX:
            schema = self._schema.grown(table.schema, config)
            ready = prepare(table, schema, config, operation=self._operation, columns=columns)
            record_keys(ready, config.record_keys, config.has_complex_keys)
        return table

    def _begin(self, columns: tuple[str, ...] | None) -> tuple[str, bool]:
        def begin(*, adds_base: bool) -> str:
            start = operations.begin(
                self._ledger,
                self._txn,
                action="replacecommit" if self._operation in OVERWRITES else self._ledger.config.write_action,
                adds_base=adds_base,
                columns=columns,
                batch=self._batch,
                beat=lambda start: cast("None", beat(self._writing.storage, start)),
                seen=self._rivalry.note if self._rivalry.matters else None,
            )
            self._rivalry.settle(start)
            return start

        if self._operation in OVERWRITES:
            return begin(adds_base=False), True  # in file groups that nobody has: base files disturb no one
        newest = self._ledger.known or self._ledger.newest()
        is_bulk = self._operation == "bulk_insert" and self._placing is None
        if is_bulk and newest.state.is_fresh and not self._ledger.is_shared:
            with contextlib.suppress(InvalidArgument):  # somebody else published meanwhile: log files, then
                return begin(adds_base=True), True
        return begin(adds_base=False), False

    def _start_beating(self, interval_ms: int) -> Heartbeat:
        heartbeat = Heartbeat(
            self._writing.storage, self.instant, interval_ms / 1000, check=self._has_its_place, on_lost=self._lose
        )
        heartbeat.run()
        return heartbeat

    def _has_its_place(self) -> bool:
        watching = Ledger(self._writing.storage, self._clock, self._ledger.config, is_shared=self._ledger.is_shared)
        state = watching.newest().state
        self._clash = self._rivalry.early_clash(watching, state, [*self._files])
        return self._clash is None and self.instant in state.open

    def _lose(self) -> None:
        """Another process has rolled the write back, or is certain to win: whatever is done from here on is in vain."""
        self._is_lost = True
        if self._spark is not None:
            from lakebraid.spark.writing import cancel_spark  # noqa: PLC0415  only those who use Spark pay for it

            cancel_spark(self._spark, self._txn)

    def _write_arrow(self, data: Any) -> None:
        for piece in arrow_pieces(data, self._schema.columns):
            if not piece.num_columns and not piece.num_rows:
                continue  # an empty list: no rows, and nothing said about columns
            plan = self._plan(piece.schema)
            if self._placing is not None:
                self._placing.keep(plan, piece)
                continue
            self._files += write_rows(self._writing.storage, plan, piece, self._next_task())
            self._check_usable("write")

    def _write_spark(self, data: Any) -> None:
        from lakebraid.spark.writing import arrow_schema_of, write_spark  # noqa: PLC0415  as above

        self._spark = data.sparkSession
        plan = self._plan(arrow_schema_of(data))
        if self._placing is not None:
            self._placing.keep_frame(plan, data)
            return
        try:
            files, self._task = write_spark(
                self._writing.storage, plan, data, first_task=self._next_task(), tag=self._txn
            )
        except Exception:
            self._check_usable("write")  # cancelled because the place is lost: that is the error to tell
            raise
        self._files += files
        self._check_usable("write")

    def _plan(self, incoming: pa.Schema) -> WritePlan:
        self._schema.own = self._schema.grown(incoming, self._ledger.config)
        plan = replace(self._plan_of(self._schema.own), operation=self._operation)
        if self._placing is not None:
            return plan
        if plan.columns is not None and not {*plan.schema.names} <= {*plan.columns}:
            return replace(plan, known=self._known_keys())
        # A second base file of a group would hide the first: only the first rows become base files.
        return replace(plan, into_base=plan.into_base and self._task == _FIRST_TASK)

    def _known_keys(self) -> KnownKeys:
        """The keys as they were when a partial update looked first; what changed since is held against it at the end."""
        if self._looked is None:
            view = load_view(self._writing.storage, self._ledger.config, self._clock)
            self._looked = look(view, self._source, self.instant)
        return self._looked[0]

    def _next_task(self) -> int:
        task = self._task
        if task >= _FIRST_TASK + limits.TASKS_MAX:
            raise InvalidArgument(f"One transaction can write {limits.TASKS_MAX:,} pieces. Commit, and begin another.")
        self._task += 1
        return task

    def _stage(self) -> None:
        """Puts the rows that were kept until now into their file groups."""
        if self._placing is None or self._schema.columns is None:
            return
        plan = replace(self._plan_of(self._schema.columns), operation=self._operation)
        try:
            files, self._task = self._placing.stage(plan, self._task, self._check_early)
        except WriteConflict:
            self._give_up()
            raise
        except BaseException:
            self._has_failed = True
            self._check_usable("write")  # cancelled because the place is lost: that is the error to tell
            raise
        self._files += files
        self._check_usable("commit")

    def _check_early(self, groups: frozenset[GroupId]) -> None:
        """WriteConflict if the commit would be refused as it is now; then nothing is written at all."""
        self._rivalry.check_groups(Round(self._ledger, self._ledger.newest().state, 0), groups)

    def _publish(self) -> str:
        def metadata(now: Round) -> CommitMetadata:
            replaced = {}
            if self._overwriting is not None:
                replaced = self._overwriting.replace(now, self._files, self._writer)
            else:
                self._placement.check(now, self._files, self.instant, self._writer)
            self._rivalry.check(now, self._files)
            extra = {**self._schema.stated(now, self._writing), WRITER: self._writer}
            if self._looked is not None:
                self._looked[1].check(now, self.instant, self._files)
            stats = write_stats(self._files, self.instant)
            name = self._operation.upper()
            return CommitMetadata(write_stats=stats, extra=extra, operation=name, replaced=replaced)

        try:
            return operations.publish(self._ledger, self._txn, self.instant, metadata)
        except (RolledBack, CommitUnknown):
            raise
        except StorageError:
            # Nothing was decided, and nobody else publishes this write: all that is left to do is to clear up.
            with contextlib.suppress(StorageError):
                roll_back(self._ledger, self._txn, self.instant)
            raise
        except BatchRepeated as error:
            with contextlib.suppress(RolledBack):  # whoever took it back meanwhile has done what is to be done
                self._withdraw(error)
            raise
        except LakebraidError as error:
            completion = self._withdraw(error)
            if completion is None:
                raise
            return completion

    def _withdraw(self, why: LakebraidError) -> str | None:
        """Takes a refused write back before anybody is told, so that no request of ours that is still on its way can
        land (LEDGER, H12). If one has landed, that is the end of it: its completion time.
        """
        try:
            rollback = take_back(self._ledger, self._txn, self.instant, story=refused(why, self._writer))
            if rollback is None:
                return operations.completion(self._ledger, self.instant)
        except StorageError as error:
            raise operations.unknown(self._ledger, self.instant) from error
        with contextlib.suppress(StorageError):  # it is refused; others can remove its files, too
            finish_rollback(self._ledger, self._txn, rollback)
        return None

    def _check_usable(self, what: str) -> None:
        if self._end is not None:
            raise InvalidArgument(
                f"This transaction was {self._end} already and cannot {what}. Nothing was changed. Begin another."
            )
        if self._has_failed and what == "commit":
            raise InvalidArgument(
                f"A write of the transaction {self.instant} failed, so it cannot be committed: part of its rows may be "
                "missing. Nothing of it is visible. Abort it, and begin another."
            )
        if self._clash is not None:
            self._give_up()
            raise self._clash
        if self._is_lost:
            self._end = "rolled back"
            self._heartbeat.stop()
            raise RolledBack(
                f"The write {self.instant} of {self._writing.storage.url} was rolled back by another process, which saw "
                "no heartbeat for too long. Nothing of it is visible, now or later. Write again.",
                instant=self.instant,
            )

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Any:
        begun = self._clock.monotonic()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + self._clock.monotonic() - begun

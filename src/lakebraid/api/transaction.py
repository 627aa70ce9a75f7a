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
from lakebraid.api.own_schema import SCHEMA_CONFLICT, OwnSchema, SchemaConflicts, check_answer
from lakebraid.api.planning import Source
from lakebraid.api.rivalry import Rivalry
from lakebraid.errors import CommitUnknown, InvalidArgument, LakebraidError, RolledBack, StorageError, WriteConflict
from lakebraid.format.commit import CommitMetadata
from lakebraid.model.config import TableConfig
from lakebraid.model.incoming import prepare
from lakebraid.model.keys import record_keys
from lakebraid.services.runner import ServiceRound
from lakebraid.table.view import load_view
from lakebraid.tasks.known_keys import KnownKeys
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.write_task import WritePlan, write_rows
from lakebraid.txn import operations
from lakebraid.txn.conflicts import WRITER
from lakebraid.txn.heartbeat import Heartbeat, beat, beat_interval_ms
from lakebraid.txn.ledger import Ledger, Round
from lakebraid.txn.lock_owner import process_name
from lakebraid.txn.markers import forget
from lakebraid.txn.new_keys import Looked
from lakebraid.txn.rollback import finish_rollback, roll_back, take_back
from lakebraid.txn.session import Writing
from lakebraid.txn.stats import write_stats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Operation = Literal["upsert", "insert", "bulk_insert", "delete", "alter_schema"]
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
    services: ServiceRound | None = field(default=None, compare=False)
    """What was done after the commit, and what of it failed, with `services="inline"`. The write is published anyway."""


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
        is_isolated: bool = False,
        spark: SparkSession | None = None,
        rows: Any = _NO_ROWS,
        afterwards: Callable[[], ServiceRound] | None = None,
    ) -> None:
        """With `rows` they are looked at before the transaction begins, and written: what does not fit leaves no trace.

        `afterwards` is called when the commit is done. An isolated one writes what it has computed from rows that it read
        after it began: its commit is refused if another writer has changed them.
        """
        self._writing, self._source, self._operation, self._spark = writing, source, operation, spark
        self._clock = writing.clock
        self._afterwards = afterwards
        self._seconds: dict[str, float] = {}
        self._txn = self._clock.token()
        self._files: list[StagedFile] = []
        self._task = _FIRST_TASK
        self._end: str | None = None
        self._is_lost = self._has_failed = False
        self._looked: tuple[KnownKeys, Looked] | None = None
        self._clash: WriteConflict | None = None
        self._writer = writer or process_name()
        merging = check_answer(schema_conflict)
        with self._timed("begin"):
            config, properties = writing.settings()
            self._ledger = writing.ledger(config)
            merges = (merging or properties.get(SCHEMA_CONFLICT)) == "merge"
            self._schema = OwnSchema(writing.schema(self._ledger), evolve and operation != "delete", merges)
            chosen = None if columns is None else tuple(columns)
            rows = self._checked(rows, config, chosen)
            file_ids = writing.file_ids(properties, self._ledger)
            is_optimistic = config.concurrency == "occ"
            self._rivalry = Rivalry(properties, self._writer, is_optimistic=is_optimistic, is_isolated=is_isolated)
            self.instant, into_base = self._begin(chosen)
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
            file_ids=file_ids,
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
        with self._timed("write"):
            try:
                self._write_spark(data) if is_spark(data) else self._write_arrow(data)
            except BaseException:
                self._has_failed = True
                raise

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
        certain: a partial update brings a key that was new when it looked, and another writer was faster.
        """
        self._check_usable("commit")
        with self._timed("commit"):
            self._end = "interrupted"
            self._heartbeat.stop()
            try:
                completion = self._publish()
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
            sum(f.rows for f in self._files),
            sum(f.deletes for f in self._files),
            len(self._files),
            dict(self._seconds),
            services=serviced,
        )

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
        self._heartbeat.stop()
        roll_back(self._ledger, self._txn, self.instant)
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
                adds_base=adds_base,
                columns=columns,
                beat=lambda start: cast("None", beat(self._writing.storage, start)),
                seen=self._rivalry.note if self._rivalry.matters else None,
            )
            self._rivalry.settle(start)
            return start

        newest = self._ledger.known or self._ledger.newest()
        if self._operation == "bulk_insert" and newest.state.is_fresh and not self._ledger.is_shared:
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
            self._files += write_rows(self._writing.storage, plan, piece, self._next_task())
            self._check_usable("write")

    def _write_spark(self, data: Any) -> None:
        from lakebraid.spark.writing import arrow_schema_of, write_spark  # noqa: PLC0415  as above

        self._spark = data.sparkSession
        plan = self._plan(arrow_schema_of(data))
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

    def _publish(self) -> str:
        def metadata(now: Round) -> CommitMetadata:
            self._rivalry.check(now, self._files)
            extra = {**self._schema.stated(now, self._writing), WRITER: self._writer}
            if self._looked is not None:
                self._looked[1].check(now, self.instant, self._files)
            stats = write_stats(self._files, self.instant)
            return CommitMetadata(write_stats=stats, extra=extra, operation=self._operation.upper())

        try:
            return operations.publish(self._ledger, self._txn, self.instant, metadata)
        except (RolledBack, CommitUnknown):
            raise
        except StorageError:
            # Nothing was decided, and nobody else publishes this write: all that is left to do is to clear up.
            with contextlib.suppress(StorageError):
                roll_back(self._ledger, self._txn, self.instant)
            raise
        except LakebraidError:
            completion = self._withdraw()
            if completion is None:
                raise
            return completion

    def _withdraw(self) -> str | None:
        """Takes a refused write back before anybody is told, so that no request of ours that is still on its way can
        land (LEDGER, H12). If one has landed, that is the end of it: its completion time.
        """
        try:
            rollback = take_back(self._ledger, self._txn, self.instant)
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

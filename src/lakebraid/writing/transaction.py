# SPDX-License-Identifier: Apache-2.0
"""One write, from begin to commit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import pyarrow as pa

from lakebraid.errors import BatchRepeated, CommitUnknown, LakebraidError, WriteConflict
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.reading.plan import Source
from lakebraid.tasks.lookup.changes import Piece
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan
from lakebraid.txn.actions.batches import named_batch
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import publish_or_roll_back
from lakebraid.txn.cdc_slices import with_slices_before
from lakebraid.txn.checks.file_groups import WRITER
from lakebraid.txn.checks.single_writer import clear_dead
from lakebraid.txn.hudi.lock_owner import process_name
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.heartbeat import Heartbeat, beat_interval_ms
from lakebraid.txn.liveness.markers import forget
from lakebraid.txn.refusals import given_up, refused
from lakebraid.txn.stats import write_stats
from lakebraid.txn.writer import Writing
from lakebraid.writing.begin import NO_ROWS, Beginning, begin, checked
from lakebraid.writing.ended import incomplete, over, taken_away
from lakebraid.writing.evaluated import Evaluated
from lakebraid.writing.gate import Gate
from lakebraid.writing.operations.overwrite import OVERWRITES, Overwriting, check_overwrite
from lakebraid.writing.placed import Placing
from lakebraid.writing.result import Operation, WriteResult
from lakebraid.writing.rivals import Rivalry
from lakebraid.writing.schema import SCHEMA_CONFLICT, OwnSchema, SchemaConflicts, check_answer
from lakebraid.writing.seeds import bases_beside
from lakebraid.writing.stage import Looking, Staging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakebraid.services.runner import ServiceRound


class Transaction:
    """A write that nobody sees before `commit`. For one use: after commit or abort it is over.

    As a context manager it commits at the end of the block, and aborts if the block raises.
    """

    instant: str
    _repeated: WriteResult | None

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
        rows: Any = NO_ROWS,
        partitions: frozenset[str] = frozenset(),
        repeats: bool = False,
        evaluated: Evaluated | None = None,
        afterwards: Callable[[], ServiceRound] | None = None,
    ) -> None:
        """With `rows` they are looked at before the transaction begins, and written: what does not fit leaves no trace.

        `afterwards` is called when the commit is done; `partitions` go with `delete_partition`. An isolated one writes what it has computed from rows that it read
        after it began: its commit is refused if another writer has changed them. `stream` says who numbers the batches.
        Those who begin with the same `token` begin the same write, as long as it is open. One that `repeats` is done
        again by itself if it is refused, so it is not refused where that would change nothing; `evaluated` hands the rows of
        a data frame on from one attempt to the next.
        """
        self._arise(writing, afterwards)
        token, name = token or self._clock.token(), writer or process_name()
        numbered = named_batch(writer, batch, stream)
        merging = check_answer(schema_conflict)
        with self._timed("begin"):
            config, properties = writing.settings()
            check_overwrite(operation, config, source.url)
            self._ledger = writing.ledger(config)
            merges = (merging or properties.get(SCHEMA_CONFLICT)) == "merge"
            schema = OwnSchema(writing.schema(self._ledger), evolve and operation != "delete", merges)
            chosen = None if columns is None else tuple(columns)
            rows = checked(rows, schema, config, operation, chosen, partial(writing.newest_schema, self._ledger))
            placement = writing.placement(properties, self._ledger)
            overwrites = operation in OVERWRITES
            placing = (
                Placing(writing, properties, token, evaluated, overwrites=overwrites) if config.is_placed else None
            )
            kind = {"overwrites": overwrites, "is_isolated": is_isolated, "is_partial": chosen is not None}
            rivalry = Rivalry(config, properties, name, repeats=repeats, **kind)
            if rivalry.is_alone:
                clear_dead(self._ledger, token)
            try:
                start, into_base = begin(self._ledger, token, operation, name, rivalry, columns=chosen, batch=numbered)
            except BatchRepeated as repeated:
                self.instant, self._repeated = repeated.start, self._repetition(repeated, operation)
                return
            overwriting = Overwriting.of(operation, rivalry.begun, partitions, updates_allowed=rivalry.updates_allowed)
            placement = overwriting.placement() if overwriting else writing.placed_since(self._ledger, placement)
            schema.begun = writing.schema_since(self._ledger, schema.begun)
            begun = Beginning(start, token, operation, name, schema, rivalry, overwriting, placement)

            def plan_of(columns: pa.Schema) -> WritePlan:
                return WritePlan(
                    url=source.url,
                    options=source.options,
                    start=start,
                    schema=columns,
                    config=config,
                    buckets=config.buckets or 1,
                    operation=operation,
                    block_format=block_format,
                    columns=chosen,
                    into_base=into_base,
                    file_ids=placement.listed,
                    replaced=placement.replaced,
                )

            check = self._check_usable
            self._carry_on(begun, Staging(writing, source, config, schema, plan_of, placing, token, check, evaluated))
            self._staging.spark = spark
            self._staging.kept = [] if is_isolated and placing is None else None
        if rows is not NO_ROWS:
            try:
                self.write(rows)
            except BaseException:
                self._give_up()
                raise

    def _handed_over(self, incoming: pa.Schema, operation: Operation) -> tuple[Beginning, WritePlan, Looking | None]:
        """What tasks need to write rows with these columns, and another process to end the write; the beating stops."""
        plan = self._staging.plan(incoming, operation)
        self._heartbeat.stop()
        return replace(self._begun, operation=operation), plan, self._staging.looked

    @classmethod
    def _resumed(
        cls,
        writing: Writing,
        source: Source,
        begun: Beginning,
        plan: WritePlan,
        looked: Looking | None,
        files: Iterable[StagedFile] = (),
    ) -> Self:
        """A write that another process began, with the files that its tasks have made; it beats until it ends."""
        self = cls.__new__(cls)
        self._arise(writing, None)
        config, _ = writing.settings()
        self._ledger = writing.ledger(config)
        staging = Staging(writing, source, config, begun.schema, lambda _: plan, None, begun.token, self._check_usable)
        staging.looked = looked
        staging.files.extend(files)
        self._carry_on(begun, staging)
        return self

    def _arise(self, writing: Writing, afterwards: Callable[[], ServiceRound] | None) -> None:
        self._writing, self._clock, self._afterwards = writing, writing.clock, afterwards
        self._seconds: dict[str, float] = {}
        self._end: str | None = None
        self._is_lost = self._has_failed = False
        self._clash: WriteConflict | None = None
        self._repeated = None

    def _carry_on(self, begun: Beginning, staging: Staging) -> None:
        self._begun, self.instant = begun, begun.instant
        self._staging, self._files = staging, staging.files
        self._heartbeat = Heartbeat(
            self._writing.storage,
            self.instant,
            beat_interval_ms(self._ledger.config) / 1000,
            check=self._has_its_place,
            on_lost=self._lose,
        )
        self._heartbeat.run()

    def write(self, data: Any) -> None:
        """Writes rows into files that nobody sees yet; may be called several times, later rows win ties.

        If it raises, some files may be there already, so the transaction can only be aborted.
        """
        self._write(data, None)

    @property
    def is_repeated(self) -> bool:
        """Whether its batch was published before it began: then it writes nothing, and `commit` tells of the earlier one."""
        return self._repeated is not None

    @property
    def _rows_kept(self) -> list[Piece] | None:
        """Of an isolated one: all that was written so far, as long as that is little; else None."""
        return self._staging.kept

    def _read(self, timeline: Timeline) -> None:
        """Of an isolated one: the rows from which it computes are those of the table when its timeline was so."""
        self._begun.rivalry.saw(timeline)

    def _write_again(self, piece: Piece) -> None:
        """Writes rows that an earlier attempt had written, as it did."""
        self._write(piece.rows, cast("Operation", piece.operation))

    def write_deletes(self, keys: Any) -> None:
        """Deletes these keys in the same commit, whatever kind of write it is."""
        self._write(keys, "delete")

    def _write(self, data: Any, operation: Operation | None) -> None:
        self._check_usable("write")
        if self.is_repeated:
            return
        with self._timed("write"):
            try:
                self._staging.write(data, operation or self._begun.operation)
            except BaseException:
                self._has_failed = True
                raise

    def restate(self, change: Callable[[pa.Schema], pa.Schema]) -> None:
        """Changes the table's columns with this write, from what they were when it began."""
        self._check_usable("change the schema")
        self._begun.schema.restate(change, self._writing.storage.url)

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
            overwriting, columns = self._begun.overwriting, self._begun.schema.columns
            if columns is not None:
                plan_of = partial(self._staging.plan_of, columns)
                self._files += [*bases_beside(self._ledger, overwriting, plan_of, self._files)]
            self._end = "interrupted"
            self._heartbeat.stop()
            try:
                completion = self._publish()
            except BatchRepeated as repeated:
                self._end = "committed"
                return self._repetition(repeated, self._begun.operation)
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
            self._begun.operation,
            sum(f.rows_written for f in self._files),
            sum(f.deletes for f in self._files),
            len(self._files),
            dict(self._seconds),
            groups_replaced=0 if overwriting is None else overwriting.count,
            services=serviced,
        )

    def _repetition(self, repeated: BatchRepeated, operation: Operation) -> WriteResult:
        self._writing.remember(self._ledger)
        seconds = dict(self._seconds)
        return WriteResult(repeated.start, repeated.completion, operation, 0, 0, 0, seconds, is_repeated=True)

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
        if self._repeated is not None:
            return
        self._staging.release()
        self._heartbeat.stop()
        writer = self._begun.writer
        story = given_up(writer) if self._clash is None else refused(self._clash, writer)
        roll_back(self._ledger, self._begun.token, self.instant, story=story)
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
        if self._repeated is not None:
            return f"Transaction({self._repeated.operation} {self.instant}, published before)"
        return f"Transaction({self._begun.operation} {self.instant}, {self._end or 'open'}, {len(self._files)} files)"

    def _has_its_place(self) -> bool:
        watching = Ledger(self._writing.storage, self._clock, self._ledger.config, is_shared=self._ledger.is_shared)
        state = watching.newest().state
        self._clash = self._begun.rivalry.early_clash(watching, state, [*self._files])
        return self._clash is None and self.instant in state.open

    def _lose(self) -> None:
        """Another process has rolled the write back, or is certain to win: whatever is done from here on is in vain."""
        self._is_lost = True
        if self._staging.spark is not None:
            from lakebraid.spark.write import cancel_spark  # noqa: PLC0415  only those who use Spark pay for it

            cancel_spark(self._staging.spark, self._begun.token)

    def _stage(self) -> None:
        """Puts the rows that were kept until now into their file groups."""
        gate = Gate(self._ledger, self._begun.rivalry, self.instant, self._files, lambda: self._clash)
        try:
            self._staging.place(self._begun.operation, gate)
        except WriteConflict as clash:
            self._clash = clash
            self._give_up()
            raise
        except BaseException:
            self._has_failed = True
            self._check_usable("write")  # cancelled because the place is lost: that is the error to tell
            raise
        self._check_usable("commit")

    def _publish(self) -> str:
        begun = self._begun

        def metadata(now: Round) -> CommitMetadata:
            replaced = {}
            if begun.overwriting is not None:
                replaced = begun.overwriting.replace(now, self._files, begun.writer)
            else:
                begun.placement.check(now, self._files, self.instant, begun.writer)
            begun.rivalry.check(now, self._files)
            extra = {**begun.schema.stated(now, self._writing), WRITER: begun.writer}
            self._staging.check_new_keys(now, self.instant)
            stats = with_slices_before(now, write_stats(self._files, self.instant))
            return CommitMetadata(write_stats=stats, extra=extra, operation=begun.operation.upper(), replaced=replaced)

        return publish_or_roll_back(self._ledger, begun.token, self.instant, begun.writer, metadata)

    def _check_usable(self, what: str) -> None:
        if self._end is not None:
            raise over(self._end, what)
        if self._has_failed and what == "commit":
            raise incomplete(self.instant)
        if self._clash is not None:
            self._give_up()
            raise self._clash
        if self._is_lost:
            self._end = "rolled back"
            self._heartbeat.stop()
            raise taken_away(self.instant, self._writing.storage.url)

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Any:
        begun = self._clock.monotonic()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + self._clock.monotonic() - begun

# SPDX-License-Identifier: Apache-2.0
"""One write, from begin to commit."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

import pyarrow as pa

from lakebraid.errors import BatchRepeated, CommitUnknown, InvalidArgument, LakebraidError, RolledBack, WriteConflict
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.metadata.keys import COLUMN_STATS
from lakebraid.model.metadata.scope import check_types_kept
from lakebraid.model.operations import Operation
from lakebraid.reading.plan import Source
from lakebraid.storage.tries import StoreTally, counted_in
from lakebraid.tasks.lookup.changes import Piece
from lakebraid.tasks.staged_file import StagedFile, write_stats
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import publish_or_roll_back
from lakebraid.txn.cdc_slices import with_slices_before
from lakebraid.txn.checks.file_groups import WRITER
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.heartbeat import beat_interval_ms, forget
from lakebraid.txn.metadata.telling import telling
from lakebraid.txn.refusals import given_up, refused
from lakebraid.txn.writer import Writing
from lakebraid.writing.ahead import Series, Settings, check_not_taken
from lakebraid.writing.begin import Beginning, Opening, begin
from lakebraid.writing.gate import Gate
from lakebraid.writing.request import Engines
from lakebraid.writing.result import WriteResult
from lakebraid.writing.stage import Looking, Staging

if TYPE_CHECKING:
    from lakebraid.services.runner import ServiceRound

P = ParamSpec("P")
T = TypeVar("T")
Afterwards = Callable[[], "ServiceRound"]
"""What is done in the process of a write after its commit."""


class Transaction:
    """A write that no reader sees before `commit`. For one use: after commit or abort it is over.

    As a context manager it commits at the end of the block, and aborts if the block raises.
    """

    instant: str
    begun: Beginning
    staging: Staging
    _series: Series | None
    _settings: Settings
    _repeated: WriteResult | None

    def __init__(self, opening: Opening, afterwards: Afterwards | None = None) -> None:
        """Begins the write, and shows that it lives until it ends. `Table.begin` makes one."""
        self._arise(opening.writing, opening.ledger, afterwards, opening.tally)
        try:
            with counted_in(opening.tally):
                opening, begun = begin(opening)
        except BatchRepeated as repeated:
            self.instant, self._repeated = repeated.request_time, self._repetition(repeated, opening.request.operation)
        else:
            self._series, self._settings = opening.series, (opening.config, opening.properties)
            self._carry_on(begun, opening.source, opening.engines)
        self._seconds["begin"] = self._clock.monotonic() - opening.since_seconds

    @classmethod
    def resume(
        cls,
        writing: Writing,
        source: Source,
        begun: Beginning,
        looked: Looking | None = None,
        files: Iterable[StagedFile] = (),
    ) -> Self:
        """A write that another process began, with the files that its tasks have made; it beats until it ends."""
        self = cls.__new__(cls)
        config, _ = writing.settings()
        self._arise(writing, writing.ledger(config), None, StoreTally())
        self._carry_on(begun, source, Engines(writing.storage, begun.token))
        self.staging.looked = looked
        self.staging.files.extend(files)
        return self

    def _arise(self, writing: Writing, ledger: Ledger, afterwards: Afterwards | None, tally: StoreTally) -> None:
        self._writing, self._ledger, self._clock, self._afterwards = writing, ledger, writing.clock, afterwards
        self._tally = tally
        self._seconds: dict[str, float] = {}
        self._end: str | None = None
        self._is_lost = self._has_failed = False
        self._clash: WriteConflict | None = None
        self._repeated = None
        self._series = None

    def _carry_on(self, begun: Beginning, source: Source, engines: Engines) -> None:
        self.begun, self.instant = begun, begun.instant
        check_usable = _unheld(self._check_usable, None)
        self.staging = Staging(self._writing, source, self._ledger.config, begun, engines, check_usable)
        self._heartbeat = self._writing.heartbeat(
            self._writing.storage,
            self.instant,
            beat_interval_ms(self._ledger.config) / 1000,
            check=_unheld(self._has_its_place, otherwise=False),
            on_lost=_unheld(self._lose, None),
        )
        self._heartbeat.run()
        # A transaction to which no reference is left cannot be ended by its process: it beats no more, and others roll it back.
        weakref.finalize(self, self._heartbeat.stop).atexit = False

    def stop_beating(self) -> None:
        """Shows no longer that the write lives: from now on that is for another process to do, which will `resume` it."""
        self._heartbeat.stop()

    def write(self, data: Any) -> None:
        """Writes rows into files that no reader sees yet; may be called several times, later rows win ties.

        If it raises, some files may be there already, so the transaction can only be aborted.
        """
        self._write(data, None)

    @property
    def is_repeated(self) -> bool:
        """Whether its batch was published before it began: then it writes nothing, and `commit` tells of the earlier one."""
        return self._repeated is not None

    def write_again(self, piece: Piece) -> None:
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
                self.staging.write(data, operation or self.begun.operation)
            except BaseException:
                self._has_failed = True
                raise

    def restate(self, change: Callable[[pa.Schema], pa.Schema]) -> None:
        """Changes the table's columns with this write, from what they were when it began."""
        self._check_usable("change the schema")
        self.begun.schema.restate(change, self._writing.storage.url)

    def commit(self) -> WriteResult:
        """Publishes the write: from now on every reader sees all of it.

        RolledBack: certainly nothing is visible. CommitUnknown: ask `table.status(txn.instant)`. WriteConflict, also
        certain: another writer was faster with what this one could not know of: the same file groups in optimistic
        tables, a key that was new to a partial update, a partition that was overwritten, or that this one overwrites.
        """
        self._check_usable("commit")
        if self._repeated is not None:
            self._end = "committed"
            return self._repeated
        with self._timed("commit"):
            if self.staging.has_kept_rows:
                self._stage()
            self.staging.add_seeds(self._ledger)
            self._ledger.confirmed()  # what was begun ahead has gone on with the settings that its process remembered
            self._end = "interrupted"
            self._heartbeat.stop()
            try:
                completion = self._publish()
            except BatchRepeated as repeated:
                self._end = "committed"
                return self._repetition(repeated, self.begun.operation)
            except LakebraidError as error:
                self._end = "left unknown" if isinstance(error, CommitUnknown) else "refused"
                raise
            self._end = "committed"
            self._writing.remember(self._ledger)
            forget(self._writing.storage, self.instant, is_far=self._ledger.is_far)
        serviced, files, overwriting = self._serviced(), self.staging.files, self.begun.overwriting
        return WriteResult(
            self.instant,
            completion,
            self.begun.operation,
            sum(f.rows_written for f in files),
            sum(f.deletes for f in files),
            len(files),
            dict(self._seconds),
            groups_replaced=0 if overwriting is None else overwriting.count,
            services=serviced,
            store_retries=self._tally.found,
        )

    def _repetition(self, repeated: BatchRepeated, operation: Operation) -> WriteResult:
        self._writing.remember(self._ledger)
        seconds, again = dict(self._seconds), self._tally.found
        return WriteResult(
            repeated.request_time,
            repeated.completion,
            operation,
            0,
            0,
            0,
            seconds,
            is_repeated=True,
            store_retries=again,
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
        if self._repeated is not None:
            return
        self.staging.release()
        self._heartbeat.stop()
        writer = self.begun.writer
        story = given_up(writer) if self._clash is None else refused(self._clash, writer)
        roll_back(self._ledger, self.begun.token, self.instant, story=story)
        self._writing.remember(self._ledger)

    def give_up(self) -> None:
        """As `abort`, unless it has ended; an error of that is passed over."""
        with contextlib.suppress(LakebraidError):  # the error that brought us here says more
            self.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._end is None:
                self.commit()
        finally:
            self.give_up()  # unless it has ended

    def __repr__(self) -> str:
        if self._repeated is not None:
            return f"Transaction({self._repeated.operation} {self.instant}, published before)"
        return f"Transaction({self.begun.operation} {self.instant}, {self._end or 'open'}, {len(self.staging.files)} files)"

    def _has_its_place(self) -> bool:
        watching = Ledger(self._ledger.table, is_shared=self._ledger.is_shared)
        state = watching.newest().state
        self._clash = self.begun.rivalry.early_clash(watching, state, [*self.staging.files])
        return self._clash is None and self.instant in state.open

    def _lose(self) -> None:
        """Another process has rolled the write back, or is certain to win: whatever is done from here on is in vain."""
        self._is_lost = True
        self.staging.cancel()

    def _stage(self) -> None:
        """Writes the rows that were kept until now into their file groups."""
        gate = Gate(self._ledger, self.begun.rivalry, self.instant, self.staging.files, lambda: self._clash)
        try:
            self.staging.place(gate)
        except WriteConflict as clash:
            self._clash = clash
            self.give_up()
            raise
        except BaseException:
            self._has_failed = True
            self._check_usable("write")  # cancelled because the place is lost: that is the error to tell
            raise
        self._check_usable("commit")

    def _publish(self) -> str:
        begun, files = self.begun, self.staging.files

        def metadata(now: Round) -> CommitMetadata:
            replaced = {}
            if begun.overwriting is not None:
                replaced = begun.overwriting.replace(now, files, begun.writer)
            else:
                begun.placement.check(now, files, self.instant, begun.writer)
            begun.rivalry.check(now, files)
            if begun.is_ahead:
                check_not_taken(now, self.instant)
            now.is_ahead, now.takes_all = begun.is_ahead, any(file.takes_all for file in files)
            extra = {**begun.schema.stated(now, self._writing), WRITER: begun.writer}
            if COLUMN_STATS in self._ledger.config.metadata_partitions:
                before = None if begun.schema.begun is None else begun.schema.begun.columns
                check_types_kept(before, begun.schema.columns, self._writing.storage.url)
            self.staging.check_new_keys(now, self.instant)
            stats = write_stats(files, self.instant)
            if self._ledger.config.cdc_enabled:
                stats = with_slices_before(now, stats)
            return CommitMetadata(write_stats=stats, extra=extra, operation=begun.operation.upper(), replaced=replaced)

        series, ledger, ahead = self._series, self._ledger, None
        if series is not None:
            ahead = series.following(ledger, begun.request, self._settings, files)
        beside = None if ahead is None else ahead.beside
        tell = telling(files, self._writing.storage.url) if ledger.config.metadata_partitions else None
        try:
            return publish_or_roll_back(ledger, begun.token, self.instant, begun.writer, metadata, beside, tell)
        finally:
            if series is not None and ahead is not None:
                series.hold(ahead, ledger)

    def _check_usable(self, what: str) -> None:
        """Raises if the transaction has ended, cannot be committed, or was lost to another process."""
        if self._end is not None:
            raise InvalidArgument(
                f"This transaction was {self._end} already and cannot {what}. Nothing was changed. Begin another."
            )
        if self._has_failed and what == "commit":
            raise InvalidArgument(
                f"A write of the transaction {self.instant} failed, so it cannot be committed: part of its rows may be missing. "
                "Nothing of it is visible. Abort it, and begin another."
            )
        if self._clash is not None:
            self.give_up()
            raise self._clash
        if self._is_lost:
            self._end = "rolled back"
            self._heartbeat.stop()
            raise RolledBack(
                f"The write {self.instant} of {self._writing.storage.url} was rolled back by another process, which saw no "
                "heartbeat for too long. Nothing of it is visible, now or later. Write again.",
                instant=self.instant,
            )

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Any:
        begun = self._clock.monotonic()
        try:
            with counted_in(self._tally):
                yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + self._clock.monotonic() - begun


def _unheld(method: Callable[P, T], otherwise: T) -> Callable[P, T]:
    """The method for those who must not keep its object in memory; it gives `otherwise` once that is gone."""
    held = weakref.WeakMethod(method)

    def call(*arguments: P.args, **named: P.kwargs) -> T:
        found = held()
        return otherwise if found is None else found(*arguments, **named)

    return call

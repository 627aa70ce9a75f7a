# SPDX-License-Identifier: Apache-2.0
"""Writes that are begun ahead: a process that writes again and again asks for the beginning of its next write beside the publication
of the one before, so that the next one only puts its data files and publishes them (LEDGER, *Begun ahead*).

Only where calls take long, and only for writes of which it does not matter whether they began a moment sooner. A write that was
begun ahead and cannot be used, or is refused, is as if it had never been: its caller's rows are written by one that begins then.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from lakebraid import limits
from lakebraid.errors import LakebraidError, StorageError, WriteConflict
from lakebraid.format.names import LogFileName, parse_data_file
from lakebraid.model.config import CONCURRENCY, MergeMode, TableConfig
from lakebraid.storage.parallel import Behind, together
from lakebraid.tasks.new_files import announce
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.actions.batches import named_batch
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import begin_write
from lakebraid.txn.ledger.asking import Beside
from lakebraid.txn.ledger.asks import wish_text
from lakebraid.txn.ledger.entries import OpenWrite, shown_name
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round, Wanted
from lakebraid.txn.ledger.wishes import ahead_wish
from lakebraid.txn.liveness.heartbeat import Heartbeat, beat_first, beat_interval_ms, process_name
from lakebraid.txn.refusals import unused
from lakebraid.txn.writer import Writing
from lakebraid.writing.request import WriteRequest

Settings = tuple[TableConfig, Mapping[str, str]]
"""A table's configuration, and the properties that it was read from."""
FileNames = tuple[tuple[str, LogFileName], ...]
"""Log files with their partitions. Of the next write they have the same names, but for its request time."""
_BLIND: Final = frozenset({"upsert", "insert"})
"""Operations that write whole rows and read nothing of the table."""


@dataclass(frozen=True, slots=True)
class BegunAhead:
    """The beginning of a write that was made before there were rows."""

    instant: str
    token: str
    """By which the ledger knows whose the write is."""
    announced: frozenset[tuple[str, str]]
    """Partitions and names of log files that are announced."""


def can_begin_ahead(request: WriteRequest, settings: Settings) -> bool:
    """Whether it makes no difference to such a write of such a table that it began a moment sooner.

    By commit time the write that began first loses, also to one that was acknowledged before its caller had any rows. A write that
    is held against others, or reads the table, is told at its beginning what was there before.
    """
    config, properties = settings
    is_blind = request.operation in _BLIND and not (request.is_partial or request.is_isolated)
    by_event_time = config.merge_mode is MergeMode.EVENT_TIME
    is_free = config.concurrency == "nbcc" or CONCURRENCY not in properties
    is_placed = config.is_placed or config.may_share_logs
    return is_blind and by_event_time and is_free and not (is_placed or config.cdc_enabled)


def check_not_taken(now: Round, instant: str) -> None:
    """WriteConflict if deletes would take the rows of a write that was begun ahead, though its caller had them afterwards.

    A delete without ordering value takes every row that began before it.
    """
    if now.state.taken > instant:
        raise WriteConflict(
            f"The write {instant} of {now.ledger.storage.url} was refused: it was begun ahead, and a write that began later has published "
            "deletes without ordering value, which would take its rows. Nothing of it is visible. Write again: a write that "
            "begins now comes after them.",
            instant=instant,
        )


class Series:
    """The writes of one writer that follow on one another. Any thread may use it; a forked child begins anew."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._held: list[Ahead] = []
        """The next write, if it is begun."""
        self._files: FileNames = ()
        self._ended: float | None = None
        """When its last write ended."""
        self._goes_on = False
        """Whether the newest write came so soon after the one before that the next is worth beginning ahead."""

    def take(self, request: WriteRequest) -> Ahead | None:
        """What was begun for this write; None if it has to begin by itself."""
        now, ended = self._writing.clock.monotonic(), self._ended
        self._goes_on = ended is not None and now - ended < limits.AHEAD_IDLE_SECONDS / 2
        with contextlib.suppress(IndexError):
            held = self._held.pop()
            if held.fits(request):
                return held
            Behind(self._writing.storage, held.let_go)
        return None

    def following(
        self, ledger: Ledger, request: WriteRequest, settings: Settings, files: Iterable[StagedFile]
    ) -> Ahead | None:
        """The next write, to be asked for beside the publication of this one with these files; None if it is not begun ahead."""
        following = _next(request)
        if (
            following is None
            or not (self._goes_on and ledger.asks and can_begin_ahead(request, settings))
            or self._held
        ):
            return None
        self._files = _names(self._files, files)
        ahead = Ahead(self._writing, settings, following, self._files)
        return ahead if wish_text(ahead.beside.wanted.wish) is not None else None

    def ended(self) -> None:
        """Notes that a write has ended, however it did."""
        self._ended = self._writing.clock.monotonic()

    def hold(self, ahead: Ahead, ledger: Ledger) -> None:
        """Keeps the next write, after what it was asked for beside is decided, or is not."""
        if ahead.settle(ledger):
            self._held.append(ahead)

    def close(self) -> None:
        """Rolls the next write back, if it is begun."""
        while self._held:
            self._held.pop().let_go()


class Ahead:
    """A write from when its beginning is asked for ahead until it is used, or rolled back."""

    def __init__(self, writing: Writing, settings: Settings, request: WriteRequest, files: FileNames) -> None:
        self._writing, self._settings, self._request, self._files = writing, settings, request, files
        self._writer = request.writer or process_name()
        self.token = writing.clock.token()
        """By which the ledger knows whose the write is."""
        self._process = os.getpid()
        self._claim = threading.Lock()
        """Held for ever by the one that uses it or rolls it back."""
        batch = None if request.batch is None else named_batch(request.writer, request.batch, request.stream)
        self._write = OpenWrite(self.token, settings[0].write_action, batch=batch, writer=shown_name(self._writer))
        self.beside = Beside(Wanted(ahead_wish(self._write), (b"",), str), self._show)
        """How it is asked for."""
        self._shown: tuple[str, Behind[frozenset[tuple[str, str]]]] | None = None
        self._begun: Behind[BegunAhead] | None = None
        self._heartbeat: Heartbeat | None = None
        self._since = 0.0

    def fits(self, request: WriteRequest) -> bool:
        """Whether this write was begun for such a request."""
        mine = self._request
        is_same = (request.writer, request.batch, request.stream) == (mine.writer, mine.batch, mine.stream)
        return is_same and can_begin_ahead(request, self._settings)

    def settle(self, ledger: Ledger) -> bool:
        """Learns from a ledger what became of it; False if nothing was begun, and nothing will be.

        If it is not decided yet, that is seen to behind the caller's back.
        """
        entry, attempted = ledger.known, self.beside.attempted
        if entry is None or not attempted.wish:
            return False
        instant = self.beside.outcome(entry.state)
        if instant is None and attempted.wish in entry.state.decided:
            return False
        self._since = self._writing.clock.monotonic()
        if instant is not None:
            self._show(instant)
        self._begun = Behind(self._writing.storage, partial(self._begin, instant))
        return True

    def use(self, config: TableConfig, properties: Mapping[str, str]) -> BegunAhead | None:
        """Its beginning, for one caller; None if it cannot be used, or not with these settings. Then it is rolled back."""
        if self._process != os.getpid() or self._begun is None or not self._claim.acquire(blocking=False):
            return None
        if self._is_fresh() and (config, properties) == self._settings:
            with contextlib.suppress(LakebraidError):
                return self._settled(self._begun)
        Behind(self._writing.storage, self._roll_back)
        return None

    def let_go(self) -> None:
        """Rolls it back, unless it is used; what fails, others do when its heartbeats have stopped for long enough."""
        if self._process == os.getpid() and self._claim.acquire(blocking=False):
            self._roll_back()

    def _roll_back(self) -> None:
        with contextlib.suppress(LakebraidError):
            if self._begun is not None:
                begun = self._settled(self._begun)
                ledger = self._writing.ledger(self._settings[0])
                roll_back(ledger, begun.token, begun.instant, story=unused(self._writer))

    def _settled(self, begun: Behind[BegunAhead]) -> BegunAhead:
        """Its beginning; from now on its heartbeats are for another to see to."""
        found = begun.result()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        return found

    def _begin(self, instant: str | None) -> BegunAhead:
        writing, config, write = self._writing, self._settings[0], self._write
        if instant is None:
            instant = begin_write(
                writing.ledger(config),
                write.decider,
                action=write.action,
                batch=write.batch,
                writer=self._writer,
                attempted=self.beside.attempted,
            )
            self._show(instant)
        interval_s = min(beat_interval_ms(config) / 1000, limits.AHEAD_IDLE_SECONDS)
        self._heartbeat = writing.heartbeat(
            writing.storage, instant, interval_s, check=self._is_fresh, on_lost=self.let_go
        )
        self._heartbeat.run()
        return BegunAhead(instant, self.token, self._announced(instant))

    def _is_fresh(self) -> bool:
        return self._writing.clock.monotonic() - self._since < limits.AHEAD_IDLE_SECONDS

    def _show(self, instant: str) -> None:
        """Begins to show that the write lives, and to announce the files that it will most likely have."""
        if self._shown is None or self._shown[0] != instant:
            self._shown = instant, Behind(self._writing.storage, partial(self._put_signs, instant))

    def _put_signs(self, instant: str) -> frozenset[tuple[str, str]]:
        storage = self._writing.storage
        files = [(partition, replace(name, request_time=instant).format()) for partition, name in self._files]

        def announced() -> frozenset[tuple[str, str]]:
            with contextlib.suppress(StorageError):  # the task that puts them announces them
                if files:
                    announce(storage, instant, files)
                return frozenset(files)
            return frozenset()

        found, _ = together(storage, announced, partial(beat_first, storage, instant))
        return cast("frozenset[tuple[str, str]]", found)

    def _announced(self, instant: str) -> frozenset[tuple[str, str]]:
        return self._shown[1].result() if self._shown is not None and self._shown[0] == instant else frozenset()


def _next(request: WriteRequest) -> WriteRequest | None:
    """The request of the write that follows, as far as it is known; None after the last batch that there can be."""
    if request.batch is None:
        return request
    return replace(request, batch=request.batch + 1) if request.batch < limits.BATCH_NUMBER_MAX else None


def _names(before: FileNames, files: Iterable[StagedFile]) -> FileNames:
    """The log files that the next write may have: those of this one, and in the same partitions those of earlier ones."""
    parsed = ((file.partition, parse_data_file(file.name)) for file in files)
    new = {
        (partition, replace(name, request_time="")): None for partition, name in parsed if isinstance(name, LogFileName)
    }
    partitions = {partition for partition, _ in new}
    old = dict.fromkeys((partition, name) for partition, name in before if partition in partitions)
    return tuple({**new, **old})[: limits.ANNOUNCED_AHEAD_MAX]

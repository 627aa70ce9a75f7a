# SPDX-License-Identifier: Apache-2.0
"""Executing a plan of a compaction, log compaction or clustering: claimed in the ledger, with a heartbeat, and published.

Of any number of executors one has the claim. An executor that takes it over after a silence outranks the one before, whose
files can never be published any more. That is RFC-79's guard, without a lock: docs/decisions/0007-ledger.md.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, Protocol, TypeVar

from lakebraid import limits
from lakebraid.errors import ClaimLost, CorruptFile, LakebraidError, ObjectNotFound, SnapshotExpired, StorageError
from lakebraid.format.names import State, epoch_of_token, parse_data_file
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.services.merging.engine import LOCAL, MergeEngine
from lakebraid.services.merging.tasks import merge_context
from lakebraid.services.settings import Opened
from lakebraid.storage.parallel import map_calls, together
from lakebraid.storage.protocol import ObjectInfo, Storage
from lakebraid.table.loading import load_timeline
from lakebraid.tasks.merging.compact import RunTask, SizedTask
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.actions.plans import check_claimable, claim, release
from lakebraid.txn.actions.rollback import decide_withdrawal, finish_rollback
from lakebraid.txn.hudi.reconcile import rolled_back_since
from lakebraid.txn.ledger.entries import LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Round
from lakebraid.txn.liveness.heartbeat import (
    Heartbeat,
    beat_first,
    beat_interval_ms,
    forget,
    is_expired,
    silence_ms_max,
    storage_now_ms,
)
from lakebraid.txn.metadata.files import Tell
from lakebraid.txn.metadata.telling import telling
from lakebraid.txn.writer import TableSchema

Merging = Literal["compaction", "logcompaction", "clustering"]
_SPOKEN: Final = {"compaction": "compaction", "logcompaction": "log compaction", "clustering": "clustering"}
P = TypeVar("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Execution(Protocol[R_co]):
    """What differs between compaction, log compaction and clustering while a plan is executed under a claim."""

    @property
    def run_task(self) -> RunTask:
        """What one task does."""
        ...

    @property
    def sort_by(self) -> Sequence[str]:
        """The columns by which new base files are sorted."""
        ...

    @property
    def oldest_open(self) -> str:
        """When the oldest write began that was open when the plan was made; empty if there was none."""
        ...

    @property
    def partitions(self) -> Iterable[str]:
        """Those in which the plan, as it was made, has file groups."""
        ...

    def check(self) -> None:
        """Called before any work; raises if the plan cannot be published any more."""
        ...

    def tasks(self, sizes: Mapping[str, int]) -> Sequence[SizedTask]:
        """One task for each group of files; `sizes` are those of the files in the plan's partitions."""
        ...

    def metadata(self, files: Sequence[StagedFile], schema_text: str) -> CommitMetadata:
        """What the completed commit says of these files."""
        ...

    def publish(self, metadata: CommitMetadata, tell: Tell) -> str:
        """The completion time, once everything is visible. `tell` gives what a metadata table is told of the files."""
        ...

    def result(self, completion: str, metadata: CommitMetadata) -> R_co:
        """What the caller of the execution gets."""
        ...


@dataclass(frozen=True, slots=True)
class MergeService(Generic[P, R]):
    """How plans of one kind are read and executed, and how the result of a completed one is read off its commit."""

    action: Merging
    parse: Callable[[bytes, str], P | None]
    """(bytes, name of their file) -> the plan; None if there is none in it"""
    begin: Callable[[Opened, P, Held], Execution[R]]
    result: Callable[[str, str, CommitMetadata], R]
    """(request time, completion, metadata) -> the same result that the executor was given"""
    yields: tuple[type[LakebraidError], ...] = (ClaimLost,)
    """What an executor of abandoned plans passes over: another process was faster."""
    check: Callable[[Opened], None] = lambda _: None
    """Raises if plans of this kind cannot be executed on the table."""

    def load(self, ledger: Ledger, request_time: str) -> P:
        """The plan that begins at `request_time`; ClaimLost if it is not there, CorruptFile if there is none in its file."""
        data, name = _read_plan(ledger, request_time, self.action)
        plan = self.parse(data, name)
        if plan is None:
            url, kind = ledger.storage.url, _SPOKEN[self.action]
            raise CorruptFile(f"{name} of {url} holds no {kind} plan. Nothing was changed.", path=name)
        return plan

    def run(self, opened: Opened, request_time: str, engine: MergeEngine = LOCAL) -> R:
        """Claims, executes and publishes a pending plan. ClaimLost if another executor has it or took it over.

        If it fails on the way, nothing is visible and the plan stays: this or another process may run it again.
        """
        self.check(opened)
        plan = self.load(opened.ledger, request_time)
        with claimed(opened.ledger, request_time, opened.writing.heartbeat) as held:
            return run_claimed(self.begin(opened, plan, held), opened, held, self.action, engine)

    def run_abandoned(self, opened: Opened, engine: MergeEngine = LOCAL) -> list[R]:
        """Executes the plans on which no process has worked for a while."""
        done = []
        for request_time in abandoned_plans(opened.ledger, self.action, self.load):
            with contextlib.suppress(*self.yields):
                done.append(self.run(opened, request_time, engine))
        return done

    def run_all(self, opened: Opened, planned: str | None, engine: MergeEngine = LOCAL) -> list[R]:
        """Executes the plan that was just made, if there is one, then those that were abandoned."""
        done = [] if planned is None else [self.run(opened, planned, engine)]
        done += self.run_abandoned(opened, engine)
        opened.writing.remember(opened.ledger)
        return done


def run_claimed(execution: Execution[R], opened: Opened, held: Held, action: Merging, engine: MergeEngine) -> R:
    """Executes and publishes the plan of a claim that is ours."""
    storage, config = opened.storage, opened.config
    execution.check()
    sizes, schema = _clear_way(opened, execution.partitions, held, action)
    tasks = execution.tasks(sizes)
    order, oldest = execution.sort_by, execution.oldest_open
    context = merge_context(
        storage, engine.options, config, schema.columns, held.request_time, held.epoch, order,
        oldest_open=oldest, indexed=opened.writing.indexed_columns(config),
    )  # fmt: skip
    files = engine.run_tasks(storage, context, tasks, execution.run_task, held.check)
    metadata = execution.metadata(files, schema.text)
    completion = execution.publish(metadata, telling(files, storage.url))
    forget(storage, held.request_time)
    return execution.result(completion, metadata)


def _read_plan(ledger: Ledger, request_time: str, action: Merging) -> tuple[bytes, str]:
    """The bytes of a plan, and the name of their file; ClaimLost if it is not there."""
    name = f"{ledger.config.timeline_folder}/{request_time}.{action}.requested"
    try:
        return ledger.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), name
    except ObjectNotFound as error:
        raise ClaimLost(
            f"There is no {_SPOKEN[action]} plan {request_time} in {ledger.storage.url}: it was withdrawn or archived. "
            "Nothing was changed. Plan a new one.",
            instant=request_time,
        ) from error


def _clear_way(
    opened: Opened, partitions: Iterable[str], held: Held, action: Merging
) -> tuple[dict[str, int], TableSchema]:
    """The sizes of the files in the plan's partitions, and the table's schema.

    What earlier executors left can never be published any more, and holds what we are about to write again: it goes.
    """
    storage = opened.storage
    found, schema = together(
        storage, lambda: list(_list_files(storage, partitions)), lambda: opened.writing.schema(opened.ledger)
    )
    left_behind = [info.name for info in found if held.is_left_behind(info.name)]
    if left_behind:
        storage.delete(left_behind)
    if schema is None:
        url = storage.url
        raise CorruptFile(f"{url} has a {_SPOKEN[action]} plan and no schema. Nothing was changed.", path=url)
    return {info.name: info.size for info in found}, schema


def _list_files(storage: Storage, partitions: Iterable[str]) -> Iterator[ObjectInfo]:
    for files, _ in map_calls(storage, storage.list_folder, sorted({*partitions})):
        yield from files


@dataclass(frozen=True, slots=True)
class Held:
    """A claim that is ours, as far as we know."""

    decider: str
    request_time: str
    epoch: int
    lost: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raises ClaimLost if the heartbeat has found that another executor took the plan over."""
        if self.lost.is_set():
            raise ClaimLost(
                f"The plan {self.request_time} was taken over by another executor. Nothing of this attempt is visible."
            )

    def is_left_behind(self, name: str) -> bool:
        """Whether the file was written for this plan under an earlier claim of ours: it is dead for ever."""
        parsed = parse_data_file(name.rpartition("/")[2])
        if parsed is None or parsed.request_time != self.request_time:
            return False
        return 0 < epoch_of_token(parsed.write_token) < self.epoch


@contextlib.contextmanager
def claimed(ledger: Ledger, request_time: str, heartbeat_class: type[Heartbeat] = Heartbeat) -> Iterator[Held]:
    """The claim on a pending plan, with a heartbeat, for as long as the block runs; ClaimLost if a living one has it.

    If the block fails the claim is given back, so that others need not wait until the heartbeat has expired; a removable
    plan is rolled back, since no process may execute it again.
    """
    held = _claim(ledger, request_time)
    interval_s = beat_interval_ms(ledger.config) / 1000
    heartbeat = heartbeat_class(ledger.storage, request_time, interval_s, lambda: _is_held(ledger, held), held.lost.set)
    heartbeat.run()
    try:
        yield held
    except ClaimLost:
        raise  # the heartbeat is another one's by now
    except BaseException as error:
        if isinstance(error, ObjectNotFound | SnapshotExpired) and not _is_held(ledger, held):
            raise ClaimLost(
                f"The plan {request_time} was withdrawn or taken over while it was being executed, and a file that it needs is "
                "gone. Nothing of this attempt is visible. Plan a new one.",
                instant=request_time,
            ) from error
        with contextlib.suppress(LakebraidError):
            _give_back(ledger, held)
        raise
    finally:
        heartbeat.stop()


def abandoned_plans(ledger: Ledger, kind: str, load: Callable[[Ledger, str], object]) -> list[str]:
    """Request times of pending plans on which no process has worked for a while, oldest first.

    `load` reads a plan: a torn one cannot be executed, and is not ours to remove (scenario F20).
    """
    pending = [i.request_time for i in load_timeline(ledger.table).pending if i.kind == kind]
    if not pending:
        return []
    plans = _state(ledger).plans
    released = {s for s, plan in plans.items() if plan.epoch and not plan.claimant}
    pending = [s for s in pending if s not in plans or not (plans[s].is_removable and plans[s].epoch)]
    now_ms, silence_ms = storage_now_ms(ledger.storage, ledger.clock), silence_ms_max(ledger.config)
    free = [s for s in pending if s in released or is_expired(ledger.table, s, now_ms, silence_ms)]
    return [request_time for request_time in free if _is_whole(ledger, request_time, load)]


def _is_whole(ledger: Ledger, request_time: str, load: Callable[[Ledger, str], object]) -> bool:
    with contextlib.suppress(CorruptFile, ClaimLost):
        load(ledger, request_time)
        return True
    return False


def _give_back(ledger: Ledger, held: Held) -> None:
    rollback = decide_withdrawal(ledger, held.decider, held.request_time, lambda plan: plan.epoch == held.epoch)
    if rollback is None:
        release(ledger, held.decider, held.request_time, held.epoch)
    else:
        finish_rollback(ledger, held.decider, rollback)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A plan as it was when it was found to be free."""

    epoch: int | None
    was_inflight: bool
    last: str
    """The last time that had been given."""


def _claim(ledger: Ledger, request_time: str) -> Held:
    judged = _judge(ledger, request_time)
    # Before others can see the claim, else they take its executor for dead: of an old plan the last beat is old.
    if not beat_first(ledger.storage, request_time):
        raise StorageError(
            f"{ledger.storage.url} did not take the heartbeat of the plan {request_time}, without which others would take its "
            "executor for dead. Nothing was changed. Try again when the store answers.",
            path=ledger.storage.url,
            instant=request_time,
        )
    decider = ledger.clock.token()
    is_taken = (lambda now: _is_taken(now, request_time, judged)) if ledger.is_shared else None
    return Held(decider, request_time, claim(ledger, decider, request_time, seen=judged.epoch, is_taken=is_taken))


def _judge(ledger: Ledger, request_time: str) -> _Judged:
    """The plan as it is now, if it may be claimed; ClaimLost if its executor is alive."""
    state = _state(ledger)
    plan = state.plans.get(request_time)
    if plan is not None:
        # Before the beat: an executor that tries in vain must not make a failed plan look alive.
        check_claimable(plan, request_time)
    known = load_timeline(ledger.table).write(request_time)
    is_inflight = known is not None and known.state is State.INFLIGHT
    # An executor of Apache Hudi is not in the ledger: it leaves an inflight file and beats.
    is_held = (plan is not None and plan.claimant != "") or (is_inflight and (plan is None or ledger.is_shared))
    if is_held:
        now_ms = storage_now_ms(ledger.storage, ledger.clock)
        if not is_expired(ledger.table, request_time, now_ms, silence_ms_max(ledger.config)):
            raise ClaimLost(
                f"The plan {request_time} of {ledger.storage.url} is being executed by a process that is alive. Nothing was "
                "changed. Let it work, or try again later.",
                instant=request_time,
            )
    return _Judged(None if plan is None else plan.epoch, is_inflight, state.last)


def _is_taken(now: Round, request_time: str, judged: _Judged) -> bool:
    """Whether Apache Hudi has begun to execute the plan since it was judged: it then makes an inflight file, or rolls the
    attempt back whose file is there. To be asked under its lock, in which it does so.
    """
    known = now.timeline().write(request_time)
    if known is not None and known.state is State.INFLIGHT and not judged.was_inflight:
        return True
    ledger = now.ledger
    return request_time in rolled_back_since(ledger.table, now.timeline(), judged.last)


def _state(ledger: Ledger) -> LedgerState:
    """The state as a decision would see it: beside Hudi the newest entry may be void."""
    if not ledger.is_shared:
        return ledger.newest().state
    return ledger.decide("", lambda now: Already(now.state))


def _is_held(ledger: Ledger, held: Held) -> bool:
    watching = Ledger(ledger.table)
    plan = watching.newest().state.plans.get(held.request_time)
    return plan is not None and plan.epoch == held.epoch

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from lakebraid import limits
from lakebraid.errors import (
    CommitUnknown,
    DecisionUnknown,
    EnvironmentProblem,
    ObjectNotFound,
    OutcomeUnknown,
    RolledBack,
    StorageError,
)
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.config import parse_config
from lakebraid.storage.memory import MemoryStorage
from lakebraid.storage.protocol import ObjectInfo
from lakebraid.table.at import TableAt
from lakebraid.txn.actions.rollback import finish_rollback, roll_back
from lakebraid.txn.actions.write import begin_write, publish_write, write_status
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Round

pytestmark = pytest.mark.unit

PROPERTIES = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    "hoodie.table.keygenerator.type": "NON_PARTITION",
    "hoodie.table.timeline.timezone": "UTC",
}
CONFIG = parse_config(PROPERTIES, "t")


class Clock:
    """Stands still unless told otherwise."""

    def __init__(self, now_ms: int = 1_767_323_045_678) -> None:
        self.ms, self.tokens = now_ms, 0

    def now_ms(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)

    def monotonic(self) -> float:
        return self.ms / 1000

    def token(self) -> str:
        self.tokens += 1
        return f"{self.tokens:016x}"

    def random(self) -> float:
        return 0.5


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    return MemoryStorage(clock=clock)


def ledger(storage: MemoryStorage, clock: Clock | None = None) -> Ledger:
    return Ledger(TableAt(storage, CONFIG, clock or storage.clock))


def publish(on: Ledger, txn: str, request_time: str) -> str:
    return publish_write(on, txn, request_time, lambda _: CommitMetadata())


def timeline(storage: MemoryStorage) -> list[str]:
    return [info.name.rpartition("/")[2] for info in storage.list(".hoodie/timeline")]


def test_a_write_appears_on_the_timeline_and_its_times_rise_though_the_clock_stands_still(
    storage: MemoryStorage,
) -> None:
    first, second = ledger(storage), ledger(storage)
    a, b = begin_write(first, "a"), begin_write(second, "b")
    times = [a, b, publish(second, "b", b), publish(first, "a", a)]
    assert times == sorted(set(times))
    assert timeline(storage) == sorted(
        [
            f"{a}.deltacommit.requested",
            f"{a}.deltacommit.inflight",
            f"{b}.deltacommit.requested",
            f"{b}.deltacommit.inflight",
            f"{a}_{times[3]}.deltacommit",
            f"{b}_{times[2]}.deltacommit",
        ]
    )


def test_times_rise_also_when_the_clock_is_set_back(storage: MemoryStorage, clock: Clock) -> None:
    on = ledger(storage)
    before = begin_write(on, "a")
    clock.ms -= 3_600_000
    assert begin_write(on, "b") > before


def test_a_writer_whose_staged_object_is_swept_because_others_were_faster_simply_tries_again(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = ledger(storage), ledger(storage)
    real = MemoryStorage.info
    slept: list[str] = []

    def info(self: MemoryStorage, name: str) -> ObjectInfo:
        if not slept:
            slept.append(name)
            publish(fast, "f", begin_write(fast, "f"))
            fast.sweep_staged(fast.newest().number)
            assert name not in [i.name for i in storage.list(".hoodie/.lakebraid/staged")]
        return real(self, name)

    monkeypatch.setattr(MemoryStorage, "info", info)
    request_time = begin_write(slow, "s")
    assert slept
    assert write_status(slow, request_time) == "open"


def test_a_clock_minutes_ahead_of_the_storage_is_refused_and_nothing_is_decided(storage: MemoryStorage) -> None:
    fast = Clock(storage.clock.now_ms() + limits.CLOCK_AHEAD_MS_MAX + 1000)
    with pytest.raises(EnvironmentProblem, match="ahead"):
        begin_write(ledger(storage, fast), "a")
    assert timeline(storage) == []


def test_publishing_twice_gives_the_same_completion(storage: MemoryStorage) -> None:
    on = ledger(storage)
    request_time = begin_write(on, "a")
    assert publish(on, "a", request_time) == publish(ledger(storage), "a", request_time)
    assert sum(name.endswith(".deltacommit") for name in timeline(storage)) == 1


class Cut(MemoryStorage):
    """Loses answers: the effect takes place, the caller hears nothing. `refuse` names calls without effect."""

    lost: set[int]
    refused: set[int]
    count: int

    @staticmethod
    def make(clock: Clock) -> Cut:
        made = Cut(clock=clock)
        object.__setattr__(made, "lost", set())
        object.__setattr__(made, "refused", set())
        object.__setattr__(made, "count", 0)
        return made

    __slots__ = ("count", "lost", "refused")

    def create(self, name: str, data: bytes) -> None:
        object.__setattr__(self, "count", self.count + 1)
        if self.count in self.refused:
            raise OutcomeUnknown("no answer, no effect")
        super().create(name, data)
        if self.count in self.lost:
            raise OutcomeUnknown("no answer")


@pytest.mark.parametrize("lost", range(1, 7))
@pytest.mark.parametrize("has_effect", [True, False])
def test_a_lost_answer_does_not_make_a_writer_begin_or_commit_twice(clock: Clock, lost: int, has_effect: bool) -> None:
    storage = Cut.make(clock)
    (storage.lost if has_effect else storage.refused).add(lost)
    on = ledger(storage)
    request_time = begin_write(on, "a")
    publish(on, "a", request_time)
    names = timeline(storage)
    assert sum(name.endswith("requested") for name in names) == 1
    assert sum(name.endswith(".deltacommit") for name in names) == 1
    assert on.newest().state.open == {}


def test_a_decision_that_its_maker_could_not_make_true_is_made_true_by_the_next(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = ledger(storage)
    request_time = begin_write(on, "a")
    monkeypatch.setattr(Ledger, "_apply", _dies)
    with pytest.raises(_Killed):
        publish(on, "a", request_time)
    monkeypatch.undo()
    assert not any(name.endswith(".deltacommit") for name in timeline(storage))
    assert write_status(ledger(storage), request_time) == "published"
    assert any(name.endswith(".deltacommit") for name in timeline(storage))


class _Killed(BaseException):
    pass


def _dies(*_: object) -> None:
    raise _Killed


def test_a_rolled_back_write_is_never_published(storage: MemoryStorage) -> None:
    writer, rescuer = ledger(storage), ledger(storage)
    request_time = begin_write(writer, "a")
    assert roll_back(rescuer, "r", request_time)
    with pytest.raises(RolledBack, match=request_time):
        publish(writer, "a", request_time)
    assert write_status(rescuer, request_time) == "refused"
    assert [n for n in timeline(storage) if n.startswith(request_time)] == []


def test_f16_a_published_write_is_not_rolled_back_by_a_rescuer_that_saw_it_pending(storage: MemoryStorage) -> None:
    writer, rescuer = ledger(storage), ledger(storage)
    request_time = begin_write(writer, "a")
    assert request_time in rescuer.newest().state.open
    publish(writer, "a", request_time)
    assert not roll_back(rescuer, "r", request_time)
    assert write_status(rescuer, request_time) == "published"


def test_f19_two_processes_finish_the_same_rollback(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, one, two = ledger(storage), ledger(storage), ledger(storage)
    request_time = begin_write(writer, "a")
    monkeypatch.setattr("lakebraid.txn.actions.rollback._decide_done", _dies)
    with pytest.raises(_Killed):
        roll_back(one, "r1", request_time)
    monkeypatch.undo()
    (rollback,) = two.newest().state.rollbacks
    finish_rollback(two, "r2", rollback)
    finish_rollback(one, "r1", rollback)
    assert two.newest().state.rollbacks == {}
    assert sum(n.endswith(".rollback") for n in timeline(storage)) == 1


class CountingStorage:
    calls_at_once = 1
    side_by_side = behind = None

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage, self.clock, self.url, self.calls = storage, storage.clock, storage.url, 0

    def __getattr__(self, name: str) -> Any:
        self.calls += 1
        return getattr(self.storage, name)


def test_the_calls_of_a_commit_do_not_grow_with_the_commits_before_it(clock: Clock) -> None:
    # Of this storage only: in this process the heartbeats of writes that other tests left open go on.
    storage: Any = CountingStorage(MemoryStorage(clock=clock))
    on = ledger(storage)
    counts = []
    for number in range(60):
        before = storage.calls
        request_time = begin_write(on, f"w{number}")
        publish(on, f"w{number}", request_time)
        counts.append(storage.calls - before)
    assert max(counts[1:]) == counts[1] <= 16


def test_a_trimmed_ledger_keeps_deciding_and_stays_small(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEDGER_ENTRIES_KEPT", 5)
    sleeper, on = ledger(storage), ledger(storage)
    sleeping = begin_write(sleeper, "s")
    for number in range(40):
        publish(on, f"w{number}", begin_write(on, f"w{number}"))
    entries = storage.list(".hoodie/.lakebraid/ledger")
    assert len(entries) <= 11
    assert publish(sleeper, "s", sleeping) > sleeping


def test_h2_an_entry_created_in_a_trimmed_slot_means_nothing(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sleeper wakes after its slot was decided by others and trimmed: its create succeeds, and must not count."""
    monkeypatch.setattr(limits, "LEDGER_ENTRIES_KEPT", 2)
    sleeper, on = ledger(storage), ledger(storage)
    sleeping = begin_write(sleeper, "s")
    real, slept = MemoryStorage.create, list[str]()

    def create(self: MemoryStorage, name: str, data: bytes) -> None:
        if name.startswith(".hoodie/.lakebraid/ledger") and b'"s"' in data and not slept:
            slept.append(name)
            for number in range(12):
                publish(on, f"w{number}", begin_write(on, f"w{number}"))
            assert name not in [i.name for i in storage.list(".hoodie/.lakebraid/ledger")]
        real(self, name, data)

    monkeypatch.setattr(MemoryStorage, "create", create)
    completion = publish(sleeper, "s", sleeping)
    completions = [n.partition("_")[2][:17] for n in timeline(storage) if n.endswith(".deltacommit")]
    assert slept and completion == max(completions), "it published behind those who decided meanwhile"
    assert write_status(ledger(storage), sleeping) == "published"


def test_an_unreachable_store_after_an_unanswered_create_is_unknown_not_refused(clock: Clock) -> None:
    storage = Cut.make(clock)
    on = ledger(storage)
    request_time = begin_write(on, "a")
    storage.lost.add(storage.count + 2)
    real = MemoryStorage.list

    def down(self: Cut, *args: Any, **kwargs: Any) -> Any:
        if self.count >= 4:
            raise StorageError("the store is down")
        return real(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStorage, "list", down)
        with pytest.raises(CommitUnknown) as caught:
            publish(on, "a", request_time)
    assert caught.value.instant == request_time and isinstance(caught.value.__cause__, DecisionUnknown)
    assert write_status(ledger(storage), request_time) == "published"


def test_a_missing_store_is_not_taken_for_an_empty_ledger(clock: Clock) -> None:
    class Down(MemoryStorage):
        def list(self, *_: object, **__: object) -> Any:
            raise StorageError("down")

    with pytest.raises(StorageError):
        begin_write(Ledger(TableAt(Down(clock=clock), CONFIG, clock)), "a")
    with pytest.raises(ObjectNotFound):
        MemoryStorage(clock=clock).read("x", 1)


def test_a_rule_that_fails_over_what_a_newer_decision_explains_is_asked_again(
    storage: MemoryStorage, clock: Clock
) -> None:
    """The timeline of a round may be newer than its state; a file may vanish that the state still promises."""
    asked = []

    def rule(_now: Round) -> Already[str]:
        asked.append(1)
        if len(asked) == 1:
            begin_write(Ledger(TableAt(storage, CONFIG, clock)), "other")
            raise ObjectNotFound("x does not exist. Nothing was changed.", name="x")
        return Already("right")

    assert Ledger(TableAt(storage, CONFIG, clock)).decide("a", rule) == "right"


@pytest.mark.parametrize("error", [ObjectNotFound("gone", name="x"), RolledBack("refused")], ids=["failure", "refusal"])
def test_a_failure_that_nothing_explains_and_a_refusal_are_told_at_once(
    storage: MemoryStorage, clock: Clock, error: ObjectNotFound | RolledBack
) -> None:
    asked = []

    def rule(_now: Round) -> Already[str]:
        asked.append(1)
        if isinstance(error, RolledBack):
            begin_write(Ledger(TableAt(storage, CONFIG, clock)), "other")
        raise error

    with pytest.raises(type(error)):
        Ledger(TableAt(storage, CONFIG, clock)).decide("a", rule)
    assert len(asked) == 1

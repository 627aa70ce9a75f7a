# SPDX-License-Identifier: Apache-2.0
"""The world: processes, threads of theirs, time, and the loop in which they take turns."""

from __future__ import annotations

import traceback
from bisect import insort
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final
from zlib import crc32

from greenlet import getcurrent, greenlet

from lakebraid.errors import StorageError
from simulator.world.clock import SimClock
from simulator.world.faults import Fault
from simulator.world.schedule import Driver, Mark, by_default
from simulator.world.storage import Disk, SimStorage
from simulator.world.violation import Killed, Violation

EPOCH_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00Z, when every history begins."""

Line = tuple[int, int, str, str, str, str]
"""Step, milliseconds since the beginning, thread, call, name, what went wrong or came of it."""


class Process:
    """One process: dies as a whole, stops as a whole; has a storage, a clock and chance of its own."""

    def __init__(self, world: World, name: str, skew_ms: int = 0, drift: float = 0.0) -> None:
        self.world, self.name = world, name
        self.is_dead = False
        self.writes_in_place = False
        """Whether it makes files under their own names and fills them afterwards, as Apache Hudi does on local disks."""
        self.beside = ""
        """What its last copy was to copy, or after which name its last listing was to begin."""
        self.rng = world.derived(name)
        self.storage = SimStorage(world, self)
        self.clock = SimClock(world, self, self.rng, skew_ms, drift)
        self.threads: list[Thread] = []
        self._behind = 0
        world.processes.append(self)

    def behind(self, work: Callable[[], None]) -> Callable[[], None]:
        """A thread of this process that does the work; what is given back waits for its end."""
        self._behind += 1
        thread = self.world.spawn(self, f"{self.name}.behind-{self._behind}", work)

        def join() -> None:
            for _ in range(100):
                if thread.dead:
                    return
                self.world.sleep(1)
            while not thread.dead:  # one that is held up for seconds would use up the steps of the history
                self.world.sleep(50)

        return join


class Thread(greenlet):  # type: ignore[misc]  # greenlet ships no types
    """One line of execution in a process."""

    def __init__(self, process: Process, label: str, body: Callable[[], None], index: int) -> None:
        super().__init__(self._run)
        self.process, self.label, self.index = process, label, index
        self.world = process.world
        self.calls = 0
        self.target = ""
        self.wake = 0.0
        self.is_ready = True
        self._body = body

    def __lt__(self, other: Thread) -> bool:
        return self.index < other.index

    def _run(self) -> None:
        try:
            self._body()
        except Killed:
            pass
        except Violation as violation:
            self.world.fail(violation)
        except Exception:  # noqa: BLE001  whatever the product did not mean to raise is a finding
            # Calm weather, and still an error: then it is healing that does not come to its end.
            invariant = "no crash" if self.world.is_storm else "16 liveness"
            text = traceback.format_exc(limit=-6)
            self.world.fail(Violation(invariant, f"{self.label} ended with an error it should not meet\n{text}"))


class World:
    """Everything there is. `observe(what, name, data)` is told of each effect on the disk."""

    def __init__(self, seed: int, driver: Driver, *, call_ms: int = 5, steps_max: int = 20_000) -> None:
        self.seed, self.driver, self.steps_max = seed, driver, steps_max
        self.call_ms, self.timeout_ms = call_ms, 2000
        self.now = float(EPOCH_MS)
        self.step = 0
        self.is_storm = True
        self.is_any_order = False
        """Whether calls that are made side by side come in any order."""
        self.failure: Violation | None = None
        self.trace: list[Line] = []
        self.tape: list[Mark] = []
        self.observers: list[Callable[[str, str, bytes], None]] = []
        self.disk = Disk(lambda: self.now, self._observe)
        self.processes: list[Process] = []
        self._threads: list[Thread] = []
        self._ready: list[Thread] = []
        self._sleepers: list[tuple[float, int, Thread]] = []
        self._dead: list[Process] = []
        self._last: Thread | None = None
        self._chosen: Thread | None = None
        self._main = getcurrent()

    # --- making ---------------------------------------------------------------------------------------------------

    def derived(self, name: str) -> Random:
        """A generator of its own for each name, so that adding an actor does not disturb the others."""
        return Random(self.seed * 0x1_0000_0001 + crc32(name.encode()))

    def spawn(self, process: Process, label: str, body: Callable[[], None], after_ms: float = 0.0) -> Thread:
        thread = Thread(process, label, body, len(self._threads))
        self._threads.append(thread)
        process.threads.append(thread)
        thread.parent = self._main
        if after_ms > 0:
            self._put_to_sleep(thread, self.now + after_ms)
        else:
            insort(self._ready, thread)
        return thread

    def later(self, op: str, name: str, effect: Callable[[], None], after_ms: float) -> None:
        """A request still on its way, with nobody waiting for it."""
        network = Process(self, f"net{len(self._threads)}")

        def arrive() -> None:
            try:
                effect()
                self.note("arrives", f"{op} {name}", "")
            except StorageError as error:
                self.note("arrives", f"{op} {name}", type(error).__name__)

        self.spawn(network, network.name, arrive, after_ms)

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until every thread has ended, or an invariant does not hold."""
        self._main = getcurrent()
        while self.failure is None:
            # A thread that has not begun is false as a truth value.
            thread = self._chosen if self._chosen is not None else self._pick()
            self._chosen = None
            if thread is None:
                break
            thread.switch()
            if thread.dead:
                self._bury(thread)
            self._reap()
        if self.failure is not None:
            self.stop()

    def stop(self) -> None:
        """Ends all threads; nothing they do on the way out has an effect."""
        for thread in self._threads:
            thread.process.is_dead = True
            if bool(thread):  # begun, and not ended
                thread.throw(Killed)
        self._ready.clear()
        self._sleepers.clear()

    def _bury(self, thread: Thread) -> None:
        thread.calls += 1
        self._unready(thread)

    def _unready(self, thread: Thread) -> None:
        if thread.is_ready:
            thread.is_ready = False
            self._ready.remove(thread)

    def _reap(self) -> None:
        while self._dead:
            for thread in self._dead.pop().threads:
                self._unready(thread)
                if bool(thread):  # begun, and not ended
                    thread.throw(Killed)

    def _pick(self) -> Thread | None:
        self._wake_up()
        if not self._ready:
            return None
        last = self._last
        if not self.is_storm:
            chosen = by_default(last, self._ready)
        elif len(self._ready) == 1:
            chosen = self._ready[0]
        else:
            chosen = self.driver.next(last, self._ready)
            if last is not None and chosen is not by_default(last, self._ready):
                self.tape.append((last.label, last.calls, "to", chosen.label))
        self._last = chosen
        return self._last

    def _wake_up(self) -> None:
        while self._sleepers:
            wake, _, thread = self._sleepers[0]
            if thread.is_ready or thread.dead or thread.process.is_dead or wake < thread.wake:
                heappop(self._sleepers)  # woken, dead, or put to sleep anew
            elif wake <= self.now or not self._ready:
                heappop(self._sleepers)
                self.now = max(self.now, wake)
                thread.is_ready = True
                insort(self._ready, thread)
            else:
                return

    def _put_to_sleep(self, thread: Thread, until: float) -> None:
        if thread.is_ready and thread in self._ready:
            self._ready.remove(thread)
        thread.is_ready = False
        thread.wake = max(until, thread.wake)
        heappush(self._sleepers, (thread.wake, thread.index, thread))

    # --- what threads call ----------------------------------------------------------------------------------------

    def point(self, op: str, name: str) -> Fault | None:
        """A scheduling point before a call. What is to go wrong with the call itself is handed back."""
        thread: Thread = getcurrent()
        process = thread.process
        if process.is_dead or self.failure is not None:
            raise Killed
        thread.calls += 1
        self.step += 1
        self.now += (thread.calls * 7 + thread.index * 3) % (2 * self.call_ms + 1)
        self._check_bound()
        thread.target = name
        fault = self._fault(thread, op)
        self.trace.append(
            (self.step, int(self.now) - EPOCH_MS, thread.label, op, name, f"{fault[0]} {fault[1]}" if fault else "")
        )
        self._yield()
        if process.is_dead:
            raise Killed
        return fault

    def sleep(self, duration_ms: float) -> None:
        fault = None
        thread: Thread = getcurrent()
        if thread.process.is_dead or self.failure is not None:
            raise Killed
        thread.calls += 1
        self.step += 1
        self._check_bound()
        thread.target = ""
        fault = self._fault(thread, "sleep")
        if fault and fault[0] == "kill_before":
            self.kill(thread.process)
            raise Killed
        self._put_to_sleep(thread, self.now + max(duration_ms, 1))
        self._yield()
        if thread.process.is_dead:
            raise Killed

    def kill(self, process: Process) -> None:
        """SIGKILL: from now on nothing of the process has an effect."""
        if not process.is_dead:
            process.is_dead = True
            self._dead.append(process)
            self.note("dies", "", "")

    def pause(self, process: Process, duration_ms: float) -> None:
        for thread in process.threads:
            if not thread.dead:
                self._put_to_sleep(thread, self.now + duration_ms)

    def who(self) -> str | None:
        """The name of the process that is making a call; None for what happens by itself, as late requests do."""
        current = getcurrent()
        return current.process.name if isinstance(current, Thread) else None

    def note(self, what: str, name: str, result: str) -> None:
        """A line for the story that is no storage call."""
        current = getcurrent()
        label = current.label if isinstance(current, Thread) else "-"
        self.trace.append((self.step, int(self.now) - EPOCH_MS, label, what, name, result))

    def fail(self, violation: Violation) -> None:
        if self.failure is None:
            self.failure = violation

    def _fault(self, thread: Thread, op: str) -> Fault | None:
        if not self.is_storm or op == "page":
            return None
        fault = self.driver.fault(thread, op)
        if fault is None:
            return None
        kind, length = fault
        self.tape.append((thread.label, thread.calls, kind, length))
        match kind:
            case "pause":
                self.pause(thread.process, length)
            case "slow":
                self._put_to_sleep(thread, self.now + length)
            case "back":
                thread.process.clock.skew_ms -= length
            case "leap":
                self.now += length
        return fault

    def _yield(self) -> None:
        chosen = self._pick()
        if chosen is not getcurrent():
            self._chosen = chosen
            self._main.switch()

    def _check_bound(self) -> None:
        if self.step > self.steps_max:
            violation = Violation("16 liveness", f"not finished after {self.steps_max} steps")
            self.fail(violation)
            raise violation

    def _observe(self, what: str, name: str, data: bytes) -> None:
        try:
            for observer in self.observers:
                observer(what, name, data)
        except Violation as violation:
            self.fail(violation)  # what is done behind a caller's back raises nowhere
            raise


def story_of(line: Line) -> str:
    step, now, thread, op, name, result = line
    return f"{step:5} {now:7} {thread:12} {op:11} {name} {result}".rstrip()


def trace_digest(trace: list[Line]) -> str:
    """A short mark of a whole trace, equal for equal histories."""
    return f"{crc32(repr(trace).encode()):08x}"


__all__ = ["EPOCH_MS", "Any", "Line", "Process", "Thread", "World", "story_of", "trace_digest"]

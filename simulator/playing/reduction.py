# SPDX-License-Identifier: Apache-2.0
"""Every schedule of a small world with so many switches, but one of each kind: calls that do not touch the same names commute.

Two schedules that differ only in the order of commuting calls show everybody the same and leave the same behind, so one
of them is enough. Of these the one is played in which a process is interrupted as late as possible:

- To interrupt a process before a call is only worth while if another one makes a call that does not commute with it. Which
  calls the others make is known from the schedules with a later interruption, since those are played first.
- Whoever was interrupted before a call does not get his turn back before such a call was made.

Each schedule that is left out is turned into one that is played by moving a call before the interruption. That changes
neither the order of calls that do not commute nor the number of switches, so the bound on switches stays honest.
Processes must have one thread each, and time stands still but where one of them lets it pass, which commutes with nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from simulator.world.faults import Fault
from simulator.world.schedule import Threadlike

Call = tuple[str, str, str]
"""What, on which name, and beside it: what is copied, or after which name a listing begins."""

_LISTS: Final = frozenset({"list", "list_folder"})
_READS: Final = frozenset({"read", "read_range", "info", "open_input", "copy to itself"})
_COPIES: Final = ("copy", "copy to itself")
_TIME: Final = "sleep"


def commute(one: Call, other: Call) -> bool:
    """Whether the order of two calls of different processes makes no difference to anybody."""
    if _TIME in (one[0], other[0]):
        return False
    return not (_changes(one, other) or _changes(other, one))


def _changes(one: Call, other: Call) -> bool:
    """Whether the first may change what the second sees or leaves behind."""
    op, name, _ = one
    if op in _LISTS or op in _READS:
        return False
    if other[0] in _LISTS:
        _, folder, after = other
        return name > after and (not folder or name.startswith(f"{folder}/"))
    return name in other[1:]


@dataclass
class _Choice:
    """A moment at which one of several processes may go on."""

    options: list[str]
    """Who goes on; the first one is tried first."""
    at: int
    """How many calls had been made."""
    running: str | None
    """Who would go on without a switch; None if there is no such one."""
    pending: Call | None
    """The call before which that one would be interrupted."""
    tried: int = 0
    others: set[Call] = field(default_factory=set)
    """Calls that others made after this moment, in all schedules played so far in which nobody was interrupted here."""

    def has_more(self) -> bool:
        """Whether another process is worth trying."""
        if self.tried + 1 >= len(self.options):
            return False
        return self.pending is None or not all(commute(self.pending, call) for call in self.others)


class Reduction:
    """A driver: play, `restart`, play, until `restart` says that all schedules were tried."""

    def __init__(self, switches_max: int) -> None:
        self._switches_max = switches_max
        self._path: list[_Choice] = []
        self._begin()

    def _begin(self) -> None:
        self._depth = self._switches = 0
        self._pending: dict[str, Call] = {}
        self._interrupted: dict[str, int] = {}
        """Who was interrupted, and how many calls had been made then."""
        self._made: list[tuple[str, Call]] = []
        self._running: str | None = None

    @property
    def calls(self) -> list[tuple[str, Call]]:
        """What was called, by whom, in the order of effects."""
        return [*self._made, *self._pending.items()]

    def restart(self) -> bool:
        """Prepares the next schedule; False when all were tried."""
        made = self.calls
        for choice in self._path:
            if choice.tried == 0:
                choice.others |= {call for label, call in made[choice.at :] if label != choice.running}
        while self._path and not self._path[-1].has_more():
            self._path.pop()
        if self._path:
            self._path[-1].tried += 1
        self._begin()
        return bool(self._path)

    def fault(self, thread: Any, op: str) -> Fault | None:
        """Nothing goes wrong; the call is noted, and that the one before it has been made."""
        self._go(thread.label)
        if thread.calls > 1:
            self._running = thread.label
        self._pending[thread.label] = _call_of(thread, op)
        return None

    def next(self, last: Threadlike | None, ready: Sequence[Any]) -> Any:
        for thread in ready:
            if not thread.calls:
                return thread  # up to its first call, which is not made: then it is known
        by_label = {thread.label: thread for thread in ready}
        if self._running not in by_label:
            chosen = self._chosen(None, list(by_label))
        else:
            chosen = self._chosen(self._running, self._worth_while(self._running, by_label))
        if chosen != self._running:
            self._switches += self._running in by_label
            if self._running in by_label:
                self._interrupted[self._running or ""] = len(self._made)
            self._running = chosen
        if chosen in self._pending:
            self._pending[chosen] = _call_of(by_label[chosen], self._pending[chosen][0])
        self._go(chosen)
        return by_label[chosen]

    def _worth_while(self, running: str | None, labels: Iterable[str]) -> list[str]:
        """Who may go on: the running one first, others if switches are left and something has happened to their call."""
        found = [running or ""]
        if self._switches < self._switches_max:
            found += [label for label in labels if label != running and self._has_been_met(label)]
        return found

    def _has_been_met(self, label: str) -> bool:
        since = self._interrupted.get(label)
        if since is None:
            return True
        own = self._pending.get(label)
        return own is None or any(not commute(own, call) for other, call in self._made[since:] if other != label)

    def _chosen(self, running: str | None, options: list[str]) -> str:
        if len(options) == 1:
            return options[0]
        if self._depth == len(self._path):
            pending = None if running is None else self._pending.get(running)
            self._path.append(_Choice(options, len(self._made), running, pending))
        choice = self._path[self._depth]
        self._depth += 1
        return choice.options[choice.tried]

    def _go(self, label: str) -> None:
        if label in self._pending:
            self._made.append((label, self._pending.pop(label)))


def _call_of(thread: Any, op: str) -> Call:
    """What a thread is about to do. A copy to where something is already is no more than a look at both."""
    if op in _COPIES:
        is_there = thread.target in thread.world.disk.objects
        return _COPIES[is_there], thread.target, thread.process.beside
    return op, thread.target, thread.process.beside if op == "list" else ""

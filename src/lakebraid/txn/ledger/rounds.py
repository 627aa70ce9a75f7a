# SPDX-License-Identifier: Apache-2.0
"""What is put before the ledger: rules, the round that a rule looks at, and the outcome that it wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from lakebraid.errors import DecisionUnknown, LakebraidError
from lakebraid.format.times import format_instant_time, next_instant_time
from lakebraid.model.config import TableConfig
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.loading import list_timeline, load_names, recent_timeline
from lakebraid.table.metadata.layout import MetadataLayout, load_layout
from lakebraid.table.view import View, load_view
from lakebraid.txn.ledger.asks import wish_text
from lakebraid.txn.ledger.entries import EVERYTHING, LedgerState
from lakebraid.txn.ledger.wishes import AGAIN, Look, Wish, apply

if TYPE_CHECKING:
    from lakebraid.txn.ledger.ledger import Ledger

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Wanted(Generic[T_co]):
    """A decision that can be asked for: the wish, the bytes of its timeline files, and what its outcome means."""

    wish: Wish
    parts: tuple[bytes, ...]
    value_of: Callable[[str], T_co]
    """What `Ledger.decide` returns if another process has decided it."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[T_co]):
    """What a rule wants to be so: the state after it, and the timeline files (bytes, name) that say it to Hudi."""

    kind: str
    state: LedgerState
    files: tuple[tuple[bytes, str], ...] = ()
    value: T_co = field(kw_only=True)
    """What `Ledger.decide` returns once the decision is made."""
    wanted: Wanted[T_co] | None = None
    """The same as data, if it can be had that way: then another process may decide it along with its own."""
    touches: int = EVERYTHING
    """The mask of what it changes, beyond what the state has noted already (LEDGER, G10)."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What appears before a timeline file that completes something: files (bytes, name), and the first time they leave free."""

    time: str
    files: tuple[tuple[bytes, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Already(Generic[T_co]):
    """There is nothing to decide: the answer to an earlier attempt got lost, another process did it, or the rule only looks."""

    value: T_co
    """What `Ledger.decide` returns."""


Outcome: TypeAlias = Decision[T] | Already[T]


@dataclass
class Attempted:
    """What one call of `Ledger.decide` has sent so far."""

    slot: int | None = None
    """For which slot a create was sent whose end is not known; None if there is no such one."""
    time: str = ""
    """The time of an entry whose create was sent in this attempt."""
    has_waited: bool = False
    """Whether those who asked for their turn were let go first; once is enough."""
    wish: str = ""
    """The id of a wish that was asked for and is not known to be decided, nor too old to be."""
    beside: str = ""
    """The id of the wish that was asked for beside it."""
    undecided: int = 0
    """The last entry in whose state it was not decided."""

    rounds: int = 0

    def is_first(self) -> bool:
        """Whether this is the first round; it counts them."""
        self.rounds += 1
        return self.rounds == 1

    @property
    def wishes(self) -> frozenset[str]:
        """The ids of all that was asked for, as they are now."""
        return frozenset({self.wish, self.beside})

    @property
    def is_unsettled(self) -> bool:
        """Whether it may have been decided without our knowing."""
        return self.slot is not None or bool(self.wish)

    def settle(self, newest: int) -> None:
        """Forgets the slot once it is taken, and the rule has not found it to be taken by us."""
        if self.slot is not None and self.slot <= newest:
            self.slot = None


class Unforeseen(Exception):
    """No error: a rule looked beyond the state in a round that was held before anything was looked at."""


@dataclass
class Round:
    """What a rule may look at: all of it as it is once the newest entry is applied."""

    _ledger: Ledger
    state: LedgerState
    number: int
    """The slot that the decision would take."""
    settle: Callable[[], object] | None = None
    """Applies the newest entry, if that is not done: called before the rule sees more than the state."""
    states_schema: bool = False
    """Set by a rule that finds that what it is about to publish brings the table a new schema."""
    takes_all: bool = False
    """Set by a rule that finds that what it is about to publish has deletes without ordering value."""
    is_ahead: bool = False
    """Set by a rule whose write began before its caller had any rows."""
    replaced_file: str | None = None
    """Set by an overwrite that is about to be published: the map that says its file ids."""
    _timeline: Timeline | None = None
    _names: list[str] | None = None
    _recent: dict[tuple[str, frozenset[str]], Timeline] = field(default_factory=dict)
    _view: View | None = None
    _layout: MetadataLayout | None = None
    _time: str | None = None
    _minding: int | None = None
    """The mask of what the rule looks at now, if a mask can say it."""
    _minded: int | None = None
    """The masks of what it has looked at."""
    _is_uncovered: bool = False
    """Whether the rule has looked at what no mask says."""

    @classmethod
    def of_timeline(cls, ledger: Ledger, timeline: Timeline) -> Round:
        """A round that looks at a timeline which was loaded before; nothing can be decided in it."""
        return cls(ledger, ledger.newest().state, 0, _timeline=timeline)

    @property
    def ledger(self) -> Ledger:
        """For those who look beyond the state."""
        if self.settle is not None:
            settle, self.settle = self.settle, None
            settle()
        return self._ledger

    @property
    def config(self) -> TableConfig:
        """The table's configuration."""
        return self._ledger.config

    @property
    def is_shared(self) -> bool:
        """Whether writers of Apache Hudi decide on the table, too."""
        return self._ledger.is_shared

    def time(self) -> str:
        """A time greater than every one given before."""
        if self._time is None:
            clock = format_instant_time(self._ledger.clock.now_ms(), self._ledger.config.zone)
            self._time = max(clock, next_instant_time(self.state.last))
        return self._time

    @contextmanager
    def minding(self, mask: int) -> Iterator[None]:
        """What the rule looks at in here stays as it is unless a later decision shares a bit with this mask (LEDGER, G10)."""
        before, self._minding = self._minding, mask
        try:
            yield
        finally:
            self._minding = before

    @property
    def look(self) -> Look | None:
        """What the rule has looked at beside the state, as a mask says it."""
        return None if self._minded is None else Look(self.number - 1, self._minded)

    def _looks(self) -> None:
        if self._minding is None:
            self._is_uncovered = True
        else:
            self._minded = (self._minded or 0) | self._minding

    def timeline(self) -> Timeline:
        self._looks()
        if self._timeline is None:
            self._timeline = list_timeline(self.ledger.table)
        return self._timeline

    def since(self, time: str, request_times: frozenset[str] = frozenset()) -> Timeline:
        """The timeline as far as it matters to what began, or looked, at that time: all that is pending, all that began or
        completed since, the writes with these request times, and the first one. It takes as long whatever lies before.
        """
        self._looks()
        if self._timeline is not None:
            return self._timeline
        known = self._recent.get((time, request_times))
        if known is None:
            if self._names is None:
                self._names = load_names(self.ledger.table)
            recent = recent_timeline(self.ledger.table, self._names, time, request_times)
            known = self._recent[time, request_times] = self.timeline() if recent is None else recent
        return known

    def view(self) -> View:
        self._looks()
        if self._view is None:
            self._view = load_view(self.ledger.table)
        return self._view

    def metadata_layout(self) -> MetadataLayout:
        """The table's metadata table, if it has one, as it is now."""
        self._looks()
        if self._layout is None:
            self._layout = load_layout(self.ledger.table)
        return self._layout

    def wished(
        self,
        kind: str,
        wish: Wish,
        parts: tuple[bytes, ...],
        value_of: Callable[[str], T],
        ahead: Ahead | None = None,
    ) -> Decision[T]:
        """What a wish makes of this round, which its rule has checked; its timeline files hold these bytes, and appear after
        those that go ahead of them.

        It can be asked for unless something goes ahead, or the rule has looked at the timeline, or at files, beyond what it minds.
        """
        first = ahead or Ahead(self.time())
        applied = apply(self.state, self.number, wish, first.time)
        if applied is None or applied.outcome == AGAIN:
            raise DecisionUnknown(f"The wish {wish} does not fit what its rule has looked at. Nothing was decided.")
        files = (*first.files, *((parts[part], name) for part, name in applied.files))
        wanted = None if self._is_uncovered or first.files else Wanted(wish, parts, value_of)
        return Decision(kind, applied.state, files, value=value_of(applied.outcome), wanted=wanted, touches=0)


Rule: TypeAlias = Callable[[Round], Outcome[T]]
"""Asked in every round anew, and may refuse by raising."""


def foreseen(ledger: Ledger, rule: Rule[T]) -> Wanted[T] | None:
    """What the rule would ask for if nothing has changed since this process looked last; None if it must look first.

    The wish names what it depends on, so whatever has changed, it is decided rightly (LEDGER, G8).
    """
    known = ledger.known
    if known is None:
        return None
    try:
        outcome = rule(Round(ledger, known.state, known.number + 1, _unforeseen))
    except (Unforeseen, LakebraidError):
        return None
    wanted = outcome.wanted if isinstance(outcome, Decision) else None
    return wanted if wanted is not None and wish_text(wanted.wish) is not None else None


def _unforeseen() -> None:
    raise Unforeseen

# SPDX-License-Identifier: Apache-2.0
"""The ledger: one place where everything is decided, by creating the next numbered entry.

The process that creates entry n+1 has decided; all others look again. No lock, lease or clock is part of the argument why
this is safe: docs/decisions/0007-ledger.md. Before a process decides n+1, it applies entry n: the files of that entry are
copied onto Hudi's timeline, which any process can do, so a stalled writer blocks no other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import (
    CommitRefused,
    CorruptFile,
    LakebraidError,
    ObjectExists,
    OutcomeUnknown,
    StorageError,
)
from lakebraid.model.config import TableConfig
from lakebraid.storage.parallel import together
from lakebraid.storage.protocol import Storage
from lakebraid.storage.tries import Patience
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline, names_beyond
from lakebraid.txn.hudi.lock import Hold
from lakebraid.txn.hudi.reconcile import (
    check_settings,
    greatest_time,
    insist,
    mind_others,
    past_strangers,
    wait_out_skew,
)
from lakebraid.txn.ledger.applying import apply_restore, was_applied
from lakebraid.txn.ledger.asking import Asked, Beside, ask, carry, is_to_ask, look_and_ask, unknown_decision
from lakebraid.txn.ledger.concluding import Concluding
from lakebraid.txn.ledger.entries import Entry, LedgerState, entry_name, format_entry
from lakebraid.txn.ledger.rounds import Already, Attempted, Decision, Outcome, Round, Rule, foreseen
from lakebraid.txn.ledger.timeline_copies import check_clock, copy_all, since_of, stage_all
from lakebraid.txn.ledger.turns import Turn, patience_seconds
from lakebraid.txn.ledger.watch import GENESIS, Company, Leftovers, Watch
from lakebraid.txn.ledger.wishes import noted

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Ledger:
    """The ledger of one table, as one process knows it. Not for several threads at once."""

    table: TableAt
    lock: Callable[[Callable[[], None]], AbstractContextManager[Hold | None]] = lambda _: contextlib.nullcontext()
    """Hudi's own lock, where the table is shared with Apache Hudi writers."""
    is_shared: bool = False
    applied: int = 0
    """The number of the last entry that is known to be applied."""
    entered: Entry | None = None
    """The entry in which the last decision was made."""
    may_ask: bool = False
    """Whether its decisions take long to think about, so that it may ask others to wait when it loses rounds."""
    company: Company = field(default_factory=Company)
    confirm: Callable[[], None] | None = None
    """Called once before this process creates an entry: raises if what it remembers of the table is no longer so."""
    watch: Watch = field(init=False)
    leftovers: Leftovers = field(init=False)
    _beyond: list[str] | None = None
    """The timeline's files beyond the newest entry, as the last look showed them."""
    _begun: Concluding | None = None
    """A decision whose entry is created, while the rest of it goes on behind the caller's back."""

    def __post_init__(self) -> None:
        self.watch = Watch(self.storage, self.clock, self.company)
        self.leftovers = Leftovers(self.watch)

    @property
    def known(self) -> Entry | None:
        """The newest entry that this process has seen."""
        return self.watch.known

    @property
    def storage(self) -> Storage:
        return self.table.storage

    @property
    def clock(self) -> Clock:
        return self.table.clock

    @property
    def config(self) -> TableConfig:
        return self.table.config

    @property
    def is_far(self) -> bool:
        """Whether calls take long: then wishes are asked for, and much goes on behind the caller's back."""
        return self.company.is_far and not self.is_shared

    @property
    def asks(self) -> bool:
        """Whether wishes are asked for: then this process may be the one that gives others their times."""
        return self.is_far and self.company.is_clock_right(self.clock)

    def newest(self) -> Entry:
        """The newest entry; `genesis` if nothing was ever decided here."""
        self.catch_up()
        return self.watch.newest()

    def catch_up(self) -> None:
        """Returns when nothing that this ledger has decided goes on behind the caller's back."""
        if self._begun is not None:
            self._begun.end()  # and what became of it stays known: `counts` is asked later

    def counts(self) -> bool:
        """Whether the last decision of this ledger counts; StorageError if that cannot be told yet."""
        return self._begun is None or self._begun.counts()

    def confirmed(self) -> None:
        """Raises if what this process remembered of the table was not so, the first time it is asked."""
        confirm, self.confirm = self.confirm, None
        if confirm is not None:
            confirm()

    def settled(self) -> Entry:
        """The newest entry, applied: needed to act on a decision outside of `decide`."""
        entry = self.newest()
        self._apply_newest(entry)
        return entry

    def looked(self) -> Round | None:
        """The newest round for a process that may only read; None while its entry is not applied yet."""
        entry = self.newest()
        is_true = all(self.watch.has(target) for _, target in entry.files)
        return Round(self, entry.state, entry.number + 1) if is_true else None

    def decide(
        self,
        decider: str,
        rule: Rule[T],
        *,
        before_applied: Callable[[T], object] | None = None,
        lazily: bool = False,
        beside: Beside | None = None,
        attempted: Attempted | None = None,
    ) -> T:
        """What the rule's decision gave: made now, or found to be made already. The rule may refuse by raising.

        DecisionUnknown if the store stopped answering while the decision may have been made. If it may be made `lazily`,
        and calls take long, this returns once its entry is created: `counts` says whether it means something. What is wanted
        `beside` is asked for at the same time, if this is asked for; `attempted` goes on with what was.
        """
        attempted, patience = attempted or Attempted(), Patience(self.clock)
        asked = Asked(before_applied, lazily, beside)
        with (
            Turn(self.storage, self.clock) if self.may_ask and not self.is_shared else contextlib.nullcontext() as turn
        ):
            for attempt in range(limits.DECIDE_ATTEMPTS_MAX):
                try:
                    with self.lock(self._stand_in) as hold:
                        try:
                            found = self._try(decider, rule, asked, attempted, hold)
                        finally:
                            self._let_clocks_pass(attempted)
                    patience.renew()
                except StorageError as error:
                    if isinstance(error, OutcomeUnknown) and patience.wait():
                        continue
                    if attempted.is_unsettled:
                        raise unknown_decision(self.storage.url, error.message) from error
                    raise
                if found is not None:
                    return found.value
                if turn is not None:
                    turn.lost(attempt + 1)
                self._stand_back(attempt)
        reason = f"No decision was reached in {limits.DECIDE_ATTEMPTS_MAX:,} attempts: others were faster."
        if attempted.is_unsettled:
            raise unknown_decision(self.storage.url, reason)
        raise StorageError(
            f"{reason} Nothing was decided; {self.storage.url} is as before. Try again with fewer writers.",
            path=self.storage.url,
        )

    def sweep_staged(self, below: int) -> None:
        """Removes staged objects of slots below, whose entries are applied or void, and asks that can no longer be decided."""
        self.leftovers.sweep(below, self.known or self.newest())

    def _try(
        self, decider: str, rule: Rule[T], asked: Asked[T], attempted: Attempted, hold: Hold | None
    ) -> Already[T] | None:
        """What is decided now; None if another process took the slot, or it is to be seen in the next round who did."""
        self.catch_up()
        wanted = foreseen(self, rule) if attempted.is_first() and self.asks else None
        if wanted is not None:
            return ask(self, look_and_ask(self, wanted, asked, attempted), wanted, asked, attempted)
        found = self.look() if asked.beside is None else look_and_ask(self, None, asked, attempted)
        entry = self._let_others_go(found, attempted)
        state, voids = self._state_of(entry)
        now = Round(self, state, entry.number + 1, None if self.is_shared else partial(self._apply_newest, entry))
        outcome = self._asked(rule, now)
        if outcome is None:
            return None
        if isinstance(outcome, Already):
            return self._settled(now, outcome)
        attempted.settle(entry.number)
        may_be_asked = self.asks or bool(attempted.wish)
        if outcome.wanted is not None and may_be_asked and is_to_ask(self, outcome.wanted.wish):
            return ask(self, entry, outcome.wanted, asked, attempted)
        if self.is_shared:
            check_settings(self.table, outcome.kind)
        mine = self._stage(self._settled(now, entry), decider, outcome, voids)
        shown = None if asked.before_applied is None else partial(asked.before_applied, outcome.value)
        is_made = self._enter(entry, mine, shown, attempted, hold, lazily=asked.lazily)
        return Already(outcome.value) if is_made else None

    def look(self) -> Entry:
        """The newest entry; where calls take long, what lies on the timeline beyond it is looked for at the same time."""
        known = self.known
        if self.is_shared or known is None:
            self._beyond = None
            return self.watch.newest()
        entry, self._beyond = together(
            self.storage, self.watch.newest, lambda: names_beyond(self.table, known.state.last)
        )
        return cast("Entry", entry)

    def _state_of(self, entry: Entry) -> tuple[LedgerState, int | None]:
        """The state to go on from, and the number of an entry that is void. On a shared table the entry is applied then."""
        if self.is_shared:
            state, voids = self._apply_newest(entry)
            return mind_others(self.table, state), voids
        return self._past_strangers(entry.state), None

    def _settled(self, now: Round, found: R) -> R:
        """The same once the newest entry is applied."""
        _ = now.ledger
        return found

    def _enter(
        self,
        entry: Entry,
        mine: Entry,
        shown: Callable[[], object] | None,
        attempted: Attempted,
        hold: Hold | None = None,
        *,
        lazily: bool = False,
    ) -> bool:
        """Creates the next entry and applies it; False if another process took the slot, or it is to be seen who did."""
        if hold is not None and not hold.check():
            self.leftovers.add(mine)
            return False
        self.confirmed()
        attempted.slot = mine.number
        attempted.time = mine.time if mine.time > entry.time else ""
        try:
            self.storage.create(entry_name(mine.number), format_entry(mine))
        except ObjectExists:
            self.leftovers.add(mine)
            return False  # if it was our own, unanswered or repeated by the store, the rule will see it
        if lazily and self.is_far:
            self.watch.known = self.entered = mine
            self._begun = Concluding(
                self.storage, partial(self._counts, mine, shown), partial(self._conclude, entry, mine, attempted.wishes)
            )
            return True
        if not self._counts(mine, shown):
            return False  # the slot had been trimmed: this entry may mean nothing (LEDGER, H2)
        if mine.voids is not None:
            self.sweep_staged(mine.number)  # a late copy for the void entry must find no source
        if not ((hold is None or hold.check()) and self._conclude(entry, mine, attempted.wishes)):
            return False  # the next holder of the lock applies it, or finds it void if Hudi went on; the rule will see
        self.entered = mine
        return True

    def _counts(self, mine: Entry, shown: Callable[[], object] | None) -> bool:
        """Whether an entry that was created means something; others may be shown a sign of it before its files appear."""
        if shown is None:
            return self.watch.counts(mine)
        return bool(together(self.storage, lambda: self.watch.counts(mine), shown)[0])

    def _conclude(self, entry: Entry, mine: Entry, own: Collection[str]) -> bool:
        """Applies an entry of this process; False if, on a shared table, it is to be seen whether it is void."""
        if not self._apply(mine) and self.is_shared:
            return False
        self.applied = max(self.applied, mine.number)
        self.watch.note(mine)
        self.leftovers.after(entry, mine, own, may_wait=not self.is_shared, is_far=self.is_far)
        return True

    def decide_asks(
        self,
        entry: Entry,
        attempted: Attempted,
        shown: Callable[[LedgerState], object] | None = None,
        *,
        lazily: bool = False,
    ) -> bool:
        """Whether the next entry decides the asks that are there, and nothing else."""
        self._apply_newest(entry)
        together: Decision[None] = Decision("asks", self._past_strangers(entry.state), value=None, touches=0)
        mine = self._stage(entry, "", together, None)
        show = None if shown is None else partial(shown, mine.state)
        return self._enter(entry, mine, show, attempted, lazily=lazily)

    def _asked(self, rule: Rule[T], now: Round) -> Outcome[T] | None:
        """What the rule says; None if it failed over what only a newer entry explains.

        A round's timeline and files may be newer than its state: another process has decided since, and a file was
        removed, or a time was given that the state does not know. Refusals stay true, so they count at once.
        """
        try:
            return rule(now)
        except (OutcomeUnknown, CommitRefused):
            raise
        except LakebraidError:
            if self.watch.numbers_after(now.number - 1):
                return None
            raise

    def _let_clocks_pass(self, attempted: Attempted) -> None:
        """Before Hudi's lock passes on, however the attempt ended: a time that may have been given counts as given."""
        if self.is_shared and attempted.time:
            wait_out_skew(self.clock, self.config, attempted.time)
            attempted.time = ""

    def _stand_in(self) -> None:
        """What a dead holder of Hudi's lock would have done before it passes on: a job of Hudi may be the next holder."""
        with contextlib.suppress(CorruptFile):  # of the ledger: the next decision tells
            entry = self.settled()
            if entry.time > GENESIS.time:
                wait_out_skew(self.clock, self.config, entry.time)

    def _apply_newest(self, entry: Entry) -> tuple[LedgerState, int | None]:
        """The state to go on from; on a shared table also the number of an entry that is void."""
        if entry.number <= self.applied:
            return entry.state, None
        if self.is_shared and entry.files and not self.watch.has(entry.files[0][1]):
            if was_applied(self.table, entry):
                return entry.state, None
            if greatest_time(load_timeline(self.table)) >= entry.time:
                # Hudi went on before it was applied: its decider lost the lock, or died. It may not come after Hudi.
                return self.watch.before(entry).state, entry.number
        self._apply(entry)
        self.applied = entry.number
        return entry.state, None

    def _apply(self, entry: Entry) -> bool:
        """False if a staged object is gone: then it was applied before, or, on a shared table, it is void."""
        if self.is_shared and entry.kind == "restore":
            return insist(self.clock, lambda: apply_restore(self.table, entry))
        return copy_all(self.storage, self.clock, entry.files, is_ordered=entry.since is None)

    def _stage(self, newest: Entry, decider: str, outcome: Decision[object], voids: int | None) -> Entry:
        number = newest.number + 1
        staged = stage_all(self.storage, self.clock, number, [data for data, _ in outcome.files])
        if staged and outcome.kind == "begin":
            check_clock(self.storage, self.clock, next(iter(staged.values())))
        folder = f"{self.config.timeline_folder}/"
        files = tuple((staged[data], name if "/" in name else folder + name) for data, name in outcome.files)
        names = () if self.is_shared else self.watch.names
        state = noted(outcome.state, number, outcome.touches)
        state, asked = carry(self.table, state, number, names) if names else (state, ())
        floor = newest.floor
        if outcome.kind != "begin" and number - floor >= 2 * limits.LEDGER_ENTRIES_KEPT:
            floor = number - limits.LEDGER_ENTRIES_KEPT
        since = since_of(self.table, newest, outcome.kind, files := (*files, *asked))
        return Entry(number, decider, outcome.kind, state.last, floor, files, state, voids, since)

    def _let_others_go(self, entry: Entry, attempted: Attempted) -> Entry:
        """The newest entry, after those had their turn who asked for it (turns.py), or a moment of waiting."""
        until = self.clock.monotonic() + (patience_seconds(self.watch.turns) if self.watch.turns else 0)
        while self.watch.turns and not (attempted.has_waited or self.may_ask or self.is_shared):
            self.clock.sleep(0.005 + 0.02 * self.clock.random())
            entry = self.newest()
            attempted.has_waited = self.clock.monotonic() > until
        attempted.has_waited = True
        return entry

    def _past_strangers(self, state: LedgerState) -> LedgerState:
        """The state with `last` moved past every time on the timeline that was not given here: Hudi was at work."""
        beyond = names_beyond(self.table, state.last) if self._beyond is None else self._beyond
        return past_strangers(self.table, state, beyond) if beyond else state

    def _stand_back(self, attempt: int) -> None:
        """Lets others go first after some lost races; the first ones are simply tried again."""
        if attempt >= 2:
            self.clock.sleep(min(0.001 * 2 ** min(attempt, 10), 0.25) * self.clock.random())

# SPDX-License-Identifier: Apache-2.0
"""The protocol with asks (group commit), as far as latency and requests go.

A wish is an object beside the entries; the creator of the next entry decides all that it has seen. Not played: failures,
expiry, heavy decisions. Safety is no matter here: nothing is lost in this store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.cloud.model.events import Process, Request, World

FILES = {"begin": 2, "publish": 1}
COPIES_AT_ONCE = 128
DATA_PUTS = 8
FEW_FILES = 4
ASKS_MAX = 256
ALONE_AFTER = 3
COPY = Request("copy", resend=True)


@dataclass(eq=False, slots=True)
class Ask:
    """One wish; `seen` is the entry in whose state its author saw it undecided."""

    kind: str
    seen: int
    wish: float
    is_waited_for: bool = True
    is_there: bool = False
    slot: int = 0
    """The entry that decided it."""


@dataclass(slots=True)
class Entry:
    asks: list[Ask]
    is_marked: bool = False

    @property
    def files(self) -> int:
        return sum(FILES[ask.kind] for ask in self.asks)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one listing of the ledger's folder shows."""

    newest: int
    asks: tuple[Ask, ...]
    marks: bool
    """Whether the newest entry has its mark."""


@dataclass
class Folder:
    entries: list[Entry] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)

    def seen(self) -> Seen:
        waiting = sorted((a for a in self.asks if not a.slot), key=lambda a: (a.seen, a.wish))
        return Seen(len(self.entries), tuple(waiting), bool(self.entries) and self.entries[-1].is_marked)

    def put(self, ask: Ask) -> None:
        ask.is_there = True
        self.asks.append(ask)

    def create(self, number: int, asks: Iterable[Ask]) -> bool:
        if number != len(self.entries) + 1:
            return False
        decided = [ask for ask in asks if not ask.slot]
        for ask in decided:
            ask.slot = number
        self.entries.append(Entry(decided))
        self.asks = [ask for ask in self.asks if not ask.slot]
        return True

    def mark(self, number: int) -> None:
        self.entries[number - 1].is_marked = True


@dataclass
class Writer:
    """Commits without pause. `order`: completed files one after the other, or all at once; `ahead`: begins beside its publish."""

    world: World
    folder: Folder
    told: Callable[[float], None]
    order: Literal["each", "group"] = "each"
    ahead: bool = False
    known: int = 0
    true: set[int] = field(default_factory=set)
    """Entries that this writer knows to be true."""
    alone_for: int = 0
    """In how many decisions in a row it has met nobody."""
    own: list[Ask] = field(default_factory=list)
    """Its last asks."""

    def run(self) -> Process:
        # Nobody begins at the same moment as all others.
        yield self.world.chance.random()
        begin: Ask | None = None
        while True:
            begun, publish, following = self.world.now, None, None
            if self.alone_for >= ALONE_AFTER:
                begin, publish, following = yield from self._lone_commit(begin)
            if publish is None:
                yield from self._begun(begin)
                yield [Request("put"), Request("head")]  # markers, partition
                yield [Request("put")] * (DATA_PUTS + 1)  # and the heartbeat
                publish, following = self._ask("publish"), self._ask_ahead()
            if not publish.slot:
                yield from self._want(publish, () if following is None else (self._put(following),))
            self.world.send([Request("delete"), Request("delete")])  # markers and heartbeat, without waiting
            begin = following
            self.told(self.world.now - begun)

    def _begun(self, begin: Ask | None) -> Process:
        if begin is None:
            begin = self._ask("begin")
            yield from self._want(begin, (Request("get"), Request("list")))  # properties, timeline
        else:
            begin.is_waited_for = True
            yield from self._told_of(begin)

    def _lone_commit(self, begin: Ask | None) -> Process:
        """Seven steps, as long as it meets nobody: what is not done by then is None, or has no slot yet."""
        files: list[Request] = []
        if begin is None:
            seen, *_ = yield [self._list(), Request("list"), Request("get"), Request("put")]  # the last one stages
            begin, number = self._ask("begin"), self.known + 1
            if self._meets(seen) or not (yield [Request("put", lambda: self.folder.create(number, [begin]))])[0]:
                self.alone_for = 0
                return None, None, None
            self.known = number
            yield [self._list(), Request("put"), Request("head")]  # the last ones: markers, partition
            files = [COPY] * FILES["begin"]
        elif not begin.slot:
            return begin, None, None
        else:
            yield [Request("put"), Request("head")]
        publish, following = self._ask("publish"), self._ask_ahead()
        data = [Request("put")] * (DATA_PUTS + 2)  # the heartbeat, and the staged commit
        seen, *_ = yield [self._list(), *files, *data, *([self._put(following)] if following else [])]
        self.true.add(self.known)
        if self._meets(seen):
            self.alone_for = 0
        else:
            yield from self._try(publish, seen)
        return begin, publish, following

    def _meets(self, seen: Seen) -> bool:
        return seen.newest > self.known or any(ask not in self.own for ask in seen.asks if ask.is_waited_for)

    def _ask(self, kind: str) -> Ask:
        ask = Ask(kind, self.known, self.world.chance.random())
        self.own = [*self.own[-2:], ask]
        return ask

    def _ask_ahead(self) -> Ask | None:
        ask = self._ask("begin") if self.ahead else None
        if ask:
            ask.is_waited_for = False
        return ask

    def _put(self, ask: Ask) -> Request:
        return Request("put", lambda: self.folder.put(ask))

    def _list(self) -> Request:
        return Request("list", self.folder.seen)

    def _want(self, ask: Ask, beside: tuple[Request, ...]) -> Process:
        ask.seen = self.known
        answers = yield [self._list(), self._put(ask), *beside]
        yield from self._told_of(ask, answers[0])

    def _told_of(self, ask: Ask, seen: Seen | None = None) -> Process:
        """Until the wish is decided, and a publish true: data may be written before the files of its begin are there."""
        since = self.world.now
        while True:
            if ask.slot and ask.slot <= self.known:
                if ask.kind == "publish":
                    yield from self._until_true(ask.slot)
                return
            if seen is None:
                (seen,) = yield [self._list()]
            if seen.newest > self.known:
                seen = yield from self._catch_up(seen)
                since = self.world.now
                continue
            rank = self._rank(ask, seen)
            newest = self._newest()
            settled = self._is_true(seen) or newest is None or newest.files <= FEW_FILES
            if (rank == 0 and settled) or self.world.now - since > self._patience(rank):
                seen = yield from self._try(ask, seen)
                since = self.world.now
            elif rank == 0:
                yield self._moment()
                seen = None
            else:
                seen = yield from self._poll(rank, since)

    def _poll(self, rank: int, since: float) -> Process:
        """Waits for the next entry by getting it."""
        while self.world.now - since <= self._patience(rank):
            yield self._moment()
            (is_there,) = yield [Request("get", lambda: len(self.folder.entries) > self.known)]
            if is_there:
                break

    def _try(self, ask: Ask, seen: Seen) -> Process:
        """Decides all asks of the listing; the new listing, or None if another writer was faster."""
        if not self._is_true(seen):
            yield from self._make_true(self.known)
        number = self.known + 1
        # Its own asks count if their puts were acknowledged, whether or not the listing shows them.
        asks = dict.fromkeys([ask, *(own for own in self.own if own.is_there and not own.slot), *seen.asks])
        chosen = [*asks][:ASKS_MAX]
        (created,) = yield [Request("put", lambda: self.folder.create(number, chosen))]
        (after,) = yield [self._list()]
        if not created:
            return after
        self.known = number
        decided = self.folder.entries[number - 1].asks
        yield from self._make_true(number)
        has_met = any(other not in self.own for other in decided)
        self.alone_for = 0 if has_met else self.alone_for + 1
        if has_met:
            yield [Request("put", lambda: self.folder.mark(number))]
        self.world.send([Request("delete")])
        return after

    def _catch_up(self, seen: Seen) -> Process:
        """Reads the newest entry, and lists once more: it counts only if nothing lies above it."""
        yield [Request("get")]
        self.known = max(self.known, seen.newest)
        (after,) = yield [self._list()]
        self.alone_for = 0
        return after if after.newest >= seen.newest else None

    def _until_true(self, slot: int) -> Process:
        """By its mark, or because there is a later entry; after some patience by copying."""
        since = self.world.now
        while slot not in self.true and slot >= self.known:
            (is_marked,) = yield [Request("get", lambda: self.folder.entries[slot - 1].is_marked)]
            if is_marked:
                self.true.add(slot)
            elif self.world.now - since > self._patience(1 + int(8 * self.world.chance.random())):
                yield from self._make_true(slot)
            else:
                yield self._moment()

    def _make_true(self, number: int) -> Process:
        entry = self.folder.entries[number - 1]
        completed = sum(ask.kind == "publish" for ask in entry.asks)
        pending = entry.files - completed
        together = pending if self.order == "each" else entry.files
        for at in range(0, together, COPIES_AT_ONCE):
            yield [COPY] * min(COPIES_AT_ONCE, together - at)
        if self.order == "each":
            for _ in range(completed):
                yield [COPY]
        self.true.add(number)

    def _rank(self, ask: Ask, seen: Seen) -> int:
        return sum(a.is_waited_for and (a.seen, a.wish) < (ask.seen, ask.wish) for a in seen.asks if a is not ask)

    def _patience(self, rank: int) -> float:
        newest = self._newest()
        files = newest.files if newest else 0
        completions = sum(ask.kind == "publish" for ask in newest.asks) if newest and self.order == "each" else 0
        return 0.3 + 0.2 * files / COPIES_AT_ONCE + 0.08 * completions + 0.1 * rank

    def _newest(self) -> Entry | None:
        return self.folder.entries[self.known - 1] if self.known else None

    def _is_true(self, seen: Seen) -> bool:
        return not self.known or self.known in self.true or (seen.newest == self.known and seen.marks)

    def _moment(self) -> float:
        return 0.02 + 0.04 * self.world.chance.random()

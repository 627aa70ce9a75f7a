# SPDX-License-Identifier: Apache-2.0
"""Readers that hold files back: leases, which live as long as their holders beat, and named consumers, which stay.

Both are facts of the ledger. A reader that is entered before a clean is decided is seen by that clean; a later one
is held against what the clean removes. So a reader either has its files, or is told that they are gone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lakebraid import limits
from lakebraid.errors import InvalidArgument, LakebraidError, ObjectNotFound, StorageError
from lakebraid.storage.protocol import Storage
from lakebraid.txn.actions.savepoints import check_kept
from lakebraid.txn.ledger.entries import BEYOND, FOLDER, Lease, LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Outcome, Round
from lakebraid.txn.ledger.wishes import consumer_wish, drop_lease_wish, lease_wish
from lakebraid.txn.liveness.heartbeat import storage_now_ms

LEASES: Final = f"{FOLDER}/leases"
NEVER: Final = "0" * 17
"""The position of a consumer that has read nothing: it needs no version of the past."""


@contextlib.contextmanager
def leased(ledger: Ledger, time: str) -> Iterator[None]:
    """Holds the files of that completion time back from every clean of lakebraid, for as long as the block runs.

    Apache Hudi's own cleaner knows nothing of it. SnapshotExpired if some of them are gone already, or about to go.
    """
    token = ledger.clock.token()
    take_lease(ledger, token, f"{socket.gethostname()}:{os.getpid()}", time)
    keeping = _Keeping(ledger.storage, token)
    keeping.run()
    try:
        yield
    finally:
        keeping.stop()
        # Without an answer it goes when its beats have been silent for long enough.
        with contextlib.suppress(LakebraidError):
            drop_lease(ledger, token)


def take_lease(ledger: Ledger, token: str, holder: str, time: str) -> None:
    """Enters a lease. SnapshotExpired if a clean removed what it is about, or was decided to."""
    ledger.storage.replace(_beat_name(token), b"")  # before others can see the lease: without a beat it would be dead

    def rule(now: Round) -> Outcome[None]:
        if token in now.state.leases:
            return Already(None)
        with now.minding(BEYOND):
            check_readable(now, time)
        if len(now.state.leases) >= limits.LEASES_MAX:
            raise InvalidArgument(
                f"{ledger.storage.url} has {limits.LEASES_MAX:,} leases already. Nothing was changed. End some readers, "
                "or clean: that drops the leases of dead ones.",
                path=ledger.storage.url,
            )
        wish = lease_wish(token, Lease(time, holder), now.number - 1)
        return now.wished("lease", wish, (b"",), lambda _: None)

    try:
        ledger.decide(token, rule)
        ledger.storage.replace(_beat_name(token), b"")  # again: entering may have taken so long that it was swept
    except LakebraidError:
        with contextlib.suppress(LakebraidError):
            drop_lease(ledger, token)
        raise


def drop_lease(ledger: Ledger, token: str) -> None:
    """Gives a lease back, if it is still there."""

    def rule(now: Round) -> Outcome[None]:
        if token not in now.state.leases:
            return Already(None)
        return now.wished("drop lease", drop_lease_wish(token), (b"",), lambda _: None)

    ledger.decide(token, rule)
    ledger.storage.delete([_beat_name(token)])


def expired_leases(ledger: Ledger, state: LedgerState) -> tuple[str, ...]:
    """Tokens of leases without a beat for longer than the limit, by the storage's own time."""
    if not state.leases:
        return ()
    now_ms = storage_now_ms(ledger.storage, ledger.clock)
    return tuple(token for token in sorted(state.leases) if now_ms - _last_beat_ms(ledger, token) >= limits.LEASE_MS)


def forget_beats(ledger: Ledger) -> None:
    """Removes beats of leases that are no more. A recent one may be of a lease that is about to be entered: without its
    beat a clean would take it for dead.
    """
    with contextlib.suppress(StorageError):  # the next clean does it
        infos = ledger.storage.list(LEASES)
        known = {_beat_name(token) for token in ledger.newest().state.leases} if infos else set()
        unknown = [info for info in infos if info.name not in known]
        if unknown:
            now_ms = storage_now_ms(ledger.storage, ledger.clock)
            ledger.storage.delete([i.name for i in unknown if now_ms - i.modified_ms >= limits.LEASE_MS])


def check_readable(now: Round, time: str) -> None:
    """Raises SnapshotExpired if a clean, decided or done, removes a file that a read as of `time` needs.

    A clean that began before that time left alone what is read from its own time on.
    """
    timeline = now.timeline()
    may_be_gone = any(i.action in ("clean", "restore") and i.request_time > time for i in timeline)
    first = min((i.request_time for i in timeline), default="")
    if may_be_gone or time < max(now.state.horizon, first) or now.state.restores:
        check_kept(now, time)


def register_consumer(ledger: Ledger, name: str, position: str | None) -> str:
    """The position of the consumer of that name; a new one begins at `position`, or, without one, now.

    SnapshotExpired if that version is gone.
    """
    _check_name(name)

    def rule(now: Round) -> Outcome[str]:
        known = now.state.consumers.get(name)
        if known is not None:
            return Already(known)
        # While a restore is under way, the moments between its target and itself are not readable; its own is.
        with now.minding(BEYOND):
            newest = max((now.timeline().last_completion or NEVER, *now.state.restores))
            begin = newest if position is None else position
            if begin > now.state.last:
                raise _not_yet(ledger, name, begin)
            if begin != NEVER:
                check_readable(now, begin)
        if len(now.state.consumers) >= limits.CONSUMERS_MAX:
            raise InvalidArgument(
                f"{ledger.storage.url} has {limits.CONSUMERS_MAX:,} consumers already. Nothing was changed. Drop those "
                "that no process uses: they hold files back.",
                path=ledger.storage.url,
            )
        return now.wished("consumer", consumer_wish(name, None, begin, now.number - 1), (b"",), lambda _: begin)

    return ledger.decide(ledger.clock.token(), rule)


def advance_consumer(ledger: Ledger, name: str, position: str) -> str:
    """Where the consumer is afterwards: at `position`, or further if another process had brought it there."""

    def rule(now: Round) -> Outcome[str]:
        known = now.state.consumers.get(name)
        if known is None:
            raise InvalidArgument(
                f"{ledger.storage.url} has no consumer {name!r}: it was dropped. Nothing was changed. Register it again "
                "with table.consumer(name).",
                path=ledger.storage.url,
            )
        if position <= known:
            return Already(known)
        if position > now.state.last:
            raise _not_yet(ledger, name, position)
        return now.wished("consumer", consumer_wish(name, known, position), (b"",), lambda _: position)

    return ledger.decide(ledger.clock.token(), rule)


def drop_consumer(ledger: Ledger, name: str) -> bool:
    """Forgets a consumer, so that it holds nothing back; False if there is none of that name."""

    def rule(now: Round) -> Outcome[bool]:
        if name not in now.state.consumers:
            return Already(value=False)
        return now.wished("consumer", consumer_wish(name, now.state.consumers[name], None), (b"",), lambda _: True)

    return ledger.decide(ledger.clock.token(), rule)


def _not_yet(ledger: Ledger, name: str, position: str) -> InvalidArgument:
    return InvalidArgument(
        f"The consumer {name!r} cannot be at {position}: that time has not come yet. Nothing was changed. Give the "
        "`next_position` of the changes that were read.",
        path=ledger.storage.url,
    )


def _check_name(name: str) -> None:
    if not (isinstance(name, str) and 0 < len(name) <= limits.CONSUMER_NAME_CHARACTERS_MAX and name.isprintable()):
        raise InvalidArgument(
            f"A consumer needs a printable name of at most {limits.CONSUMER_NAME_CHARACTERS_MAX} characters, "
            f"{name!r:.80} is none. Nothing was changed."
        )


def _beat_name(token: str) -> str:
    return f"{LEASES}/{token}"


def _last_beat_ms(ledger: Ledger, token: str) -> int:
    try:
        return ledger.storage.info(_beat_name(token)).modified_ms
    except ObjectNotFound:
        return 0  # it is written before the lease is entered: who has none is no more


@dataclass
class _Keeping:
    """Beats in the background for as long as a lease is held."""

    storage: Storage
    token: str
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        threading.Thread(target=self._loop, name=f"lakebraid-lease-{self.token}", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _loop(self) -> None:
        while not self._stop.wait(limits.LEASE_INTERVAL_MS / 1000):
            with contextlib.suppress(StorageError):  # one missed beat is no harm
                self.storage.replace(_beat_name(self.token), b"")

# SPDX-License-Identifier: Apache-2.0
"""Staged objects: the bytes of timeline files before they are decided, each for one slot of the ledger.

A timeline file appears only by a copy of its staged object, and a staged object is never written again: so once it
is removed, no late copy brings the timeline file back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import EnvironmentProblem, ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.format.names import State, parse_data_file, parse_timeline_file
from lakebraid.format.timeline.publication import completed_files
from lakebraid.storage.parallel import map_calls, together
from lakebraid.storage.protocol import Storage
from lakebraid.storage.tries import tries
from lakebraid.table.at import TableAt
from lakebraid.txn.ledger.entries import STAGED, Entry, parse_staged_name, staged_name

_ORDERED_KINDS: Final = frozenset({"create", "restore"})


def stage(storage: Storage, clock: Clock, number: int, data: bytes) -> str:
    """The name of a new object with these bytes, for the slot of this number."""
    # An unanswered create goes on under a fresh name: no name is ever written twice. (LEDGER, H7)
    for _ in tries(clock):
        name = staged_name(number, clock.token())
        try:
            storage.create(name, data)
        except (OutcomeUnknown, ObjectExists):
            continue
        else:
            return name
    raise StorageError(
        f"{storage.url} did not confirm one of several small writes in a row. Nothing was decided; "
        "the table is as before. Try again when the store answers.",
        path=storage.url,
    )


def stage_all(storage: Storage, clock: Clock, number: int, contents: Iterable[bytes]) -> dict[bytes, str]:
    """The staged objects of these bytes. Equal ones (the empty files of a beginning) share one: it is read, never changed."""
    wanted = list(dict.fromkeys(contents))
    names = map_calls(storage, lambda data: stage(storage, clock, number, data), wanted)
    return dict(zip(wanted, names, strict=True))


def check_clock(storage: Storage, clock: Clock, staged: str) -> None:
    """Raises if this machine's clock is ahead of the storage's: one bad clock would drag the times of all writers."""
    try:
        ahead_ms = clock.now_ms() - storage.info(staged).modified_ms
    except ObjectNotFound:
        return  # swept: another process has taken the slot, and the create will say so
    if ahead_ms > limits.CLOCK_AHEAD_MS_MAX:
        raise EnvironmentProblem(
            f"The clock of this machine is {ahead_ms // 1000:,} seconds ahead of the storage of {storage.url}. "
            "Nothing was decided; the table is as before. Set the clock (NTP) and try again.",
            ahead_ms=ahead_ms,
        )


def copied(storage: Storage, clock: Clock, source: str, target: str) -> bool:
    """Whether the timeline file is there now; False if its staged object is gone."""
    for _ in tries(clock):
        try:
            storage.copy(source, target)
        except ObjectNotFound:
            return False
        except OutcomeUnknown:
            continue
        else:
            return True
    raise OutcomeUnknown(
        f"{storage.url} did not confirm {target}. It was decided and will appear. Nothing was removed. "
        "Look at the timeline before trying again.",
        path=target,
    )


def copy_all(storage: Storage, clock: Clock, files: Sequence[tuple[str, str]], *, is_ordered: bool = True) -> bool:
    """The same for all files of an entry, in their order: those that show nothing yet beside their neighbours, completed ones
    one after the other, so that readers see a prefix of what the entry publishes. Pending files of writes that begin do not keep
    completed ones waiting: readers pass over files of a write that is not completed, whether they see that it is pending or not.
    Without order all appear side by side.
    """
    if not is_ordered:
        return all(map_calls(storage, lambda file: copied(storage, clock, *file), files))
    first = next((at for at, file in enumerate(files) if _is_completed(file[1])), len(files))
    beside = first if _only_begin(files, first) else 0
    calls = [partial(copied, storage, clock, *file) for file in files[:beside]]
    return all(together(storage, *calls, partial(_copy_in_order, storage, clock, files[beside:])))


def _copy_in_order(storage: Storage, clock: Clock, files: Sequence[tuple[str, str]]) -> bool:
    for is_completed, run in groupby(files, key=lambda file: _is_completed(file[1])):
        if is_completed:
            are_there = all(copied(storage, clock, *file) for file in run)
        else:
            are_there = all(map_calls(storage, lambda file: copied(storage, clock, *file), [*run]))
        if not are_there:
            return False
    return True


def _only_begin(files: Sequence[tuple[str, str]], first: int) -> bool:
    """Whether those before the first completed one are of writes that begin in the entry, and do not end in it."""
    parsed = [parse_timeline_file(target.rpartition("/")[2]) for _, target in files]
    ended = {name.request_time for name in parsed[first:] if name is not None and name.state is State.COMPLETED}
    return all(
        name is not None and name.action in ("commit", "deltacommit") and name.request_time not in ended
        for name in parsed[:first]
    )


def since_of(table: TableAt, newest: Entry, kind: str, files: Sequence[tuple[str, str]]) -> str | None:
    """What an entry after the newest one says of its order: None if its completed files appear one after the other.

    A table has its properties last, a restore counts from its request, and a metadata table is completed before the table is
    (MDT, M1); where there is one completed file there is nothing to put in order, and readers need not mind the entry.
    """
    config = table.config
    if config.publishes_in_order or config.lock_provider is not None or config.metadata_partitions:
        return None
    if kind in _ORDERED_KINDS:
        return None
    return newest.time if len(completed_files([target for _, target in files])) > 1 else None


def sweep(storage: Storage, below: int) -> None:
    """Removes staged objects of slots below: their entries are applied, or void."""
    names = [info.name for info in storage.list(STAGED)]
    storage.delete([n for n in names if (slot := parse_staged_name(n)) is not None and slot < below])


def deleted(url: str, known: int) -> StorageError:
    """What to raise if neither an entry that was seen is there nor any after it: then the table was deleted under us.

    Without this a writer would go on by what it knows, and publish into a folder in which there is no table.
    """
    return StorageError(
        f"{url} was deleted while it was in use, or put back to an earlier state: its ledger has no "
        f"entry {known} any more. Nothing was decided. If there is a table at this place now, open it again.",
        path=url,
    )


def _is_completed(name: str) -> bool:
    """Whether readers see something new once the file is there: not so with pending files, and logs of a metadata table."""
    file = name.rpartition("/")[2]
    parsed = parse_timeline_file(file)
    return parse_data_file(file) is None if parsed is None else parsed.state is State.COMPLETED

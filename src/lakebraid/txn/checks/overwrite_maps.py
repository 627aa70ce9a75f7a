# SPDX-License-Identifier: Apache-2.0
"""Where the ledger keeps which overwrite gave a partition its file ids: one immutable file, named in the state.

The whole map is written before the decision that publishes an overwrite, under a name that is used once, and the state
after that decision names it. A map names those before it, newest first, back to one that no restore can remove any more:
so a restore finds in it what the ids are to be again, and an archiver which maps are no longer needed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument, ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.format.damage import damaged
from lakebraid.format.times import is_instant_time
from lakebraid.model.keys.buckets import Replaced
from lakebraid.model.keys.partitions import check_partition_path
from lakebraid.storage.protocol import Storage
from lakebraid.storage.tries import tries
from lakebraid.table.loading import pause
from lakebraid.txn.ledger.entries import FOLDER, LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round

MAPS: Final = f"{FOLDER}/replaced"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ReplacedMap:
    """A map as the state names it; without a name there was no overwrite."""

    name: str | None = None
    replaced: Replaced = field(default_factory=Replaced)
    before: tuple[str, ...] = ()
    """Names of the maps before this one, newest first, as far back as a restore may go."""


NO_MAP: Final = ReplacedMap()


def load_map(storage: Storage, name: str | None) -> ReplacedMap:
    """The map of that name. ObjectNotFound if a newer one has taken its place for good: look at the state again."""
    if name is None:
        return NO_MAP
    path = f"{MAPS}/{name}"
    return parse_map(storage.read(path, limits.REPLACED_MAP_BYTES_MAX), name, f"{storage.url}/{path}")


def load_newest_map(ledger: Ledger) -> ReplacedMap:
    """The map of now."""
    for attempt in range(limits.READ_ATTEMPTS_MAX):
        with contextlib.suppress(ObjectNotFound):  # others have overwritten since, and archived that
            return load_map(ledger.storage, (ledger.known or ledger.newest()).state.replaced_file)
        pause(ledger.clock, attempt)
        ledger.newest()
    return load_map(ledger.storage, ledger.newest().state.replaced_file)


def write_map(now: Round, request_time: str, old: ReplacedMap, partitions: Collection[str] | None) -> ReplacedMap:
    """The map after an overwrite that began at `request_time`, of these partitions or of everything; it is there, and no reader
    sees it before a decision names it.
    """
    before = old.before if old.name is None else (old.name, *old.before)
    replaced = old.replaced.after(request_time, partitions)
    made = ReplacedMap("", replaced, _reachable(before, now.state.archived))
    storage, clock = now.ledger.storage, now.ledger.clock
    # An unanswered create goes on under a fresh name: no name is ever written twice. (LEDGER, H7)
    for _ in tries(clock):
        name = f"{request_time}.{clock.token()}"
        try:
            storage.create(f"{MAPS}/{name}", format_map(made))
        except (OutcomeUnknown, ObjectExists):
            continue
        else:
            return ReplacedMap(name, replaced, made.before)
    raise StorageError(
        f"{storage.url} did not confirm one of several small writes in a row. Nothing was decided; the table is "
        "as before. Try again when the store answers.",
        path=storage.url,
    )


def map_without(now: Round, undone: Collection[str]) -> str | None:
    """The name of the map that was in force before these overwrites: the newest that is none of theirs."""
    name = now.state.replaced_file
    if name is None or request_time_of(name) not in undone:
        return name
    known = load_map(now.ledger.storage, name).before
    return next((earlier for earlier in known if request_time_of(earlier) not in undone), None)


def remove_maps(storage: Storage, request_times: Collection[str]) -> None:
    """Removes the maps of overwrites that were rolled back: nothing is decided for such a request time again."""
    names = (info.name for info in storage.list(MAPS))
    storage.delete([name for name in names if request_time_of(name.rpartition("/")[2]) in request_times])


def forget_maps(ledger: Ledger, state: LedgerState) -> None:
    """Removes maps that are no longer needed: of archived overwrites, except those to which a restore may return.

    What is archived stays published, so no restore goes behind the newest of them; and it is not open, so no decision
    names another map of its request time.
    """
    if state.replaced_file is None:
        return
    names = [info.name.rpartition("/")[2] for info in ledger.storage.list(MAPS)]
    if all(name == state.replaced_file or request_time_of(name) > state.archived for name in names):
        return
    known = load_map(ledger.storage, state.replaced_file)
    kept = {*_reachable((state.replaced_file, *known.before), state.archived)}
    dead = [name for name in names if name not in kept and request_time_of(name) <= state.archived]
    ledger.storage.delete([f"{MAPS}/{name}" for name in dead])


def request_time_of(name: str) -> str:
    """The request time of the overwrite that a map was written for."""
    return name.partition(".")[0]


def _reachable(names: Collection[str], archived: str) -> tuple[str, ...]:
    """Of maps, newest first, those that a restore may return to: up to the first whose overwrite stays for ever."""
    found: list[str] = []
    for name in names:
        found.append(name)
        if request_time_of(name) <= archived:
            break
    return tuple(found)


def format_map(given: ReplacedMap) -> bytes:
    record = {
        "version": _VERSION,
        "whole": given.replaced.whole,
        "partitions": dict(given.replaced.partitions),
        "before": list(given.before),
    }
    data = json.dumps(record, separators=(",", ":")).encode()
    if len(data) > limits.REPLACED_MAP_BYTES_MAX:
        raise InvalidArgument(
            f"{len(given.replaced.partitions):,} partitions have been overwritten; the map of them would take {len(data):,} bytes, "
            f"and {limits.REPLACED_MAP_BYTES_MAX:,} are the limit. Nothing was written. Overwrite the whole table once: that "
            "begins a new map."
        )
    return data


def parse_map(data: bytes, name: str, where: str) -> ReplacedMap:
    """The map in these bytes; CorruptFile if it is none: a wrong id would give a bucket two file groups."""
    try:
        record = json.loads(data)
        if record["version"] != _VERSION:
            raise CorruptFile(
                f"{where} has the version {record['version']!r:.20}, this release knows {_VERSION}. Nothing was changed. "
                "Another process writes this table with a newer lakebraid: use that one here, too.",
                path=where,
            )
        whole = None if record["whole"] is None else _request_time(record["whole"])
        partitions = {_path(path): _request_time(request_time) for path, request_time in record["partitions"].items()}
        before = tuple(_name(earlier) for earlier in record["before"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(where, f"it is no map of overwrites ({type(error).__name__}: {error!s:.100})") from None
    return ReplacedMap(name, Replaced(partitions, whole), before)


def _request_time(value: Any) -> str:
    if not isinstance(value, str) or not is_instant_time(value):
        raise TypeError("a request time expected")
    return value


def _path(value: str) -> str:
    check_partition_path(value)
    return value


def _name(value: Any) -> str:
    request_time, dot, token = str(value).partition(".")
    if not (isinstance(value, str) and is_instant_time(request_time) and dot and token.isalnum()):
        raise TypeError("the name of a map expected")
    return value

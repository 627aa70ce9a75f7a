# SPDX-License-Identifier: Apache-2.0
"""Audit: what surrounds a table: properties, ledger, markers, heartbeats, locks, Hudi's metadata table."""

from __future__ import annotations

from collections.abc import Iterator

from lakebraid import limits
from lakebraid.errors import CorruptFile, ObjectNotFound
from lakebraid.format.names import State, parse_timeline_file
from lakebraid.format.properties import check_properties, parse_properties
from lakebraid.format.times import is_instant_time
from lakebraid.inspect.audit.evidence import Evidence
from lakebraid.inspect.audit.findings import Finding
from lakebraid.inspect.locks import load_locks
from lakebraid.model.timeline.instant import COMPLETED_AS, action_family
from lakebraid.storage.protocol import ObjectInfo, Storage
from lakebraid.table.loading import PROPERTIES
from lakebraid.tasks.new_files import MARKERS
from lakebraid.txn.ledger.asks import dead_names
from lakebraid.txn.ledger.entries import LEDGER, STAGED, parse_staged_name
from lakebraid.txn.liveness.heartbeat import HEARTBEATS

BACKUP = f"{PROPERTIES}.backup"
_METADATA_TIMELINE = ".hoodie/metadata/.hoodie/timeline"


def check_properties_files(storage: Storage) -> tuple[dict[str, str] | None, list[Finding]]:
    """The properties, even where their checksum is wrong, and what is wrong with them; None if there are none to use."""
    main, backup = _maybe(storage, PROPERTIES), _maybe(storage, BACKUP)
    found: list[Finding] = []
    chosen = None
    for name, data in ((PROPERTIES, main), (BACKUP, backup)):
        if data is None:
            continue
        try:
            parsed = parse_properties(data, name)
            chosen = parsed if chosen is None else chosen
            check_properties(parsed, name)
        except CorruptFile as error:
            found.append(Finding("properties-damaged", name, error.message))
    if main is None and (backup is not None or storage.list(".hoodie/timeline")):
        rest = "its backup is there" if backup is not None else "so is its backup; a timeline is there"
        found.append(Finding("properties-damaged", PROPERTIES, f"It is missing; {rest}."))
    elif main is not None and backup is not None and backup != main:
        found.append(Finding("properties-backup", BACKUP, "It differs from the file that counts."))
    return chosen, found


def check_ledger(evidence: Evidence) -> Iterator[Finding]:
    """The newest decision against the timeline."""
    entry = evidence.entry
    if entry is None:
        return
    for source, target in entry.files:
        staged = None if target.rpartition("/")[2] in evidence.names else _info(evidence.storage, source)
        if staged is not None:
            if evidence.age_ms(staged) > limits.AUDIT_LEFTOVER_MS:
                yield Finding("ledger-unfulfilled", target, f"Entry {entry.number} ({entry.kind}) puts it there.")
            return  # on its way: what the timeline says is older than what the ledger says
    if evidence.config.lock_provider is not None:
        return  # Hudi decides without the ledger there
    yield from _agreement(evidence)


def _agreement(evidence: Evidence) -> Iterator[Finding]:
    entry = evidence.entry
    if entry is None:
        return
    state = entry.state
    for request_time in state.open:
        instant = evidence.listed.write(request_time)
        if instant is None and entry.time > request_time:
            yield Finding("ledger-disagrees", request_time, "It is open in the ledger, and not on the timeline.")
        elif instant is not None and instant.is_completed:
            yield Finding("ledger-disagrees", request_time, "It is open in the ledger, and completed on the timeline.")
    ours = {*state.open, *state.plans, *state.rollbacks, *(u.victim for u in state.rollbacks.values())}
    for instant in evidence.listed.pending:
        request_time = instant.request_time
        if (
            action_family(instant.action) != "write"
            or request_time in ours
            or request_time > state.last
            or instant.is_completed
        ):
            continue
        if instant.kind not in COMPLETED_AS and request_time not in evidence.timeline.undone:
            yield Finding(
                "ledger-disagrees", request_time, f"The {instant.kind} is pending, and the ledger does not know it."
            )


def check_leftovers(evidence: Evidence) -> Iterator[Finding]:
    """Markers, heartbeats and staged objects of what has ended, when they are old enough not to be about to go."""
    for kind, folder in (("marker-leftover", MARKERS), ("heartbeat-leftover", HEARTBEATS)):
        ended: dict[str, int] = {}
        for info in evidence.storage.list(folder):
            request_time = info.name.removeprefix(f"{folder}/").split("/")[0]
            if evidence.age_ms(info) > limits.AUDIT_LEFTOVER_MS and _has_ended(evidence, request_time):
                ended[request_time] = ended.get(request_time, 0) + 1
        for request_time, count in ended.items():
            yield Finding(kind, f"{folder}/{request_time}", f"{count:,} objects of {request_time}, which has ended.")
    entry = evidence.entry
    for info in evidence.storage.list(STAGED):
        slot = parse_staged_name(info.name)
        is_old = evidence.age_ms(info) > limits.AUDIT_LEFTOVER_MS
        if is_old and entry is not None and slot is not None and slot < entry.number:
            yield Finding("staged-leftover", info.name, f"The ledger is at entry {entry.number}.")
    if entry is not None:
        old = [i.name for i in evidence.storage.list(LEDGER) if evidence.age_ms(i) > limits.AUDIT_LEFTOVER_MS]
        for name in dead_names(old, entry.state, entry.number - 1):
            yield Finding("staged-leftover", name, f"The ledger is at entry {entry.number}.")


def _has_ended(evidence: Evidence, request_time: str) -> bool:
    if not is_instant_time(request_time):
        return False
    if any(i.request_time == request_time for i in evidence.timeline.pending):
        return False
    state = None if evidence.entry is None else evidence.entry.state
    return state is None or request_time not in {*state.open, *state.plans, *state.rollbacks}


def check_locks(evidence: Evidence) -> Iterator[Finding]:
    """Hudi's lock files, held by no process that lives."""
    for lock in load_locks(evidence.storage, evidence.table.clock):
        if lock.is_stale:
            yield Finding("lock-stale", lock.name, f"It is of {lock.holder}. {lock.why}")


def check_metadata_table(evidence: Evidence) -> Iterator[Finding]:
    """Whether Hudi's metadata table, where readers use one, has every completed write (FORMAT, trap 3)."""
    if not evidence.config.metadata_partitions or evidence.config.layout == 1:
        return
    files, _ = evidence.storage.list_folder(_METADATA_TIMELINE)
    parsed = [parse_timeline_file(info.name.rpartition("/")[2]) for info in files]
    done = {p.request_time for p in parsed if p is not None and p.state is State.COMPLETED}
    first = min((request_time for request_time in done if is_instant_time(request_time)), default=None)
    for instant in evidence.timeline.writes:
        request_time = instant.request_time
        if first is None or (request_time >= first and request_time not in done):
            yield Finding("metadata-table-behind", request_time, f"It completed {instant.completion_time}.")


def _info(storage: Storage, name: str) -> ObjectInfo | None:
    try:
        return storage.info(name)
    except ObjectNotFound:
        return None


def _maybe(storage: Storage, name: str) -> bytes | None:
    try:
        return storage.read(name, limits.PROPERTIES_BYTES_MAX)
    except ObjectNotFound:
        return None

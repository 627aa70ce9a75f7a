# SPDX-License-Identifier: Apache-2.0
"""Waiting for other writes at the same file groups: before a write rewrites them, and before a refused one is done again.

Of writes that race for the same groups one wins, and what the others did was in vain; one after the other, each wins.
That is politeness and nothing else: how long a write waits changes nothing of what may be published.
"""

from __future__ import annotations

from collections.abc import Collection

from lakebraid import limits
from lakebraid.errors import StorageError, WriteConflict
from lakebraid.format.names import parse_data_file
from lakebraid.format.times import parse_instant_time
from lakebraid.model.conflicts import place_of
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.markers import load_markers


def stand_aside(ledger: Ledger, refused: WriteConflict) -> None:
    """Waits until no open write is seen at the file groups over which this one was refused, and not for long.

    Waiting writes look at random moments, and begin only if none was there twice in a row: so they seldom begin together.
    """
    groups = [GroupId(partition, file_id) for partition, file_id in refused.facts.get("groups") or ()]
    left_seconds = limits.ASIDE_SECONDS
    times_free = 0
    while left_seconds > 0 and times_free < 2:
        pause_seconds = limits.ASIDE_LOOK_SECONDS * (0.2 + ledger.clock.random())
        ledger.clock.sleep(pause_seconds)
        left_seconds -= pause_seconds
        try:
            times_free = 0 if _is_taken(ledger, groups, refused.facts.get("other")) else times_free + 1
        except StorageError:
            return  # the next attempt meets it, and says it


def let_earlier_ones_end(ledger: Ledger, request_time: str, groups: Collection[GroupId], work_seconds: float) -> bool:
    """Waits for writes that began before this one and are at the same file groups; whether one of them has ended.

    They will most likely be published first, and what this one did until then would be in vain. It waits for not much longer
    than its own work takes, unless one after the other comes to its end; and for no write that has taken several times as
    long already, and may be dead or asleep. Later writes wait for this one: no circle.
    """
    wanted = _places(ledger, groups)
    patience_seconds = limits.PATIENT_TIMES * work_seconds
    clock, met, earlier = ledger.clock, set[str](), set[str]()
    deadline = clock.monotonic() + patience_seconds
    while clock.monotonic() < deadline:
        try:
            opened = [s for s in ledger.newest().state.open if s < request_time]
            lively = [s for s in opened if _age_seconds(ledger, s) < limits.LIVELY_TIMES * work_seconds]
            now = {s for s in lively if _may_touch(ledger, s, wanted)}
        except StorageError:
            break  # what comes next meets it, and says it
        deadline = clock.monotonic() + patience_seconds if earlier - now else deadline
        met, earlier = met | now, now
        if not now:
            break
        # Who is next looks often, those behind it less so.
        clock.sleep(limits.ASIDE_LOOK_SECONDS * min(len(now) / 4, 1) * (0.2 + clock.random()))
    return bool(met - earlier)


def _age_seconds(ledger: Ledger, request_time: str) -> float:
    """How long ago a write began, if clocks agree."""
    return max(ledger.clock.now_ms() - parse_instant_time(request_time, ledger.config.zone), 1) / 1000


def _is_taken(ledger: Ledger, groups: Collection[GroupId], other: object) -> bool:
    """Whether the plan that was in the way is still pending, or an open write may be about to touch the groups."""
    state = ledger.newest().state
    if isinstance(other, str) and other in state.plans and state.plans[other].action == "clustering":
        return True
    wanted = _places(ledger, groups)
    return any(_may_touch(ledger, request_time, wanted) for request_time in state.open)


def _may_touch(ledger: Ledger, request_time: str, wanted: frozenset[object]) -> bool:
    """Whether a write has announced a file in these places; one that has announced none yet may."""
    announced = load_markers(ledger.storage, request_time)
    parsed = ((marker.partition_path, parse_data_file(marker.data_file_name)) for marker in announced)
    groups = [GroupId(partition, file.file_id) for partition, file in parsed if file is not None]
    return not groups or not wanted.isdisjoint(_places(ledger, groups))


def _places(ledger: Ledger, groups: Collection[GroupId]) -> frozenset[object]:
    by_bucket = ledger.config.buckets is not None
    return frozenset(place_of(group, by_bucket=by_bucket) for group in groups)

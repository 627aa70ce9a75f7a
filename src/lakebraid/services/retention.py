# SPDX-License-Identifier: Apache-2.0
"""Which files a clean may remove: a pure rule over committed files, the moments that must stay readable, and a policy.

A file stays if a read as of any moment from `since` on needs it, or a read as of one of the moments that are still
held. What is newer than `since` is never touched, so a clean cannot take what it does not know of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakebraid.errors import InvalidArgument
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import GroupId, outlives
from lakebraid.services.settings import ServiceSettings

COMMITS_RETAINED = 10
"""Hudi's default."""
_POLICIES = {"KEEP_LATEST_COMMITS": "commits", "KEEP_LATEST_BY_HOURS": "hours", "KEEP_LATEST_FILE_VERSIONS": "versions"}
"""Hudi's names of the policies, and our word for what each counts."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of the past stays readable: so many commits, so many hours, or so many versions of each file group."""

    policy: str = "KEEP_LATEST_COMMITS"
    """Hudi's name of it."""
    amount: float = COMMITS_RETAINED


@dataclass(frozen=True, slots=True)
class Committed:
    """A data file of a completed write."""

    group: GroupId
    name: str
    request_time: str
    completion: str
    is_base: bool
    size: int = 0


@dataclass(frozen=True, slots=True)
class Holder:
    """A reader, consumer or savepoint that still needs the table as of a time, or, if it is lasting, as of every time from then on."""

    what: str
    time: str
    is_lasting: bool = False

    def __str__(self) -> str:
        return f"{self.what} ({'everything since' if self.is_lasting else 'the version of'} {self.time})"


@dataclass(frozen=True, slots=True)
class Past:
    """All that lies there and is committed."""

    files: tuple[Committed, ...]
    writes: tuple[Instant, ...]
    """Completed writes, by completion time."""
    replacements: Mapping[GroupId, Sequence[Instant]]
    """What took each group away, by completion time."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What may go, and what then is so."""

    files: tuple[Committed, ...] = ()
    since: str | None = None
    """Every moment from here on stays readable; None: all of them, the policy asks for no removal."""
    horizon: str = ""
    """Before this completion time something is missing, if these files go; empty if nothing goes."""
    earliest: str = ""
    """The smallest request time that Apache Hudi, which reads the past by request times, may still be asked for."""
    holds: tuple[Holder, ...] = ()
    """Who keeps back what the policy alone would let go."""


def parse_retention(
    settings: ServiceSettings,
    *,
    commits: int | None = None,
    hours: float | None = None,
    versions: int | None = None,
) -> Retention:
    """The policy that the arguments give; without any, the table's settings; without those, Hudi's default."""
    given = {"commits": commits, "hours": hours, "versions": versions}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InvalidArgument(f"{' and '.join(named)} were given: a clean has one policy. Nothing was changed.")
    wanted = (settings.clean_policy.text or "KEEP_LATEST_COMMITS").strip().upper()
    stated = {
        "commits": (settings.clean_commits, COMMITS_RETAINED),
        "hours": (settings.clean_hours, 24),
        "versions": (settings.clean_versions, 3),
    }
    for policy, word in _POLICIES.items():
        setting, default = stated[word]
        if named == [word]:
            return Retention(policy, _positive(word, given[word]))
        if not named and policy == wanted:
            return Retention(policy, _positive(setting.name, setting.text or default))
    raise InvalidArgument(
        f"{settings.clean_policy.name}={wanted!r:.60} is none of {', '.join(_POLICIES)}. Nothing was changed. Correct it, or give "
        "commits, hours or versions."
    )


def _positive(name: str, value: object) -> float:
    try:
        amount = float(str(value))
    except ValueError:
        amount = 0.0
    if not 0 < amount < 10**9 or ("hours" not in name and amount != int(amount)):
        raise InvalidArgument(f"{name}={value!r:.60} must be a positive number. Nothing was changed.")
    return amount


def choose_files(
    past: Past,
    retention: Retention,
    *,
    holds: Collection[Holder] = (),
    named: Collection[str] = (),
    cutoff: str = "",
    earliest_before: str = "",
    files_max: int | None = None,
) -> Choice:
    """What may go. `named` files stay whatever the rule says: savepoints and pending plans name them.

    `cutoff` is the time so many hours ago, for that policy; `earliest_before` what an earlier clean left to Hudi.
    """
    wanted = first_retained(past.writes, retention, cutoff)
    if wanted is None:
        return Choice()
    since = min([wanted, *(hold.time for hold in holds if hold.is_lasting)])
    moments = sorted({hold.time for hold in holds if not hold.is_lasting and hold.time < since})
    versions = int(retention.amount) if retention.policy == "KEEP_LATEST_FILE_VERSIONS" else 1
    doomed: list[tuple[str, str, Committed]] = []
    for group, files in _by_group(past.files).items():
        doomed += _superfluous(files, past.replacements.get(group, ()), since, moments, versions)
    kept = frozenset(named)
    doomed = sorted((d for d in doomed if d[2].name not in kept), key=lambda d: (d[0], d[2].name))[:files_max]
    return Choice(
        files=tuple(file for _, _, file in doomed),
        since=since,
        horizon=max((end for end, _, _ in doomed), default=""),
        earliest=max(
            earliest_before, _first_request_time(past.writes, since), *(earliest for _, earliest, _ in doomed), ""
        ),
        holds=tuple(sorted((h for h in holds if h.time < wanted), key=lambda hold: hold.time)),
    )


def first_retained(writes: Sequence[Instant], retention: Retention, cutoff: str) -> str | None:
    """The completion time from which on the policy wants everything readable; None if nothing may go."""
    done = [i.completion_time or i.request_time for i in writes]
    if not done:
        return None
    match retention.policy:
        case "KEEP_LATEST_COMMITS":
            return done[-int(retention.amount)] if len(done) > retention.amount else None
        case "KEEP_LATEST_BY_HOURS":
            return next((completion for completion in done if completion >= cutoff), done[-1])
        case _:
            return done[-1]


def needed(files: Iterable[Committed], replacements: Sequence[Instant], moment: str, versions: int = 1) -> set[str]:
    """The names of a group's files that a read as of that moment uses, with so many versions before it.

    The newest base file, and the logs completed since it was begun (RFC-66). Of several base files of one request time all are
    kept: which of them is the real one does not matter here.
    """
    living = _living(files, replacements, moment)
    floor = _floor(living, versions)
    return {file.name for file in living if (file.request_time if file.is_base else file.completion) >= floor}


def _living(files: Iterable[Committed], replacements: Sequence[Instant], moment: str) -> list[Committed]:
    """The files that count as of a moment: completed by then, and not replaced."""
    last = next((i for i in reversed(replacements) if (i.completion_time or "") <= moment), None)
    done = (file for file in files if file.completion <= moment)
    return [file for file in done if last is None or outlives(file.request_time, last)]


def _floor(living: Iterable[Committed], versions: int) -> str:
    """The request time of the oldest base file among so many; empty if there are fewer."""
    request_times = sorted({file.request_time for file in living if file.is_base}, reverse=True)
    return request_times[versions - 1] if len(request_times) >= versions else ""


def _superfluous(
    files: Sequence[Committed],
    replacements: Sequence[Instant],
    since: str,
    moments: Iterable[str],
    versions: int,
) -> list[tuple[str, str, Committed]]:
    """A group's files that no retained moment needs, each with the completion that ended its use, and with the request time
    that Apache Hudi must not be asked for an earlier one than.
    """
    old = [file for file in files if file.completion <= since]
    kept = needed(old, replacements, since, versions)
    gone = [file for file in old if file.name not in kept]
    if gone:
        kept |= {name for moment in moments for name in needed(old, replacements, moment)}
    floor = _floor(_living(old, replacements, since), versions)
    ends = sorted(file.completion for file in old if file.is_base and file.request_time == floor)
    return [(*_end(file, replacements, since, floor, ends), file) for file in gone if file.name not in kept]


def _end(
    file: Committed, replacements: Sequence[Instant], since: str, floor: str, ends: Sequence[str]
) -> tuple[str, str]:
    done = (i for i in replacements if (i.completion_time or "") <= since)
    replaced = next((i for i in done if not outlives(file.request_time, i)), None)
    if replaced is not None:
        return replaced.completion_time or replaced.request_time, replaced.request_time
    return ends[0], floor


def _first_request_time(writes: Sequence[Instant], since: str) -> str:
    return next((i.request_time for i in writes if (i.completion_time or i.request_time) >= since), "")


def _by_group(files: Iterable[Committed]) -> dict[GroupId, list[Committed]]:
    groups: dict[GroupId, list[Committed]] = defaultdict(list)
    for file in files:
        groups[file.group].append(file)
    return groups

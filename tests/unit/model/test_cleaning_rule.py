# SPDX-License-Identifier: Apache-2.0
"""Which files a clean may remove, held against the naive definition on random histories.

Naive: whatever a read as of a retained moment needs stays, and everything else that is older goes. What a read needs is
the naive model's word (tests/kit/models/oracle.py).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.format.names import State
from lakebraid.model.timeline.instant import Instant as ModelInstant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.services.retention import (
    Choice,
    Committed,
    Holder,
    Past,
    Retention,
    choose_files,
    parse_retention,
)
from lakebraid.services.settings import parse_settings
from tests.kit.effort import times
from tests.kit.models.oracle import Base, Group, History, Instant, Log, live_files
from tests.kit.tables.builder import COMPLETED_ACTION
from tests.kit.tables.built_files import file_path, t
from tests.kit.tables.histories import histories

pytestmark = pytest.mark.unit

EXAMPLES = 60
COMMITS, HOURS, VERSIONS = "KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_FILE_VERSIONS"
NOW = 50_000

File = Log | Base


def thorough(share: float = 1.0) -> settings:
    return settings(
        max_examples=times(round(EXAMPLES * share)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )


def writes_of(history: History) -> list[Instant]:
    """Completed ones, by completion."""
    done = [i for i in history.instants if i.completion is not None and i.action != "clean"]
    return sorted(done, key=lambda i: i.completion or 0)


def past_of(history: History) -> Past:
    done = {i.request_time: i for i in writes_of(history)}
    files = tuple(
        Committed(
            GroupId(*f.group),
            file_path(f),
            t(f.request_time),
            t(done[f.request_time].completion or 0),
            isinstance(f, Base),
            1,
        )
        for f in history.files
        if f.request_time in done
    )
    instants = tuple(
        ModelInstant(t(i.request_time), COMPLETED_ACTION.get(i.action, i.action), State.COMPLETED, t(i.completion or 0))
        for i in done.values()
    )
    replacements: dict[GroupId, list[ModelInstant]] = {}
    for made, instant in zip(done.values(), instants, strict=True):
        for group in made.replaces:
            replacements.setdefault(GroupId(*group), []).append(instant)
    return Past(files, instants, replacements)


def groups_of(history: History) -> list[Group]:
    return sorted({f.group for f in history.files})


def read_at(history: History, moment: int) -> set[str]:
    """The files that a snapshot of that moment reads, by the naive model."""
    found: set[str] = set()
    for group in groups_of(history):
        base, logs = live_files(history, group, moment)
        found |= {file_path(f) for f in ([base] if base else []) + logs}
    return found


def versions_at(history: History, moment: int, versions: int) -> set[str]:
    """What the newest `versions` base files of each group, and the logs since the oldest of them, are."""
    found: set[str] = set()
    for group in groups_of(history):
        bases: list[Base] = []
        logs: list[Log] = []
        for c in range(1, moment + 1):
            base, own = live_files(history, group, c)
            still = live_files(history, group, moment) != (None, [])
            bases += [base] if base and still and not _is_replaced(history, base, moment) and base not in bases else []
            logs += [log for log in own if log not in logs and not _is_replaced(history, log, moment)]
        bases = sorted(bases, key=lambda b: b.request_time)[-versions:]
        floor = bases[0].request_time if len(bases) == versions else 0
        found |= {file_path(b) for b in bases}
        found |= {file_path(log) for log in logs if (history.instant(log.request_time).completion or 0) > floor}
    return found


def _is_replaced(history: History, file: File, moment: int) -> bool:
    return any(
        file.group in i.replaces
        and i.done(moment)
        and file.request_time != i.request_time
        and file.request_time < (i.completion or 0)
        for i in history.instants
    )


def removed(choice: Choice) -> set[str]:
    return {file.name for file in choice.files}


@st.composite
def cleanings(draw: st.DrawFn) -> tuple[History, Retention, list[Holder]]:
    """A history without cleans, a policy, and some who hold on to moments of it."""
    history = draw(histories(steps_max=14, services=("compact", "log_compact", "replace")))
    policy = draw(st.sampled_from([COMMITS, COMMITS, HOURS, VERSIONS]))
    amount = draw(st.integers(1, 4))
    last = max(i.completion or i.request_time for i in history.instants)
    moments = st.integers(1, last + 1)
    holds = draw(st.lists(st.builds(Holder, st.just("somebody"), moments.map(t), st.booleans()), max_size=2))
    return history, Retention(policy, amount), holds


def since_of(history: History, retention: Retention, holds: list[Holder], cutoff: int) -> int | None:
    done = [i.completion or 0 for i in writes_of(history)]
    if retention.policy == COMMITS:
        if len(done) <= retention.amount:
            return None
        wanted = done[len(done) - int(retention.amount)]
    elif retention.policy == HOURS:
        wanted = min([c for c in done if c >= cutoff] or [max(done)])
    else:
        wanted = max(done)
    return min([wanted, *(int(h.time) - int(t(1)) + 1 for h in holds if h.is_lasting)])


def spared(history: History, files: set[str]) -> set[str]:
    """With the spare base files of the same request time, which nobody tells apart here."""
    keep = {(f.group, f.request_time) for f in history.bases if file_path(f) in files}
    return files | {file_path(f) for f in history.bases if (f.group, f.request_time) in keep}


@pytest.mark.slow
@thorough()
@given(cleanings(), st.integers(1, 30))
def test_a_clean_keeps_what_any_retained_moment_needs_and_removes_everything_else_that_is_older(
    given_: tuple[History, Retention, list[Holder]], cutoff: int
) -> None:
    history, retention, holds = given_
    choice = choose_files(past_of(history), retention, holds=holds, cutoff=t(cutoff))
    since = since_of(history, retention, holds, cutoff)
    if since is None:
        assert choice == Choice(), f"{history}"
        return
    assert choice.since == t(since)
    last = max(i.completion or i.request_time for i in history.instants)
    points = [int(h.time) - int(t(1)) + 1 for h in holds if not h.is_lasting]
    retained = {*range(since, last + 2), *points}
    needed = {name for moment in retained for name in read_at(history, moment)}
    if retention.policy == VERSIONS:
        needed |= versions_at(history, since, int(retention.amount))
    old = {
        file_path(f)
        for f in history.files
        if (done := history.instant(f.request_time).completion) is not None and done <= since
    }
    assert removed(choice) == old - spared(history, needed), f"{history}\n{retention} {holds} since {since}"


@pytest.mark.slow
@thorough(0.5)
@given(cleanings())
def test_before_the_horizon_something_is_missing_and_from_it_on_nothing_is(
    given_: tuple[History, Retention, list[Holder]],
) -> None:
    history, retention, holds = given_
    choice = choose_files(past_of(history), retention, holds=holds)
    if not choice.files:
        assert choice.horizon == ""
        return
    horizon, last = int(choice.horizon) - int(t(1)) + 1, max(i.completion or i.request_time for i in history.instants)
    gone = removed(choice)
    for moment in range(horizon, last + 1):
        assert not gone & read_at(history, moment), f"{history}\n{moment} {choice}"
    # A spare file, or one that a replacement hid from the start, is missed by nobody.
    if gone & {name for moment in range(1, last) for name in read_at(history, moment)}:
        assert choice.since is not None and choice.horizon <= choice.since


@pytest.mark.slow
@thorough(0.5)
@given(cleanings())
def test_apache_hudi_finds_every_slice_of_the_starts_that_are_left_to_it(
    given_: tuple[History, Retention, list[Holder]],
) -> None:
    """Hudi reads the past by request times: as of T the newest base file that began by then, and the logs of its slice."""
    history, retention, holds = given_
    choice = choose_files(past_of(history), retention, holds=holds)
    if not choice.files:
        return
    gone, last = removed(choice), max(i.completion or i.request_time for i in history.instants)
    for moment in range(int(choice.earliest) - int(t(1)) + 1, last + 1):
        assert not gone & hudi_reads(history, moment), f"{history}\n{moment} {choice}"


def hudi_reads(history: History, moment: int) -> set[str]:
    found: set[str] = set()
    done = {i.request_time: i.completion for i in writes_of(history)}
    for group in groups_of(history):
        files = [
            f for f in history.files if f.group == group and f.request_time in done and not _hidden(history, f, moment)
        ]
        bases = [f for f in files if isinstance(f, Base) and f.named]
        floor = max((b.request_time for b in bases if b.request_time <= moment), default=0)
        ceiling = min((b.request_time for b in bases if b.request_time > moment), default=NOW)
        found |= {file_path(b) for b in bases if b.request_time == floor}
        logs = [f for f in files if isinstance(f, Log) and f.request_time <= moment]
        found |= {file_path(f) for f in logs if floor <= (done[f.request_time] or 0) < ceiling}
    return found


def _hidden(history: History, file: File, moment: int) -> bool:
    """Replaced groups vanish at the request time of what replaced them."""
    return any(
        file.group in i.replaces
        and i.completion is not None
        and i.request_time <= moment
        and file.request_time < i.completion
        for i in history.instants
        if file.request_time != i.request_time
    )


@pytest.mark.slow
@thorough(0.3)
@given(cleanings())
def test_a_second_clean_of_the_same_moment_finds_nothing_more(given_: tuple[History, Retention, list[Holder]]) -> None:
    history, retention, holds = given_
    past = past_of(history)
    gone = removed(choose_files(past, retention, holds=holds))
    left = replace(past, files=tuple(f for f in past.files if f.name not in gone))
    assert choose_files(left, retention, holds=holds).files == ()


@pytest.mark.slow
@thorough(0.3)
@given(cleanings(), st.data())
def test_what_savepoints_and_plans_name_stays_and_nothing_else_changes(
    given_: tuple[History, Retention, list[Holder]], data: st.DataObject
) -> None:
    history, retention, holds = given_
    past = past_of(history)
    plain = choose_files(past, retention, holds=holds)
    named = data.draw(st.sets(st.sampled_from([f.name for f in past.files]))) if past.files else set()
    assert removed(choose_files(past, retention, holds=holds, named=named)) == removed(plain) - named


def test_a_bounded_clean_takes_the_longest_unneeded_first_and_the_next_one_the_rest() -> None:
    group = GroupId("", "g")
    bases = [Committed(group, f"b{n}", t(10 * n), t(10 * n + 1), is_base=True) for n in range(1, 6)]
    writes = [ModelInstant(t(10 * n), "commit", State.COMPLETED, t(10 * n + 1)) for n in range(1, 6)]
    past = Past(tuple(bases), tuple(writes), {})
    first = choose_files(past, Retention(COMMITS, 1), files_max=3)
    assert [f.name for f in first.files] == ["b1", "b2", "b3"]
    rest = choose_files(replace(past, files=tuple(bases[3:])), Retention(COMMITS, 1), files_max=3)
    assert [f.name for f in rest.files] == ["b4"]


@pytest.mark.parametrize(
    ("properties", "arguments", "expected"),
    [
        ({}, {}, Retention(COMMITS, 10)),
        ({"hoodie.clean.commits.retained": "3"}, {}, Retention(COMMITS, 3)),
        ({"hoodie.clean.policy": "keep_latest_by_hours", "hoodie.clean.hours.retained": "5"}, {}, Retention(HOURS, 5)),
        ({"hoodie.clean.policy": VERSIONS, "hoodie.clean.fileversions.retained": "2"}, {}, Retention(VERSIONS, 2)),
        ({"hoodie.clean.policy": VERSIONS}, {"hours": 0.5}, Retention(HOURS, 0.5)),
        ({"hoodie.clean.policy": "whatever"}, {"commits": 1}, Retention(COMMITS, 1)),
    ],
)
def test_the_policy_is_the_one_of_the_arguments_or_else_of_the_table(
    properties: dict[str, str], arguments: dict[str, int], expected: Retention
) -> None:
    assert parse_retention(parse_settings(properties), **arguments) == expected


@pytest.mark.parametrize(
    ("properties", "arguments"),
    [
        ({}, {"commits": 1, "hours": 2}),
        ({}, {"commits": 0}),
        ({}, {"versions": 1.5}),
        ({}, {"hours": -1}),
        ({"hoodie.clean.policy": "KEEP_ALL"}, {}),
        ({"hoodie.clean.commits.retained": "many"}, {}),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(properties: dict[str, str], arguments: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match="Nothing was changed"):
        parse_retention(parse_settings(properties), **arguments)  # type: ignore[arg-type]

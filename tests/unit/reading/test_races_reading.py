# SPDX-License-Identifier: Apache-2.0
"""A reader beside writers, cleaners, archivers and rollbacks that work between any two of its calls to the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.format.names import State, history_file_name
from lakebraid.format.timeline.history import read_history, write_history
from lakebraid.storage import Storage
from tests.kit.models.oracle import Base, History, Instant
from tests.kit.races.racing import Step, at_every_call
from tests.kit.tables.builder import (
    TIMELINE,
    archive,
    build_table,
    instant_bytes,
    open_table,
    put_history,
    timeline_path,
)
from tests.kit.tables.built_files import file_path, put_file
from tests.kit.tables.small_histories import (
    B10,
    DEMO,
    DEMO_ANSWERS,
    L1,
    L2,
    G,
    base,
    history,
    log,
    put,
    row,
    shown,
    told,
    write,
)

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def step_of(made: History, request_time: int, state: State) -> Step:
    """The instant with that request time reaches a state."""

    def happens(storage: Storage) -> None:
        instant = made.instant(request_time)
        requested, completed = instant_bytes(made, instant, storage.url)
        contents = {State.REQUESTED: requested, State.INFLIGHT: b"", State.COMPLETED: completed}
        storage.replace(timeline_path(instant, state), contents[state])

    return happens


def clean_steps(made: History, clean: Instant) -> list[Step]:
    """Plan, begin, delete file by file, complete."""
    requested, completed = instant_bytes(made, clean, "memory://built")
    return [
        lambda s: s.replace(timeline_path(clean, State.REQUESTED), requested),
        lambda s: s.replace(timeline_path(clean, State.INFLIGHT), b""),
        *(lambda s, f=f: s.delete([file_path(f)]) for f in clean.removed),
        lambda s: s.replace(timeline_path(clean, State.COMPLETED), completed),
    ]


def archive_steps(made: History, request_times: list[int]) -> list[Step]:
    """History first; then, oldest first, each instant's pending files and its completed one."""
    instants = [made.instant(s) for s in request_times]
    steps: list[Step] = [lambda s: archive(s, made, instants, delete=False)]
    for instant in instants:
        pending = [timeline_path(instant, state) for state in (State.REQUESTED, State.INFLIGHT)]
        completed = [timeline_path(instant, State.COMPLETED)]
        steps += [lambda s, names=names: s.delete(names) for names in (pending, completed)]  # type: ignore[misc]
    return steps


# --- archival (F4, F10) ----------------------------------------------------------------------------------------------

NEW = ("", "00000000-0050-0000-0000-000000000000-0")
SPARE = base(10, (10, row("a", "spare")), token="9-9-9", named=False)
REPLACED = history(
    write(1, 2), write(10, 20), Instant(50, "clustering", 55, replaces=(G,)), write(60, 70), write(80, 90),
    base(10, (10, row("a", "v")), (10, row("b", "v"))), SPARE,
    base(50, (10, row("a", "v")), (10, row("b", "v")), group=NEW), log(60, put("a", "w"), group=NEW),
)  # fmt: skip


@pytest.mark.parametrize("moment", [None, 20, 55, 70])
def test_f4_f10_a_reader_beside_an_archiver_gives_the_same_rows_whenever_it_looks(moment: int | None) -> None:
    answers = {None: {"a": "w", "b": "v"}, 20: {"a": "v", "b": "v"}, 55: {"a": "v", "b": "v"}, 70: {"a": "w", "b": "v"}}
    steps = archive_steps(REPLACED, [1, 10, 50, 60])
    for when, answer in at_every_call(lambda: build_table(REPLACED), steps, lambda s: shown(open_table(s), moment)):
        assert answer == answers[moment], when


@pytest.mark.parametrize("moment", [None, 55, 85])
def test_f4_a_log_whose_instant_is_archived_while_it_is_sliced_is_never_dropped(moment: int | None) -> None:
    steps = archive_steps(DEMO, [1, 10, 21, 30, 35])
    for when, answer in at_every_call(lambda: build_table(DEMO), steps, lambda s: shown(open_table(s), moment)):
        assert answer == DEMO_ANSWERS[moment or 95], when


def test_f4_changes_beside_an_archiver_are_whole() -> None:
    steps = archive_steps(DEMO, [1, 10, 21, 30, 35])
    for when, answer in at_every_call(lambda: build_table(DEMO), steps, lambda s: told(open_table(s), 40, 95)):
        assert answer == [("insert", "b", "l2"), ("insert", "c", "l3"), ("update", "a", "l3")], when


class _TornListing:
    """The first listing of the timeline still has files that were deleted while its pages were fetched."""

    def __init__(self, storage: Storage, ghosts: list[str]) -> None:
        self._storage, self._ghosts = storage, ghosts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def list_names(self, folder: str) -> list[str]:
        names = self._storage.list_names(folder)
        if folder == TIMELINE and self._ghosts:
            names += [name.rpartition("/")[2] for name in self._ghosts]
            self._ghosts = []
        return names


@pytest.mark.parametrize("states", [[State.INFLIGHT], [State.REQUESTED], [State.REQUESTED, State.INFLIGHT]])
def test_f10_a_listing_torn_by_the_archiver_does_not_turn_a_committed_write_into_a_pending_one(
    states: list[State],
) -> None:
    """Its pages are of different moments: the pending files were still there, the completed one no more."""
    for moment in (None, 55, 85):
        storage = build_table(DEMO)
        archive(storage, DEMO, [DEMO.instant(s) for s in (1, 10, 21)])
        torn: Any = _TornListing(storage, [timeline_path(DEMO.instant(21), state) for state in states])
        assert shown(open_table(torn), moment) == DEMO_ANSWERS[moment or 95], moment


def _merged_history(storage: Storage) -> None:
    """An archiver merges two files of the history into one of the next layer, then removes them."""
    folder = f"{TIMELINE}/history"
    files = [f.name for f in storage.list(folder) if f.name.endswith(".parquet")]
    rows = [r for name in files for r in read_history(storage.read(name, 1 << 30), name, with_metadata=True)]
    rows.sort(key=lambda r: r.request_time)
    name = history_file_name(rows[0].request_time, rows[-1].request_time, 1)
    put_history(storage, {name: write_history(rows)}, 2)
    storage.delete([*files, f"{folder}/manifest_1"])


@pytest.mark.parametrize(
    "happens",
    [
        lambda s: s.delete([f"{TIMELINE}/history/_version_"]),
        lambda s: s.replace(f"{TIMELINE}/history/_version_", b""),
        _merged_history,
        lambda s: s.replace(f"{TIMELINE}/history/00000000000000000_00000000000000001_0.parquet", b"torn"),
    ],
    ids=["version file missing", "version file empty", "files merged away", "an archiver died after its data file"],
)
def test_f10_a_history_that_is_being_rewritten_is_read_whole(happens: Step) -> None:
    def make() -> Storage:
        storage = build_table(DEMO)
        archive(storage, DEMO, [DEMO.instant(s) for s in (1, 10, 21, 30, 35)])
        return storage

    for moment in (None, 55):
        for when, answer in at_every_call(make, [happens], lambda s, m=moment: shown(open_table(s), m)):  # type: ignore[misc]
            assert answer == DEMO_ANSWERS[moment or 95], when


def test_a_late_finisher_stays_visible_when_it_is_archived() -> None:
    made = history(
        write(1, 2), write(10, 90), write(20, 30), write(40, 50), log(10, put("a", "late")), log(20, put("b", "x"))
    )
    for archived in range(4):
        assert shown(open_table(build_table(made, archived=archived))) == {"a": "late", "b": "x"}, archived


# --- writers and services (F16-like) ---------------------------------------------------------------------------------


def _before(made: History, *request_times: int) -> Callable[[], Storage]:
    """The table while these instants are still pending."""

    def make() -> Storage:
        storage = build_table(made)
        storage.delete([timeline_path(made.instant(s), State.COMPLETED) for s in request_times])
        return storage

    return make


def test_a_commit_that_completes_during_the_read_is_there_whole_or_not_at_all() -> None:
    other = ("", "00000001-0000-0000-0000-000000000000-0")
    made = history(
        write(1, 2), write(10, 20), write(30, 40),
        log(10, put("a", "old")), log(30, put("a", "new")), log(30, put("b", "new"), group=other),
    )  # fmt: skip
    seen = set()
    steps = [step_of(made, 30, State.COMPLETED)]
    for when, answer in at_every_call(_before(made, 30), steps, lambda s: shown(open_table(s))):
        assert answer in ({"a": "old"}, {"a": "new", "b": "new"}), when
        seen.add(len(answer))
    assert seen == {1, 2}


def test_a_write_that_begins_and_completes_during_the_read_is_there_whole_or_not_at_all() -> None:
    other = ("", "00000001-0000-0000-0000-000000000000-0")
    files = [log(30, put("a", "new")), log(30, put("b", "new"), group=other)]
    made = history(write(1, 2), write(10, 20), write(30, 40), log(10, put("a", "old")), *files)
    states = [step_of(made, 30, state) for state in (State.REQUESTED, State.INFLIGHT)]
    writing: list[Step] = [lambda s, f=f: put_file(s, f) for f in files]  # type: ignore[misc]
    steps = [*states, *writing, step_of(made, 30, State.COMPLETED)]
    for when, answer in at_every_call(lambda: build_table(made, now=29), steps, lambda s: shown(open_table(s))):
        assert answer in ({"a": "old"}, {"a": "new", "b": "new"}), when


def test_two_commits_and_a_compaction_that_complete_during_the_read_keep_their_order() -> None:
    """A later completion is never shown without an earlier one."""
    made = DEMO
    steps = [step_of(made, s, State.COMPLETED) for s in (30, 60, 35)]
    allowed = [DEMO_ANSWERS[40], DEMO_ANSWERS[50], DEMO_ANSWERS[90]]
    for when, answer in at_every_call(_before(made, 30, 60, 35), steps, lambda s: shown(open_table(s))):
        assert answer in allowed, when


@pytest.mark.parametrize("moment", [None, 20, 50, 85])
def test_a_clean_during_the_read_gives_the_right_rows_or_says_that_they_are_gone(moment: int | None) -> None:
    clean = Instant(95, "clean", 96, removed=(B10, L1, L2))

    def read(storage: Any) -> Any:
        try:
            return shown(open_table(storage), moment)
        except lb.SnapshotExpired:
            return "gone"

    allowed = [DEMO_ANSWERS[moment or 95], *(["gone"] if moment in (20, 50) else [])]
    for when, answer in at_every_call(lambda: build_table(DEMO), clean_steps(DEMO, clean), read):
        assert answer in allowed, when


@pytest.mark.parametrize("is_newest", [False, True], ids=["somebody completed after it", "the newest completion"])
def test_a_compaction_and_a_clean_behind_it_during_the_read_never_make_it_short(is_newest: bool) -> None:
    instants = [i for i in DEMO.instants if not (is_newest and i.request_time == 35)]
    made = History(
        DEMO.settings, instants, [f for f in DEMO.logs if not (is_newest and f.request_time == 35)], DEMO.bases
    )
    clean = Instant(95, "clean", 96, removed=(B10, L1, L2))
    steps = [step_of(made, 60, State.COMPLETED), *clean_steps(made, clean)]

    def read(storage: Any) -> Any:
        try:
            return shown(open_table(storage))
        except lb.SnapshotExpired:
            return "gone"

    for when, answer in at_every_call(_before(made, 60), steps, read):
        assert answer in (DEMO_ANSWERS[85 if is_newest else 95], "gone"), when


@pytest.mark.parametrize("begun", [False, True], ids=["not begun", "begun"])
def test_a_rollback_of_a_finished_write_during_the_read_shows_all_of_it_or_nothing(begun: bool) -> None:
    other = ("", "00000001-0000-0000-0000-000000000000-0")
    doomed = [log(30, put("a", "doomed")), log(30, put("b", "doomed"), group=other)]
    made = history(write(1, 2), write(10, 20), write(30, 40), log(10, put("a", "old")), *doomed)
    requested, inflight = (
        f"{TIMELINE}/20260101000000050.rollback.requested",
        f"{TIMELINE}/20260101000000050.rollback.inflight",
    )
    beginning: list[Step] = [lambda s: s.replace(requested, b""), lambda s: s.replace(inflight, b"")]
    instant = made.instant(30)
    steps: list[Step] = [
        lambda s: s.delete([timeline_path(instant, State.COMPLETED)]),
        *(lambda s, f=f: s.delete([file_path(f)]) for f in doomed),
        lambda s: s.delete([timeline_path(instant, State.INFLIGHT)]),
        lambda s: s.delete([timeline_path(instant, State.REQUESTED)]),
    ]

    def make() -> Storage:
        storage = build_table(made)
        if begun:
            for step in beginning:
                step(storage)
        return storage

    def read(storage: Any) -> Any:
        try:
            return shown(open_table(storage))
        except lb.SnapshotExpired:
            return "gone"

    for when, answer in at_every_call(make, steps if begun else [*beginning, *steps], read):
        assert answer in ({"a": "old"}, {"a": "doomed", "b": "doomed"}, "gone"), when


def test_a_replacement_that_completes_during_the_read_shows_the_old_groups_or_the_new_one() -> None:
    new = Base(NEW, 50, ((50, row("a", "overwritten")),), columns=("id", "ts", "v", "w"))
    overwrite = Instant(50, "replacecommit", 55, ("id", "ts", "v", "w"), replaces=(G,))
    made = history(write(1, 2), write(10, 20), overwrite, base(10, (10, row("a", "v")), (10, row("b", "v"))), new)
    for when, answer in at_every_call(
        _before(made, 50), [step_of(made, 50, State.COMPLETED)], lambda s: shown(open_table(s))
    ):
        assert answer in ({"a": "v", "b": "v"}, {"a": "overwritten"}), when


def test_f28_consecutive_changes_beside_writers_deliver_every_row_exactly_once() -> None:
    """One writer is late, one begins and completes between two of our calls; whoever is not yet there comes later."""
    late, quick = log(15, put("c", "3")), log(30, put("b", "2"))
    made = history(write(1, 2), write(10, 20), write(30, 40), write(15, 50), log(10, put("a", "1")), late, quick)

    def make() -> Storage:
        storage = _before(made, 15, 30)()
        storage.delete(
            [file_path(quick), *(timeline_path(made.instant(30), s) for s in (State.REQUESTED, State.INFLIGHT))]
        )
        return storage

    steps = [
        step_of(made, 30, State.INFLIGHT),
        lambda s: put_file(s, quick),
        step_of(made, 30, State.COMPLETED),
        step_of(made, 15, State.COMPLETED),
    ]

    def pull(storage: Any) -> list[str]:
        position, found = None, []
        for turn in range(3):
            if turn == 2:
                for step in steps:
                    step(storage)
            changes = open_table(storage).changes(after=position)
            found += [r["id"] for r in changes.to_arrow().to_pylist()]
            position = changes.next_position
        return sorted(found)

    for when, found in at_every_call(make, steps, pull):
        assert found == ["a", "b", "c"], when


def test_a_new_partition_of_a_pending_writer_is_not_seen_before_it_commits() -> None:
    made = history(write(1, 2), write(10, 20), write(30), log(10, put("a", "1")))
    late = log(30, put("b", "2"), group=("elsewhere", G[1]))
    for when, answer in at_every_call(
        lambda: build_table(made), [lambda s: put_file(s, late)], lambda s: shown(open_table(s))
    ):
        assert answer == {"a": "1"}, when


def test_the_archiver_left_a_completed_file_behind_and_the_history_has_it_too() -> None:
    storage = build_table(DEMO)
    archive(storage, DEMO, [DEMO.instant(s) for s in (1, 10, 21)], delete=False)
    storage.delete([timeline_path(DEMO.instant(10), state) for state in (State.REQUESTED, State.INFLIGHT)])
    for moment in (None, 20, 55, 85):
        assert shown(open_table(storage), moment) == DEMO_ANSWERS[moment or 95]

# SPDX-License-Identifier: Apache-2.0
"""Instants and the timeline they form."""

from __future__ import annotations

import pytest

from lakebraid.format.names import State
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.timeline import build_timeline

pytestmark = pytest.mark.unit

A, B, C, D = (f"2026010100000{n}000" for n in range(1, 5))


def test_the_furthest_state_counts_and_a_compaction_stays_one_after_it_completed_as_a_commit() -> None:
    timeline = build_timeline([f"{A}.compaction.requested", f"{A}.compaction.inflight", f"{A}_{B}.commit"])
    (instant,) = timeline
    assert (instant.action, instant.state, instant.completion_time, instant.kind) == (
        "commit", State.COMPLETED, B, "compaction",
    )  # fmt: skip


def test_a_savepoint_does_not_hide_the_commit_whose_start_it_shares() -> None:
    timeline = build_timeline([f"{A}_{B}.commit", f"{A}.savepoint.inflight", f"{A}_{C}.savepoint"])
    assert [(i.action, i.completion_time) for i in timeline] == [("commit", B), ("savepoint", C)]
    assert timeline.completion_of(A) == B


def test_a_copy_on_write_inflight_file_without_action_word_is_the_commit_itself() -> None:
    timeline = build_timeline([f"{A}.commit.requested", f"{A}.inflight"])
    (instant,) = timeline
    assert (instant.action, instant.state) == ("commit", State.INFLIGHT)


def test_an_unknown_start_older_than_the_active_timeline_is_committed_and_a_younger_one_is_not() -> None:
    timeline = build_timeline([f"{B}_{C}.deltacommit"])
    assert timeline.completion_of(A) == A
    assert timeline.completion_of(D) is None


def test_an_archived_completion_time_is_found() -> None:
    archived = [Instant(A, "deltacommit", State.COMPLETED, C)]
    assert build_timeline([f"{B}_{D}.deltacommit"], archived=archived).completion_of(A) == C


def test_as_of_leaves_out_later_completions_whatever_their_start() -> None:
    timeline = build_timeline([f"{A}_{D}.deltacommit", f"{B}_{C}.deltacommit"]).as_of(C)
    assert [i.request_time for i in timeline.writes] == [B]
    assert timeline.completion_of(A) is None
    assert [i.request_time for i in timeline.pending] == [A]


def test_a_pending_instant_has_no_completion() -> None:
    timeline = build_timeline([f"{A}_{B}.deltacommit", f"{C}.deltacommit.requested", f"{C}.deltacommit.inflight"])
    assert timeline.completion_of(C) is None
    assert [i.state for i in timeline.pending] == [State.INFLIGHT]


def test_files_that_are_none_of_a_timelines_are_passed_over() -> None:
    assert len(build_timeline(["history", ".tmp", "x.commit", f"{A}.unknown", f".{A}_{B}.commit.crc"])) == 0


def test_writes_come_in_the_order_of_their_completion() -> None:
    timeline = build_timeline([f"{A}_{D}.deltacommit", f"{B}_{C}.deltacommit"])
    assert [i.request_time for i in timeline.writes] == [B, A]
    assert timeline.last_completion == D

# SPDX-License-Identifier: Apache-2.0
"""`why` tells the story of an instant later: also of those that were refused, rolled back or restored."""

from __future__ import annotations

import pytest

import lakebraid as lb
from lakebraid.format.timeline.rollbacks import parse_rollback_plan
from tests.breaking import HOURS, KEYS, archived, fresh, rich
from tests.breaking.table import Broken
from tests.kit.tables.scene import CHANGES, Call, WatchedStorage, row, table_on

pytestmark = pytest.mark.unit


def _refused(b: Broken) -> tuple[lb.WriteConflict, str]:
    first, second = b.table.begin(writer="winner"), b.table.begin(writer="loser")
    first.write([row("a", "1")])
    second.write([row("a", "2")])
    first.commit()
    with pytest.raises(lb.WriteConflict) as caught:
        second.commit()
    return caught.value, first.instant


def test_a_refused_write_is_told_with_its_rule_and_its_rival() -> None:
    b = fresh(concurrency="occ")
    conflict, winner = _refused(b)
    story = b.table.why(conflict.instant)
    assert story.end == "rolled back"
    assert (story.writer, story.why["kind"], story.why["rule"]) == ("loser", "WriteConflict", conflict.rule)
    assert (story.why["other"], story.why["other_writer"]) == (winner, "winner")
    assert story.why["why"] == conflict.message
    assert conflict.rule in repr(story)


def test_the_story_of_a_refused_write_goes_into_the_history_with_its_rollback() -> None:
    b = fresh(concurrency="occ")
    conflict, _ = _refused(b)
    b.clock.ms += 30 * HOURS
    for n in range(6):
        b.table.upsert([row("a", f"{n}", n)])
    b.table.archive(keep_min=1, keep_max=2)
    assert not b.names("rollback.requested")
    assert b.table.why(conflict.instant).why["rule"] == conflict.rule


def test_the_story_of_a_dead_an_aborted_and_an_open_write() -> None:
    b = rich()
    dead, aborted = b.table.begin(), b.table.begin(writer="me")
    dead._heartbeat.stop()
    assert b.table.why(dead.instant).end == "open"
    aborted.abort()
    told = b.table.why(aborted.instant)
    assert (told.end, told.why["kind"], told.writer) == ("rolled back", "Aborted", "me")
    b.clock.ms += HOURS
    b.table.rollback()
    assert "no sign of life for 120 seconds" in repr(b.table.why(dead.instant))


def test_the_story_of_a_restored_an_archived_and_an_unknown_write() -> None:
    b = rich()
    b.table.savepoint()
    later = b.table.upsert([row("a", "later", 99)])
    b.table.restore(b.table.savepoints()[0].instant)
    assert b.table.why(later.instant).end in ("restored", "rolled back")
    assert b.table.why("2" * 17).end == "unknown"
    old = archived()
    first = min(e.instant.request_time for e in old.table.timeline(archived=True) if e.instant.action == "deltacommit")
    assert old.table.why(first).is_archived


def test_what_hides_the_rows_of_a_write_is_named() -> None:
    b = rich()
    first = b.commits()[1].rpartition("/")[2][:17]
    compaction = b.names(".compaction.requested")[-1].rpartition("/")[2][:17]
    b.table.clean(versions=1)
    clean = b.names(".clean.requested")[-1].rpartition("/")[2][:17]
    story = b.table.why(first)
    assert [(h.instant, h.files) for h in story.hidden_by] == [(compaction, 2), (clean, 2)]
    assert (story.rows, story.files, story.read_files) == (len(KEYS), 2, 0)
    assert b.table.why(compaction).read_files == 2


def test_a_story_costs_no_call_of_the_store() -> None:
    def calls(story: bool) -> int:
        b = fresh()
        watched = WatchedStorage(b.storage)
        txn = table_on(watched, b.clock).begin()
        before = len(watched.calls)
        if story:
            txn.abort()
        else:
            from lakebraid.txn.actions.rollback import roll_back

            txn._heartbeat.stop()
            roll_back(txn._ledger, txn.begun.token, txn.instant)
        changed: list[Call] = [c for c in watched.calls[before:] if c.name in CHANGES]
        return len(changed)

    assert calls(story=True) == calls(story=False)


def test_plans_of_rollbacks_without_a_story_are_read() -> None:
    b = rich()
    txn = b.table.begin()
    txn.abort()
    name = b.names("rollback.requested")[-1]
    assert parse_rollback_plan(b.read(name), name).story

# SPDX-License-Identifier: Apache-2.0
"""A rollback of ours says in its plan why it was decided; Apache Hudi reads such plans as any other, and ends them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakebraid.txn.actions.rollback import decide_rollback
from lakebraid.txn.refusals import silent
from tests.interop.our_tables import rows
from tests.interop.referee import Referee
from tests.interop.shared_table import SharedTable

pytestmark = pytest.mark.interop


def test_hudi_ends_a_rollback_of_ours_whose_plan_tells_a_story(referee: Referee, tmp_path: Path) -> None:
    shared = SharedTable.create(referee, tmp_path / "shared")
    dead = shared.table.begin()
    dead.write(rows("dead", {1: 9, 7: 9}))
    dead._heartbeat.stop()
    shared.table.upsert(rows("a", {1: 1}))
    rollback = decide_rollback(
        shared.table._writing.ledger(shared.table._config), "x", dead.instant, story=silent(120_000)
    )
    for request_time in (dead.instant, rollback):
        beat = shared.path / ".hoodie" / ".heartbeat" / str(request_time)
        os.utime(beat, (beat.stat().st_mtime - 3600,) * 2)
    shared.call("run_clean")
    assert [name for name in shared.timeline() if name.startswith(f"{rollback}_")], "Hudi did not end it"
    assert not [name for name in shared.data_files() if dead.instant in name]
    story = shared.table.why(dead.instant)
    assert (story.end, story.undone_by) == ("rolled back", rollback)
    assert "no sign of life for 120 seconds" in story.why["why"]
    shared.table.upsert(rows("b", {2: 1}))
    shared.check(["a1", "b2"])
    found = shared.table.audit(deep=True)
    assert found.is_healthy, repr(found)

# SPDX-License-Identifier: Apache-2.0
"""A clean begins as Hudi's lazy one does: it rolls dead writers back, and removable plans to which nobody came."""

from __future__ import annotations

import pytest

import lakebraid as lb
from lakebraid.errors import InvalidArgument, RolledBack
from lakebraid.services import cleaning
from lakebraid.services.retention import Retention
from lakebraid.txn.liveness.heartbeat import beat
from tests.kit.tables.scene import Scene, answer, files, row

pytestmark = pytest.mark.unit
LONG_SECONDS = 600.0
"""More than a living writer may be silent."""


def scene_of(**properties: str) -> Scene:
    lines = {name.replace("__", "."): value for name, value in properties.items()}
    scene = Scene(arguments={"buckets": 1, "properties": lines})
    for number in range(6):
        scene.write(row("a", f"v{number}", ts=number + 1))
    return scene


def removable_plan(scene: Scene) -> str:
    plan = scene.table.plan_log_compaction(removable=True)
    assert plan is not None and plan.instant is not None
    return plan.instant


def test_a_clean_rolls_a_dead_writer_back_and_what_it_held_back_goes_in_the_same_clean() -> None:
    scene = scene_of()
    dead = scene.begin(row("a", "dead", ts=99))
    scene.kill(dead)
    for number in range(6, 9):
        scene.compact()
        scene.write(row("a", f"v{number}", ts=number + 1))
    scene.clock.sleep(LONG_SECONDS)
    held = cleaning.clean(scene.table._writing.ledger(scene.table._config), Retention(amount=1), dry_run=True)
    done = scene.table.clean(commits=1)
    assert done.rolled_back == (dead.request_time,)
    assert f"rolled back: {dead.request_time}" in str(done)
    assert len(done.files) > len(held.files), "a dead writer goes on holding versions back"
    assert scene.table.status(dead.request_time) == "refused"
    assert not [name for name in files(scene.storage) if dead.request_time in name]
    assert answer(scene.table) == {"a": "v8"}
    assert scene.table.clean(commits=1).rolled_back == ()


def test_a_clean_leaves_a_living_writer_alone() -> None:
    scene = scene_of()
    alive = scene.begin(row("a", "alive", ts=99))
    scene.clock.sleep(LONG_SECONDS)
    beat(scene.storage, alive.request_time)
    assert scene.table.clean(commits=1).rolled_back == ()
    scene.commit(alive)
    assert answer(scene.table) == {"a": "alive"}


def test_a_writer_that_was_only_slow_learns_from_its_commit_that_a_clean_took_it_back() -> None:
    scene = scene_of()
    slow = scene.begin(row("a", "slow", ts=99))
    scene.clock.sleep(LONG_SECONDS)
    assert scene.other().clean().rolled_back == (slow.request_time,)
    with pytest.raises(RolledBack):
        scene.commit(slow)
    assert answer(scene.table) == {"a": "v5"}


def test_a_dry_run_of_a_clean_rolls_nobody_back() -> None:
    scene = scene_of()
    dead = scene.begin(row("a", "dead", ts=99))
    scene.clock.sleep(LONG_SECONDS)
    before = files(scene.storage)
    assert scene.table.clean(commits=1, dry_run=True).rolled_back == ()
    assert (scene.table.status(dead.request_time), files(scene.storage)) == ("open", before)


def test_arguments_that_make_no_sense_are_refused_before_anybody_is_rolled_back() -> None:
    scene = scene_of()
    dead = scene.begin(row("a", "dead", ts=99))
    scene.clock.sleep(LONG_SECONDS)
    with pytest.raises(InvalidArgument):
        scene.table.clean(commits=1, hours=1)
    with pytest.raises(InvalidArgument, match="is no number of minutes"):
        scene.table.clean(table_service_rollback_delay_minutes=-1)
    assert scene.table.status(dead.request_time) == "open"


@pytest.mark.parametrize("service", ["clean", "rollback"])
def test_a_removable_plan_stays_until_it_has_the_age_of_rfc_79(service: str) -> None:
    """By its own argument, else by the table's property, under the same name."""
    scene = scene_of(hoodie__lakebraid__table__service__rollback__delay__minutes="60")
    plan = removable_plan(scene)

    def taken_back(minutes: float | None = None) -> tuple[str, ...]:
        done = getattr(scene.table, service)(table_service_rollback_delay_minutes=minutes)
        return done.rolled_back if isinstance(done, lb.CleanResult) else done.plans

    scene.clock.sleep(30 * 60)
    assert taken_back() == ()
    assert taken_back(31) == ()
    assert taken_back(29) == (plan,)
    plan = removable_plan(scene)
    scene.clock.sleep(61 * 60)
    assert taken_back() == (plan,)

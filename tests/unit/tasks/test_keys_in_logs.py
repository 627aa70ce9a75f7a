# SPDX-License-Identifier: Apache-2.0
"""Keys that only a log file has, where keys are looked up: a compaction dropped them while a write brought them back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakebraid.errors import WriteConflict
from lakebraid.model.file_sizing import sizes_of
from lakebraid.model.merge_rules import merge_rules
from lakebraid.table.at import TableAt
from lakebraid.table.view import load_view
from lakebraid.tasks.lookup.find import living_keys
from lakebraid.tasks.merging.rewrite import whole_rows
from lakebraid.writing.placed import Placing
from tests.kit.tables.scene import Scene, row

pytestmark = pytest.mark.unit

by_both_orders = pytest.mark.parametrize("by_event", [True, False])


def brought_back(*, by_event: bool, index: str = "simple") -> Scene:
    """`a` was deleted; while a compaction that drops it was only planned, somebody wrote it again."""
    scene = Scene(by_event=by_event, arguments={"table_type": "mor", "index": index})
    scene.table.insert([row("a", "old"), row("b", "old")])
    scene.table.delete([{"id": "a", "ts": 2}] if by_event else [{"id": "a"}])
    plan = scene.table.plan_compaction()
    assert plan is not None
    scene.table.upsert([row("a", "again", 3)])
    scene.table.run(plan)
    assert rows(scene) == [("a", "again"), ("b", "old")]
    return scene


def rows(scene: Scene) -> list[tuple[str, str]]:
    return sorted((r["id"], r["v"]) for r in scene.table.to_arrow().to_pylist())


NEXT: dict[str, tuple[Callable[[Scene], Any], list[tuple[str, str]]]] = {
    "upsert": (lambda s: s.table.upsert([row("a", "third", 4)]), [("a", "third"), ("b", "old")]),
    "insert": (lambda s: s.table.insert([row("a", "third", 4)]), [("a", "third"), ("b", "old")]),
    "delete": (lambda s: s.table.delete([{"id": "a", "ts": 4}]), [("b", "old")]),
}


@by_both_orders
@pytest.mark.parametrize("what", NEXT)
@pytest.mark.parametrize("index", ["simple", "global_simple"])
def test_a_key_that_came_back_while_it_was_compacted_away_is_there_once(by_event: bool, what: str, index: str) -> None:
    scene = brought_back(by_event=by_event, index=index)
    write, expected = NEXT[what]
    write(scene)
    assert rows(scene) == expected
    scene.table.compact()
    assert rows(scene) == expected


@by_both_orders
def test_such_a_key_is_found_when_its_log_files_were_merged(by_event: bool) -> None:
    scene = brought_back(by_event=by_event)
    for _ in range(6):
        scene.table.upsert([row("b", "new", 4)])
    assert scene.table.log_compact()
    scene.table.upsert([row("a", "third", 5)])
    assert rows(scene) == [("a", "third"), ("b", "new")]


def test_a_delete_that_a_compaction_kept_is_no_home_for_a_key_that_lives_elsewhere() -> None:
    scene = Scene(by_event=True, arguments={"table_type": "mor", "index": "simple"})
    scene.table.insert([row("a", "old"), row("b", "old")])
    scene.table.delete([{"id": "a", "ts": 2}])
    scene.table.compact()
    elsewhere = scene.table.begin("bulk_insert")  # as one who looks at base files alone would put it
    elsewhere.write([row("a", "again", 3)])
    elsewhere.commit()
    scene.table.upsert([row("a", "third", 4)])
    assert rows(scene) == [("a", "third"), ("b", "old")]


def test_tasks_that_read_all_keys_tell_such_a_key_once_and_that_it_lives() -> None:
    scene = brought_back(by_event=True)
    txn = scene.table.begin()
    txn.write([row("c", "new")])
    plan = txn.staging.plan(scene.table.to_arrow().schema, "upsert")
    ground = Placing(scene.table._writing, sizes_of({}))._ground(
        load_view(TableAt(scene.storage, plan.config, scene.clock)), plan.request_time
    )
    read = whole_rows(plan, merge_rules(plan.config, plan.schema))
    found = [
        (str(key), bool(is_alive))
        for targets in ground.groups.values()
        for target in targets
        if target.slice is not None
        for keys, alive in living_keys(scene.storage, read, target.slice, may_have_moved=False)
        for key, is_alive in zip(keys.to_pylist(), alive.to_pylist(), strict=True)
    ]
    txn.abort()
    assert sorted(found) == [("a", True), ("b", True)]


def test_a_refusal_calls_a_compaction_a_table_service_and_not_a_writer() -> None:
    scene = Scene(by_event=False, arguments={"table_type": "mor", "index": "simple"})
    scene.table.insert([row("a", "old"), row("b", "old")])
    scene.table.delete([{"id": "a"}])
    late = scene.other().begin()
    late.write([row("a", "again", 3)])
    late._stage()
    scene.table.compact()
    with pytest.raises(WriteConflict, match=r"the compaction \d+ \(by a table service, completed"):
        late.commit()

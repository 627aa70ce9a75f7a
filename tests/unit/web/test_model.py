# SPDX-License-Identifier: Apache-2.0
"""What the viewer is given to draw."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakebraid.clock import SystemClock
from lakebraid.storage import open_storage
from lakebraid.web.gathering import load_facts
from lakebraid.web.page import embedded_json, render_page
from lakebraid.web.picture import build_model
from tests.kit.models.viewing import long_facts, model_of, told
from tests.kit.reference import names, unpack
from tests.kit.tables.scene import WatchedStorage
from tests.kit.tables.storyboard import Story

pytestmark = [pytest.mark.unit, pytest.mark.slow]


@pytest.fixture(scope="module")
def model() -> dict[str, Any]:
    return model_of(told())


def _lane(model: dict[str, Any], instant: dict[str, Any]) -> str:
    return str(model["lanes"][instant["lane"]]["name"])


def _starting(model: dict[str, Any], digits: str) -> dict[str, Any]:
    return next(i for i in model["instants"] if i["start"].endswith(digits))


def test_every_writer_has_a_lane_and_services_have_lanes_of_their_own(model: dict[str, Any]) -> None:
    assert [lane["name"] for lane in model["lanes"] if lane["service"]] == [
        "compaction",
        "clean",
        "rollback",
        "savepoint",
    ]
    writers = [lane["name"] for lane in model["lanes"] if not lane["service"]]
    assert writers[:6] == ["backfill", "ingest-a", "ingest-b", "slow-join", "doomed", "experiment"]
    assert {_lane(model, i) for i in model["instants"] if i["kind"] == "compaction"} == {"compaction"}


def test_an_instant_tells_its_times_rows_files_and_partitions(model: dict[str, Any]) -> None:
    first = _starting(model, "120000013")
    assert (first["completion"], first["rows"], first["files"]) == ("20260302120004001", 400, 8)
    assert first["t1"] - first["t0"] == 3988 and first["bytes"] > 0
    assert first["partitions"] == ["Bergen", "Lima", "Oslo", "Rome"] and _lane(model, first) == "backfill"


def test_a_write_that_spans_a_compaction_s_plan_is_late_for_it(model: dict[str, Any]) -> None:
    late = {i["start"]: i["late"] for i in model["instants"] if "late" in i}
    assert late == {"20260302120058001": "20260302120106001", "20260302120358001": "20260302120406001"}


def test_a_write_that_shares_no_group_with_a_compaction_is_not_late_for_it() -> None:
    story = Story()
    story.write(0, 2, "base", cities=("Oslo",))
    story.write(3, 12, "elsewhere", cities=("Rome",))
    story.compact(6, 3)
    assert not [i for i in model_of(story.play())["instants"] if "late" in i]


def test_writes_that_were_taken_back_are_shown_with_their_writer_and_why_though_their_files_are_gone(
    model: dict[str, Any],
) -> None:
    gone = {i["start"]: i for i in model["instants"] if "by" in i}
    assert {request_time: i["state"] for request_time, i in gone.items()} == {
        "20260302120100001": "rolled back",
        "20260302120216001": "aborted",
        "20260302120224010": "refused",
    }
    assert {i["by"] for i in gone.values()} == {i["start"] for i in model["instants"] if i["kind"] == "rollback"}
    refused = gone["20260302120224010"]
    assert _lane(model, refused) == "schema-b" and "RFC-82, row 8" in refused["why"]["why"]


def test_open_writes_and_plans_are_in_the_picture_and_in_the_status(model: dict[str, Any]) -> None:
    pending = [(i["kind"], i["state"]) for i in model["instants"] if i["state"] in ("requested", "inflight")]
    assert pending == [("compaction", "requested"), ("deltacommit", "inflight")]
    assert [p["instant"] for p in model["status"]["plans"]] == ["20260302120512001"]
    assert [w["instant"] for w in model["status"]["writers"]] == ["20260302120516001"]
    assert _starting(model, "120512001")["plan"][0][1:] == [6, True]


def test_slices_name_their_files_and_the_instants_that_made_them(model: dict[str, Any]) -> None:
    group, barrier, base, logs = model["slices"][1]
    assert model["groups"][group][0] == "Bergen" and barrier == "20260302120406001"
    maker = model["instants"][model["files"][base][1]]
    assert maker["kind"] == "compaction" and model["files"][base][2] == "base"
    assert {_lane(model, model["instants"][model["files"][log][1]]) for log in logs} == {"ingest-b", "slow-join"}


def test_an_archived_compaction_is_still_called_one() -> None:
    story = Story(buckets=1, partition_by=None)
    for at in range(0, 60, 10):
        story.write(at, 2, "w", rows=4)
    story.compact(25, 2)
    story.play()
    story.clock.at(400)
    story.table.archive(keep_min=2, keep_max=3)
    model = model_of(story)
    archived = [(i["kind"], _lane(model, i)) for i in model["instants"] if i.get("archived")]
    assert ("compaction", "compaction") in archived and ("deltacommit", "w") in archived


def test_beyond_the_limits_the_newest_instants_and_the_files_in_use_stay() -> None:
    story = told()
    facts = load_facts(story.storage, story.clock, instants_max=10)
    model = build_model(facts, files_max=30)
    assert model["left_out"]["instants"] == facts.left_out == 39 and len(model["files"]) == 30
    assert model["instants"][-1]["start"] == "20260302120516001"
    assert model["left_out"]["files"] > 0


def test_tables_that_only_hudi_wrote_are_shown_whole(tmp_path: Path) -> None:
    for name in names():
        reference = unpack(name, tmp_path / name)
        model = build_model(load_facts(open_storage(reference.path), SystemClock()))
        assert model["problems"] == [] and not [i for i in model["instants"] if "problem" in i], name
        assert render_page(model)


def test_a_second_look_reads_no_completed_instant_again() -> None:
    story = Story()
    story.write(0, 1, "w")
    story.play()
    watched = WatchedStorage(story.storage)
    known: dict[Any, Any] = {}
    load_facts(watched, story.clock, known)
    watched.calls.clear()
    load_facts(watched, story.clock, known)
    read = [c.target for c in watched.calls if c.name == "read" and c.target.endswith(".deltacommit")]
    assert len(read) <= 2, "the view states its schema and nothing else is read"


def test_one_damaged_instant_is_named_and_hides_nothing_else() -> None:
    story = Story()
    story.write(0, 1, "w")
    story.write(5, 1, "w")
    story.play()
    name = next(i.name for i in story.storage.list(".hoodie/timeline") if i.name.endswith("120006001.deltacommit"))
    story.storage.replace(name, b"Obj\x01 nonsense")
    model = model_of(story)
    assert "problem" in _starting(model, "120005001") and _starting(model, "120000013")["rows"] == 40
    assert model["problems"] and model["slices"] == []


def test_a_table_without_instants_has_a_page() -> None:
    assert "<!doctype html>" in render_page(model_of(Story()))


def test_five_thousand_instants_fit_into_three_megabytes() -> None:
    assert len(render_page(build_model(long_facts(5000)))) < 3_000_000


def test_no_text_of_a_table_can_end_the_script_or_fill_a_place_of_the_page(model: dict[str, Any]) -> None:
    evil = "</script><!--<script>{{style}}\u2028"
    page = render_page({**model, "table": {**model["table"], "name": evil}})
    body = page.partition('<script id="model" type="application/json">')[2].partition("</script>")[0]
    assert "<" not in body and json.loads(body)["model"]["table"]["name"] == evil
    assert page.count("<style>") == 1 and "{{style}}" in json.loads(embedded_json(evil))


def test_marks_that_turn_text_around_do_not_reach_the_page() -> None:
    story = Story()
    facts = load_facts(story.storage, story.clock)
    model = build_model(replace(facts, config=replace(facts.config, name="abc\u202etxt.exe\x07"), path="a\ud800b"))
    assert model["table"]["name"] == "abc�txt.exe�" and model["table"]["path"] == "a�b"


def test_looking_changes_nothing_in_the_table() -> None:
    story = told()
    before = {i.name: i.modified_ms for i in story.storage.list()}
    model_of(story)
    assert {i.name: i.modified_ms for i in story.storage.list()} == before

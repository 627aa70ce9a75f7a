# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from lakebraid.cli.demo import draw_lanes
from lakebraid.inspect.occ_replay import look_back
from lakebraid.table.at import TableAt
from tests.kit.tables.scene import Scene

pytestmark = pytest.mark.unit


def test_writers_that_met_in_a_bucket_would_have_been_refused_and_stand_in_nobodys_way() -> None:
    scene = Scene(arguments={"buckets": 1})
    first, second, third = (scene.other().begin() for _ in range(3))
    for number, transaction in enumerate((first, second, third)):
        transaction.write([{"id": "a", "ts": number, "v": "x", "w": 1}])
    second.commit()
    alone = scene.other().upsert([{"id": "b", "ts": 1, "v": "x", "w": 1}])
    first.commit()
    third.commit()
    found = look_back(TableAt(scene.storage, scene.table._config, scene.clock))
    assert found.refused == (first.instant, third.instant)
    assert alone.instant not in found.refused
    assert found.writes == 5, "the table's creation is one"


def test_writers_of_different_buckets_would_all_have_been_let_through() -> None:
    scene = Scene(arguments={"buckets": 4})
    one, two = scene.other().begin(), scene.other().begin()
    one.write([{"id": "a", "ts": 1, "v": "x", "w": 1}])
    two.write([{"id": "b", "ts": 1, "v": "x", "w": 1}])
    one.commit()
    two.commit()
    assert look_back(TableAt(scene.storage, scene.table._config, scene.clock)).refused == ()


def test_lanes_show_when_writes_were_under_way_and_which_were_taken_back() -> None:
    instants = [
        {"t0": 0, "t1": 50, "kind": "deltacommit", "state": "completed", "lane": 1, "rows": 3},
        {"t0": 20, "t1": 100, "kind": "deltacommit", "state": "rolled back", "lane": 0, "rows": None},
        {"t0": 25, "t1": 75, "kind": "compaction", "state": "completed", "lane": 2, "service": True},
        {"t0": 0, "t1": 1, "kind": "deltacommit", "state": "completed", "lane": 3, "rows": 0},
    ]
    lines = draw_lanes(instants, ["zoe", "adam", "compaction", "nobody"], width=44)
    assert [line.split()[0] for line in lines] == ["adam", "zoe", "compaction", "0"]
    assert lines[0][24:] == "━━━━━━━━━━┫"
    assert lines[1][24:] == "    ━━━━━━━━━━━━━━━X"
    assert lines[2][24:] == "     ━━━━━━━━━━┫"
    assert lines[0][24 + 5] == "━"

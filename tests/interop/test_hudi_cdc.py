# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi's CDC query on tables of ours that capture changes, beside our own changes (docs/differences.md)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.format.properties import format_properties
from tests.interop.referee import HudiRefused, Referee

pytestmark = pytest.mark.interop

CDC = {"hoodie.table.cdc.enabled": "true"}
COLUMNS = "id string, ts bigint, n int, p string"
Image = tuple[Any, ...] | None
Event = tuple[str, str, Image, Image]
"""The request time of the write, the kind of change, the row before, the row after."""


def make(where: Path, **changes: Any) -> lb.Table:
    given: dict[str, Any] = {"ordering_fields": "ts", "buckets": 1, "properties": CDC, "partition_by": "p", **changes}
    return lb.Table.create(where, COLUMNS, record_keys="id", **given)


def row(key: str, ts: int, n: int | None, p: str = "x") -> dict[str, Any]:
    return {"id": key, "ts": ts, "n": n, "p": p}


def image(found: dict[str, Any] | None) -> Image:
    return None if found is None else tuple(found.get(name) for name in ("id", "ts", "n", "p"))


def hudis(referee: Referee, t: lb.Table, **times: str) -> list[Event]:
    """What Hudi's CDC query tells of the writes that *began* in this time; from the beginning if none is given."""
    options = {f"hoodie.datasource.read.{name}.instanttime": time for name, time in ({"begin": "000"} | times).items()}
    found = referee.ask("read", path=t.path, mode="cdc", options=options)["rows"]
    images = [[image(json.loads(told[side] or "null")) for side in ("before", "after")] for told in found]
    return sorted(((told["ts_ms"], told["op"], *pair) for told, pair in zip(found, images, strict=True)), key=str)


def ours(t: lb.Table) -> list[Event]:
    """Our own changes of each commit, by the request time of its write."""
    names = [path.name for path in Path(t.path, ".hoodie/timeline").iterdir()]
    done = sorted((m[2], m[1]) for name in names if (m := re.fullmatch(r"(\d{17})_(\d{17})\.\w*commit", name)))
    events: list[Event] = []
    for (after, _), (until, request_time) in zip([(None, ""), *done], done, strict=False):
        found = t.changes(after, until, images=True).to_arrow().to_pylist()
        kinds: dict[str, dict[str, dict[str, Any]]] = {}
        for told in found:
            kinds.setdefault(told["_change_type"], {})[told["p"] + told["id"]] = told
        events += [(request_time, "i", None, image(new)) for new in kinds.get("insert", {}).values()]
        events += [(request_time, "d", image(old), None) for old in kinds.get("delete", {}).values()]
        before = kinds.get("update_preimage", {})
        events += [
            (request_time, "u", image(before[key]), image(new))
            for key, new in kinds.get("update_postimage", {}).items()
        ]
    return sorted(events, key=str)


def test_hudis_cdc_query_tells_every_change_of_our_merge_on_read_tables_as_we_do(
    referee: Referee, tmp_path: Path
) -> None:
    t = make(tmp_path / "t", shared=True)
    t.upsert([row("a", 1, 1), row("b", 1, 1), row("c", 1, 1, "y")])
    t.upsert([row("a", 2, 2), row("b", 0, 0), row("d", 1, 1)])  # b loses
    early, late = t.begin(), t.begin()
    early.write([row("a", 5, 5), row("new", 5, 5), row("z", 2, 2, "z")])
    late.write([row("a", 4, 4), row("new", 4, 4), row("z", 1, 1, "z")])
    late.commit()
    early.commit()
    t.delete([{"id": "b", "p": "x"}])
    plan = t.plan_compaction()
    assert plan is not None
    t.upsert([row("a", 6, 6), row("b", 2, 2)])
    assert hudis(referee, t) == ours(t), "while a compaction is pending"
    t.run(plan)
    t.upsert([row("a", 7, 7)])
    t.upsert([{"id": "a", "p": "x", "ts": 8, "n": None}, row("m", 1, 1)])
    t.upsert([{"id": "d", "p": "x", "ts": 9}], columns=["id", "p", "ts"])
    written = {"schema": COLUMNS, "json": [row("a", 10, 10), row("h", 1, 1)]}
    referee.ask("write", path=t.path, rows=written, options={"hoodie.table.name": "t"})
    t.upsert([row("a", 11, 11), row("h", 2, 2)])
    t.log_compact()
    t.insert_overwrite([row("c2", 1, 1, "y")])
    t.delete_partitions(["z"])
    t.upsert([row("z", 1, 1, "z"), row("a", 12, 12)])
    told = hudis(referee, t)
    assert told == ours(t)
    assert {kind for _, kind, _, _ in told} == {"i", "u", "d"} and len(told) > 20
    assert (early.instant, "u", ("a", 4, 4, "x"), ("a", 5, 5, "x")) in told


def test_of_a_key_in_several_files_of_one_commit_hudi_tells_each_step(referee: Referee, tmp_path: Path) -> None:
    """The steps together are the change; a reader of ours sees that alone."""
    t = make(tmp_path / "t")
    t.upsert([row("a", 1, 1), row("b", 1, 1)])
    early, late = t.begin(), t.begin()
    early.write([row("a", 20, 20)])
    early.write([row("a", 21, 21)])
    early.write_deletes([{"id": "b", "p": "x"}])
    late.write([row("a", 15, 15), row("b", 2, 2)])
    late.commit()
    early.commit()
    steps = [
        (kind, before and before[1], after and after[1])
        for request_time, kind, before, after in hudis(referee, t)
        if request_time == early.instant
    ]
    assert steps == [("d", 2, None), ("u", 15, 20), ("u", 20, 21)]


def test_what_hudis_cdc_query_tells_otherwise_than_we_do_on_merge_on_read_tables(
    referee: Referee, tmp_path: Path
) -> None:
    t = make(tmp_path / "t")
    t.upsert([row("a", 10, 1)])
    stale = t.delete([{"id": "a", "ts": 5, "p": "x"}]).instant
    assert (stale, "d", ("a", 10, 1, "x"), None) in hudis(referee, t), "it takes no notice of a delete's ordering value"
    assert stale not in {request_time for request_time, *_ in ours(t)} and len(t.to_arrow()) == 1

    t = make(tmp_path / "c", ordering_fields=None)
    t.upsert([row("a", 1, 1)])
    early, late = t.begin(), t.begin()
    early.write([row("a", 1, 3)])
    late.write([row("a", 1, 2)])
    seen = late.commit().completion_time
    early.commit()
    assert (early.instant, "u", ("a", 1, 2, "x"), ("a", 1, 3, "x")) in hudis(referee, t), "whoever comes last has won"
    assert early.instant not in {request_time for request_time, *_ in ours(t)}
    assert [r["n"] for r in t.to_arrow().to_pylist()] == [2]
    assert hudis(referee, t, begin=seen) == [], (
        "it goes by the request times of writes: who follows by completions misses some"
    )


def test_hudis_cdc_query_reads_a_group_that_was_there_before_the_capture_once_it_is_compacted(
    referee: Referee, tmp_path: Path
) -> None:
    t = make(tmp_path / "t", properties={})
    t.upsert([row("a", 1, 1)])
    file = tmp_path / "t/.hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("cdc.enabled=false", "cdc.enabled=true"))
    t = lb.Table.open(t.path)
    t.upsert([row("a", 2, 2)])
    with pytest.raises(HudiRefused, match="No value present in Option"):
        hudis(referee, t)
    (compacted,) = t.compact()
    last = t.upsert([row("a", 3, 3)])
    told = hudis(referee, t, begin=compacted.instant)
    assert told == [(last.instant, "u", ("a", 2, 2, "x"), ("a", 3, 3, "x"))]
    t.compact()
    t.clean(versions=1)
    with pytest.raises(HudiRefused):  # as on its own tables: the slice before is gone
        hudis(referee, t, begin=compacted.instant)


def test_hudis_cdc_query_misses_deletes_of_an_overwrite_while_a_compaction_of_the_rows_is_pending(
    referee: Referee, tmp_path: Path
) -> None:
    """It reads the newest slice of a replaced group, which is the one that the compaction will begin: on its own tables, too."""
    t = make(tmp_path / "t", shared=True)
    t.upsert([row("a", 1, 1), row("c", 1, 1, "y")])
    t.upsert([row("a", 2, 2)])
    plan = t.plan_compaction()
    assert plan is not None
    t.upsert([row("b", 1, 1)])
    t.insert_overwrite_table([row("d", 1, 1)])
    told, expected = hudis(referee, t), ours(t)
    assert [event[1:3] for event in expected if event not in told] == [("d", ("a", 2, 2, "x")), ("d", ("b", 1, 1, "x"))]
    t.run(plan)
    assert hudis(referee, t) == expected == ours(t)


def test_hudis_cdc_query_tells_deletes_of_rows_that_were_never_published_if_an_overwrite_meets_an_open_writer(
    referee: Referee, tmp_path: Path
) -> None:
    t = make(tmp_path / "t")
    t.upsert([row("a", 1, 1)])
    writer = t.begin()
    writer.write([row("b", 1, 1)])
    gone = t.delete_partitions(["x"]).instant
    told = hudis(referee, t)
    assert [event for event in told if event not in ours(t)] == [(gone, "d", ("b", 1, 1, "x"), None)]
    with pytest.raises(lb.WriteConflict):
        writer.commit()
    assert hudis(referee, t) == ours(t)


@pytest.mark.parametrize("mode", ["data_before_after", "data_before", "op_key_only"])
def test_hudis_cdc_query_tells_every_change_of_our_copy_on_write_tables_as_we_do(
    mode: str, referee: Referee, tmp_path: Path
) -> None:
    capture = CDC | {"hoodie.table.cdc.supplemental.logging.mode": mode}
    t = make(tmp_path / "t", table_type="cow", index="simple", properties=capture, shared=True)
    t.upsert([row("a", 1, 1), row("b", 1, 1), row("c", 1, 1, "y"), row("c2", 1, 1, "y")])
    t.upsert([row("a", 2, 2), row("b", 0, 0), row("d", 1, 1)])  # b loses, d joins the file of a and b
    t.upsert([row("a", 1, 1)])  # changes nothing
    t.delete([{"id": "b", "p": "x"}, {"id": "nobody", "p": "x"}])
    t.delete([{"id": "c", "p": "y"}, {"id": "c2", "p": "y"}])  # all rows of a file
    t.upsert([{"id": "a", "p": "x", "ts": 4}, row("e", 1, 1)], columns=["id", "p", "ts"])
    if mode == "data_before_after":
        written = {"schema": COLUMNS, "json": [row("a", 5, 5), row("h", 1, 1)]}
        referee.ask("write", path=t.path, rows=written, options={"hoodie.table.name": "t"})
    t.upsert([row("a", 6, 6), row("h", 2, 2), row("c", 2, 2, "y")])
    t.insert_overwrite([row("o", 1, 1, "y")])
    t.upsert([row("o", 2, 2, "y")])
    told = hudis(referee, t)
    assert told == ours(t)
    assert {kind for _, kind, _, _ in told} == {"i", "u", "d"} and len(told) > 12
    assert len(t.audit()) == 0


@pytest.mark.parametrize("mode", ["data_before_after", "data_before", "op_key_only"])
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_hudis_cdc_query_tells_what_happens_to_rows_that_a_clustering_has_moved_as_we_do(
    table_type: str, mode: str, referee: Referee, tmp_path: Path
) -> None:
    capture = CDC | {"hoodie.table.cdc.supplemental.logging.mode": mode, "hoodie.parquet.small.file.limit": "0"}
    t = make(tmp_path / "t", table_type=table_type, index="simple", properties=capture, shared=True)
    t.upsert([row("a", 1, 1), row("b", 1, 1), row("y", 1, 1, "y")])
    t.upsert([row("c", 1, 1), row("a", 2, 2)])
    assert len(t.snapshot().slices) == 3
    t.cluster()
    assert len(t.snapshot().slices) == 2
    t.upsert([row("c", 2, 2), row("d", 1, 1)])
    t.delete([{"id": "b", "p": "x"}])
    t.cluster()
    overwrite = t.insert_overwrite_table([row("e", 1, 1)]).instant
    told = hudis(referee, t)
    assert told == ours(t)
    gone = {before[0] for request_time, kind, before, _ in told if kind == "d" and request_time == overwrite and before}
    assert gone == {"a", "c", "d", "y"}
    again = t.insert_overwrite_table([row("e", 2, 2)]).instant
    kept = [event[1:] for event in hudis(referee, t) if event[0] == again]
    assert kept == [("d", ("e", 1, 1, "x"), None), ("i", None, ("e", 2, 2, "x"))], "we tell an update"


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_hudis_cdc_query_tells_what_we_write_into_tables_that_hudi_made_for_it(
    table_type: str, referee: Referee, tmp_path: Path
) -> None:
    stated = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    options = stated | {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.metadata.enable": "false",
        "hoodie.table.cdc.enabled": "true",
    }

    def write(*rows: dict[str, Any]) -> None:
        given = {"schema": COLUMNS, "json": [*rows]}
        referee.ask("write", path=str(tmp_path / "t"), rows=given, options=options)

    write(row("a", 1, 1), row("b", 1, 1))
    file = tmp_path / "t/.hoodie/hoodie.properties"
    file.write_bytes(format_properties({**lb.Table.open(tmp_path / "t").properties, **stated}))
    file.with_name(".hoodie.properties.crc").unlink()
    t = lb.Table.open(tmp_path / "t")
    t.upsert([row("a", 2, 2), row("c", 1, 1), row("n", 1, 1, "new")])
    t.delete([{"id": "b", "p": "x"}])
    write(row("a", 3, 3), row("n", 2, 2, "new"))
    t.upsert([row("a", 4, 4), row("n", 3, 3, "new")])
    told = hudis(referee, t)
    assert told == ours(t) and len(told) == 10

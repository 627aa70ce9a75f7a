# SPDX-License-Identifier: Apache-2.0
"""What commits of a table with change data capture say and bring. Whether Hudi reads it: tests/interop/test_hudi_changes.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.format.avro.rows import parse_avro_block
from lakebraid.format.log.blocks import BlockType, read_blocks
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat, parse_commit
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.writing import stage
from lakebraid.writing.seeds import bases_beside

pytestmark = pytest.mark.unit

CDC = {"hoodie.table.cdc.enabled": "true"}


def make(where: Path, **changes: Any) -> lb.Table:
    given: dict[str, Any] = {"ordering_fields": "ts", "buckets": 1, "properties": CDC, **changes}
    return lb.Table.create(where / "t", "id string, ts bigint, p string", record_keys="id", **given)


def row(key: str, ts: int, p: str = "x") -> dict[str, Any]:
    return {"id": key, "ts": ts, "p": p}


def commit_of(t: lb.Table, request_time: str) -> CommitMetadata:
    (file,) = Path(t.path, ".hoodie/timeline").glob(f"{request_time}_*commit")
    return parse_commit(file.read_bytes(), file.name)


def stats(t: lb.Table, request_time: str) -> list[WriteStat]:
    return [stat for found in commit_of(t, request_time).write_stats.values() for stat in found]


def logs(t: lb.Table, request_time: str) -> list[str]:
    return [(stat.path or "").rpartition("/")[2] for stat in stats(t, request_time) if ".log." in (stat.path or "")]


def test_a_commit_names_the_slice_as_it_was_when_it_was_published_not_when_its_writer_looked(tmp_path: Path) -> None:
    t = make(tmp_path)
    first = t.upsert([row("a", 1)]).instant
    early, late = t.begin(), t.begin()
    early.write([row("a", 3)])
    late.write([row("a", 2)])
    late.commit()
    early.commit()
    (told,), (before,) = stats(t, early.instant), stats(t, late.instant)
    assert told.base_file == before.base_file and (tmp_path / "t" / (told.base_file or "")).is_file()
    assert before.log_files == (*logs(t, first), *logs(t, late.instant))
    assert told.log_files == (*logs(t, first), *logs(t, late.instant), *logs(t, early.instant))


def test_of_several_log_files_of_one_group_each_is_told_on_top_of_all_that_was_published_before(tmp_path: Path) -> None:
    """Hudi takes the names that come before that of the file it reads; `./` makes those of later request times do so."""
    t = make(tmp_path)
    early, late = t.begin(), t.begin()
    early.write([row("a", 3)])
    early.write([row("a", 4)])
    late.write([row("a", 2)])
    late.commit()
    early.commit()
    own, other = logs(t, early.instant), logs(t, late.instant)
    assert [stat.log_files for stat in stats(t, early.instant)] == [(f"./{other[0]}", name) for name in own]
    assert other[0] > max(own) and f"./{other[0]}" < min(own)


def test_the_slice_before_reaches_down_to_the_base_file_while_a_compaction_is_pending(tmp_path: Path) -> None:
    t = make(tmp_path)
    first = t.upsert([row("a", 1)]).instant
    plan = t.plan_compaction()
    assert plan is not None
    (pending,) = stats(t, t.upsert([row("a", 2)]).instant)
    assert pending.base_file and (pending.log_files or ())[:1] == (*logs(t, first),)
    t.run(plan)
    (after,) = stats(t, t.upsert([row("a", 3)]).instant)
    assert after.base_file and after.base_file != pending.base_file
    assert after.log_files == (*(pending.log_files or ())[1:], *(after.log_files or ())[1:])


@pytest.mark.parametrize("first", [0, 1])
def test_writers_that_begin_a_partition_at_once_each_bring_a_base_file_and_hide_nothing(
    tmp_path: Path, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = make(tmp_path, partition_by="p")
    writers = [t.begin(), t.begin()]
    for number, writer in enumerate(writers):
        writer.write([row("same", number), row(f"own{number}", 1)])

    def beside(*given: Any) -> list[StagedFile]:
        files = [*bases_beside(*given)]
        monkeypatch.setattr(stage, "bases_beside", bases_beside)
        writers[first].commit()  # the other one has looked, and is about to publish
        return files

    monkeypatch.setattr(stage, "bases_beside", beside)
    writers[1 - first].commit()
    for writer in writers:
        base, log = sorted(stats(t, writer.instant), key=lambda stat: len(stat.log_files or ()))
        assert base.num_writes == base.num_inserts == 0 and base.log_files == () and log.base_file
    expected = [("own0", 1), ("own1", 1), ("same", 1)]
    assert sorted((r["id"], r["ts"]) for r in t.to_arrow().to_pylist()) == expected
    t.compact()
    assert sorted((r["id"], r["ts"]) for r in t.to_arrow().to_pylist()) == expected
    assert len(t.audit()) == 0


def test_a_group_that_had_rows_when_the_write_began_gets_no_empty_base_file_that_would_hide_them(
    tmp_path: Path,
) -> None:
    t = make(tmp_path, partition_by="p", properties={})
    t.upsert([row("a", 1)])
    file = tmp_path / "t/.hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("cdc.enabled=false", "cdc.enabled=true"))
    t = lb.Table.open(t.path)
    (only,) = stats(t, t.upsert([row("b", 1)]).instant)
    assert only.base_file == "" and len(only.log_files or ()) == 2
    assert len(t.to_arrow()) == 2


def test_what_is_given_up_leaves_no_base_file_behind(tmp_path: Path) -> None:
    t = make(tmp_path, partition_by="p")
    with pytest.raises(lb.WriteConflict):
        _refused(t)
    assert [f.name for f in Path(t.path, "x").glob("*.parquet")] == []


def _refused(t: lb.Table) -> None:
    writer = t.begin()
    writer.write([row("a", 1)])
    t.insert_overwrite_table([row("b", 1, "y")])
    writer.commit()


def test_tables_without_capture_look_at_nothing_and_say_nothing_of_slices(tmp_path: Path) -> None:
    t = make(tmp_path, partition_by="p", properties={})
    t.upsert([row("a", 1)])
    (only,) = stats(t, t.upsert([row("a", 2)]).instant)
    assert only.base_file == "" and len(only.log_files or ()) == 1


def test_deletes_among_the_rows_of_an_overwrite_are_refused_where_changes_are_captured(tmp_path: Path) -> None:
    t = make(tmp_path)
    t.upsert([row("a", 1)])
    with pytest.raises(lb.InvalidArgument, match="rows that are deletes"):
        t.insert_overwrite_table(
            [row("b", 1) | {"_hoodie_is_deleted": True}, row("c", 1) | {"_hoodie_is_deleted": False}]
        )
    assert [r["id"] for r in t.to_arrow().to_pylist()] == ["a"]


def test_an_overwrite_that_gets_its_rows_in_pieces_is_told_why_it_is_refused_where_changes_are_captured(
    tmp_path: Path,
) -> None:
    """It was told of deletes, and had none."""
    t = make(tmp_path, partition_by="p")
    t.upsert([row("a", 1)])
    overwrite = t.begin("insert_overwrite")
    overwrite.write([row("b", 1)])
    overwrite.write([row("c", 1, "y")])
    with pytest.raises(lb.InvalidArgument, match=r"several calls of `write`.* Give all other rows in one call"):
        overwrite.commit()
    overwrite.abort()
    assert [r["id"] for r in t.to_arrow().to_pylist()] == ["a"] and len(t.audit()) == 0


def test_our_changes_of_a_table_with_capture_are_those_of_any_table(tmp_path: Path) -> None:
    tables = [make(tmp_path / name, partition_by="p", properties=how) for name, how in (("on", CDC), ("off", {}))]
    fed = []
    for t in tables:
        after = t.upsert([row("a", 1), row("b", 1)]).completion_time
        t.upsert([row("a", 2), row("c", 1, "y")])
        t.delete([{"id": "b", "p": "x"}])
        found = t.changes(after, images=True).to_arrow().drop_columns(["_commit_completion_time"]).to_pylist()
        fed.append(sorted(found, key=str))
    assert fed[0] == fed[1] and len(fed[0]) == 4


def cdc_files(t: lb.Table) -> dict[str, list[dict[str, Any]]]:
    """The files of change data by the request time of their writes, as rows."""
    found = {}
    for path in sorted(Path(t.path).glob("**/.*.cdc")):
        blocks = read_blocks(path.read_bytes(), path.name).blocks
        assert {block.type for block in blocks} == {BlockType.CDC}
        rows = [parse_avro_block(block.content, block.schema_text or "", path.name) for block in blocks]
        found[blocks[0].instant_time or ""] = [row for table in rows for row in table.to_pylist()]
    return found


def make_cow(where: Path, mode: str = "DATA_BEFORE_AFTER", **changes: Any) -> lb.Table:
    capture = CDC | {"hoodie.table.cdc.supplemental.logging.mode": mode}
    return make(where, **{"table_type": "cow", "properties": capture, "partition_by": "p"} | changes)


@pytest.mark.parametrize("mode", ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"])
def test_a_rewritten_base_file_has_its_changes_beside_it_as_the_mode_says(tmp_path: Path, mode: str) -> None:
    t = make_cow(tmp_path, mode)
    t.upsert([row("a", 1), row("b", 5), row("c", 1)])
    assert not cdc_files(t), "new files tell themselves"
    done = t.upsert([row("a", 2), row("b", 4), row("d", 1)])  # b loses
    ((request_time, told),) = cdc_files(t).items()
    assert request_time == done.instant
    full: list[dict[str, Any]] = [
        {"op": "u", "record_key": "a", "ts_ms": request_time, "before": row("a", 1), "after": row("a", 2)},
        {"op": "i", "record_key": "d", "ts_ms": request_time, "before": None, "after": row("d", 1)},
    ]
    names = {"OP_KEY_ONLY": ("op", "record_key"), "DATA_BEFORE": ("op", "record_key", "before")}
    assert told == [{n: e[n] for n in names.get(mode, ("op", "ts_ms", "before", "after"))} for e in full]
    (stat,) = stats(t, request_time)
    ((path, size),) = (stat.cdc_stats or {}).items()
    assert Path(t.path, path).stat().st_size == size


def test_a_file_whose_rows_all_win_against_what_is_given_is_not_written_anew(tmp_path: Path) -> None:
    t = make_cow(tmp_path)
    t.upsert([row("a", 5)])
    assert stats(t, t.upsert([row("a", 4)]).instant) == [] and not cdc_files(t)


def test_deletes_and_rows_of_partial_updates_are_told_whole(tmp_path: Path) -> None:
    t = make_cow(tmp_path, index="simple", partition_by=None)
    t.upsert([row("a", 1), row("b", 1)])
    gone = t.delete([{"id": "a"}, {"id": "nobody"}]).instant
    part = t.upsert([{"id": "b", "ts": 2}], columns=["id", "ts"]).instant
    told = {
        request_time: [(e["op"], e["before"], e["after"]) for e in events]
        for request_time, events in cdc_files(t).items()
    }
    assert told == {gone: [("d", row("a", 1), None)], part: [("u", row("b", 1), row("b", 2))]}
    last = t.delete([{"id": "b"}]).instant
    assert [(e["op"], e["after"]) for e in cdc_files(t)[last]] == [("d", None)]


def test_files_of_changes_go_with_their_commits(tmp_path: Path) -> None:
    t = make_cow(tmp_path)
    done = [t.upsert([row("a", ts)]) for ts in range(1, 7)]
    open_one = t.begin()
    open_one.write([row("a", 9)])
    open_one._stage()
    assert len(cdc_files(t)) == 6
    open_one.abort()
    assert [*cdc_files(t)] == [one.instant for one in done[1:]]
    t.restore(done[4].completion_time)
    assert [*cdc_files(t)] == [one.instant for one in done[1:5]]
    t.clean(commits=2)
    assert [*cdc_files(t)] == [one.instant for one in done[3:5]] and len(t.audit()) == 0
    (path,) = Path(t.path).glob(f"*/.*_{done[4].instant}.*.cdc")
    path.rename(path.with_name(path.name.replace("1000-0-0", "1001-0-0")))
    assert sorted(finding.kind for finding in t.audit()) == ["file-missing", "late-twin"]

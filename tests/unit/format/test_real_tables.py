# SPDX-License-Identifier: Apache-2.0
"""Every file of every reference table: what Apache Hudi wrote is read, and written again reads the same."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebraid.format.names import (
    State,
    TimelineFileName,
    parse_data_file,
    parse_history_file,
    parse_manifest_name,
    parse_marker,
    parse_timeline_file,
)
from lakebraid.format.properties import (
    choose_properties,
    format_partition_metadata,
    format_properties,
    parse_partition_metadata,
    parse_properties,
)
from lakebraid.format.timeline import rollbacks, services
from lakebraid.format.timeline.commit import format_commit, parse_commit
from lakebraid.format.timeline.history import manifests_to_try, parse_manifest, read_history, write_history
from lakebraid.format.timeline.plans import (
    format_compaction_plan,
    format_requested_replace,
    parse_compaction_plan,
    parse_requested_replace,
)
from tests.kit.present import present
from tests.kit.reference import Reference, names, unpack

pytestmark = [pytest.mark.unit, pytest.mark.slow]


@pytest.fixture(params=names())
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Reference:
    return unpack(request.param, tmp_path)


def layout(table: Reference) -> int:
    data = (table.path / ".hoodie/hoodie.properties").read_bytes()
    return int(parse_properties(data, "hoodie.properties")["hoodie.timeline.layout.version"])


def timeline_files(table: Reference) -> Iterator[tuple[TimelineFileName, Path]]:
    folder = table.path / (".hoodie" if layout(table) == 1 else ".hoodie/timeline")
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != "hoodie.properties" and not path.name.endswith(".crc"):
            name = parse_timeline_file(path.name, layout(table))
            assert name is not None, path.name
            assert name.format(layout(table)) == path.name
            yield name, path


def codec(name: TimelineFileName) -> tuple[Callable[..., Any], Callable[..., bytes]]:
    """How the content of a timeline file is read and written."""
    plan = name.state is State.REQUESTED
    match name.action:
        case "compaction" | "logcompaction":
            return parse_compaction_plan, format_compaction_plan
        case "clustering" | "replacecommit" if plan:
            return parse_requested_replace, lambda value: format_requested_replace(value, "s3://lake/elsewhere")
        case "commit" | "deltacommit" | "replacecommit":
            return parse_commit, format_commit
        case "clean" | "rollback" if plan:
            module = services if name.action == "clean" else rollbacks
            write = getattr(module, f"format_{name.action}_plan")
            return getattr(module, f"parse_{name.action}_plan"), lambda value: write(value, "/lake/elsewhere")
    service = "index" if name.action == "indexing" else name.action
    kind = f"{service}_plan" if plan else f"{service}_metadata"
    module = rollbacks if service in {"rollback", "restore"} else services
    return getattr(module, f"parse_{kind}"), getattr(module, f"format_{kind}")


def test_every_timeline_file_is_read_and_written_again_reads_the_same(table: Reference) -> None:
    read = 0
    for name, path in timeline_files(table):
        data = path.read_bytes()
        if data:
            parse, write = codec(name)
            value = parse(data, path.name)
            assert parse(write(value), path.name) == value
            read += 1
    assert read or table.name == "v9_mor_empty"


def test_the_completed_instants_are_those_that_hudi_lists(table: Reference) -> None:
    done = [name for name, _ in timeline_files(table) if name.state is State.COMPLETED]
    if layout(table) == 1:
        # Version 6 keeps no completion times; the answers name the start twice, and the oldest ones not at all.
        assert {name.completion_time for name in done} == {None}
        assert {(name.request_time, name.action) for name in done} >= {(s, action) for s, _, action in table.completed}
    else:
        assert {(name.request_time, name.completion_time, name.action) for name in done} == set(table.completed)


UPGRADED = {"v9_mor_upgraded_from_6", "v9_flink_mor_bucket"}


def test_finished_writes_name_files_that_carry_their_time(table: Reference) -> None:
    for name, path in timeline_files(table):
        if name.state is State.COMPLETED and name.action in {"commit", "deltacommit", "replacecommit"}:
            meta = parse_commit(path.read_bytes(), path.name)
            assert meta.operation
            for file_path in meta.file_paths:
                parsed = parse_data_file(file_path.rpartition("/")[2])
                assert parsed is not None
                shares_files = layout(table) == 1 or table.name in UPGRADED
                assert shares_files or parsed.request_time == name.request_time


def test_every_data_file_is_recognised_and_no_other(table: Reference) -> None:
    seen = 0
    for path in table.path.rglob("*"):
        if path.is_file() and ".hoodie" not in path.relative_to(table.path).parts[:-1]:
            parsed = parse_data_file(path.name)
            if path.name.endswith(".crc") or path.name.startswith(".hoodie_partition_metadata"):
                assert parsed is None
            else:
                assert parsed is not None, path.name
                assert parsed.format() == path.name
                seen += 1
    assert seen or table.name == "v9_mor_empty"


def test_the_properties_and_partitions_are_read_and_written_again_read_the_same(table: Reference) -> None:
    data = (table.path / ".hoodie/hoodie.properties").read_bytes()
    properties = choose_properties(data, None, "hoodie.properties")
    assert properties["hoodie.table.checksum"]
    assert parse_properties(format_properties(properties), "again") == properties
    for path in table.path.rglob(".hoodie_partition_metadata"):
        metadata = parse_partition_metadata(path.read_bytes(), path.name)
        assert parse_partition_metadata(format_partition_metadata(metadata), "again") == metadata


def test_every_marker_names_a_data_file(tmp_path: Path) -> None:
    table = unpack("v9_mor_pending_write_and_compaction", tmp_path)
    (folder,) = (table.path / ".hoodie/.temp").iterdir()
    found = [present(parse_marker(str(path.relative_to(folder)))) for path in folder.rglob("*.marker.CREATE")]
    assert {(marker.partition_path, marker.kind) for marker in found} == {("p0", "CREATE"), ("p1", "CREATE")}


def test_the_archived_timeline_is_read_and_written_again_reads_the_same(tmp_path: Path) -> None:
    folder = unpack("v9_mor_archived", tmp_path).path / ".hoodie/timeline/history"
    numbers = [number for path in folder.iterdir() if (number := parse_manifest_name(path.name)) is not None]
    (number,) = manifests_to_try((folder / "_version_").read_bytes(), numbers)
    files = parse_manifest((folder / f"manifest_{number}").read_bytes(), "manifest")
    assert len(files) == 5
    for file in files:
        data = (folder / file.name).read_bytes()
        assert len(data) == file.size
        instants = read_history(data, file.name, with_metadata=True)
        span = present(parse_history_file(file.name))
        assert [instants[0].request_time, instants[-1].request_time] == [span.first, span.last]
        assert read_history(write_history(instants), "again", with_metadata=True) == instants
        for instant in instants:
            metadata = present(instant.metadata)
            if instant.action == "clean":
                assert services.parse_clean_metadata(metadata, instant.request_time).partitions
            else:
                assert parse_commit(metadata, instant.request_time).write_stats


def test_a_clustering_plan_names_files_and_not_places(tmp_path: Path) -> None:
    table = unpack("v9_mor_clustering", tmp_path)
    (path,) = (table.path / ".hoodie/timeline").glob("*.clustering.requested")
    requested = parse_requested_replace(path.read_bytes(), path.name)
    slices = [part for group in present(requested.plan).groups for part in group.slices]
    assert requested.operation == "CLUSTER"
    assert len(slices) == 6
    for part in slices:
        for name in (present(part.data_file_name), *part.delta_file_names):
            assert present(parse_data_file(name)).file_id == part.file_id

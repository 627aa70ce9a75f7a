# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import CorruptFile
from lakebraid.format.avro.container import write_record
from lakebraid.format.timeline import rollbacks, services
from lakebraid.format.timeline.rollbacks import (
    InstantInfo,
    RestoreMetadata,
    RestorePlan,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
    parse_restore_metadata,
    parse_rollback_metadata,
    parse_rollback_plan,
)
from lakebraid.format.timeline.services import (
    CleanedPartition,
    CleanMetadata,
    CleanPlan,
    Indexing,
    IndexPartition,
    SavepointMetadata,
    parse_clean_plan,
)
from tests.kit.effort import times

pytestmark = pytest.mark.unit

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
NAMES = st.text("abc_-.0123", min_size=3, max_size=12).filter(lambda name: name.strip("."))
EXTRA = st.dictionaries(TEXT, TEXT, max_size=2)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
SIZES = st.dictionaries(NAMES, LONGS, max_size=2)
OPTIONAL = st.none() | TEXT


def tuples(items: st.SearchStrategy, *, least: int = 0) -> st.SearchStrategy:
    return st.lists(items, min_size=least, max_size=2).map(tuple)


def by_partition(items: st.SearchStrategy) -> st.SearchStrategy:
    return st.dictionaries(TEXT, items, max_size=2)


INSTANTS = tuples(st.builds(InstantInfo, TEXT, TEXT), least=1)
FILES = by_partition(tuples(NAMES))
CLEANED = st.builds(CleanedPartition, TEXT, tuples(NAMES), tuples(NAMES), st.booleans())
ROLLED_BACK = st.builds(RolledBackPartition, tuples(NAMES), tuples(NAMES), SIZES, SIZES)
ROLLBACKS = st.builds(RollbackMetadata, TEXT, INSTANTS, by_partition(ROLLED_BACK), INTS, LONGS)
INDEXED = tuples(st.builds(IndexPartition, OPTIONAL, OPTIONAL, EXTRA))
PLANS = {
    "clean": st.builds(
        CleanPlan, TEXT, FILES, tuples(TEXT), st.none() | st.builds(InstantInfo, TEXT, TEXT), TEXT, EXTRA
    ),
    "rollback": st.builds(
        RollbackPlan,
        st.none() | st.builds(InstantInfo, TEXT, TEXT),
        tuples(st.builds(RollbackRequest, TEXT, OPTIONAL, OPTIONAL, tuples(NAMES), SIZES)),
    ),
    "restore": st.builds(RestorePlan, INSTANTS, OPTIONAL),
    "index": st.builds(Indexing, INDEXED),
}
RESULTS = {
    "clean": st.builds(CleanMetadata, TEXT, TEXT, by_partition(CLEANED), INTS, LONGS, TEXT, EXTRA),
    "rollback": ROLLBACKS,
    "restore": st.builds(RestoreMetadata, TEXT, INSTANTS, by_partition(tuples(ROLLBACKS)), LONGS),
    "savepoint": st.builds(SavepointMetadata, FILES, TEXT, TEXT, LONGS),
    "index": st.builds(Indexing, INDEXED, OPTIONAL),
}


def function(name: str) -> Any:
    return getattr(rollbacks if "rollback" in name or "restore" in name else services, name)


@pytest.mark.parametrize("service", PLANS)
@settings(max_examples=times(40), deadline=None)
@given(data=st.data(), table_url=st.sampled_from(["s3://lake/trips", "/lake/trips/"]))
def test_the_plan_of_every_service_is_read_back_wherever_the_table_stood(
    service: str, data: st.DataObject, table_url: str
) -> None:
    plan = data.draw(PLANS[service])
    where = (table_url,) if service in {"clean", "rollback"} else ()
    written = function(f"format_{service}_plan")(plan, *where)
    assert function(f"parse_{service}_plan")(written, "here") == plan


@pytest.mark.parametrize("service", RESULTS)
@settings(max_examples=times(40), deadline=None)
@given(data=st.data())
def test_the_metadata_of_every_service_is_read_back_as_it_was_written(service: str, data: st.DataObject) -> None:
    metadata = data.draw(RESULTS[service])
    written = function(f"format_{service}_metadata")(metadata)
    assert function(f"parse_{service}_metadata")(written, "here") == metadata


@pytest.mark.parametrize("kind", [f"{s}_plan" for s in PLANS] + [f"{s}_metadata" for s in RESULTS])
@pytest.mark.parametrize("data", [b"", b"{}", b"Obj\x01", write_record("HoodieCommitMetadata", {})])
def test_what_is_no_metadata_is_a_clear_error(kind: str, data: bytes) -> None:
    with pytest.raises(CorruptFile, match="there/x"):
        function(f"parse_{kind}")(data, "there/x")


def test_a_plan_of_hudi_deletes_absolute_paths_of_which_the_names_are_kept() -> None:
    plan = CleanPlan("KEEP_LATEST_COMMITS", {"p0": ("a.parquet",), "": ("b.parquet",)})
    data = services.format_clean_plan(plan, "s3://lake/trips")
    assert b"s3://lake/trips/p0/a.parquet" in data
    assert b"s3://lake/trips/b.parquet" in data
    assert parse_clean_plan(data, "here") == plan


def test_a_clean_plan_of_an_old_release_names_its_files_in_the_old_field() -> None:
    record = {
        "policy": "KEEP_LATEST_COMMITS",
        "filesToBeDeletedPerPartition": {"p0": ["file:/x/p0/a.parquet"]},
        "filePathsToBeDeletedPerPartition": {"p0": [{"filePath": "p0/b.parquet"}], "p1": [{"filePath": "c.parquet"}]},
    }
    plan = parse_clean_plan(write_record("HoodieCleanerPlan", record), "here")
    assert plan.files == {"p0": ("a.parquet", "b.parquet"), "p1": ("c.parquet",)}


@pytest.mark.parametrize("path", [None, "", "p0/", "p0/..", "."])
def test_a_clean_plan_that_would_delete_a_folder_is_a_clear_error(path: str | None) -> None:
    record = {"policy": "", "filePathsToBeDeletedPerPartition": {"p0": [{"filePath": path}]}}
    with pytest.raises(CorruptFile, match="file's name"):
        parse_clean_plan(write_record("HoodieCleanerPlan", record), "here")


def test_a_rollback_plan_that_would_delete_a_folder_is_a_clear_error() -> None:
    request = {"partitionPath": "p0", "filesToBeDeleted": ["s3://lake/p0/.."]}
    with pytest.raises(CorruptFile, match="file's name"):
        parse_rollback_plan(write_record("HoodieRollbackPlan", {"RollbackRequests": [request]}), "here")


def test_files_that_a_clean_failed_on_may_be_gone_as_well() -> None:
    cleaned = {
        "p0": CleanedPartition("", ("a",), ("b",)),
        "p1": CleanedPartition("", (), (), is_partition_deleted=True),
    }
    metadata = CleanMetadata("", "", cleaned)
    assert metadata.deleted_files == {"p0": ("a", "b"), "p1": ()}
    assert metadata.deleted_partitions == ("p1",)


def test_rollbacks_of_old_releases_name_only_times() -> None:
    rollback = {
        "startRollbackTime": "r",
        "timeTakenInMillis": 1,
        "totalFilesDeleted": 0,
        "commitsRollback": ["c"],
        "partitionMetadata": {},
    }
    data = write_record("HoodieRollbackMetadata", rollback)
    assert parse_rollback_metadata(data, "here").instants == (InstantInfo("c", ""),)
    restore = {
        "startRestoreTime": "s",
        "timeTakenInMillis": 1,
        "instantsToRollback": ["c"],
        "hoodieRestoreMetadata": {"c": [None, rollback]},
    }
    parsed = parse_restore_metadata(write_record("HoodieRestoreMetadata", restore), "here")
    assert parsed.instants == (InstantInfo("c", ""),)
    assert [item.request_time for item in parsed.rollbacks["c"]] == ["r"]

# SPDX-License-Identifier: Apache-2.0
import doctest
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import CorruptFile
from lakebraid.format.avro.container import write_record
from lakebraid.format.timeline import plans
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.format.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    CompactionOperation,
    CompactionPlan,
    PlanStrategy,
    RequestedReplace,
    format_compaction_plan,
    format_requested_replace,
    parse_compaction_plan,
    parse_requested_replace,
)

pytestmark = pytest.mark.unit

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=12).filter(
    lambda name: name not in {".", ".."}
)
IDS = st.text(min_size=1, max_size=12, alphabet="abc-0123")
EXTRA = st.dictionaries(TEXT, TEXT, max_size=2)
METRICS = st.dictionaries(TEXT, st.floats(allow_nan=False), max_size=2)
NUMBERS = st.integers(-(2**31), 2**31 - 1)


def tuples(items: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(items, max_size=2).map(tuple)


STRATEGIES = st.none() | st.builds(PlanStrategy, st.none() | TEXT, EXTRA)
OPERATIONS = st.builds(CompactionOperation, IDS, TEXT, st.none() | TEXT, tuples(NAMES), st.none() | NAMES, METRICS)
COMPACTIONS = st.builds(CompactionPlan, tuples(OPERATIONS), NUMBERS, EXTRA, STRATEGIES, st.booleans(), tuples(TEXT))
SLICES = st.builds(ClusteringSlice, IDS, TEXT, st.none() | NAMES, tuples(NAMES))
GROUPS = st.builds(ClusteringGroup, tuples(SLICES), METRICS, NUMBERS, EXTRA)
CLUSTERINGS = st.builds(ClusteringPlan, tuples(GROUPS), STRATEGIES, EXTRA, NUMBERS, st.booleans(), tuples(TEXT))


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(plans).failed == 0


@settings(deadline=None)
@given(COMPACTIONS)
def test_a_compaction_plan_is_read_back_as_it_was_written(plan: CompactionPlan) -> None:
    assert parse_compaction_plan(format_compaction_plan(plan), "here") == plan


@settings(deadline=None)
@given(
    st.builds(RequestedReplace, st.none() | TEXT, st.none() | CLUSTERINGS, EXTRA), st.sampled_from(["s3://b/t", "/"])
)
def test_a_clustering_plan_is_read_back_wherever_the_table_stood(requested: RequestedReplace, table_url: str) -> None:
    assert parse_requested_replace(format_requested_replace(requested, table_url), "here") == requested


def test_a_requested_replace_without_a_plan_may_be_all_null_or_empty() -> None:
    data = write_record("HoodieRequestedReplaceMetadata", {"version": None})
    assert parse_requested_replace(data, "here") == parse_requested_replace(b"", "here") == RequestedReplace()


def test_a_plan_of_nulls_plans_nothing() -> None:
    data = write_record("HoodieCompactionPlan", {"version": None, "preserveHoodieMetadata": None})
    assert parse_compaction_plan(data, "here") == CompactionPlan(version=1)


def test_folders_are_stripped_and_an_empty_base_path_is_none() -> None:
    operation = {"fileId": "f", "dataFilePath": "", "deltaFilePaths": ["file:/old/place/p0/.f.log.1", "p0/.f.log.2"]}
    (parsed,) = parse_compaction_plan(write_record("HoodieCompactionPlan", {"operations": [operation]}), "x").operations
    assert parsed.data_file_name is None
    assert parsed.delta_file_names == (".f.log.1", ".f.log.2")


@pytest.mark.parametrize(
    "operation",
    [
        {"fileId": None},
        {"fileId": ""},
        {"fileId": "f", "dataFilePath": "p0/.."},
        {"fileId": "f", "deltaFilePaths": ["p0/"]},
        {"fileId": "f", "deltaFilePaths": [""]},
    ],
)
def test_a_plan_that_names_no_file_is_a_clear_error(operation: dict[str, Any]) -> None:
    data = write_record("HoodieCompactionPlan", {"operations": [operation]})
    with pytest.raises(CorruptFile, match="there/x"):
        parse_compaction_plan(data, "there/x")


def test_one_record_is_not_taken_for_an_empty_other_one() -> None:
    with pytest.raises(CorruptFile, match="HoodieCompactionPlan"):
        parse_compaction_plan(write_record("HoodieRestorePlan", {"version": 2}), "here")
    with pytest.raises(CorruptFile, match="HoodieReplaceCommitMetadata"):
        parse_commit(write_record("HoodieCompactionPlan", {"version": 2}), "here")

# SPDX-License-Identifier: Apache-2.0
"""Which slices are clustered together: bounded, small ones only, and only if something is won by it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.format.names import BaseFileName
from lakebraid.model.timeline.slicing import BaseFile, FileSlice, GroupId
from lakebraid.services.merging.choose_clusters import (
    ClusteringRequest,
    ClusteringScope,
    choose_clustering,
    clustering_scope,
    sort_columns_of,
)
from lakebraid.services.settings import parse_settings
from tests.kit.present import present
from tests.kit.tables.built_files import t

pytestmark = pytest.mark.unit

SCHEMA = pa.schema([("id", pa.string()), ("w", pa.int64()), ("tags", pa.list_(pa.string()))])


def view_of(sizes: dict[str, list[int]]) -> Any:
    """A view with slices of these sizes, by partition, in the order in which they were written."""
    slices = []
    for partition, found in sizes.items():
        for number, size in enumerate(found):
            group, request_time = GroupId(partition, f"f{number}"), t(number + 1)
            name = BaseFileName(group.file_id, "0-0-0", request_time, ".parquet")
            slices.append(FileSlice(group, request_time, BaseFile(name.format(), name, size, request_time), ()))
    return SimpleNamespace(slices=lambda: slices, schema=SCHEMA)


def chosen(sizes: dict[str, list[int]], scope: ClusteringScope, **how: Any) -> list[tuple[str, list[str], int]]:
    """Partition, file ids and number of files of each group of the plan."""
    plan = choose_clustering(view_of(sizes), scope, **how)
    groups = () if plan is None else plan.groups
    return [(g.slices[0].partition_path, [s.file_id for s in g.slices], g.output_file_groups) for g in groups]


def test_small_slices_of_a_partition_are_put_together_up_to_the_wanted_size() -> None:
    scope = ClusteringScope(small_bytes=50, target_bytes=100)
    assert chosen({"a": [40, 40, 40, 60], "b": [10]}, scope) == [("a", ["f0", "f1"], 1)]


def test_slices_that_are_sorted_together_may_become_several_files() -> None:
    scope = ClusteringScope(("w",), small_bytes=50, target_bytes=60, group_bytes_max=125)
    assert chosen({"a": [40, 40, 40, 40]}, scope) == [("a", ["f0", "f1", "f2"], 2), ("a", ["f3"], 1)]


def test_what_saves_most_files_comes_first_and_no_more_groups_than_wanted() -> None:
    scope = ClusteringScope(small_bytes=50, target_bytes=100, groups_max=1)
    assert chosen({"a": [10, 10], "b": [10, 10, 10]}, scope) == [("b", ["f0", "f1", "f2"], 1)]


def test_groups_of_pending_plans_and_other_partitions_are_left_alone() -> None:
    scope = ClusteringScope(small_bytes=50, partitions=("a",))
    taken = {GroupId("a", "f1")}
    assert chosen({"a": [10, 10, 10], "b": [10, 10]}, scope, taken=taken) == [("a", ["f0", "f2"], 1)]


def test_a_sorted_slice_is_not_sorted_again() -> None:
    scope = ClusteringScope(("w",))
    assert chosen({"a": [10]}, scope) == [("a", ["f0"], 1)]
    assert chosen({"a": [10]}, scope, sorted_as=lambda _: ("w",)) == []
    assert chosen({"a": [10]}, scope, sorted_as=lambda _: ("id",)) == [("a", ["f0"], 1)]


@given(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(1, 200), max_size=12), max_size=3),
    st.booleans(),
    st.integers(1, 150),
    st.integers(1, 150),
    st.integers(1, 400),
    st.integers(1, 5),
)
def test_every_plan_keeps_its_bounds_and_names_each_slice_once(
    sizes: dict[str, list[int]], is_sorted: bool, small: int, target: int, most: int, groups: int
) -> None:
    scope = ClusteringScope(("w",) if is_sorted else (), small, target, most, groups)
    plan = chosen(sizes, scope, sorted_as=lambda _: ("w",))
    assert len(plan) <= groups
    named = [(partition, file_id) for partition, ids, _ in plan for file_id in ids]
    assert len(set(named)) == len(named)
    for partition, ids, outputs in plan:
        read = [sizes[partition][int(i[1:])] for i in ids]
        assert all(size < small for size in read)
        assert len(read) == 1 or sum(read) <= (most if is_sorted else target)
        assert outputs < len(ids), "fewer files than before"
        assert outputs == (-(-sum(read) // target) if is_sorted else 1)


def test_what_is_not_asked_for_is_as_the_table_has_it_in_hudis_names() -> None:
    properties = {
        "hoodie.clustering.plan.strategy.sort.columns": "w, id",
        "hoodie.clustering.plan.strategy.small.file.limit": "5",
        "hoodie.clustering.plan.strategy.target.file.max.bytes": "6",
        "hoodie.clustering.plan.strategy.max.bytes.per.group": "7",
        "hoodie.clustering.plan.strategy.max.num.groups": "8",
    }
    assert clustering_scope(parse_settings(properties)) == ClusteringScope(("w", "id"), 5, 6, 7, 8)
    assert clustering_scope(
        parse_settings(properties), ClusteringRequest(sort_by=[], target_size=9)
    ) == ClusteringScope((), 5, 9, 7, 8)
    with pytest.raises(InvalidArgument, match=r"small\.file\.limit is 'many'"):
        clustering_scope(parse_settings({"hoodie.clustering.plan.strategy.small.file.limit": "many"}))


def test_the_order_is_told_as_hudi_tells_it() -> None:
    plan = present(choose_clustering(view_of({"a": [1, 1]}), ClusteringScope(("w", "id"))))
    strategy = present(plan.strategy)
    assert strategy.params == {"hoodie.clustering.plan.strategy.sort.columns": "w,id"}
    assert present(strategy.class_name).endswith("SparkSortAndSizeExecutionStrategy")
    assert sort_columns_of(plan) == ("w", "id")


@pytest.mark.parametrize("name", ["tags", "nothing"])
def test_rows_cannot_be_sorted_by_what_has_no_order(name: str) -> None:
    with pytest.raises(InvalidArgument, match="Nothing was changed"):
        choose_clustering(view_of({"a": [1, 1]}), ClusteringScope((name,)))

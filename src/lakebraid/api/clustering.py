# SPDX-License-Identifier: Apache-2.0
"""Clustering of a table: small files become larger ones, sorted by the columns that queries filter on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from lakebraid.format.timeline.plans import ClusteringPlan
from lakebraid.reading.plan import Source
from lakebraid.services.merging import clustering
from lakebraid.services.merging.choose_clusters import clustering_scope, sort_columns_of
from lakebraid.services.merging.clustered import Clustered
from lakebraid.services.plans import Plan, is_removable
from lakebraid.txn.writer import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Clustering:
    """What a `Table` without a bucket index can do about small files and unsorted rows, beside any number of writers."""

    _source: Source
    _writing: Writing

    def plan_clustering(
        self,
        *,
        sort_by: Sequence[str] | None = None,
        small_file_limit: int | None = None,
        target_size: int | None = None,
        max_bytes_per_group: int | None = None,
        max_groups: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        dry_run: bool = False,
    ) -> Plan | None:
        """Decides what to cluster, for anybody to `run`; None if there is nothing to do. With `dry_run` nothing is decided.

        From here on writers are refused that touch one of its file groups, unless the table lets clusterings give way
        (see `cluster`). A `removable` plan is executed once at most and rolled back if that fails or nobody comes; others
        stay until they are executed, give way, or are taken back: `rollback(plan=…)`.
        """
        ledger, properties = clustering.open_clustering(self._writing)
        scope = clustering_scope(
            properties,
            sort_by=sort_by,
            small_file_limit=small_file_limit,
            target_size=target_size,
            max_bytes_per_group=max_bytes_per_group,
            max_groups=max_groups,
            partitions=partitions,
        )
        may_go = is_removable(properties, "clustering", removable)
        if dry_run:
            draft = clustering.draft_clustering(ledger, scope)
            return None if draft is None else Plan("clustering", None, may_go, _text(draft))
        start = clustering.plan_clustering(ledger, scope, is_removable=may_go)
        self._writing.remember(ledger)
        if start is None:
            return None
        return Plan("clustering", start, may_go, _text(clustering.load_clustering_plan(ledger, start)))

    @overload
    def cluster(
        self,
        *,
        sort_by: Sequence[str] | None = None,
        small_file_limit: int | None = None,
        target_size: int | None = None,
        max_bytes_per_group: int | None = None,
        max_groups: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        spark: SparkSession | None = None,
        dry_run: Literal[False] = False,
    ) -> list[Clustered]: ...

    @overload
    def cluster(
        self,
        *,
        sort_by: Sequence[str] | None = None,
        small_file_limit: int | None = None,
        target_size: int | None = None,
        max_bytes_per_group: int | None = None,
        max_groups: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        spark: SparkSession | None = None,
        dry_run: Literal[True],
    ) -> Plan | None: ...

    def cluster(
        self,
        *,
        sort_by: Sequence[str] | None = None,
        small_file_limit: int | None = None,
        target_size: int | None = None,
        max_bytes_per_group: int | None = None,
        max_groups: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        spark: SparkSession | None = None,
        dry_run: bool = False,
    ) -> list[Clustered] | Plan | None:
        """Puts file groups smaller than `small_file_limit` bytes together into files of about `target_size`, sorted by the
        columns `sort_by`, so that filters on these pass over files and row groups. Changes no answer. Afterwards executes
        plans whose executors died.

        At most `max_bytes_per_group` are sorted together, in at most `max_groups` tasks; without these the table's
        `hoodie.clustering.plan.strategy.*` settings count. While a plan is pending, writers that touch its groups get a
        WriteConflict; with `hoodie.clustering.updates.strategy` = SparkAllowUpdateStrategy the clustering gives way to
        them instead (ClusteringYielded, a WriteConflict as well). No write is lost either way.
        """
        ledger, properties = clustering.open_clustering(self._writing)
        scope = clustering_scope(
            properties,
            sort_by=sort_by,
            small_file_limit=small_file_limit,
            target_size=target_size,
            max_bytes_per_group=max_bytes_per_group,
            max_groups=max_groups,
            partitions=partitions,
        )
        if dry_run:
            draft = clustering.draft_clustering(ledger, scope)
            return None if draft is None else Plan("clustering", None, what=_text(draft))
        return clustering.cluster(
            self._writing,
            scope=scope,
            options=dict(self._source.options),
            spark=spark,
            is_removable=is_removable(properties, "clustering", removable),
        )


def _text(plan: ClusteringPlan) -> str:
    slices = sum(len(group.slices) for group in plan.groups)
    outputs = sum(group.output_file_groups for group in plan.groups)
    order = ", ".join(sort_columns_of(plan))
    return f"put {slices:,} file groups into {outputs:,}" + (f", sorted by {order}" if order else "")

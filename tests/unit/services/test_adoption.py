# SPDX-License-Identifier: Apache-2.0
"""Adoption: what tables of Apache Hudi are, what they must state to be written, and that nothing else is changed."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

import lakebraid as lb
from lakebraid.errors import UnsupportedTable
from lakebraid.txn.actions.properties import FOLDER
from tests.kit.adopting import buckets, contents, opened
from tests.kit.reference import names, our_rows

pytestmark = pytest.mark.unit


AS_IT_IS: dict[str, str] = {}
LOOKED_UP = {"hoodie.index.type": "SIMPLE"}
METADATA = {"metadata table"}

NEEDS: dict[str, dict[str, str]] = {
    **dict.fromkeys(
        (
            "v9_cow_cdc",
            "v9_cow_cdc_keys_only",
            "v9_cow_clean_savepoint",
            "v9_cow_clustering",
            "v9_cow_empty_commit",
            "v9_cow_partition_plain",
            "v9_cow_types_row_writer",
        ),
        AS_IT_IS,
    ),
    **dict.fromkeys(
        (
            "v9_cow_overwrite",  # the id of its one file group has eight digits by chance
            "v9_mor_bloom_positions",
            "v9_mor_bulk_insert",
            "v9_mor_clustering",
            "v9_mor_clustering_logs",
            "v9_mor_overwrite",
        ),
        LOOKED_UP,
    ),
    **dict.fromkeys(
        (
            "v9_mor_archived",
            "v9_mor_bucket_nbcc_avro",
            "v9_mor_bucket_nbcc_parquet",
            "v9_mor_log_compaction",
            "v9_mor_nbcc_overlap",
            "v9_mor_pending_write_and_compaction",
            "v9_mor_rollback_completed",
            "v9_mor_rollback_failed",
            "v9_mor_schema_evolution",
        ),
        buckets(2),
    ),
    "v9_flink_mor_bucket": buckets(2),
    "v9_mor_keys_complex_single": buckets(4),
    "v9_mor_keys_composite": buckets(4),
}
"""What tables must state; all others that can be written have one bucket."""

IN_THE_WAY: dict[str, set[str]] = {
    "mdt_v6_mor": {"version"} | METADATA,
    "mdt_v8_mor": {"version"} | METADATA,
    "v6_flink_mor_consistent": {"version", "index"},
    "v9_cow_no_meta": {"columns"},
    "v9_cow_vector": {"columns"},
    "v9_mor_blob": {"columns"},
    "v9_mor_variant": {"columns"},
    "v9_mor_vector": {"columns"},
    "v9_mor_vector_parquet": {"columns"},
    "v9_cow_partition_dropped": {"columns"},
    "v9_mor_empty": {"index"},
    "v9_mor_fill_unavailable": {"merging"},
    "v9_mor_hidden_group": {"index"},
    "v9_mor_ignore_defaults_commit_time": {"merging"},
    "v9_mor_ignore_defaults_event_time": {"merging"},
    "v9_mor_keys_non_partitioned": {"index"},
    "v9_mor_metadata_default": METADATA,
    "v9_mor_metadata_table": METADATA,
    "v9_mor_no_meta": {"columns"},
    "v9_mor_no_meta_composite": {"columns"},
    "v9_mor_partition_custom": {"keys"},
    "v9_mor_partition_timestamp": {"keys"},
}


def obstacles_of(name: str) -> set[str]:
    known = {"version"} if name.startswith(("v6", "v8")) else METADATA if name.startswith("mdt") else set()
    return IN_THE_WAY.get(name, known)


DELETED = "_hoodie_is_deleted"
REFUSED = {
    "v9_cow_clustering": "a clustering is pending, and touches the same file groups",
    "v9_mor_keys_composite": "a key has the text that stands for NULL",
    "v9_mor_order_null": "a row has no ordering value",
}
"""Tables whose rows, as they are, no write takes."""

ADOPTABLE = [name for name in names() if not obstacles_of(name)]


def keys_misplaced(table: lb.Table) -> dict[str, int]:
    """How many keys are there twice, or where they do not belong, as an audit finds them."""
    counts = table.audit(deep=True).findings.counts
    return {kind: count for kind, count in counts.items() if kind.startswith(("key-", "bucket-"))}


@pytest.mark.parametrize("name", names())
def test_a_dry_run_says_of_each_reference_table_what_it_needs_and_changes_nothing(name: str, tmp_path: Path) -> None:
    reference, table = opened(name, tmp_path)
    before = contents(reference.path)
    found = table.adopt(dry_run=True)
    assert contents(reference.path) == before
    assert {aspect.topic for aspect in found.obstacles} == obstacles_of(name), found
    assert found.is_possible is not bool(obstacles_of(name))
    if found.is_possible:
        assert found.lines == NEEDS.get(name, buckets(1))
        assert found.is_writable is not bool(found.lines)
        assert found.keys == table.count()
    assert all(aspect.why.endswith(".") for aspect in found.obstacles)
    assert name in repr(found)


@pytest.mark.parametrize("name", ADOPTABLE)
def test_an_adopted_table_has_the_same_rows_takes_them_once_more_and_can_be_set_back(name: str, tmp_path: Path) -> None:
    reference, table = opened(name, tmp_path)
    before, rows = contents(reference.path), table.to_arrow()
    done = table.adopt()
    assert done.is_writable
    now = contents(reference.path)
    assert {file for file in now if now[file] != before.get(file)} <= {
        ".hoodie/hoodie.properties",
        f"{FOLDER}/000001.json",
    }
    assert our_rows(table.to_arrow()) == our_rows(rows)
    misplaced = keys_misplaced(table)
    if name not in REFUSED:
        table.upsert(
            rows.filter(pc.invert(pc.fill_null(rows[DELETED], False))) if DELETED in rows.column_names else rows
        )
    assert our_rows(lb.Table.open(reference.path).to_arrow()) == our_rows(rows)
    assert keys_misplaced(table) == misplaced
    if done.lines:
        assert set(table.adopt(undo=True).undone) == set(done.lines)
        assert (reference.path / ".hoodie" / "hoodie.properties").read_bytes() == before[".hoodie/hoodie.properties"]
        assert our_rows(lb.Table.open(reference.path).to_arrow()) == our_rows(rows)


@pytest.mark.parametrize("name", sorted({*names()} - {*ADOPTABLE}))
def test_a_table_that_cannot_be_adopted_is_left_as_it_is_and_the_error_says_what_to_do(
    name: str, tmp_path: Path
) -> None:
    reference, table = opened(name, tmp_path)
    before = contents(reference.path)
    with pytest.raises(UnsupportedTable, match=r"Cannot adopt .*Nothing was changed\.") as caught:
        table.adopt()
    assert contents(reference.path) == before
    assert {aspect.topic for aspect in caught.value.adoption.obstacles} == obstacles_of(name)
    assert any(word in caught.value.message for word in ("Apache Hudi", "--buckets", "Rows need"))

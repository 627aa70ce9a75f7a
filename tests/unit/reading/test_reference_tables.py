# SPDX-License-Identifier: Apache-2.0
"""Every table that Apache Hudi wrote gives Hudi's own rows, in process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import lakebraid as lb
from tests.interop.expected import DIFFERENT_THEN
from tests.kit.reference import Reference, names, our_rows, unpack

pytestmark = [pytest.mark.unit, pytest.mark.slow]


DIFFERENT = {
    *(
        "v9_mor_late_writer",
        "v9_mor_late_writer_commit_time",
        "v9_mor_hidden_group",
        "v9_mor_cdc",
        "v9_mor_partial_fold",
    ),
}
"""Tables whose snapshot differs on purpose: test_differences.py says exactly how."""
DUPLICATES = {"v9_mor_bulk_insert"}
"""Tables in which a key stands twice, as its writer wanted: there is no state by key to replay changes on."""


@pytest.fixture(params=names())
def reference(request: pytest.FixtureRequest, tmp_path: Path) -> Reference:
    return unpack(request.param, tmp_path)


def test_a_snapshot_has_the_rows_that_hudi_reads(reference: Reference) -> None:
    ours = our_rows(lb.Table.open(reference.path).to_arrow(meta_columns=True))
    is_equal = ours == reference.hudi(reference.expected["snapshot"])
    assert is_equal == (reference.name not in DIFFERENT)


def test_a_read_optimised_query_has_the_rows_that_hudi_reads(reference: Reference) -> None:
    rows = our_rows(lb.Table.open(reference.path).to_arrow(meta_columns=True, mode="read_optimized"))
    expected = reference.expected.get("read_optimized")
    assert not isinstance(expected, list) or rows == reference.hudi(expected)


def test_time_travel_has_the_rows_that_hudi_reads_where_writers_do_not_overlap(reference: Reference) -> None:
    table = lb.Table.open(reference.path)
    different = []
    for time, expected in (reference.expected.get("as_of") or {}).items():
        if isinstance(expected, list) and not reference.overlaps:
            ours = our_rows(table.to_arrow(meta_columns=True, as_of=time))
            different += [] if ours == reference.hudi(expected) else [time]
    assert bool(different) == (reference.name in DIFFERENT_THEN), different


def test_changes_replayed_from_any_time_give_the_later_snapshot(reference: Reference) -> None:
    if reference.name in DUPLICATES:
        assert lb.Table.open(reference.path).changes().to_arrow().num_rows == len(reference.expected["snapshot"])
        return
    table = lb.Table.open(reference.path)
    keys = [*table._config.partition_fields, *table._config.record_keys]
    times = reference.times()
    for i, after in enumerate(times):
        for until in (*times[i:], None):
            try:
                newer, older = table.snapshot(until), table.snapshot(after)
                changes = table.changes(after=after, until=until)
            except lb.SnapshotExpired:
                continue
            # A change is told in the newer schema, so the older state is looked at with it.
            older.view = replace(older.view, schema=newer.schema)
            state = {tuple(dict(r)[k] for k in keys): r for r in our_rows(older.to_arrow())}
            for row in our_rows(changes.to_arrow()):
                facts = dict(row)
                key = tuple(facts[k] for k in keys)
                kind = facts.pop("_change_type")
                facts.pop("_commit_completion_time")
                assert (key in state) == (kind != "insert"), (kind, key)
                if kind == "delete":
                    assert state.pop(key) == tuple(sorted(facts.items()))
                else:
                    assert state.get(key) != tuple(sorted(facts.items())), "a change that changes nothing"
                    state[key] = tuple(sorted(facts.items()))
            assert sorted(state.values(), key=repr) == our_rows(newer.to_arrow()), (after, until)

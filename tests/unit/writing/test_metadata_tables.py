# SPDX-License-Identifier: Apache-2.0
"""Every kind of write, and every service, of tables whose metadata table Apache Hudi made keeps it: readers that go by it find all
files and rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lakebraid as lb
from tests.kit.metadata_tables.actions import ACTIONS, BUCKETS, COW, TYPES, row
from tests.kit.metadata_tables.judged import Judge, adopted
from tests.kit.reference import our_rows

pytestmark = pytest.mark.unit

SERVICES: dict[str, Callable[[lb.Table], object]] = {
    "compact": lambda t: t.compact(),
    "log_compact": lambda t: t.log_compact(logs_min=2),
    "clean": lambda t: t.clean(),
    "round": lambda t: t.services.run(once=True),
}


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("name", [COW, BUCKETS])
def test_every_action_is_found_by_the_metadata_table(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = adopted(name, tmp_path, monkeypatch)
    ACTIONS[kind](table)
    Judge(table.path).check()
    table.upsert([row(1, ts=70), row(990, part="p0", ts=70)])
    assert Judge(table.path).check() > 0


@pytest.mark.parametrize("name", [COW, BUCKETS])
def test_services_keep_it_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = adopted(name, tmp_path, monkeypatch)
    for turn in range(6):
        table.upsert([row(1, ts=70 + turn), row(900 + turn, part="p1"), row(950, part="new", ts=70 + turn)])
    for number, service in enumerate(SERVICES.values()):
        before = our_rows(table.to_arrow())
        service(table)
        assert Judge(table.path).check() == len(before) > 0
        assert our_rows(table.to_arrow()) == before
        table.upsert([row(1, ts=80 + number)])


@pytest.mark.parametrize("name", [COW, BUCKETS])
def test_a_table_with_a_metadata_table_is_not_restored(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = adopted(name, tmp_path, monkeypatch)
    table.savepoint()
    table.upsert([row(1, ts=70)])
    before = our_rows(table.to_arrow())
    for dry_run in (True, False):
        with pytest.raises(lb.UnsupportedTable, match="metadata table"):
            table.restore(table.savepoints()[0].instant, dry_run=dry_run)
    assert our_rows(table.to_arrow()) == before
    Judge(table.path).check()


def test_a_write_that_is_rolled_back_leaves_nothing_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = adopted(BUCKETS, tmp_path, monkeypatch)
    before = Judge(table.path).listed()
    write = table.begin("upsert")
    write.write([row(1, ts=70), row(970, part="new")])
    write.abort()
    assert Judge(table.path).listed() == before
    Judge(table.path).check()


def test_a_type_of_which_it_has_statistics_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = adopted(TYPES, tmp_path, monkeypatch)
    before = our_rows(table.to_arrow())
    with pytest.raises(lb.UnsupportedTable, match="type of the column 'sh' would change"):
        table.alter().widen("sh", "bigint").commit()
    assert our_rows(lb.Table.open(table.path).to_arrow()) == before
    table.alter().add("note", "string").commit()
    Judge(table.path).check()

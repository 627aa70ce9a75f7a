# SPDX-License-Identifier: Apache-2.0
"""One table on a local disk on both sides of a fork, and in many threads."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lakebraid as lb
from tests.kit.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.unit


def rows(name: str, count: int = 8) -> list[dict[str, object]]:
    return [{"id": f"{name}{n}", "ts": 1} for n in range(count)]


@pytest.fixture
def table(tmp_path: Path) -> lb.Table:
    return lb.Table.create(tmp_path / "t", "id string, ts bigint", record_keys="id", ordering_fields="ts", buckets=4)


def test_a_child_goes_on_with_the_table_of_its_parent_and_the_parent_too(table: lb.Table) -> None:
    table.upsert(rows("a"))
    assert table.to_arrow().num_rows == 8

    def in_child() -> None:
        table.upsert(rows("b"))
        assert table.to_arrow().num_rows in (16, 24)  # with the parent's next rows or without

    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    table.upsert(rows("c"))
    child.join(PATIENCE_SECONDS)
    assert child.exitcode == 0
    assert table.to_arrow().num_rows == 24


def test_a_child_that_is_forked_while_other_threads_write_and_read_does_not_hang(table: lb.Table) -> None:
    table.upsert(rows("a"))

    def busy(number: int) -> None:
        for turn in range(4):
            table.upsert(rows(f"{number}-{turn}-", 2))
            table.to_arrow()

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(busy, number) for number in range(4)]
        children = []
        for number in range(4):
            child = multiprocessing.get_context("fork").Process(target=table.upsert, args=(rows(f"child{number}-", 2),))
            child.start()
            children.append(child)
        for work in working:
            work.result()
    for child in children:
        child.join(PATIENCE_SECONDS)
        assert child.exitcode == 0
    assert table.to_arrow().num_rows == 8 + 4 * 4 * 2 + 4 * 2

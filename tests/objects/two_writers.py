# SPDX-License-Identifier: Apache-2.0
"""Two writers, a compaction and a clean on a table in an object store."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import lakebraid as lb


def check_two_writers(url: str, options: Mapping[str, str]) -> None:
    """Fails if they lose anything, or leave anything behind that the audit finds."""
    columns = "id bigint, ts bigint, writer bigint"
    made = lb.Table.create(
        url, columns, record_keys="id", ordering_fields="ts", buckets=2, storage_options=dict(options)
    )

    def write(writer: int) -> None:
        table = lb.Table.open(url, dict(options))
        for ts in range(4):
            table.upsert([{"id": key, "ts": 10 * ts + writer, "writer": writer} for key in range(5)])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (1, 2)))
    before = made.to_arrow().sort_by("id").to_pylist()
    assert before == [{"id": key, "ts": 32, "writer": 2} for key in range(5)]
    made.compact()
    made.clean()
    other = lb.Table.open(url, dict(options))
    assert other.to_arrow().sort_by("id").to_pylist() == before
    assert [str(finding) for finding in other.audit(deep=True)] == []

# SPDX-License-Identifier: Apache-2.0
"""Every kind of write and service, as it is done to the reference tables with metadata tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lakebraid as lb

COW, BUCKETS, TYPES = "mdt_cow_default", "mdt_nbcc_bucket", "mdt_types_unpartitioned"


def row(key: int, *, part: str = "p0", ts: int = 50, **more: Any) -> dict[str, Any]:
    """A row of the first two tables."""
    return {"id": key, "name": f"ours {key}", "price": 1000.0 + key, "ts": ts, "part": part} | more


def _overlap(table: lb.Table) -> None:
    first, second = table.begin("upsert"), table.begin("upsert")
    first.write([row(801, part="p8", price=-9.0)])
    second.write([row(802, part="p9", price=9.0)])
    second.commit(), first.commit()


def _in_pieces(table: lb.Table) -> None:
    with table.begin("upsert") as write:
        write.write([row(1), row(700, part="p7")])
        write.write([row(2, name=None)])


def _again_and_again(table: lb.Table) -> None:
    for turn in range(4):
        table.upsert([row(910 + turn, part="p1", ts=60 + turn)])


ACTIONS: dict[str, Callable[[lb.Table], object]] = {
    "upsert": lambda t: t.upsert([row(1), row(2, part="p1"), row(900, part="new")]),
    "insert": lambda t: t.insert([row(901), row(902, part="new")]),
    "bulk load": lambda t: t.bulk_insert([row(key, part=f"p{key % 4}") for key in range(1000, 1020)]),
    "delete": lambda t: t.delete([{"id": 4, "part": "p0"}]),
    "overlapping writes": _overlap,
    "delete by a condition": lambda t: t.delete(where="price > 1010"),
    "update by a condition": lambda t: t.update({"price": "price + 5000"}, where="id > 3"),
    "partial update": lambda t: t.upsert([{"id": 6, "part": "p0", "price": 7777.0, "ts": 60}], columns=["id", "part", "price", "ts"]),
    "services": lambda t: t.services.run(once=True),
    "compaction": lambda t: t.compact(),
    "overwrite of partitions": lambda t: t.insert_overwrite([row(903), row(904, part="new")]),
    "delete of a partition": lambda t: t.delete_partitions(["p1"]),
    "clean": lambda t: t.clean(),
    "several pieces": _in_pieces,
    "several commits": _again_and_again,
    "log compaction": lambda t: t.log_compact(logs_min=2),
    "overwrite of the table": lambda t: t.insert_overwrite_table([row(905), row(906, part="new")]),
    "a new column": lambda t: t.upsert([row(907, extra="x")]),
    "no rows": lambda t: t.upsert(t.to_arrow().slice(0, 0)),
}  # fmt: skip
"""In an order in which each has something to do after those before it."""

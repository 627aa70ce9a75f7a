# SPDX-License-Identifier: Apache-2.0
"""On an object store nobody waits longer because a table has more buckets, log files or partitions: calls in a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

import pytest

import lakebraid as lb
from lakebraid.storage import MemoryStorage, Storage
from lakebraid.storage.parallel import map_calls, together
from tests.kit.depth import DeepStorage, measured
from tests.kit.tables.scene import TickingClock, make_table, table_on

pytestmark = pytest.mark.unit
SCHEMA: Final = "id bigint, ts bigint, note string, part string"


@dataclass(frozen=True)
class Shape:
    buckets: int
    logs: int
    partitions: int = 1


SMALL: Final = Shape(buckets=4, logs=2)
LARGE: Final = Shape(buckets=24, logs=2)
GROWN: Final = {
    "buckets": (SMALL, LARGE),
    "logs": (SMALL, Shape(buckets=4, logs=9)),
    "partitions": (Shape(buckets=4, logs=2, partitions=2), Shape(buckets=4, logs=2, partitions=6)),
}
ACTS: Final[dict[str, Callable[[lb.Table, str], object]]] = {
    "read": lambda table, _: table.to_arrow(),
    "read in batches": lambda table, _: list(table.snapshot().to_batches()),
    "lookup of a key": lambda table, _: table.to_arrow(where="id = 7"),
    "count": lambda table, _: table.count(),
    "count with a filter": lambda table, _: table.count(where="ts > 0"),
    "changes": lambda table, before: table.changes(after=before).to_arrow(),
    "changes with images": lambda table, before: table.changes(after=before, images=True).to_arrow(),
    "changes without kinds": lambda table, before: table.changes(after=before, kinds=False).to_arrow(),
    "compaction": lambda table, _: table.compact(),
}


def rows(shape: Shape, stamp: int) -> list[dict[str, Any]]:
    keys = range(shape.partitions * shape.buckets * 12)
    return [{"id": key, "ts": stamp, "note": f"{key}", "part": f"p{key % shape.partitions}"} for key in keys]


@cache
def files_of(shape: Shape) -> tuple[tuple[tuple[str, bytes], ...], str]:
    """The objects of a table of that shape, all of whose buckets have a base file and logs; and a time before the last."""
    storage = MemoryStorage("memory://depth", TickingClock())
    parted = {"partition_by": "part"} if shape.partitions > 1 else {}
    table = make_table(storage, storage.clock, SCHEMA, buckets=shape.buckets, **parted)
    table.bulk_insert(rows(shape, 0))
    done = [table.upsert(rows(shape, 1 + turn)) for turn in range(shape.logs)]
    slices = table.snapshot().plan()[1]
    assert len(slices) == shape.buckets * shape.partitions
    assert {(one.base_name is None, len(one.log_names)) for one in slices} == {(False, shape.logs)}
    return tuple((info.name, storage.read(info.name, info.size)) for info in storage.list()), done[-2].completion_time


def opened(shape: Shape) -> tuple[DeepStorage, TickingClock, str]:
    files, before = files_of(shape)
    clock = TickingClock(1_767_225_700_000)
    storage = MemoryStorage("memory://depth", clock)
    for name, data in files:
        storage.create(name, data)
    return DeepStorage(storage), clock, before


def depth_of(shape: Shape, act: Callable[[lb.Table, str], object]) -> tuple[int, int]:
    """Calls in a row, and in all, from the opening of the table on."""
    storage, clock, before = opened(shape)
    with measured(storage) as depth:
        act(table_on(cast("Storage", storage), clock), before)
    return depth.now, depth.calls


@pytest.mark.parametrize("more", GROWN)
@pytest.mark.parametrize("act", ACTS)
def test_a_larger_table_takes_more_calls_but_no_more_of_them_in_a_row(act: str, more: str) -> None:
    (small, small_calls), (large, large_calls) = (depth_of(shape, ACTS[act]) for shape in GROWN[more])
    assert large <= small
    assert large_calls > small_calls or (act, more) == ("lookup of a key", "buckets")  # it needs only one of them


@pytest.mark.parametrize("act", [act for act in ACTS if act != "compaction"])
def test_a_reader_waits_for_six_calls_in_a_row(act: str) -> None:
    """The properties; names of the timeline, of all files, and of the timeline again; a commit's schema; the data."""
    assert depth_of(LARGE, ACTS[act])[0] == 6


def test_what_waits_for_one_call_after_the_other_is_as_deep_as_it_is_long() -> None:
    storage, _, _ = opened(SMALL)
    names = [info.name for info in storage.list()]
    with measured(storage) as looped:
        for name in names:
            storage.info(name)
    with measured(storage) as at_once:
        map_calls(storage, storage.info, names)
        together(storage, lambda: [storage.info(name) for name in names[:3]], lambda: storage.info(names[0]))
    assert (looped.now, looped.calls) == (len(names), len(names))
    assert (at_once.now, at_once.calls) == (1 + 3, len(names) + 4)

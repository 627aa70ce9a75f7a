# SPDX-License-Identifier: Apache-2.0
"""What Spark's Python workers do in a placed write: read the table's keys, match rows with them, rewrite file groups."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count as counting
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from lakebraid.errors import InvalidArgument
from lakebraid.model.file_sizing import Sizes
from lakebraid.model.keys.buckets import bucket_ids
from lakebraid.model.keys.keys import render_values
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.ordering import Ints
from lakebraid.model.values.arrow_numpy import take_rows
from lakebraid.spark.start.workers import spare_imports
from lakebraid.spark.write_tasks import Report, gathered, path_number, reported, streams
from lakebraid.storage import Storage, open_storage
from lakebraid.tasks.lookup.assign import Assigned, Find, Ground
from lakebraid.tasks.lookup.changes import Piece, gather
from lakebraid.tasks.lookup.find import living_keys
from lakebraid.tasks.lookup.stage import place, placed_to_put, write_placed
from lakebraid.tasks.merging.rewrite import Target, whole_rows
from lakebraid.tasks.new_files import NewFiles, put_files
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan

Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

GIVEN: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("call", pa.int32()),
        ("partition", pa.int32()),
        ("number", pa.int32()),
        ("rows", pa.binary()),
        ("error", pa.binary()),
    ]
)
"""What comes to be matched: rows of a call of `write`, or (call -1) keys of the target whose number is `partition`."""
PLACED: Final = pa.schema(
    [
        ("folder", pa.string()),
        ("file_id", pa.string()),
        ("is_new", pa.bool_()),
        ("task", pa.int32()),
        ("call", pa.int32()),
        ("operation", pa.string()),
        ("count", pa.int64()),
        ("rows", pa.binary()),
        ("error", pa.binary()),
    ]
)
"""What was matched: rows of a call for a file group. New groups have names of their own until the driver gives ids."""
TABLE_KEYS: Final = -1
_NOTHING: Final = GIVEN.empty_table()


def key_reader(plan: WritePlan, targets: Sequence[Target], count: int, slots: int) -> Run:
    """The function for `mapInArrow` over numbers of targets: their keys, in pieces for `count` tasks."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        storage = open_storage(plan.url, dict(plan.options))
        read = whole_rows(plan, merge_rules(plan.config, plan.schema))
        for batch in batches:
            for number in batch.column(0).to_pylist():
                target = targets[number]
                if target.slice is None:
                    continue
                for keys, alive in living_keys(storage, read, target.slice, may_have_moved=plan.config.is_global):
                    texts = keys if pa.types.is_string(keys.type) else render_values(keys)
                    held = pa.table({"key": texts, "alive": alive})
                    folder = "" if plan.config.is_global else target.partition
                    buckets = bucket_ids(texts, plan.config.bucket_fields, slots).astype(np.int64)
                    yield _split(held, (buckets + path_number(folder)) % count, number)

    return run


def matcher(plan: WritePlan, targets: Sequence[Target], operations: Sequence[str], sizes: Sizes) -> Run:
    """The function for `mapInArrow` after the shuffle by key: each row with the file group it goes into."""

    def work(storage: Storage, task: int, pieces: pa.Table) -> Iterator[pa.RecordBatch]:
        is_known = pc.equal(pieces.column("call"), TABLE_KEYS)
        find = _found_in(targets, pieces.filter(is_known))
        rows = _in_sequence(pieces.filter(pc.invert(is_known)))
        changes = gather(plan, [Piece(operations[call], table) for call, table in rows], 0)
        calls = [call for call, _ in rows]
        groups: dict[str, list[Target]] = defaultdict(list)
        for target in targets:
            groups[target.partition].append(target)
        ids = (f"{task}.{number}" for number in counting())
        changes, placed = place(storage, plan, changes, Ground(groups, sizes, lambda: next(ids)), find)
        start = 0
        for at, piece in enumerate(changes.pieces):
            stop = start + piece.rows.num_rows
            call = calls[at] if at < len(calls) else len(operations)
            yield _placed(piece, placed, placed.numbers[start:stop], task, call)
            start = stop

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        task = _task()
        try:
            pieces = gathered(batches, task)
            if pieces is not None:
                _raise_error(pieces)
                if pc.max(pieces.column("call")).as_py() > TABLE_KEYS:
                    yield from work(open_storage(plan.url, dict(plan.options)), task, pieces)
        except InvalidArgument as error:  # others are tried again by Spark
            packed = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
            yield pa.RecordBatch.from_pylist([{"task": task, "error": packed}], schema=PLACED)

    return run


def router(tasks: Mapping[tuple[str, str], int]) -> Run:
    """The function for `mapInArrow` that says which task each piece goes to, in the place of its matching task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            pairs = zip(batch.column("folder").to_pylist(), batch.column("file_id").to_pylist(), strict=True)
            arrays = [*batch.columns, pa.array([tasks[pair] for pair in pairs], pa.int32())]
            yield pa.RecordBatch.from_arrays(arrays, schema=PLACED.append(pa.field("to", pa.int32())))

    return run


def rewriter(plan: WritePlan, homes: Mapping[tuple[str, str], tuple[Target, int]], attempts_max: int) -> Run:
    """The function for `mapInArrow` after the shuffle by file group: rewrites each, under the number it was given."""

    def work(storage: Storage, pieces: pa.Table) -> Iterator[NewFiles]:
        found: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for piece in pieces.to_pylist():
            found[homes[piece["folder"], piece["file_id"]][1]].append(piece)
        targets = {number: target for target, number in homes.values()}
        for number, parts in sorted(found.items()):
            parts.sort(key=lambda p: (p["call"], p["task"], p["file_id"]))
            given = [Piece(p["operation"], _opened(p["rows"])) for p in parts]
            changes = gather(plan, _joined(given), number)
            places = np.zeros(len(changes), np.int64)
            placed = Assigned((targets[number],), places, np.zeros(len(changes), np.bool_))
            yield from placed_to_put(storage, plan, changes, placed, number)

    def put(storage: Storage, _: int, pieces: pa.Table) -> list[StagedFile]:
        return list(put_files(storage, plan.request_time, work(storage, pieces)))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        yield from _reported(plan, batches, attempts_max, put)

    return run


def bucket_rewriter(
    plan: WritePlan, targets: Sequence[Target], operations: Sequence[str], first_task: int, attempts_max: int
) -> Run:
    """The function for `mapInArrow` after a shuffle by bucket: places and rewrites at once, no key is looked up."""
    groups: dict[str, list[Target]] = defaultdict(list)
    for target in targets:
        groups[target.partition].append(target)

    def work(storage: Storage, task: int, pieces: pa.Table) -> list[StagedFile]:
        _raise_error(pieces)
        rows = _in_sequence(pieces)
        number = first_task + task * (len(operations) + 2)
        changes = gather(plan, [Piece(operations[call], table) for call, table in rows], number)
        ground = Ground(groups, Sizes(), lambda: "")
        changes, placed = place(storage, plan, changes, ground, _found_in((), _NOTHING))
        return [*write_placed(storage, plan, changes, placed, number)]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        yield from _reported(plan, batches, attempts_max, work)

    return run


def _reported(
    plan: WritePlan,
    batches: Iterator[pa.RecordBatch],
    attempts_max: int,
    work: Callable[[Storage, int, pa.Table], list[StagedFile]],
) -> Iterator[pa.RecordBatch]:
    """One row with the files of a task."""

    def files(partition: int) -> Report:
        pieces = gathered(batches, partition)
        if pieces is None:
            return Report(partition)
        return Report(partition, files=tuple(work(open_storage(plan.url, dict(plan.options)), partition, pieces)))

    yield reported(attempts_max, files)


def _split(rows: pa.Table, tasks: Ints, number: int) -> pa.RecordBatch:
    order = np.argsort(tasks, kind="stable")
    found, starts = np.unique(tasks[order], return_index=True)
    arrays = [
        pa.array(found, pa.int32()),
        *(pa.repeat(pa.scalar(value, pa.int32()), len(found)) for value in (TABLE_KEYS, number, 0)),
        streams(take_rows(rows, order), starts),
        pa.nulls(len(found), pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=GIVEN)


def _found_in(targets: Sequence[Target], held: pa.Table) -> Find:
    """Finds keys among those that have come for this task; of one key that lives first."""
    places = {(target.partition, target.file_id): number for number, target in enumerate(targets)}
    tables = [_opened(piece) for piece in held.column("rows").to_pylist()]
    owners = np.repeat(held.column("partition").to_numpy(), [table.num_rows for table in tables])
    known = pa.concat_tables(tables) if tables else pa.table({"key": pa.array([], pa.string()), "alive": []})
    alive = np.asarray(known.column("alive").combine_chunks().cast(pa.uint8())) if tables else np.zeros(0)
    order = np.argsort(1 - alive, kind="stable")
    texts, owners = known.column("key").take(pa.array(order)).combine_chunks(), owners[order]

    def find(wanted: Sequence[Target], keys: pa.Array) -> tuple[Ints, Ints]:
        at = np.full(len(targets), -1, np.int64)
        for number, target in enumerate(wanted):
            at[places[target.partition, target.file_id]] = number
        own = np.flatnonzero(at[owners] >= 0) if len(owners) else owners
        rendered = keys if pa.types.is_string(keys.type) else render_values(keys)
        found = pc.index_in(rendered, value_set=texts.take(pa.array(own)))
        homes: Ints = np.full(len(keys), -1, np.int64)
        hit = np.asarray(found.is_valid())
        homes[hit] = at[owners[own[np.asarray(found.drop_null()).astype(np.int64)]]]
        return homes, np.full(len(wanted), -1, np.int64)

    return find


def _in_sequence(pieces: pa.Table) -> list[tuple[int, pa.Table]]:
    """The rows of each call, in the order they had before the shuffle."""
    rows: dict[int, list[pa.Table]] = defaultdict(list)
    ordered = pieces.sort_by([("call", "ascending"), ("partition", "ascending"), ("number", "ascending")])
    for call, data in zip(ordered.column("call").to_pylist(), ordered.column("rows"), strict=True):
        rows[call].append(pa.ipc.open_stream(data.as_buffer()).read_all())
    return [(call, pa.concat_tables(tables)) for call, tables in rows.items()]


def _placed(piece: Piece, placed: Assigned, numbers: Ints, task: int, call: int) -> pa.RecordBatch:
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] >= 0]
    found, starts = np.unique(numbers[order], return_index=True)
    own = [placed.targets[number] for number in found]
    size = len(found)
    arrays = [
        pa.array([t.partition for t in own], pa.string()),
        pa.array([t.file_id for t in own], pa.string()),
        pa.array([t.slice is None for t in own], pa.bool_()),
        pa.repeat(pa.scalar(task, pa.int32()), size),
        pa.repeat(pa.scalar(call, pa.int32()), size),
        pa.repeat(piece.operation, size),
        pa.array(np.diff(np.r_[starts, len(order)]), pa.int64()),
        streams(take_rows(piece.rows, order), starts),
        pa.nulls(size, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=PLACED)


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbours of one kind together."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].operation == piece.operation and joined[-1].rows.schema == piece.rows.schema:
            joined[-1] = Piece(piece.operation, pa.concat_tables([joined[-1].rows, piece.rows]))
        else:
            joined.append(piece)
    return joined


def _opened(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def _raise_error(pieces: pa.Table) -> None:
    errors = pieces.column("error").drop_null()
    if len(errors):
        raise pickle.loads(errors[0].as_py())  # noqa: S301 - our own workers wrote it


def _task() -> int:
    context: Any = TaskContext.get()
    return int(context.partitionId())

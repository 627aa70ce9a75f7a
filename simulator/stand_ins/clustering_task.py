# SPDX-License-Identifier: Apache-2.0
"""Stands in for the executor of a clustering task."""

from __future__ import annotations

from lakebraid.format.names import BaseFileName
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.merging.cluster import ClusterTask, output_file_id
from simulator.stand_ins.tasks import Written, merge, put, read_placed, read_versions


def run_cluster(storage: Storage, request_time: str, epoch: int, task: ClusterTask, *, by_event: bool) -> list[Written]:
    """What one task of a clustering does: the rows of some slices in one base file of a new group."""
    rows = []
    for part in task.slices:
        versions = read_versions(storage.read(part.base_name, 1 << 20)) if part.base_name else []
        versions += read_placed([storage.read(name, 1 << 20) for name in part.log_names])
        winners = merge(versions, by_event=by_event)
        rows += [[v.key, v.order, v.request_time, v.value] for _, v in sorted(winners.items()) if v.value is not None]
    file_id = output_file_id(request_time, task.number, 0)
    name = BaseFileName(file_id, f"0-0-{epoch}", request_time, ".parquet").format()
    put(storage, request_time, task.partition, name, {"r": rows})
    return [Written(task.partition, file_id, name, len(rows), 0)]

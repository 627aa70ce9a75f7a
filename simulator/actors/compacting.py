# SPDX-License-Identifier: Apache-2.0
"""A compactor: plans what can be planned, takes over what was left, executes with tiny files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebraid import limits
from lakebraid.errors import CommitRefused, ObjectNotFound, StorageError
from lakebraid.format.names import BaseFileName, LogFileName, parse_data_file
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat
from lakebraid.format.timeline.plans import (
    CompactionOperation,
    CompactionPlan,
    format_compaction_plan,
    parse_compaction_plan,
)
from lakebraid.model.timeline.slicing import FileSlice
from lakebraid.services.merging.choose_groups import CARRIES, NEWEST_OPEN
from lakebraid.table.at import TableAt
from lakebraid.txn.actions.plans import claim, decide_plan, publish_plan
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.heartbeat import beat, forget, is_expired, storage_now_ms
from simulator.actors.metadata import tell
from simulator.stand_ins.tasks import Merging, Written, read_origins, run_merge
from simulator.world.tables import SCHEMA
from simulator.world.violation import Violation
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene


def compact(scene: Scene, process: Process, ledger: Ledger, txn: str) -> None:
    """Plans, then executes every pending plan whose executor is not alive."""
    decide_plan(
        ledger, f"{txn}-plan", "compaction", lambda now, request_time: _content(build_plan(scene, now, request_time))
    )
    plans = ledger.newest().state.plans
    if not plans:
        return
    now_ms = storage_now_ms(process.storage, process.clock)
    for request_time, plan in sorted(plans.items()):
        is_free = plan.epoch == 0 or is_expired(
            TableAt(process.storage, scene.table.config, process.clock), request_time, now_ms, scene.setting.timeout_ms
        )
        if is_free:
            scene.mark("claimed" if plan.epoch == 0 else "taken over")
            execute(scene, process, ledger, txn, request_time, plan.epoch)


def build_plan(scene: Scene, now: Round, _request_time: str) -> CompactionPlan | None:
    """Groups with logs that no pending plan names. Deletes of commit-time tables wait for older open writes."""
    view = now.view()
    taken = {
        (o.partition_path, o.file_id)
        for request_time in now.state.plans
        for o in read_plan(scene, now.ledger, request_time).operations
    }
    oldest_open = now.state.oldest_open
    operations = []
    for part in view.slices():
        group = (part.group.partition, part.group.file_id)
        if not part.logs or group in taken:
            continue
        if oldest_open and _has_risky_delete(scene, _instants(scene, now, part), oldest_open):
            scene.mark("group left out for a delete")
            continue
        operations.append(operation_of(part))
    return CompactionPlan(tuple(operations)) if operations else None


def _content(plan: CompactionPlan | None) -> bytes | None:
    return None if plan is None else format_compaction_plan(plan)


def operation_of(part: FileSlice) -> CompactionOperation:
    return CompactionOperation(
        part.group.file_id,
        part.group.partition,
        part.barrier,
        tuple(log.name.rpartition("/")[2] for log in part.logs),
        part.base.name.rpartition("/")[2] if part.base else None,
    )


def _instants(scene: Scene, now: Round, part: FileSlice) -> list[str]:
    """The writes whose changes are in the slice's logs; those of services hold changes of others."""
    found = []
    for log in part.logs:
        if log.request_time in scene.oracle.intents:
            found.append(log.request_time)
        else:
            origins = read_origins(now.ledger.storage.read(log.name, 1 << 20))
            found += [time for o in origins for time in (o.instant_time, *o.compacted_times)]
    return found


def _has_risky_delete(scene: Scene, request_times: list[str], oldest_open: str) -> bool:
    """Whether a delete without an ordering value began after a write that is still open."""
    intents = scene.oracle.intents
    changes = [(s, c) for s in request_times if s in intents for c in intents[s].changes]
    return any(c.value is None and c.order is None and s > oldest_open for s, c in changes)


def read_plan(scene: Scene, ledger: Ledger, request_time: str) -> CompactionPlan:
    name = f"{ledger.config.timeline_folder}/{request_time}.compaction.requested"
    return parse_compaction_plan(ledger.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), name)


def execute(scene: Scene, process: Process, ledger: Ledger, txn: str, request_time: str, seen: int) -> None:
    try:
        epoch = claim(ledger, txn, request_time, seen=seen or None)
    except CommitRefused:
        scene.mark("claim lost")
        return
    beat(process.storage, request_time)
    try:
        plan = read_plan(scene, ledger, request_time)
        delete_elders(process, ledger, request_time, epoch, plan)
        files: list[Written] = []
        for o in plan.operations:
            before = plan.extra.get(NEWEST_OPEN, "") if CARRIES in o.metrics else ""
            work = Merging(o.partition_path, o.file_id, o.data_file_name, o.delta_file_names, before)
            files += run_merge(process.storage, request_time, epoch, work, by_event=scene.setting.by_event)
            beat(process.storage, request_time)
    except ObjectNotFound as error:
        raise Violation("3 never half a commit", f"the plan {request_time} lacks an input: {error}") from error
    metadata = compaction_of(files)
    try:
        publish_plan(ledger, txn, request_time, epoch, lambda _: metadata, tell)
    except CommitRefused:
        scene.mark("claim lost at the end")
        return
    scene.mark("compacted")
    forget(process.storage, request_time)


def delete_elders(process: Process, ledger: Ledger, request_time: str, epoch: int, plan: CompactionPlan) -> None:
    """Files of this plan with smaller epochs are dead for ever."""
    doomed = []
    for partition in sorted({o.partition_path for o in plan.operations}):
        for info in process.storage.list(partition):
            parsed = parse_data_file(info.name.rpartition("/")[2])
            is_ours = parsed is not None and parsed.request_time == request_time and _is_ours(parsed)
            if parsed is not None and is_ours and _epoch(parsed) < epoch:
                doomed.append(info.name)
    process.storage.delete(doomed)


def _is_ours(parsed: BaseFileName | LogFileName) -> bool:
    """Files of Apache Hudi's executors carry tokens of another kind."""
    return (parsed.write_token or "").startswith("0-0-")


def _epoch(parsed: BaseFileName | LogFileName) -> int:
    return int((parsed.write_token or "0").rpartition("-")[2])


def compaction_of(files: list[Written]) -> CommitMetadata:
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for file in files:
        stats[file.partition] = (*stats.get(file.partition, ()), file.stat())
    return CommitMetadata(write_stats=stats, compacted=True, extra={"schema": SCHEMA}, operation="COMPACT")


__all__ = ["StorageError", "build_plan", "compact", "execute"]

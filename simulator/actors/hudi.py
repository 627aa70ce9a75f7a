# SPDX-License-Identifier: Apache-2.0
"""Jobs of Apache Hudi on the same table: they write, roll back whoever shows no heartbeat, and compact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakebraid.errors import CorruptFile, ObjectNotFound, StorageError
from lakebraid.format.names import BaseFileName, LogFileName, parse_data_file
from lakebraid.format.timeline.commit import format_commit
from lakebraid.format.timeline.plans import (
    CompactionOperation,
    CompactionPlan,
    format_compaction_plan,
    parse_compaction_plan,
)
from lakebraid.format.timeline.rollbacks import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    format_rollback_metadata,
    format_rollback_plan,
    parse_rollback_plan,
)
from simulator.actors.compacting import compaction_of
from simulator.actors.hudi_client import LOCK, Active, Client
from simulator.oracle import TIMELINE
from simulator.stand_ins.tasks import Merging, Written, run_merge
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene

_JOB_FAILED = (StorageError, CorruptFile)


class Rescuing(Client):
    """What a job does about failed writes."""

    def clear_up(self) -> None:
        """Lazy cleaning of failed writes: plans are made under the lock, executed after it; begun ones are taken over."""
        with self.locked():
            doomed = self._doomed()
        for rollback, victim, action in doomed:
            self.finish(rollback, victim, action)

    def _doomed(self) -> list[tuple[str, str, str]]:
        active = self.load()
        doomed = []
        sentenced = set()
        for rollback in sorted(active.pending["rollback"]):
            plan = self._plan_of(rollback)
            if plan is None or plan.instant is None:
                if self.is_expired(rollback):
                    self.storage.delete([f"{TIMELINE}{rollback}.rollback.{s}" for s in ("inflight", "requested")])
                continue
            sentenced.add(plan.instant.request_time)
            doomed.append((rollback, plan.instant.request_time, plan.instant.action))
        for victim in sorted(active.pending["deltacommit"]):
            if victim not in sentenced and self.is_expired(victim):
                rollback = self.sentence(victim, "deltacommit")
                doomed.append((rollback, victim, "deltacommit"))
        return doomed

    def _plan_of(self, rollback: str) -> RollbackPlan | None:
        name = f"{TIMELINE}{rollback}.rollback.requested"
        try:
            return parse_rollback_plan(self.storage.read(name, 1 << 20), name)
        except (ObjectNotFound, CorruptFile):
            return None

    def sentence(self, victim: str, action: str) -> str:
        """Under the lock."""
        request_time = self.time()
        if action != "compaction":
            self.scene.condemned_by_hudi.add(victim)
        requests = tuple(RollbackRequest(folder, None, files=(file,)) for folder, file in self._marked(victim))
        plan = RollbackPlan(InstantInfo(victim, action), requests)
        self.put(f"{request_time}.rollback.requested", format_rollback_plan(plan, self.storage.url))
        self.scene.mark(f"hudi: rolls back a {action}")
        return request_time

    def finish(self, rollback: str, victim: str, action: str) -> None:
        """Executes a rollback that no living one executes."""
        with self.locked():
            active = self.load()
            if rollback not in active.pending["rollback"] or not self.is_expired(rollback):
                return
            self.beat(rollback)
            if "inflight" not in active.pending["rollback"][rollback]:
                self.put(f"{rollback}.rollback.inflight", b"")
            if victim in active.completed:
                doomed = []  # its writer was slow, not dead
            else:
                doomed = [f"{folder}/{file}" for folder, file in self._marked(victim)]
                if action != "compaction":
                    self.scene.condemned_by_hudi.add(victim)
        self.beat_on(rollback)
        try:
            self.storage.delete(doomed)
            with self.locked():
                if not self.is_own_beat_fresh(rollback):
                    return
                if rollback in self.load().completed:
                    return
                states = ("inflight",) if action == "compaction" else ("inflight", "requested")
                if victim not in self.load().completed:
                    self.storage.delete([f"{TIMELINE}{victim}.{action}.{state}" for state in states])
                metadata = RollbackMetadata(rollback, (InstantInfo(victim, action),), {})
                completion = self.time()
                self.put(f"{rollback}_{completion}.rollback", format_rollback_metadata(metadata))
            self.tidy(rollback)
            if action != "compaction":
                self.tidy(victim)
        finally:
            self.stop_beating(rollback)

    def _marked(self, request_time: str) -> list[tuple[str, str]]:
        folder = f".hoodie/.temp/{request_time}/"
        names = [i.name[len(folder) :].partition(".marker.")[0] for i in self.storage.list(folder)]
        return [(name.rpartition("/")[0], name.rpartition("/")[2]) for name in names]


class Job(Rescuing):
    """A job that compacts as well."""

    def schedule(self) -> None:
        with self.locked():
            active = self.load()
            if active.pending["restore"]:
                return
            plans = {s: self._compaction_plan(s) for s in sorted(active.pending["compaction"])}
            taken = {(o.partition_path, o.file_id) for p in plans.values() if p for o in p.operations}
            request_time = self.time()
            operations = tuple(self._operations(active, taken))
            if operations:
                self.storage.create(
                    f"{TIMELINE}{request_time}.compaction.requested", format_compaction_plan(CompactionPlan(operations))
                )
                self.scene.mark("hudi: planned")

    def _operations(self, active: Active, taken: set[tuple[str, str]]) -> Iterator[CompactionOperation]:
        groups: dict[tuple[str, str], list[tuple[str, BaseFileName | LogFileName]]] = defaultdict(list)
        for folder in self.storage.list_folder("")[1]:
            for info in self.storage.list(folder) if folder != ".hoodie" else ():
                parsed = parse_data_file(info.name.rpartition("/")[2])
                if parsed is not None and self._completion(active, parsed.request_time):
                    groups[folder, parsed.file_id].append((info.name.rpartition("/")[2], parsed))
        for (folder, file_id), files in sorted(groups.items()):
            bases = {
                p.request_time: n for n, p in files if isinstance(p, BaseFileName) and self._is_named(active, n, p)
            }
            barrier = max(bases, default="")
            logs = sorted(
                (p.sort_key, n)
                for n, p in files
                if isinstance(p, LogFileName) and self._completion(active, p.request_time) >= barrier
            )
            if logs and (folder, file_id) not in taken:
                first = barrier or min(p.request_time for _, p in files)
                yield CompactionOperation(file_id, folder, first, tuple(n for _, n in logs), bases.get(barrier))

    def _completion(self, active: Active, request_time: str) -> str:
        """When a write completed, by the timeline or else the history; empty if it has not."""
        if request_time in active.completed or request_time >= active.first:
            return active.completed.get(request_time, "")
        note = self.scene.oracle.published.get(request_time)
        return note.completion if note else request_time

    def _is_named(self, active: Active, file: str, parsed: BaseFileName) -> bool:
        """Of two base files of one request time, the one that its commit names."""
        request_time = parsed.request_time
        if request_time not in active.completed:
            return True
        name = f"{TIMELINE}{request_time}_{active.completed[request_time]}.commit"
        data = self.storage.read(name, 1 << 20)
        return not data or file.encode() in data

    def _compaction_plan(self, request_time: str) -> CompactionPlan | None:
        name = f"{TIMELINE}{request_time}.compaction.requested"
        try:
            return parse_compaction_plan(self.storage.read(name, 1 << 20), name)
        except (ObjectNotFound, CorruptFile):
            return None

    def compact(self) -> None:
        """Executes the oldest plan that no living one executes, whoever made it."""
        rollback = None
        with self.locked():
            active = self.load()
            pending = active.pending["compaction"]
            if active.pending["restore"]:
                return
            request_time = next((s for s in sorted(pending) if self.is_expired(s)), None)
            if request_time is None:
                return
            judged_ms = self.scene.world.now
            self.beat(request_time)
            self.scene.hudi_executors[request_time] = self.process.name
            plan = self._compaction_plan(request_time)
            if "inflight" in pending[request_time]:
                rollback = self.sentence(request_time, "compaction")
        if plan is None:
            self.stop_beating(request_time)
            return
        self.beat_on(request_time)
        try:
            if rollback is not None:
                self.finish(rollback, request_time, "compaction")
                with self.locked():
                    if "inflight" in self.load().pending["compaction"].get(request_time, {"inflight"}):
                        return
            if not self.is_own_beat_fresh(request_time):
                return
            self.put_inflight(request_time, "compaction")
            self.scene.tell("executing", request_time, self.process, is_removable=False, judged_ms=judged_ms)
            files = self._merge(request_time, plan)
            if self.complete(request_time, "compaction", format_commit(compaction_of(files))):
                self.scene.mark("hudi: compacted")
                self.tidy(request_time)
        finally:
            self.scene.tell("executed", request_time, self.process)
            self.stop_beating(request_time)

    def _merge(self, request_time: str, plan: CompactionPlan) -> list[Written]:
        files: list[Written] = []
        for o in plan.operations:
            self._attempts += 1
            stage = 100 + 10 * sum(self.process.name.encode()) + self._attempts
            work = Merging(o.partition_path, o.file_id, o.data_file_name, o.delta_file_names)
            files += run_merge(
                self.storage, request_time, 0, work, by_event=self.scene.setting.by_event, token=f"1-{stage}-0"
            )
        return files


def work(scene: Scene, process: Process, rounds: int) -> None:
    """One job after the other; what fails is left for the next."""
    client = Job(scene, process)
    for number in range(rounds):
        process.clock.sleep(process.rng.random() * 0.4)
        try:
            _one(client, process, f"{process.name}-{number}")
        except _JOB_FAILED:
            scene.mark("hudi: job failed")


def _one(client: Job, process: Process, txn: str) -> None:
    chance = process.rng.random()
    if chance < 0.5:
        client.write(txn)
    elif chance < 0.65:
        client.clear_up()
    elif chance < 0.8:
        client.schedule()
    else:
        client.compact()


def operate(scene: Scene, process: Process, rounds: int) -> None:
    """A person who removes the lock of a Hudi job that is known to be dead."""
    for _ in range(rounds):
        process.clock.sleep(scene.setting.timeout_ms / 1000)
        unlock(scene)


def unlock(scene: Scene) -> None:
    disk = scene.world.disk
    owner = disk.objects.get(LOCK, (b"", 0))[0].decode(errors="replace")
    if any(p.name == owner and p.is_dead for p in scene.world.processes):
        scene.mark("hudi: lock removed by hand")
        disk.delete(LOCK)


def heal(scene: Scene, process: Process) -> None:
    client = Job(scene, process)
    process.writes_in_place = False
    client.clear_up()


__all__ = ["Job", "heal", "operate", "unlock", "work"]

# SPDX-License-Identifier: Apache-2.0
"""Ways to break what says which files count: instants, plans, cleans, and the schemas in commits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from lakebraid.format.timeline.commit import CommitMetadata, format_commit
from lakebraid.format.timeline.plans import format_compaction_plan, parse_compaction_plan
from lakebraid.format.timeline.services import (
    CleanedPartition,
    CleanMetadata,
    format_clean_metadata,
    parse_clean_metadata,
)
from lakebraid.format.times import next_instant_time
from lakebraid.txn.actions.rollback import decide_rollback
from tests.breaking.table import (
    HOURS,
    KEYS,
    TIMELINE,
    Broken,
    breaks,
    fresh,
    parsed,
    rich,
)
from tests.kit.tables.scene import row


@breaks("instant-unreadable")
def torn_commit() -> Broken:
    b = rich()
    name = b.commits()[1]
    b.storage.replace(name, b.read(name)[:-40])
    return b


@breaks("reading-fails")
def torn_newest_commit() -> Broken:
    b = rich()
    b.storage.replace(b.commits()[-1], b"Obj\x01")
    return b


@breaks("instant-empty")
def empty_commit_file() -> Broken:
    b = rich()
    b.storage.replace(b.commits()[-1], b"")
    b.clock.ms += HOURS
    return b


@breaks("time-order")
def completed_before_it_began() -> Broken:
    b = rich()
    name = b.commits()[-1]
    request_time = name.rpartition("/")[2][:17]
    b.move(name, f"{TIMELINE}/{request_time}_{int(request_time) - 1}.deltacommit")
    return b


@breaks("time-twice")
def two_completions_at_once() -> Broken:
    b = rich()
    first, second = (n.rpartition("/")[2] for n in b.commits()[-2:])
    b.move(f"{TIMELINE}/{first}", f"{TIMELINE}/{first[:17]}{second[17:]}")
    return b


@breaks("time-twice")
def two_actions_of_one_start() -> Broken:
    b = rich()
    request_time = b.commits()[-1].rpartition("/")[2][:17]
    b.storage.create(f"{TIMELINE}/{request_time}.clean.requested", b"")
    return b


@breaks("completed-twice")
def two_completed_files() -> Broken:
    b = rich()
    name = b.commits()[-1]
    request_time, done = name.rpartition("/")[2][:17], name.rpartition("/")[2][18:35]
    b.storage.create(f"{TIMELINE}/{request_time}_{next_instant_time(done)}.deltacommit", b.read(name))
    return b


@breaks("state-missing")
def inflight_file_gone() -> Broken:
    b = rich()
    b.storage.delete([b.names(TIMELINE, ".deltacommit.inflight")[-1]])
    return b


@breaks("time-ahead")
def clock_of_next_century() -> Broken:
    b = rich()
    name = b.commits()[-1]
    b.move(name, f"{TIMELINE}/{name.rpartition('/')[2][:17]}_20990101000000000.deltacommit")
    return b


@breaks("plan-unreadable")
def torn_plan() -> Broken:
    b = rich()
    b.table.plan_compaction()
    b.storage.replace(b.names(TIMELINE, ".compaction.requested")[-1], b"Obj\x01torn")
    return b


@breaks("plan-input-missing")
def input_of_a_plan_gone() -> Broken:
    b = rich()
    b.table.plan_compaction()
    b.storage.delete([b.logs()[-1]])
    return b


@breaks("undo-unfinished")
def rollback_that_nobody_ends() -> Broken:
    b = rich()
    txn = b.table.begin()
    txn._heartbeat.stop()
    decide_rollback(b.table._writing.ledger(b.table._config), "dead", txn.instant)
    b.clock.ms += HOURS
    return b


@breaks("writer-dead")
def writer_that_died() -> Broken:
    b = rich()
    txn = b.table.begin()
    txn.write([row("a", "dead", 9)])
    txn._heartbeat.stop()
    b.clock.ms += HOURS
    return b


@breaks("hidden-from-hudi")
def dead_writer_hides_a_group() -> Broken:
    b = fresh(seed_base=False)
    txn = b.table.begin()
    txn.write([row("a", "dead", 9)])
    txn._heartbeat.stop()
    b.table.upsert([row("b", "1")])
    b.clock.ms += HOURS
    return b


@breaks("file-removed-by-clean")
def clean_took_a_live_file() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.delete([name])
    _add_clean(b, {"": CleanedPartition("KEEP_LATEST_COMMITS", (name,))})
    return b


def _add_clean(b: Broken, partitions: dict[str, CleanedPartition], earliest: str = "") -> None:
    request_time = next_instant_time(b.commits()[-1].rpartition("/")[2][18:35])
    data = format_clean_metadata(CleanMetadata(request_time, earliest, partitions))
    b.storage.create(f"{TIMELINE}/{request_time}.clean.requested", b"")
    b.storage.create(f"{TIMELINE}/{request_time}.clean.inflight", b"")
    b.storage.create(f"{TIMELINE}/{request_time}_{next_instant_time(request_time)}.clean", data)


def _edit_plan(b: Broken, change: Callable[[Any], Any]) -> None:
    name = b.names(TIMELINE, ".compaction.requested")[-1]
    plan = parse_compaction_plan(b.read(name), name)
    operations = (change(plan.operations[0]), *plan.operations[1:])
    b.storage.replace(name, format_compaction_plan(dataclasses.replace(plan, operations=operations)))


@breaks("compaction-missed-log")
def compaction_without_a_log() -> Broken:
    b = rich()
    _edit_plan(b, lambda o: dataclasses.replace(o, delta_file_names=o.delta_file_names[:-1]))
    return b


@breaks("compaction-took-uncommitted")
def compaction_with_an_open_log() -> Broken:
    b = rich()
    txn = b.table.begin()
    txn.write([row(key, "5", 5) for key in KEYS])
    txn._heartbeat.stop()
    name = next(n for n in b.logs() if txn.instant in n)
    _edit_plan(b, lambda o: dataclasses.replace(o, delta_file_names=(*o.delta_file_names, name)))
    return b


@breaks("log-compaction-hides")
def log_compaction_that_claims_too_much() -> Broken:
    b = fresh()
    for n in range(6):
        b.table.upsert([row("a", f"{n}", n)])
    b.table.log_compact()
    name = b.names(TIMELINE, ".logcompaction.requested")[-1]
    plan = parse_compaction_plan(b.read(name), name)
    fewer = [dataclasses.replace(o, delta_file_names=o.delta_file_names[1:]) for o in plan.operations]
    b.storage.replace(name, format_compaction_plan(dataclasses.replace(plan, operations=tuple(fewer))))
    return b


@breaks("replaced-group-written")
def overwrite_beside_a_writer() -> Broken:
    b = fresh()
    first = b.table.upsert([row("a", "1")])
    txn = b.table.begin()
    txn.write([row("a", "2", 2)])
    request_time = next_instant_time(txn.instant)
    group = parsed(b.logs()[0]).file_id
    metadata = CommitMetadata(operation="INSERT_OVERWRITE", replaced={"": (group,)})
    b.storage.create(f"{TIMELINE}/{request_time}.replacecommit.requested", b"")
    b.storage.create(f"{TIMELINE}/{request_time}.replacecommit.inflight", b"")
    b.storage.create(
        f"{TIMELINE}/{request_time}_{next_instant_time(request_time)}.replacecommit", format_commit(metadata)
    )
    txn.commit()
    assert first.completion_time < request_time
    return b


@breaks("clean-too-far")
def clean_that_promised_more() -> Broken:
    b = rich()
    b.table.clean(versions=1)
    name = b.names(TIMELINE, "_", ".clean")[-1]
    first = b.commits()[1].rpartition("/")[2][:17]
    told = dataclasses.replace(parse_clean_metadata(b.read(name), name), earliest_commit_to_retain=first)
    b.storage.replace(name, format_clean_metadata(told))
    return b


@breaks("clean-left-file")
def clean_that_left_a_file() -> Broken:
    b = rich()
    before = {name: b.read(name) for name in b.logs()}
    b.table.clean(versions=1)
    name = next(n for n in before if n not in b.logs())
    b.storage.create(name, before[name])
    return b


def _other_schema(b: Broken, name: str, old: str, new: str) -> None:
    def change(metadata: CommitMetadata) -> CommitMetadata:
        text = metadata.extra["schema"]
        assert old in text
        return dataclasses.replace(metadata, extra=metadata.extra | {"schema": text.replace(old, new)})

    b.edit(name, change)


@breaks("schema-unreadable")
def schema_that_is_none() -> Broken:
    b = rich()
    _other_schema(b, b.commits()[1], "{", "<")
    return b


@breaks("schema-break")
def schema_of_another_type() -> Broken:
    b = rich()
    _other_schema(b, b.commits()[1], '"long"', '"string"')
    return b


@breaks("schema-masked")
def column_of_a_late_finisher() -> Broken:
    b = fresh()
    b.table.upsert([row("a", "1")])
    late = b.table.begin()
    late.write([row("a", "2", 2)])
    b.table.upsert([row("a", "3", 3)])
    late.commit()
    name = next(n for n in b.commits() if late.instant in n)
    _other_schema(b, name, '"fields":[', '"fields":[{"name":"more","type":["null","int"],"default":null},')
    return b

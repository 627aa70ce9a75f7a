# SPDX-License-Identifier: Apache-2.0
"""Compaction of a metadata table: the log files of all its file groups go into new base files (MDT, section 2).

Without it the metadata table grows with every commit, and each look at it reads more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakebraid import limits
from lakebraid.errors import ObjectExists, ObjectNotFound, OutcomeUnknown, UnsupportedTable
from lakebraid.format.damage import damaged
from lakebraid.format.hfile.read import EVERYTHING, Selection
from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.metadata.log import format_metadata_base
from lakebraid.format.metadata.records import ColumnStats, Files, Record
from lakebraid.format.names import BaseFileName, State, TimelineFileName, parse_data_file
from lakebraid.format.timeline.plans import CompactionOperation, CompactionPlan, parse_compaction_plan
from lakebraid.model.timeline.slicing import BaseFile, FileSlice, LogFile
from lakebraid.services.settings import Opened
from lakebraid.storage.parallel import map_calls
from lakebraid.storage.protocol import Storage
from lakebraid.storage.tries import tries
from lakebraid.table.metadata.layout import MetadataLayout, compacted_until
from lakebraid.table.metadata.opening import load_slices, merged_records, open_metadata_table
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.metadata.plans import decide_metadata_plan, publish_metadata_compaction

DELTAS: Final = 10
"""Delta commits after which Hudi compacts a metadata table, too (`hoodie.metadata.compact.max.delta.commits`)."""
_TOKEN: Final = "0-0-0"  # noqa: S105 - part of a name


@dataclass(frozen=True, slots=True)
class MetadataCompactionResult:
    """A compaction of the metadata table that is completed."""

    request_time: str
    completion_time: str
    file_groups: int


def compact_metadata(opened: Opened, deltas: int = DELTAS) -> MetadataCompactionResult | None:
    """Compacts the metadata table if so many delta commits were completed since the last time; None if there is nothing to do.

    A compaction that another process has planned, and perhaps not executed, is executed.
    """
    ledger = opened.ledger
    if not ledger.config.metadata_partitions:
        return None
    decider = ledger.clock.token()
    request_time = decide_metadata_plan(ledger, decider, lambda now, layout: plan_metadata(now, layout, deltas))
    if request_time is None:
        return None
    ledger.settled()  # the plan is on the timeline
    plan = load_metadata_plan(ledger.storage, request_time)
    bases = map_calls(ledger.storage, lambda one: _put_base(opened, one, request_time), plan.operations)
    completion = publish_metadata_compaction(ledger, decider, request_time, bases)
    opened.writing.remember(ledger)
    return MetadataCompactionResult(request_time, completion, len(bases))


def plan_metadata(now: Round, layout: MetadataLayout, deltas: int) -> CompactionPlan | None:
    """All file groups that have log files; None if too little was committed since the last compaction."""
    compacted = compacted_until(layout.timeline)
    since = [i for i in layout.timeline.writes if (i.completion_time or "") > compacted and i.action == "deltacommit"]
    opened = open_metadata_table(now.ledger.table, now.timeline()) if len(since) >= deltas else None
    if opened is None:
        return None
    slices = [found for partition in sorted(layout.groups) for found in load_slices(opened, partition)]
    operations = tuple(_operation(found) for found in slices if found is not None and found.logs)
    return CompactionPlan(operations) if operations else None


def _operation(found: FileSlice) -> CompactionOperation:
    names = tuple(log.name.rpartition("/")[2] for log in found.logs)
    base = None if found.base is None else found.base.name.rpartition("/")[2]
    metrics = {"TOTAL_LOG_FILES": float(len(names)), "TOTAL_LOG_FILES_SIZE": float(sum(log.size for log in found.logs))}
    return CompactionOperation(found.group.file_id, found.group.partition, found.barrier, names, base, metrics=metrics)


def load_metadata_plan(storage: Storage, request_time: str) -> CompactionPlan:
    """What a planned compaction of the metadata table is to do."""
    name = f"{TIMELINE}/{TimelineFileName(request_time, None, 'compaction', State.REQUESTED).format()}"
    return parse_compaction_plan(storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), f"{storage.url}/{name}")


def _put_base(opened: Opened, one: CompactionOperation, request_time: str) -> tuple[str, int]:
    """The name and size of the base file that the plan gives; every executor makes the same records under the same name (LEDGER, P9)."""
    storage, where = opened.ledger.storage, opened.ledger.storage.url
    folder = f"{FOLDER}/{one.partition_path}"
    sizes = {info.name.rpartition("/")[2]: info.size for info in storage.list_folder(folder)[0]}
    name = BaseFileName(one.file_id, _TOKEN, request_time, ".hfile").format()
    if any(_is_twin(other, name) for other in sizes):
        raise UnsupportedTable(
            f"The compaction {request_time} of the metadata table of {where} was begun by Apache Hudi: there is another base file of "
            f"{one.file_id}. Nothing was changed. Let Hudi finish it: write once with it.",
            path=where,
        )
    files = [(file, EVERYTHING) for file in _inputs(one, folder, sizes)]
    records = {_text(key, where): record for key, record in _merged(storage, one.partition_path, files).items()}
    size = _create(opened, f"{folder}/{name}", format_metadata_base(records, request_time))
    return f"{one.partition_path}/{name}", size


def _is_twin(other: str, name: str) -> bool:
    """Whether a file is another base file of the same file group and request time."""
    first, second = parse_data_file(other), parse_data_file(name)
    if not (isinstance(first, BaseFileName) and isinstance(second, BaseFileName)) or other == name:
        return False
    return (first.file_id, first.request_time) == (second.file_id, second.request_time)


def _inputs(one: CompactionOperation, folder: str, sizes: Mapping[str, int]) -> Iterator[BaseFile | LogFile]:
    """The base file, then the log files in the order of their request times, which is the order of merging."""
    base = [] if one.data_file_name is None else [one.data_file_name]
    for name in (*base, *sorted(one.delta_file_names)):
        parsed = parse_data_file(name)
        if parsed is None or name not in sizes:
            raise ObjectNotFound(
                f"{folder}/{name}, an input of a planned compaction, is not there: another process has completed the compaction, and the "
                "file was cleaned. Nothing was changed. Look again.",
                path=name,
            )
        kind = BaseFile if isinstance(parsed, BaseFileName) else LogFile
        yield kind(f"{folder}/{name}", parsed, sizes[name], "")  # type: ignore[arg-type]


def _merged(
    storage: Storage, partition: str, files: Sequence[tuple[BaseFile | LogFile, Selection]]
) -> Mapping[bytes, Record]:
    match partition:
        case "files":
            # A file that is gone waits in a log for older entries of it; in a base file there are none to come.
            found = merged_records(storage, files, Files)
            return {key: replace(record, gone=frozenset()) for key, record in found.items()}
        case "column_stats" | "partition_stats":
            return merged_records(storage, files, ColumnStats)
    raise UnsupportedTable(
        f"The metadata table of {storage.url} has the partition {partition!r:.80}, which lakebraid does not compact. Nothing was "
        "changed. Let Apache Hudi write once.",
        path=storage.url,
    )


def _text(key: bytes, where: str) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise damaged(f"The metadata table of {where}", f"it has the key {key[:60]!r}, which is no text") from None


def _create(opened: Opened, name: str, data: bytes) -> int:
    """The size of the file of this name, which is made now, or was by another executor of the same plan."""
    storage = opened.storage
    for _ in tries(opened.ledger.clock):
        try:
            storage.create(name, data)
        except OutcomeUnknown:
            continue  # the same under the same name again: it does not matter which create takes effect
        except ObjectExists:
            return storage.info(name).size
        else:
            return len(data)
    raise OutcomeUnknown(
        f"{storage.url} did not confirm {name}. Nothing is read of it; the table is as before. Try again when the store answers.",
        path=name,
    )

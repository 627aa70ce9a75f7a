# SPDX-License-Identifier: Apache-2.0
"""Creating a table: one decision, whose last file is hoodie.properties. So there is the whole table, or none."""

from __future__ import annotations

from lakebraid.clock import Clock
from lakebraid.errors import InvalidArgument
from lakebraid.format.names import State, TimelineFileName
from lakebraid.format.properties import format_properties
from lakebraid.format.timeline.commit import CommitMetadata, format_commit
from lakebraid.format.times import format_instant_time, next_instant_time
from lakebraid.model.creation.plan import TableSpec
from lakebraid.model.keys.buckets import bucket_file_id
from lakebraid.model.schema.avro_text import table_schema_text
from lakebraid.model.writable import FIXED_IDS
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.creating import check_vacant
from lakebraid.table.loading import PROPERTIES
from lakebraid.tasks.new_files import place_partition
from lakebraid.tasks.staged_file import StagedFile, write_stats
from lakebraid.tasks.writing.base_file import put_seeds
from lakebraid.txn.ledger.entries import LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Decision, Round
from lakebraid.txn.liveness.heartbeat import forget


def create_table(storage: Storage, clock: Clock, spec: TableSpec) -> None:
    """Makes the table with a first, empty commit, so that no later write is the first (LEDGER, H8).

    InvalidArgument if something lies there already; what another process makes at the same time wins whole or not.
    """
    check_vacant(storage)
    request_time = format_instant_time(clock.now_ms(), spec.config.zone)
    files: list[StagedFile] = []
    if not spec.config.partition_fields:
        place_partition(storage, request_time, "")
    # If this fails, nothing is removed: the decision may still land, or another creator has drawn the same time. Empty
    # files that belong to no table do no harm.
    if spec.seed_base:
        files = _seed(storage, spec, request_time)
    Ledger(TableAt(storage, spec.config, clock)).decide(
        clock.token(), lambda now: _creation(now, spec, request_time, files)
    )
    forget(storage, request_time)


def _creation(now: Round, spec: TableSpec, request_time: str, files: list[StagedFile]) -> Decision[None]:
    storage = now.ledger.storage
    if now.number > 1:
        raise InvalidArgument(
            f"Another process has just created the table at {storage.url}. It was left as it is. Open it instead, or "
            "pass exist_ok=True.",
            path=storage.url,
            exists=True,
        )
    completion, action = max(now.time(), next_instant_time(request_time)), spec.config.write_action
    extra = {} if spec.schema is None else {"schema": table_schema_text(spec.schema, spec.config.name)}
    metadata = CommitMetadata(write_stats=write_stats(files, request_time), extra=extra, operation="BULK_INSERT")
    name = TimelineFileName(request_time, completion, action, State.COMPLETED).format()
    pending = [TimelineFileName(request_time, None, action, s).format() for s in (State.REQUESTED, State.INFLIGHT)]
    properties = format_properties({**spec.properties, FIXED_IDS: str(spec.config.buckets or 0)})
    state = LedgerState(last=completion, schema_file=name if extra else None, is_fresh=True)
    files_to_appear = (*((b"", p) for p in pending), (format_commit(metadata), name), (properties, PROPERTIES))
    return Decision("create", state, files_to_appear, value=None)


def _seed(storage: Storage, spec: TableSpec, request_time: str) -> list[StagedFile]:
    """An empty base file for every bucket: Hudi's readers hide a bucket whose first write is pending (trap 1)."""
    groups = (("", bucket_file_id(bucket)) for bucket in range(spec.config.buckets or 0))
    return list(put_seeds(storage, request_time, spec.schema, groups))

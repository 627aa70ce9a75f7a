# SPDX-License-Identifier: Apache-2.0
"""Many writers on one Apache Hudi table from PySpark: none waits for another, none loses a row."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakebraid.errors import (
    AccessDenied,
    CommitRefused,
    CommitUnknown,
    CorruptFile,
    EnvironmentProblem,
    InvalidArgument,
    LakebraidError,
    NotATable,
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    RolledBack,
    SchemaConflict,
    SnapshotExpired,
    StorageError,
    UnsupportedTable,
    WriteConflict,
)

if TYPE_CHECKING:
    from lakebraid.api.altering import Alteration
    from lakebraid.api.by_options import read, write
    from lakebraid.api.changes import Changes
    from lakebraid.api.consumer import Consumer
    from lakebraid.api.outcome import WriteResult
    from lakebraid.api.services import Services
    from lakebraid.api.snapshot import Snapshot, SnapshotNotHeld
    from lakebraid.api.sql import sql
    from lakebraid.api.table import Table
    from lakebraid.api.transaction import Transaction
    from lakebraid.model.findings import Finding
    from lakebraid.model.instant import Instant
    from lakebraid.model.slicing import FileGroup, FileSlice
    from lakebraid.services.archiving import Archival
    from lakebraid.services.audit import Audit
    from lakebraid.services.cleaning import Cleaned
    from lakebraid.services.clustered import Clustered
    from lakebraid.services.compaction import Compacted
    from lakebraid.services.detail import Detail
    from lakebraid.services.log_compaction import LogCompacted
    from lakebraid.services.plans import Plan
    from lakebraid.services.runner import ServiceRound
    from lakebraid.services.savepoints import RestoreResult
    from lakebraid.services.status import Status
    from lakebraid.services.story import Story
    from lakebraid.source.format import register
    from lakebraid.spark.session import session
    from lakebraid.table.listing import TimelineListing
    from lakebraid.txn.rescue import Rescue
    from lakebraid.txn.savepoints import Savepoint

_HOMES = {
    "Alteration": "lakebraid.api.altering",
    "Archival": "lakebraid.services.archiving",
    "Audit": "lakebraid.services.audit",
    "Changes": "lakebraid.api.changes",
    "Cleaned": "lakebraid.services.cleaning",
    "Clustered": "lakebraid.services.clustered",
    "Compacted": "lakebraid.services.compaction",
    "Consumer": "lakebraid.api.consumer",
    "Detail": "lakebraid.services.detail",
    "FileGroup": "lakebraid.model.slicing",
    "FileSlice": "lakebraid.model.slicing",
    "Finding": "lakebraid.model.findings",
    "Instant": "lakebraid.model.instant",
    "LogCompacted": "lakebraid.services.log_compaction",
    "Plan": "lakebraid.services.plans",
    "Rescue": "lakebraid.txn.rescue",
    "RestoreResult": "lakebraid.services.savepoints",
    "Savepoint": "lakebraid.txn.savepoints",
    "ServiceRound": "lakebraid.services.runner",
    "Services": "lakebraid.api.services",
    "Snapshot": "lakebraid.api.snapshot",
    "SnapshotNotHeld": "lakebraid.api.snapshot",
    "Status": "lakebraid.services.status",
    "Story": "lakebraid.services.story",
    "Table": "lakebraid.api.table",
    "TimelineListing": "lakebraid.table.listing",
    "Transaction": "lakebraid.api.transaction",
    "WriteResult": "lakebraid.api.outcome",
    "read": "lakebraid.api.by_options",
    "register": "lakebraid.source.format",
    "session": "lakebraid.spark.session",
    "sql": "lakebraid.api.sql",
    "write": "lakebraid.api.by_options",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used: the command line starts at once, and nobody pays for Spark who does not use it.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        return import_module("importlib.metadata").version("lakebraid")
    raise AttributeError(f"module 'lakebraid' has no attribute {name!r}")


def __dir__() -> list[str]:
    # So that a notebook offers what is not loaded yet.
    return sorted({*globals(), *__all__})


__all__ = [
    "AccessDenied",
    "Alteration",
    "Archival",
    "Audit",
    "Changes",
    "Cleaned",
    "Clustered",
    "CommitRefused",
    "CommitUnknown",
    "Compacted",
    "Consumer",
    "CorruptFile",
    "Detail",
    "EnvironmentProblem",
    "FileGroup",
    "FileSlice",
    "Finding",
    "Instant",
    "InvalidArgument",
    "LakebraidError",
    "LogCompacted",
    "NotATable",
    "ObjectExists",
    "ObjectNotFound",
    "OutcomeUnknown",
    "Plan",
    "Rescue",
    "RestoreResult",
    "RolledBack",
    "Savepoint",
    "SchemaConflict",
    "ServiceRound",
    "Services",
    "Snapshot",
    "SnapshotExpired",
    "SnapshotNotHeld",
    "Status",
    "StorageError",
    "Story",
    "Table",
    "TimelineListing",
    "Transaction",
    "UnsupportedTable",
    "WriteConflict",
    "WriteResult",
    "read",
    "register",
    "session",
    "sql",
    "write",
]

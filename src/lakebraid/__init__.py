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
    from lakebraid.api.by_options import read, write
    from lakebraid.api.consumer import Consumer
    from lakebraid.api.services import Services
    from lakebraid.api.sql import sql
    from lakebraid.api.table import Table
    from lakebraid.api.writer import Writer
    from lakebraid.inspect.audit.findings import Finding
    from lakebraid.inspect.audit.run import Audit
    from lakebraid.inspect.detail import Detail
    from lakebraid.inspect.status import Status
    from lakebraid.inspect.story import Story
    from lakebraid.model.timeline.instant import Instant
    from lakebraid.model.timeline.slicing import FileGroup, FileSlice
    from lakebraid.reading.changes import Changes
    from lakebraid.reading.snapshot import Snapshot, SnapshotNotHeld
    from lakebraid.services.adoption.result import Adoption
    from lakebraid.services.archiving import ArchiveResult
    from lakebraid.services.cleaning import CleanResult
    from lakebraid.services.merging.clustering import ClusteringResult
    from lakebraid.services.merging.compaction import CompactionResult
    from lakebraid.services.merging.log_compaction import LogCompactionResult
    from lakebraid.services.plans import Plan
    from lakebraid.services.runner import ServiceRound
    from lakebraid.services.savepoints import RestoreResult
    from lakebraid.source.registering import register
    from lakebraid.spark.start.session import session
    from lakebraid.storage.tries import StoreRetries
    from lakebraid.table.listing import TimelineListing
    from lakebraid.txn.actions.rescue import RollbackResult
    from lakebraid.txn.actions.savepoints import Savepoint
    from lakebraid.writing.operations.alter import Alteration
    from lakebraid.writing.result import WriteResult
    from lakebraid.writing.transaction import Transaction

_HOMES = {
    "Adoption": "lakebraid.services.adoption.result",
    "Alteration": "lakebraid.writing.operations.alter",
    "ArchiveResult": "lakebraid.services.archiving",
    "Audit": "lakebraid.inspect.audit.run",
    "Changes": "lakebraid.reading.changes",
    "CleanResult": "lakebraid.services.cleaning",
    "ClusteringResult": "lakebraid.services.merging.clustering",
    "CompactionResult": "lakebraid.services.merging.compaction",
    "Consumer": "lakebraid.api.consumer",
    "Detail": "lakebraid.inspect.detail",
    "FileGroup": "lakebraid.model.timeline.slicing",
    "FileSlice": "lakebraid.model.timeline.slicing",
    "Finding": "lakebraid.inspect.audit.findings",
    "Instant": "lakebraid.model.timeline.instant",
    "LogCompactionResult": "lakebraid.services.merging.log_compaction",
    "Plan": "lakebraid.services.plans",
    "RestoreResult": "lakebraid.services.savepoints",
    "RollbackResult": "lakebraid.txn.actions.rescue",
    "Savepoint": "lakebraid.txn.actions.savepoints",
    "ServiceRound": "lakebraid.services.runner",
    "Services": "lakebraid.api.services",
    "Snapshot": "lakebraid.reading.snapshot",
    "SnapshotNotHeld": "lakebraid.reading.snapshot",
    "Status": "lakebraid.inspect.status",
    "StoreRetries": "lakebraid.storage.tries",
    "Story": "lakebraid.inspect.story",
    "Table": "lakebraid.api.table",
    "TimelineListing": "lakebraid.table.listing",
    "Transaction": "lakebraid.writing.transaction",
    "WriteResult": "lakebraid.writing.result",
    "Writer": "lakebraid.api.writer",
    "read": "lakebraid.api.by_options",
    "register": "lakebraid.source.registering",
    "session": "lakebraid.spark.start.session",
    "sql": "lakebraid.api.sql",
    "write": "lakebraid.api.by_options",
}
_RENAMED = {
    "Archival": "ArchiveResult",
    "Cleaned": "CleanResult",
    "Clustered": "ClusteringResult",
    "Compacted": "CompactionResult",
    "LogCompacted": "LogCompactionResult",
    "Rescue": "RollbackResult",
}
"""Names that were here once: they still lead to the classes, with a DeprecationWarning."""


def __getattr__(name: str) -> Any:
    # Loaded when first used: the command line starts at once, and Spark is loaded only by programs that use it.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _RENAMED:
        told = f"lakebraid.{name} is called lakebraid.{_RENAMED[name]} now; the old name will go."
        import_module("warnings").warn(told, DeprecationWarning, stacklevel=2)
        return __getattr__(_RENAMED[name])
    if name == "__version__":
        return import_module("importlib.metadata").version("lakebraid")
    raise AttributeError(f"module 'lakebraid' has no attribute {name!r}")


def __dir__() -> list[str]:
    # So that a notebook offers what is not loaded yet.
    return sorted({*globals(), *__all__})


__all__ = [
    "AccessDenied",
    "Adoption",
    "Alteration",
    "ArchiveResult",
    "Audit",
    "Changes",
    "CleanResult",
    "ClusteringResult",
    "CommitRefused",
    "CommitUnknown",
    "CompactionResult",
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
    "LogCompactionResult",
    "NotATable",
    "ObjectExists",
    "ObjectNotFound",
    "OutcomeUnknown",
    "Plan",
    "RestoreResult",
    "RollbackResult",
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
    "StoreRetries",
    "Story",
    "Table",
    "TimelineListing",
    "Transaction",
    "UnsupportedTable",
    "WriteConflict",
    "WriteResult",
    "Writer",
    "read",
    "register",
    "session",
    "sql",
    "write",
]

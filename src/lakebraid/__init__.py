# SPDX-License-Identifier: Apache-2.0
"""Many writers on one Apache Hudi table from PySpark: none waits for another, none loses a row."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakebraid.errors import (
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
    from lakebraid.api.changes import Changes
    from lakebraid.api.snapshot import Snapshot
    from lakebraid.api.table import Table
    from lakebraid.api.transaction import Transaction, WriteResult
    from lakebraid.source.format import register
    from lakebraid.spark.session import session

_HOMES = {
    "Changes": "lakebraid.api.changes",
    "Snapshot": "lakebraid.api.snapshot",
    "Table": "lakebraid.api.table",
    "Transaction": "lakebraid.api.transaction",
    "WriteResult": "lakebraid.api.transaction",
    "read": "lakebraid.api.by_options",
    "register": "lakebraid.source.format",
    "session": "lakebraid.spark.session",
    "write": "lakebraid.api.by_options",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used: the command line starts at once, and nobody pays for Spark who does not use it.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        return import_module("importlib.metadata").version("lakebraid")
    raise AttributeError(f"module 'lakebraid' has no attribute {name!r}")


__all__ = [
    "Changes",
    "CommitRefused",
    "CommitUnknown",
    "CorruptFile",
    "EnvironmentProblem",
    "InvalidArgument",
    "LakebraidError",
    "NotATable",
    "ObjectExists",
    "ObjectNotFound",
    "OutcomeUnknown",
    "RolledBack",
    "SchemaConflict",
    "Snapshot",
    "SnapshotExpired",
    "StorageError",
    "Table",
    "Transaction",
    "UnsupportedTable",
    "WriteConflict",
    "WriteResult",
    "read",
    "register",
    "session",
    "write",
]

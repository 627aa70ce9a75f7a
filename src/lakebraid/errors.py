# SPDX-License-Identifier: Apache-2.0
"""Everything lakebraid raises on purpose.

    LakebraidError
    ├── InvalidArgument        the caller asked for something that makes no sense
    ├── EnvironmentProblem     Java, Spark or a package is missing or does not fit
    ├── NotATable              nothing, or something else, is at that path
    ├── UnsupportedTable       a real table that uses a feature we refuse, by name
    ├── CorruptFile            bytes on storage that break the format or a limit
    ├── SnapshotExpired        that version was cleaned away
    ├── StorageError           the store said no, or said nothing
    │   ├── AccessDenied       this user or these credentials may not do that
    │   ├── ObjectNotFound
    │   ├── ObjectExists
    │   └── OutcomeUnknown     the call may or may not have taken effect
    │       └── DecisionUnknown      the same of a decision of the ledger
    ├── CommitRefused          certainly nothing visible
    │   ├── WriteConflict
    │   │   └── ClusteringYielded    a clustering gave way to a write
    │   ├── SchemaConflict
    │   ├── RolledBack
    │   ├── BatchRepeated            that batch of a stream is published already
    │   ├── ClaimLost                another process executes the plan, or has done so
    │   └── RestoreUnfinished        a restore must be finished before anything begins
    └── CommitUnknown          perhaps visible; ask `Table.status(instant)`

Those further to the right concern callers only as what they are a kind of: `lakebraid` exports the others.

A message says what happened, to what, whether data is safe, and what to do. The facts in it are fields too
(``error.facts["path"]`` or ``error.path``), so that a program need not parse prose. Secrets never go in.
"""

from __future__ import annotations

import re
from typing import Any, Final

_STEERING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that would steer a terminal or could not be printed; names and values out of files end up in messages."""

_MESSAGE_CHARACTERS_MAX: Final = 2000
"""Of longer messages the beginning and the end are shown; a name out of a file may have a million characters."""


class LakebraidError(Exception):
    """The root of all errors raised on purpose; its facts are readable as attributes."""

    def __init__(self, message: str, **facts: Any) -> None:
        if len(message) > _MESSAGE_CHARACTERS_MAX:
            message = f"{message[: _MESSAGE_CHARACTERS_MAX // 2]} … {message[-_MESSAGE_CHARACTERS_MAX // 2 :]}"
        message = _STEERING.sub(lambda found: ascii(found[0])[1:-1], message)
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        # Only called for names that are not ordinary attributes; `facts` itself is absent while unpickling.
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders on Spark; the default would drop the facts.
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(kind: type[LakebraidError], message: str, facts: dict[str, Any]) -> LakebraidError:
    return kind(message, **facts)


class InvalidArgument(LakebraidError):
    """What the caller asked for makes no sense; nothing was done."""


class EnvironmentProblem(LakebraidError):
    """Java, Spark or a package is missing or does not fit; `lakebraid doctor` tells more."""


class NotATable(LakebraidError):
    """There is no Hudi table at that path."""


class UnsupportedTable(LakebraidError):
    """The table is real but uses a feature that is refused by name, before any data is read."""


class CorruptFile(LakebraidError):
    """Bytes on storage break the format or exceed a limit; nothing was guessed."""


class SnapshotExpired(LakebraidError):
    """The asked-for version was cleaned away."""


class StorageError(LakebraidError):
    """The store refused a call or could not be reached."""


class AccessDenied(StorageError):
    """This user, or these credentials, may not do that; nothing was changed by it."""


class ObjectNotFound(StorageError):
    """No object has that name."""


class ObjectExists(StorageError):
    """An object of that name exists already; nothing was changed."""


class OutcomeUnknown(StorageError):
    """The call may or may not have taken effect, now or later."""


class DecisionUnknown(OutcomeUnknown):
    """A decision may or may not have been made; ask again later, and delete nothing."""


class CommitRefused(LakebraidError):
    """Certainly nothing of the write is visible, now or later."""


class WriteConflict(CommitRefused):
    """Another writer changed the same file groups first."""


class ClusteringYielded(WriteConflict):
    """A clustering gave way to a write; its plan is withdrawn, and nothing was changed."""


class SchemaConflict(CommitRefused):
    """Another writer changed the schema in a way that does not fit."""


class RolledBack(CommitRefused):
    """The write was rolled back, by its owner or after its heartbeat expired."""


class BatchRepeated(CommitRefused):
    """The batch is published already; nothing of this attempt is visible, now or later, and nothing is missing."""


class ClaimLost(CommitRefused):
    """Another executor has the plan now, or it is done; nothing of this attempt is visible."""


class RestoreUnfinished(CommitRefused):
    """A restore is decided and not done; nothing was begun. Finish it, then begin."""


class CommitUnknown(LakebraidError):
    """The commit may or may not be visible; nothing may be removed before looking."""

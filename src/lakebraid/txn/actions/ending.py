# SPDX-License-Identifier: Apache-2.0
"""How a write ends: published, or refused and taken back before anybody is told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from lakebraid.errors import CommitUnknown, LakebraidError, RolledBack, StorageError
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.txn.actions import write as operations
from lakebraid.txn.actions.batches import BatchRepeated
from lakebraid.txn.actions.rollback import finish_rollback, roll_back, take_back
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.refusals import refused


def publish_or_withdraw(
    ledger: Ledger, txn: str, start: str, writer: str, metadata: Callable[[Round], CommitMetadata]
) -> str:
    """The completion time of the write. Whatever refuses it is raised after it was taken back."""
    try:
        return operations.publish(ledger, txn, start, metadata)
    except (RolledBack, CommitUnknown):
        raise
    except StorageError:
        # Nothing was decided, and nobody else publishes this write: all that is left to do is to clear up.
        with contextlib.suppress(StorageError):
            roll_back(ledger, txn, start)
        raise
    except BatchRepeated as error:
        with contextlib.suppress(RolledBack):  # whoever took it back meanwhile has done what is to be done
            withdraw(ledger, txn, start, refused(error, writer))
        raise
    except LakebraidError as error:
        completion = withdraw(ledger, txn, start, refused(error, writer))
        if completion is None:
            raise
        return completion


def withdraw(ledger: Ledger, txn: str, start: str, story: str) -> str | None:
    """Takes a refused write back before anybody is told, so that no request of ours that is still on its way can land
    (LEDGER, H12). If one has landed, that is the end of it: its completion time.
    """
    try:
        rollback = take_back(ledger, txn, start, story=story)
        if rollback is None:
            return operations.completion(ledger, start)
    except StorageError as error:
        raise operations.unknown(ledger, start) from error
    with contextlib.suppress(StorageError):  # it is refused; others can remove its files, too
        finish_rollback(ledger, txn, rollback)
    return None

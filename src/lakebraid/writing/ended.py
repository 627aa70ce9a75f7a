# SPDX-License-Identifier: Apache-2.0
"""What whoever goes on with a transaction that cannot go on is told."""

from __future__ import annotations

from lakebraid.errors import InvalidArgument, RolledBack


def over(end: str, what: str) -> InvalidArgument:
    """It has ended so already, whatever is wanted of it now."""
    return InvalidArgument(f"This transaction was {end} already and cannot {what}. Nothing was changed. Begin another.")


def incomplete(instant: str) -> InvalidArgument:
    """One of its writes failed."""
    return InvalidArgument(
        f"A write of the transaction {instant} failed, so it cannot be committed: part of its rows may be missing. Nothing "
        "of it is visible. Abort it, and begin another."
    )


def taken_away(instant: str, url: str) -> RolledBack:
    """Another process has rolled it back."""
    return RolledBack(
        f"The write {instant} of {url} was rolled back by another process, which saw no heartbeat for too long. Nothing of "
        "it is visible, now or later. Write again.",
        instant=instant,
    )

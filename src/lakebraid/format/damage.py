# SPDX-License-Identifier: Apache-2.0
"""One wording for bytes that break the format."""

from __future__ import annotations

from lakebraid.errors import CorruptFile


def damaged(where: str, reason: str) -> CorruptFile:
    """The error to raise for `where`, whose bytes cannot be taken at their word because of `reason`."""
    return CorruptFile(
        f"{where} cannot be read: {reason}. Nothing was guessed and nothing was changed. "
        "Read it again if a writer may still be at work on it, else bring the file back from a copy; "
        "`lakebraid doctor` looks over the whole table.",
        path=where,
        reason=reason,
    )

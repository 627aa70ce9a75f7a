# SPDX-License-Identifier: Apache-2.0
"""What a decision still has to do once its entry is created, done while its caller goes on.

An entry counts only if a look above it finds no floor (LEDGER, H2); then its files are copied onto the timeline. Where calls
take long, a write that has begun so announces its data files beside the look, and puts them beside the copies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from lakebraid.errors import StorageError
from lakebraid.storage.parallel import Behind
from lakebraid.storage.protocol import Storage


class Concluding:
    """An entry that is looked at behind the caller's back, then applied there."""

    def __init__(self, storage: Storage, counts: Callable[[], bool], apply: Callable[[], object]) -> None:
        self._storage, self._apply = storage, apply
        self._counted = Behind(storage, counts)
        self._applied: Behind[object] | None = None

    def counts(self) -> bool:
        """Whether the entry means something; StorageError if that cannot be told. From then on it is being applied."""
        if not self._counted.result():
            return False
        if self._applied is None:
            self._applied = Behind(self._storage, self._apply)
        return True

    def end(self) -> None:
        """Returns when nothing goes on any more. What failed, the next decision does again: it looks anew, and applies it."""
        with contextlib.suppress(StorageError):
            if self.counts() and self._applied is not None:
                self._applied.result()

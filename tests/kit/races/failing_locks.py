# SPDX-License-Identifier: Apache-2.0
"""A store that refuses calls, or loses their answers, while a lock is taken or given back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakebraid.errors import OutcomeUnknown, StorageError
from lakebraid.storage import MemoryStorage


class Failing(MemoryStorage):
    """Says no to, or loses the answers of, some calls."""

    failures: dict[str, int]

    def __init__(self, **failures: int) -> None:
        super().__init__()
        object.__setattr__(self, "failures", failures)

    def _fails(self, call: str) -> bool:
        self.failures[call] = self.failures.get(call, 0) - 1
        return self.failures[call] >= 0

    def delete(self, names: Iterable[str]) -> None:
        if self._fails("delete"):
            raise StorageError("429")
        super().delete(names)

    def create(self, name: str, data: bytes) -> None:
        super().create(name, data)
        if self._fails("create"):
            raise OutcomeUnknown("no answer")

    def replace_version(self, name: str, data: bytes, version: Any) -> Any:
        if self._fails("refuse"):
            raise StorageError("429")
        mark = super().replace_version(name, data, version)
        if self._fails("replace"):
            raise OutcomeUnknown("no answer")
        return mark

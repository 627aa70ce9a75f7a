# SPDX-License-Identifier: Apache-2.0
"""One object as a file that pyarrow can read."""

from __future__ import annotations

import os
from typing import Protocol

from lakebraid.storage.parallel import waiting


class _Ranges(Protocol):
    def read_range(self, name: str, start: int, length: int) -> bytes: ...


class ObjectFile:
    """Reads and seeks like a file. One read is one request, of exactly the bytes asked for.

    (The client library's own reader lacks what pyarrow asks of a file, and fetches a whole MiB after every seek.)
    """

    def __init__(self, storage: _Ranges, name: str, size: int) -> None:
        self._storage = storage
        self._name = name
        self._size = size
        self._position = 0
        self.closed = False

    def read(self, length: int | None = -1) -> bytes:
        remaining = max(0, self._size - self._position)
        length = remaining if length is None or length < 0 else min(length, remaining)
        with waiting():
            data = self._storage.read_range(self._name, self._position, length) if length else b""
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

# SPDX-License-Identifier: Apache-2.0
"""What a store must do: bytes under names, nothing more. The demands of docs/spec/ledger.md are in the docstrings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object: its name relative to the table, its size and when it was last written."""

    name: str
    size: int
    modified_ms: int
    version: str = field(default="", compare=False)
    """What tells these bytes from all others that the name ever had, if the store says so in a listing."""


FolderListing: TypeAlias = tuple[list[ObjectInfo], list[str]]
"""The objects directly in a folder, and the names of its sub-folders."""
Names: TypeAlias = list[str]


class Storage(Protocol):
    """Objects below one root. Names are relative, use '/', and can never leave the root.

    Any call may raise StorageError; a call that changes something may raise OutcomeUnknown, and its effect may then
    come later.
    """

    @property
    def url(self) -> str:
        """The root, as text that `open_storage` takes again; without secrets."""

    def read(self, name: str, size_max: int) -> bytes:
        """The whole object. ObjectNotFound if absent; CorruptFile if larger than `size_max` (checked before reading)."""

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Exactly the bytes [start, start + length) that exist; fewer only at the end of the object."""

    def info(self, name: str) -> ObjectInfo:
        """Size and time of one object; ObjectNotFound if absent."""

    def list(self, prefix: str = "", *, after: str = "") -> list[ObjectInfo]:
        """All objects whose name begins with the folder `prefix` (recursively), sorted by name, greater than `after`.

        At least what existed during the whole call; the moments of its parts may differ. A missing folder is empty.
        """

    def list_folder(self, folder: str = "") -> FolderListing:
        """The objects directly in `folder`, and the names (relative to the root) of its sub-folders; both sorted."""

    def list_names(self, folder: str) -> Names:
        """The names of the objects directly in `folder`, without it, in any order: for those who need no sizes or times."""

    def create(self, name: str, data: bytes) -> None:
        """Makes the object only if absent, whole or not at all, durable when acknowledged. ObjectExists if present."""

    def replace(self, name: str, data: bytes) -> None:
        """Writes the object whether or not it exists, whole or not at all. Only for heartbeats and the like."""

    def copy(self, source: str, target: str) -> None:
        """One request, judged where the data is: makes `target` only if `source` exists at that moment.

        ObjectNotFound if the source is missing; an existing `target` is success (names are never reused).
        """

    def delete(self, names: Iterable[str]) -> None:
        """Removes the objects; absent ones are fine."""

    def open_input(self, name: str) -> Any:
        """A seekable `pyarrow.NativeFile` (or file-like for pyarrow) over the object, for Parquet."""

    def native_path(self, name: str) -> str | None:
        """What `spark.read.parquet` must be given to read this object, already escaped; None if Spark cannot address
        it and it must be read through `open_input`.
        """


class ListedVersions(Storage, Protocol):
    """A store whose listings tell versions of objects, so that what was read of one version need not be read again."""

    @property
    def reader(self) -> str:
        """Whose eyes it reads with: what one of them was given is no answer for another."""

    def read_listed(self, name: str, size_max: int) -> tuple[bytes, str]:
        """As `read`, and the version of just these bytes, as `ObjectInfo.version` has it."""


@runtime_checkable
class VersionedStorage(Storage, Protocol):
    """A store that can also change an object only if no other process has: for Hudi's lock file, and nothing else."""

    def read_version(self, name: str, size_max: int) -> tuple[bytes, Any]:
        """The whole object and a mark of this version of it, for `replace_version`. ObjectNotFound if absent."""

    def replace_version(self, name: str, data: bytes, version: Any) -> Any | None:
        """Writes the object only if it still is that version: the mark of the new one, or None if it is another, or gone.

        Sent once, never repeated: after OutcomeUnknown look whose bytes are there.
        """

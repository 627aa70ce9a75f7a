# SPDX-License-Identifier: Apache-2.0
"""A folder in an object store: S3, Google Cloud Storage, Azure and what speaks like them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from operator import attrgetter
from typing import Any, TypeVar

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, PreconditionError

from lakebraid.clock import Clock, SystemClock
from lakebraid.errors import ObjectExists, ObjectNotFound, StorageError
from lakebraid.limits import STORE_CALLS_AT_ONCE_MAX, STORE_TRIES_MAX, STORE_TRIES_UNREACHED_MAX
from lakebraid.storage.checks import check_name, check_names, check_range, check_size, folder_name
from lakebraid.storage.objects.clients import ObjectClients
from lakebraid.storage.objects.failures import CLIENT_ERRORS, is_throttled, may_pass, object_failure, status_and_code
from lakebraid.storage.objects.file import ObjectFile
from lakebraid.storage.objects.url import parse_object_url
from lakebraid.storage.protocol import FolderListing, Names, ObjectInfo
from lakebraid.storage.tries import Patience, note_throttled

T = TypeVar("T")

_BUSY = 409
"""Another request for the same name is under way (S3), or for its folder (gateways to a file system)."""


class ObjectStorage:
    """Objects below one folder of a bucket. Made from URL and options, so it can travel; connects when first used."""

    __slots__ = ("_clients", "_options", "_url", "reader", "retry_clock")

    calls_at_once = STORE_CALLS_AT_ONCE_MAX
    """Each takes tens of milliseconds, and none waits for another: see `storage.parallel`."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None, clock: Clock | None = None) -> None:
        self._url = parse_object_url(url)
        self.retry_clock = clock or SystemClock()
        """By which it waits before a request is sent again."""
        self._options = dict(options or {})
        self.reader = blake2b(repr(sorted(self._options.items())).encode(), digest_size=16).hexdigest()
        """A digest of the options, credentials among them."""
        self._clients = ObjectClients(self._url.client_url, self._options)

    @property
    def url(self) -> str:
        return self._url.text

    def __repr__(self) -> str:
        return f"ObjectStorage({self.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStorage, (self.url, self._options, self.retry_clock)

    def read(self, name: str, size_max: int) -> bytes:
        return self._whole(name, size_max)[0]

    def read_version(self, name: str, size_max: int) -> tuple[bytes, Any]:
        data, meta = self._whole(name, size_max)
        return data, _version(meta)

    def read_listed(self, name: str, size_max: int) -> tuple[bytes, str]:
        data, meta = self._whole(name, size_max)
        return data, _listed_version(meta)

    def _whole(self, name: str, size_max: int) -> tuple[bytes, Any]:
        key = self._key(name)

        def fetch(client: Any) -> tuple[Any, int, bytes]:
            # The size arrives with the header of the answer; the body is fetched only by `bytes()`.
            answer = obstore.get(client, key)
            size = answer.meta["size"]
            check_size(self._where(name), size, size_max)
            return answer.meta, size, bytes(answer.bytes())

        try:
            meta, size, data = self._fetched(fetch)
        except CLIENT_ERRORS as error:
            raise self._read_failure(error, name) from None
        if len(data) != size:
            raise StorageError(
                f"Reading {self._where(name)} gave {len(data):,} of {size:,} bytes. Nothing was changed. Try again."
            )
        return data, meta

    def read_range(self, name: str, start: int, length: int) -> bytes:
        check_range(start, length)
        key = self._key(name)
        if length == 0:
            self.info(name)
            return b""
        try:
            return bytes(self._fetched(lambda client: obstore.get_range(client, key, start=start, length=length)))
        except CLIENT_ERRORS as error:
            # Stores refuse a range that begins at or after the end (416), each in its own words.
            if not (isinstance(error, FileNotFoundError) or may_pass(error)) and start >= self.info(name).size:
                return b""
            raise self._read_failure(error, name) from None

    def info(self, name: str) -> ObjectInfo:
        key = self._key(name)
        try:
            return self._info(self._sent(lambda client: obstore.head(client, key)))
        except CLIENT_ERRORS as error:
            raise self._read_failure(error, name) from None

    def list(self, prefix: str = "", *, after: str = "") -> list[ObjectInfo]:
        folder = self._url.key(folder_name(prefix))
        offset = self._url.key(after) if after else None
        try:
            metas = self._fetched(lambda client: obstore.list(client, folder or None, offset=offset).collect())
        except CLIENT_ERRORS as error:
            raise self._list_failure(error, folder) from None
        found = [self._info(meta) for meta in metas if meta["path"] != folder]
        found = [info for info in _without_markers(found) if info.name > after]
        return sorted(found, key=attrgetter("name"))

    def list_folder(self, folder: str = "") -> FolderListing:
        """Folders are what the names in between imply; Hadoop's markers of folders (empty objects) are not shown."""
        key = self._url.key(folder_name(folder))
        try:
            answer = self._fetched(lambda client: obstore.list_with_delimiter(client, key or None))
        except CLIENT_ERRORS as error:
            raise self._list_failure(error, key) from None
        objects = [self._info(meta) for meta in answer["objects"] if meta["path"] != key]
        folders = [self._url.name(path.rstrip("/")) for path in answer["common_prefixes"]]
        return sorted(objects, key=attrgetter("name")), sorted(folders)

    def list_names(self, folder: str) -> Names:
        return [info.name.rpartition("/")[2] for info in self.list_folder(folder)[0]]

    def create(self, name: str, data: bytes) -> None:
        """One conditional put, never repeated: after a lost answer the repetition would meet our own object and call
        it another process's. ObjectExists therefore means what it says, and a lost answer is OutcomeUnknown.
        """
        key = self._key(name)
        try:
            self._sent(lambda client: obstore.put(client, key, data, mode="create"), most=1)
        except AlreadyExistsError as error:
            if not _is_there(error):
                raise object_failure(error, "Creating", self._where(name), changing=True) from None
            raise ObjectExists(f"{self._where(name)} exists already. Nothing was changed.", name=name) from None
        except CLIENT_ERRORS as error:
            raise object_failure(error, "Creating", self._where(name), changing=True) from None

    def replace(self, name: str, data: bytes) -> None:
        key = self._key(name)
        try:
            self._sent(lambda client: obstore.put(client, key, data, mode="overwrite", use_multipart=False))
        except CLIENT_ERRORS as error:
            raise object_failure(error, "Writing", self._where(name), changing=True) from None

    def replace_version(self, name: str, data: bytes, version: Any) -> Any | None:
        key = self._key(name)
        try:
            answer = self._sent(lambda client: obstore.put(client, key, data, mode=version), most=1)
        except (PreconditionError, FileNotFoundError) as error:
            if status_and_code(error)[0] == _BUSY:
                raise object_failure(error, "Writing", self._where(name), changing=True) from None
            return None
        except CLIENT_ERRORS as error:
            raise object_failure(error, "Writing", self._where(name), changing=True) from None
        return _version(answer)

    def copy(self, source: str, target: str) -> None:
        """One CopyObject request (or what GCS and Azure call it), which overwrites an equal target.

        Not the client's copy-if-absent: on S3 that is a multipart upload, which can finish after its source is gone.
        """
        source_key, target_key = self._key(source), self._key(target)
        try:
            self._sent(lambda client: obstore.copy(client, source_key, target_key, overwrite=True))
        except CLIENT_ERRORS as error:
            if isinstance(error, FileNotFoundError):
                raise self._absent(error, source) from None
            raise object_failure(error, "Copying to", self._where(target), changing=True) from None

    def delete(self, names: Iterable[str]) -> None:
        doomed = check_names(names)
        try:
            if doomed:
                keys = [self._url.key(name) for name in doomed]
                self._sent(lambda client: obstore.delete(client, keys))
        except FileNotFoundError:
            # GCS and Azure complain about an absent object and may have stopped there.
            self._delete_one_by_one(doomed)
        except CLIENT_ERRORS as error:
            what = f"{len(doomed):,} objects below {self.url}"
            raise object_failure(error, "Deleting", what, changing=True) from None

    def open_input(self, name: str) -> Any:
        """A file for pyarrow which asks for just the bytes it is asked for; open Parquet with `pre_buffer=True` to have
        neighbouring columns fetched in one request.
        """
        return pa.PythonFile(ObjectFile(self, name, self.info(name).size), mode="r")

    def native_path(self, name: str) -> str | None:
        check_name(name)
        return self._url.spark_address(name, self._options)

    def _delete_one_by_one(self, names: Iterable[str]) -> None:
        for name in names:
            key = self._key(name)
            try:
                self._sent(lambda client, key=key: obstore.delete(client, key))  # type: ignore[misc]
            except FileNotFoundError:
                continue
            except CLIENT_ERRORS as error:
                raise object_failure(error, "Deleting", self._where(name), changing=True) from None

    def _fetched(self, fetch: Callable[[Any], T]) -> T:
        """What a read gives; once it has failed, by the client that goes on where a page or a body broke off."""
        return self._sent(fetch, resumes=True)

    def _sent(self, request: Callable[[Any], T], *, most: int = STORE_TRIES_MAX, resumes: bool = False) -> T:
        """The answer to a request, which is sent `most` times, after waits, as long as the store may yet take it."""
        clients, patience = self._clients, Patience(self.retry_clock, most)
        while True:
            try:
                answer = request(clients.resuming if resumes and patience.tries > 1 else clients.once)
            except CLIENT_ERRORS as error:
                if is_throttled(error):
                    note_throttled()
                clients.has_answered |= status_and_code(error)[0] > 0
                is_unreached = patience.tries >= STORE_TRIES_UNREACHED_MAX and not clients.has_answered
                if is_unreached or not may_pass(error) or not patience.wait():
                    raise
            else:
                clients.has_answered = True
                return answer

    def _key(self, name: str) -> str:
        check_name(name)
        return self._url.key(name)

    def _where(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _info(self, meta: Any) -> ObjectInfo:
        modified_ms = round(meta["last_modified"].timestamp() * 1000)
        return ObjectInfo(self._url.name(meta["path"]), meta["size"], modified_ms, _listed_version(meta))

    def _read_failure(self, error: Exception, name: str) -> StorageError:
        if isinstance(error, FileNotFoundError):
            return self._absent(error, name)
        return object_failure(error, "Reading", self._where(name), changing=False)

    def _list_failure(self, error: Exception, folder: str) -> StorageError:
        where = f"{self._url.scheme}://{self._url.authority}/{folder}"
        return object_failure(error, "Listing", where, changing=False)

    def _absent(self, error: Exception, name: str) -> StorageError:
        if status_and_code(error)[1] in ("NoSuchBucket", "ContainerNotFound"):
            return object_failure(error, "Reaching", self._where(name), changing=False)
        return ObjectNotFound(f"{self._where(name)} does not exist. Nothing was changed.", name=name)


def _is_there(error: AlreadyExistsError) -> bool:
    """Whether a refused create says that the object exists. Of the answers 409 only some do (Azure's): the others tell
    of something under way that may fail yet, and a caller that takes them for "exists" counts on a file that was never written.
    """
    status, code = status_and_code(error)
    return status != _BUSY or code.endswith("AlreadyExists")


def _version(meta: Any) -> dict[str, str]:
    """S3 and Azure tell versions by their tag, Google by a number."""
    return {key: meta[key] for key in ("e_tag", "version") if meta.get(key) is not None}


def _listed_version(meta: Any) -> str:
    """Tag and time; empty if the tag is missing, or a weak one, which does not stand for the very bytes.

    The time is for gateways that call all objects alike. In whole seconds: an answer's header has no smaller parts. Azure
    quotes tags in headers, and not in listings.
    """
    tag = (meta.get("e_tag") or "W/").strip('"')
    return "" if tag.startswith("W/") else f"{tag} {int(meta['last_modified'].timestamp())}"


def _without_markers(found: list[ObjectInfo]) -> list[ObjectInfo]:
    """Without the empty objects that stand for folders which have something in them."""
    folders = set()
    for info in found:
        folder = info.name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return [info for info in found if info.size or info.name not in folders]

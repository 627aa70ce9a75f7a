# SPDX-License-Identifier: Apache-2.0
"""From the text a user gives to a store."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from lakebraid.errors import InvalidArgument
from lakebraid.storage.local import LocalStorage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.storage.objects.store import ObjectStorage
from lakebraid.storage.objects.url import OBJECT_SCHEMES
from lakebraid.storage.protocol import Storage

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)|(file):", re.IGNORECASE)

_memories: Final[dict[str, MemoryStorage]] = {}
_memories_lock: Final = threading.Lock()


def open_storage(url: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Storage:
    """The store at a local path or URL; nothing is read or connected to yet.

    `options` go to the object store's client (obstore's names: `endpoint`, `region`, `access_key_id`, `allow_http` …);
    what they do not say comes from the environment. They are never shown, so secrets belong there and not in the URL.
    A `file:` URL is percent-decoded, as `pathlib.Path.as_uri` makes it; paths and all other URLs are taken literally,
    as Spark takes them.

    >>> open_storage("s3://bucket/table/").url
    's3://bucket/table'
    >>> open_storage("hdfs://host/table")
    Traceback (most recent call last):
    lakebraid.errors.InvalidArgument: 'hdfs:' is no store that is known here. ...
    """
    text = os.fspath(url)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgument("A path or URL must be non-empty text without NUL characters. Nothing was opened.")
    found = _SCHEME.match(text)
    scheme = (found.group(1) or found.group(2)).lower() if found else ""
    if scheme in OBJECT_SCHEMES:
        return ObjectStorage(text, options)
    _check_no_options(scheme, options)
    match scheme:
        case "":
            return LocalStorage(os.path.expanduser(text))  # noqa: PTH111 - '~nobody' stays as it is instead of raising
        case "file":
            return LocalStorage(_path_of_file_url(text))
        case "memory":
            return _memory(text)
        case _:
            raise _unknown_scheme(scheme)


def _path_of_file_url(url: str) -> str:
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path if host in ("", "localhost") else ""
    path = unquote(rest, errors="surrogateescape")
    if not path.startswith("/") or "\0" in path:
        raise InvalidArgument(
            "A file: URL must hold an absolute path of this machine, as in file:///data/table. Nothing was opened."
        )
    return path


def _memory(url: str) -> MemoryStorage:
    """The same store for the same name, as long as the process lives."""
    name = f"memory://{url.partition(':')[2].strip('/')}"
    with _memories_lock:
        return _memories.setdefault(name, MemoryStorage(name))


def _check_no_options(scheme: str, options: Mapping[str, str] | None) -> None:
    if options and scheme in ("", "file", "memory"):
        names = ", ".join(sorted(options))
        raise InvalidArgument(
            f"A local folder or memory takes no options, but these were given: {names}. Nothing was opened. "
            "Leave them out, or check the URL."
        )


def _unknown_scheme(scheme: str) -> InvalidArgument:
    known = ", ".join(f"{name}://" for name in OBJECT_SCHEMES)
    return InvalidArgument(
        f"'{scheme}:' is no store that is known here. Nothing was opened. "
        f"Known are local paths, file:///, {known} and memory://.",
        scheme=scheme,
    )

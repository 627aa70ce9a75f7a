# SPDX-License-Identifier: Apache-2.0
"""What a store promises that can change an object only if nobody else has. Runs over S3 too, in tests/objects."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from lakebraid.errors import CorruptFile, InvalidArgument, ObjectNotFound
from lakebraid.storage import LocalStorage, MemoryStorage, VersionedStorage

pytestmark = pytest.mark.unit


@pytest.fixture
def storage() -> VersionedStorage:
    return MemoryStorage()


def test_an_object_is_replaced_if_it_is_the_version_that_was_read(storage: VersionedStorage) -> None:
    storage.create("lock", b"one")
    data, version = storage.read_version("lock", 10)
    assert data == b"one"
    second = storage.replace_version("lock", b"two", version)
    assert storage.read_version("lock", 10) == (b"two", second)
    assert storage.replace_version("lock", b"three", second) is not None
    assert storage.read("lock", 10) == b"three"


def test_an_object_that_changed_since_is_left_as_it_is(storage: VersionedStorage) -> None:
    storage.create("lock", b"one")
    _, version = storage.read_version("lock", 10)
    storage.replace("lock", b"other")
    assert storage.replace_version("lock", b"two", version) is None
    assert storage.read("lock", 10) == b"other"


def test_an_object_that_is_gone_is_not_made_again(storage: VersionedStorage) -> None:
    storage.create("lock", b"one")
    _, version = storage.read_version("lock", 10)
    storage.delete(["lock"])
    assert storage.replace_version("lock", b"two", version) is None
    assert storage.list() == []


def test_an_object_that_was_deleted_and_made_anew_is_another_version(storage: VersionedStorage) -> None:
    storage.create("lock", b"one")
    _, version = storage.read_version("lock", 10)
    storage.delete(["lock"])
    storage.create("lock", b"other")
    assert storage.replace_version("lock", b"two", version) is None
    assert storage.read("lock", 10) == b"other"


def test_of_eight_who_read_the_same_version_one_replaces_it(storage: VersionedStorage) -> None:
    storage.create("lock", b"one")
    _, version = storage.read_version("lock", 10)
    start = Barrier(8)

    def replace(writer: int) -> bool:
        start.wait()
        return storage.replace_version("lock", b"%d" % writer, version) is not None

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(replace, range(8)))
    assert won.count(True) == 1
    assert storage.read("lock", 10) == b"%d" % won.index(True)


def test_versions_of_what_is_absent_too_large_or_outside_are_not_read(storage: VersionedStorage) -> None:
    storage.create("lock", b"one")
    with pytest.raises(ObjectNotFound):
        storage.read_version("other", 10)
    with pytest.raises(CorruptFile, match="at most 2"):
        storage.read_version("lock", 2)
    for call in (lambda: storage.read_version("../x", 1), lambda: storage.replace_version("../x", b"", None)):
        with pytest.raises(InvalidArgument, match="refused"):
            call()


def test_a_folder_makes_no_such_promise() -> None:
    assert not isinstance(LocalStorage("/nowhere"), VersionedStorage)

# SPDX-License-Identifier: Apache-2.0
"""Links and other odd things in a local folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebraid.errors import ObjectNotFound, StorageError
from lakebraid.storage import LocalStorage

pytestmark = pytest.mark.unit


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    (tmp_path / "table").mkdir()
    return LocalStorage(str(tmp_path / "table"))


def test_links_below_the_root_are_refused_by_every_call(storage: LocalStorage, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    Path(storage.root, "folder").symlink_to(outside)
    calls: list[Callable[[], object]] = [
        lambda: storage.read("folder/secret", 100),
        lambda: storage.info("folder/secret"),
        lambda: storage.open_input("folder/secret"),
        lambda: storage.create("folder/new", b""),
        lambda: storage.replace("folder/secret", b""),
        lambda: storage.copy("folder/secret", "stolen"),
        lambda: storage.delete(["folder/secret"]),
        lambda: storage.list("folder"),
        lambda: storage.list_folder("folder"),
        lambda: storage.list_names("folder"),
        storage.list,
        storage.list_folder,
    ]
    for call in calls:
        with pytest.raises(StorageError, match="is a symbolic link"):
            call()
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_linked_file_is_refused_and_a_link_to_nothing_ignored(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    link = Path(storage.root, "link")
    link.symlink_to(tmp_path / "nothing")
    assert storage.list() == []
    link.unlink()
    link.symlink_to(tmp_path / "secret")
    for call in (storage.list, lambda: storage.read("link", 10), lambda: storage.replace("link", b"")):
        with pytest.raises(StorageError, match="is a symbolic link"):
            call()
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_the_root_itself_may_be_a_link(storage: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(storage.root)
    alias = LocalStorage(str(tmp_path / "alias"))
    alias.create("a", b"x")
    assert alias.list() == storage.list() == [storage.info("a")]


def test_a_pipe_in_the_folder_stops_nobody(storage: LocalStorage) -> None:
    os.mkfifo(Path(storage.root, "pipe"))
    assert storage.list() == []
    with pytest.raises(ObjectNotFound):
        storage.read("pipe", 10)

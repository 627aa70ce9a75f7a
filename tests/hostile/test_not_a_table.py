# SPDX-License-Identifier: Apache-2.0
"""Paths at which there is no table, or one whose properties cannot be had."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile, InvalidArgument, LakebraidError, NotATable, StorageError
from lakebraid.format.properties import format_properties, parse_properties
from lakebraid.limits import PROPERTIES_BYTES_MAX
from lakebraid.storage.local import LocalStorage
from lakebraid.table.loading import load_config
from tests.hostile.attack import PROPERTIES, Target, look_at_everything, refusal, refused

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize(
    "path", ["nowhere", "nowhere/at/all", "a" * 300, "x/" * 900 + "y", "with\nnewline", "caf\udce9"]
)
def test_a_missing_path_is_not_a_table(tmp_path: Path, path: str) -> None:
    refused("missing path", (NotATable, StorageError), lambda: lb.Table.open(tmp_path / path))


@pytest.mark.parametrize("path", ["", "a\0b", b"bytes", "s4://bucket/table", "file://host/share", "file:relative"])
def test_a_path_that_is_none_is_an_invalid_argument(path: Any) -> None:
    refused("path argument", InvalidArgument, lambda: lb.Table.open(path))


@pytest.mark.parametrize(
    "path", ["hdfs://h/t", "http://example.org/t", "memory://", "s3://", "s3:///x", "gs://", "az://"]
)
def test_a_url_without_a_table_gives_a_lakebraid_error(path: str) -> None:
    refused("path argument", LakebraidError, lambda: lb.Table.open(path))


@pytest.mark.parametrize("path", [None, 5, object(), ["a"]])
def test_a_path_of_another_type_is_a_type_error_or_an_invalid_argument(path: Any) -> None:
    with pytest.raises((TypeError, InvalidArgument)):
        lb.Table.open(path)


def test_a_file_in_the_place_of_the_table_is_not_a_table(tmp_path: Path) -> None:
    file = tmp_path / "table"
    file.write_bytes(b"PAR1")
    refused("not a table", (NotATable, StorageError), lambda: lb.Table.open(file))
    refused("not a table", (NotATable, StorageError), lambda: lb.Table.open(file / "below"))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "nothing"),
        ({"_delta_log/00000000000000000000.json": b"{}", "a.parquet": b"PAR1"}, "Delta"),
        ({"metadata/v1.metadata.json": b"{}", "data/a.parquet": b"PAR1"}, "Iceberg"),
        ({"readme.txt": b"hello", "x/y.bin": b"\0" * 100}, "no Hudi table"),
        ({".hoodie/timeline/20260101000000000.commit.requested": b""}, "hoodie.properties"),
        ({".hoodie/hoodie.properties/inside": b""}, "hoodie.properties"),
    ],
)
def test_a_folder_without_a_hudi_table_is_told_what_it_holds(
    tmp_path: Path, files: dict[str, bytes], says: str
) -> None:
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    error = refused("not a table", NotATable, lambda: lb.Table.open(tmp_path))
    assert says in str(error)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EPERM, errno.EMFILE, errno.ESTALE])
def test_a_store_that_refuses_is_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, cow: Target
) -> None:
    path = cow.saved(tmp_path)
    real = os.open

    def broken(file: Any, *more: Any, **named: Any) -> int:
        if "hoodie.properties" in str(file):
            raise OSError(number, os.strerror(number), file)
        return real(file, *more, **named)

    monkeypatch.setattr(os, "open", broken)
    error = refused("unreadable", StorageError, lambda: load_config(LocalStorage(str(path))))
    assert error.errno == number


def _whole(cow: Target) -> dict[str, str]:
    return parse_properties(cow.files[PROPERTIES], "the properties")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n#only a comment\n",
        b"\0" * 1000,
        bytes(range(256)) * 10,
        b"hoodie.table.name",
        b"hoodie.table.name=",
        b"hoodie.table.name=\\u12",
        b"hoodie.table.name=\\ud800",
        b"\\" * 100_001,
        b"=" * 100_000,
        b"a=b\n" * 20_000,
        b"x" * PROPERTIES_BYTES_MAX,
        b"x" * (PROPERTIES_BYTES_MAX + 1),
        b"hoodie.table.name=t\nhoodie.table.checksum=1\n",
        b"hoodie.table.name=t\nhoodie.table.checksum=" + b"9" * 5000 + b"\n",
    ],
)
def test_properties_that_are_not_whole_are_refused_and_a_whole_backup_takes_their_place(
    cow: Target, data: bytes
) -> None:
    cow.put(PROPERTIES, data)
    refused("properties", CorruptFile, lambda: look_at_everything(cow.url))
    cow.put(f"{PROPERTIES}.backup", cow.files[PROPERTIES])
    assert refusal("properties", lambda: look_at_everything(cow.url)) is None or len(data) > PROPERTIES_BYTES_MAX
    cow.put(f"{PROPERTIES}.backup", b"hoodie.table.name=")
    refused("properties", CorruptFile, lambda: look_at_everything(cow.url))


def test_a_name_of_a_megabyte_in_continued_lines_is_read_in_time(cow: Target) -> None:
    cow.put(PROPERTIES, b"hoodie.table.name=x\\\n" * 50_000)
    refusal("properties", lambda: lb.Table.open(cow.url))


def test_properties_cut_at_any_byte_never_give_a_different_table(cow: Target) -> None:
    whole = cow.files[PROPERTIES]
    version = _whole(cow)["hoodie.table.version"]
    for end in range(0, len(whole), 3):
        cow.put(PROPERTIES, whole[:end])
        error = refusal("properties cut", lambda: lb.Table.open(cow.url))
        if error is None:
            # Hudi protects no more than the name: a cut after it cannot be told from a shorter file.
            assert lb.Table.open(cow.url).properties.get("hoodie.table.version", version)[:1] == version[:1]


def test_a_table_name_that_steers_terminals_is_printed_harmlessly(cow: Target) -> None:
    properties = _whole(cow) | {"hoodie.table.name": "\x1b[31m<script>alert(1)</script>\u202e"}
    properties.pop("hoodie.table.checksum", None)
    cow.put(PROPERTIES, format_properties(properties))
    refusal("properties", lambda: look_at_everything(cow.url))
    html = lb.Table.open(cow.url).timeline()._repr_html_()
    assert "<script>" not in html
    assert "\x1b" not in html


def test_a_pipe_in_the_place_of_the_properties_does_not_stop_the_reader(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    os.mkfifo(tmp_path / PROPERTIES)
    refused("special file", NotATable, lambda: lb.Table.open(tmp_path))

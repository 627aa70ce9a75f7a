# SPDX-License-Identifier: Apache-2.0
"""Folders that hold more than files: links, pipes, sockets, names that no writer would give. Nothing leaves the table."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid.errors import LakebraidError, StorageError
from tests.hostile.attack import PROPERTIES, Target, look_at_everything, refusal, refused, target

pytestmark = pytest.mark.hostile

SECRET = "this lies outside of the table"


@pytest.fixture
def table(tmp_path: Path, cow: Target) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.parquet").write_text(SECRET)
    return cow.saved(tmp_path / "table")


@pytest.fixture
def partition(table: Path) -> Path:
    return next(path.parent for path in table.rglob("*.parquet") if ".hoodie" not in path.parts)


def _look(table: Path) -> LakebraidError | None:
    error = refusal("path", lambda: look_at_everything(table))
    assert error is None or SECRET not in str(error)
    return error


@pytest.mark.parametrize("name", ["link.parquet", ".link_20260101000000000.log.1_0-0-0", "city=x", "plain"])
def test_links_out_of_the_table_are_refused_or_passed_over_and_never_followed(
    table: Path, partition: Path, name: str
) -> None:
    (partition / name).symlink_to(table.parent / "outside")
    error = _look(table)
    assert error is None or isinstance(error, StorageError)


def test_a_base_file_that_is_a_link_is_refused(table: Path, partition: Path) -> None:
    file = next(partition.glob("*.parquet"))
    file.rename(table.parent / "outside" / "moved.parquet")
    file.symlink_to(table.parent / "outside" / "moved.parquet")
    refused("path", StorageError, lambda: look_at_everything(table))


@pytest.mark.parametrize("place", [".hoodie", ".hoodie/timeline", PROPERTIES])
def test_a_timeline_or_properties_behind_a_link_are_refused(table: Path, place: str) -> None:
    (table / place).rename(table.parent / "outside" / "moved")
    (table / place).symlink_to(table.parent / "outside" / "moved")
    refused("path", LakebraidError, lambda: look_at_everything(table))


def test_links_in_a_circle_end(table: Path, partition: Path) -> None:
    (partition / "again").symlink_to(partition)
    (table / "a").symlink_to(table / "b")
    (table / "b").symlink_to(table / "a")
    error = _look(table)
    assert error is None or isinstance(error, StorageError)


def test_the_root_itself_may_be_a_link(table: Path) -> None:
    (table.parent / "alias").symlink_to(table)
    assert _look(table.parent / "alias") is None


def test_pipes_sockets_and_devices_do_not_stop_the_reader(table: Path, partition: Path) -> None:
    base = next(partition.glob("*.parquet")).name
    group, _, time = base.removesuffix(".parquet").rpartition("_")
    os.mkfifo(partition / f"{group.partition('_')[0]}_9-9-9_{time}.parquet")
    os.mkfifo(partition / f".{group.partition('_')[0]}_{time}.log.1_0-0-0")
    os.mkfifo(table / ".hoodie" / "timeline" / "20990101000000000.deltacommit.requested")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(partition)  # the path of a socket may not be long
        try:
            server.bind("s.parquet")
        finally:
            os.chdir(here)
        assert _look(table) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices")
def test_a_device_in_the_place_of_a_base_file_is_not_read_for_ever(table: Path, partition: Path) -> None:
    file = next(partition.glob("*.parquet"))
    file.unlink()
    try:
        os.mknod(file, 0o20666, os.makedev(1, 5))  # /dev/zero has no end
    except OSError:
        pytest.skip("this file system or container has no devices")
    _look(table)


def test_a_pipe_in_the_place_of_a_commit_does_not_stop_the_reader(table: Path) -> None:
    commit = next((table / ".hoodie" / "timeline").glob("*.commit"))
    commit.unlink()
    os.mkfifo(commit)
    _look(table)


def test_a_folder_named_like_a_base_file_or_a_commit_is_passed_over(table: Path, partition: Path) -> None:
    (partition / "00000000-0000-0000-0000-000000000000-0_0-1-2_20260101000000000.parquet").mkdir()
    (table / ".hoodie" / "timeline" / "20990101000000000_20990101000000001.commit").mkdir()
    assert _look(table) is None


ODD_NAMES = [
    "new\nline",
    "tab\there",
    "\x1b[31mred",
    "<script>alert(1)<script>",
    "back\\slash",
    "a'b\"c`d",
    "-rf",
    "~",
    "%2e%2e%2f",
    "💥",
    "\u202egnp.exe",
    "con",
    " ",
    "*?[x]{y}",
    "x" * 250,
    ".hidden",
    "__HIVE_DEFAULT_PARTITION__",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_partition_with_an_odd_name_is_read_or_refused_and_shown_harmlessly(
    table: Path, partition: Path, name: str
) -> None:
    partition.rename(partition.with_name(name))
    error = _look(table)
    if error is None:
        shown = lb.Table.open(table).snapshot()._repr_html_()
        assert "<script>" not in shown


@pytest.mark.parametrize("name", [b"caf\xe9", b"\xff\xfe", b"\xed\xa0\x80"])
def test_names_that_are_not_utf_8_are_refused_or_passed_over(table: Path, partition: Path, name: bytes) -> None:
    (Path(os.fsdecode(os.fsencode(partition) + b"/" + name))).write_bytes(b"x")
    os.mkdir(os.fsencode(table) + b"/" + name)
    _look(table)
    os.rename(os.fsencode(partition), os.fsencode(table) + b"/p" + name)
    _look(table)


def test_files_with_odd_names_in_a_partition_are_passed_over_or_refused(table: Path, partition: Path) -> None:
    for name in ODD_NAMES:
        (partition / f".{name[:200]}_20200101000000000.log.1_0-0-0").write_bytes(b"not a log")
    _look(table)
    for name in ODD_NAMES:
        (partition / name).write_bytes(b"junk")
    _look(table)


def test_folders_as_deep_as_the_system_allows_end_soon(table: Path) -> None:
    here = os.getcwd()
    os.chdir(table)
    try:
        for _ in range(10_000):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    refused("path", LakebraidError, lambda: look_at_everything(table))
    _remove_deep(table)


def _remove_deep(table: Path) -> None:
    """pytest's own clean-up recurses."""
    while (table / "d").exists():
        deep, steps = table / "d", 0
        while (deep / "d").exists() and steps < 500:
            deep, steps = deep / "d", steps + 1
        if (deep / "d").exists():
            (deep / "d").rename(table / "rest")
        (table / "d").rename(table / "gone")
        os.system(f"rm -rf '{table / 'gone'}'")
        if (table / "rest").exists():
            (table / "rest").rename(table / "d")


def test_ten_thousand_files_that_are_none_of_the_tables_cost_little(table: Path, partition: Path) -> None:
    for number in range(10_000):
        (partition / f"junk-{number}").touch()
    assert _look(table) is None


def test_the_same_base_file_in_two_partitions_is_read_as_two() -> None:
    made = target("v9_cow_partition_plain")
    base = next(n for n in made.named(r"\.parquet$") if not n.startswith(".hoodie"))
    rows = lb.Table.open(made.url).to_arrow().num_rows
    made.put(f"copy/{base.rpartition('/')[2]}", made.files[base])
    made.put("copy/.hoodie_partition_metadata", b"commitTime=20260101000000000\npartitionDepth=1\n")
    assert refusal("path", lambda: lb.Table.open(made.url).to_arrow()) is None
    assert lb.Table.open(made.url).to_arrow().num_rows >= rows

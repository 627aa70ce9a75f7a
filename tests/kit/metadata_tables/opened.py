# SPDX-License-Identifier: Apache-2.0
"""The metadata tables of the reference tables: their files, as Apache Hudi wrote them."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from lakebraid.format.hfile.read import HFile, parse_hfile
from lakebraid.format.log.blocks import BlockType, read_blocks
from tests.kit.reference import DATA, names

FOLDER = ".hoodie/metadata/"
_GROUP = re.compile(r"-([0-9]{4})-0_")


@dataclass(frozen=True)
class MetadataFile:
    """A base or log file of a metadata table."""

    table: str
    partition: str
    name: str
    data: bytes

    @property
    def is_log(self) -> bool:
        return self.name.startswith(".")

    @property
    def group(self) -> int:
        """The number in its file id."""
        found = _GROUP.search(self.name)
        assert found
        return int(found[1])

    def hfiles(self) -> list[HFile]:
        if not self.is_log:
            return [parse_hfile(self.data, self.name)]
        blocks = read_blocks(self.data, self.name).blocks
        return [parse_hfile(block.content, self.name) for block in blocks if block.type is BlockType.HFILE]


@cache
def tables_with_metadata() -> tuple[str, ...]:
    """The names of the reference tables that have a metadata table."""
    return tuple(name for name in names() if any(FOLDER in file for file in _names(name)))


@cache
def metadata_files(table: str) -> tuple[MetadataFile, ...]:
    """Base and log files of a table's metadata table, by name."""
    with zipfile.ZipFile(DATA / f"{table}.zip") as archive:
        found = [
            name for name in sorted(_names(table)) if FOLDER in name and re.search(r"\.hfile$|\.log\.[0-9_-]+$", name)
        ]
        return tuple(MetadataFile(table, *_place(name), archive.read(name)) for name in found)


def _place(name: str) -> tuple[str, str]:
    folder, _, file = name.rpartition("/")
    return folder.rpartition("/")[2], file


def all_metadata_files() -> Iterator[MetadataFile]:
    for table in tables_with_metadata():
        yield from metadata_files(table)


def data_files(table: str) -> dict[str, dict[str, int]]:
    """The base and log files that lie in the table's own folders, by partition and name, with their sizes."""
    found: dict[str, dict[str, int]] = {}
    with zipfile.ZipFile(DATA / f"{table}.zip") as archive:
        for entry in archive.infolist():
            folder, _, name = entry.filename.partition("/")[2].rpartition("/")
            if not folder.startswith(".hoodie") and re.search(r"\.parquet$|\.log\.[0-9]+(_[0-9-]+)?$", name):
                found.setdefault(folder, {})[name] = entry.file_size
    return found


def _names(table: str) -> list[str]:
    with zipfile.ZipFile(DATA / f"{table}.zip") as archive:
        return archive.namelist()

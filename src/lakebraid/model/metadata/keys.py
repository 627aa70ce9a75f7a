# SPDX-License-Identifier: Apache-2.0
"""Keys of the metadata table's partitions, and the file group in which a key lies (MDT, sections 1, 3)."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from lakebraid.model.keys.buckets import java_string_hash
from lakebraid.model.metadata.xxh64 import xxh64

T = TypeVar("T")

FILES, COLUMN_STATS, PARTITION_STATS = "files", "column_stats", "partition_stats"
RECORD_INDEX, BLOOM_FILTERS = "record_index", "bloom_filters"
"""The partitions of a metadata table that are understood."""
FILE_ID_PREFIXES: Final = {
    FILES: "files", COLUMN_STATS: "col-stats", PARTITION_STATS: "partition-stats", RECORD_INDEX: "record-index",
    BLOOM_FILTERS: "bloom-filters",
}  # fmt: skip
"""How the ids of their file groups begin: `col-stats-0001-0` is the second one."""
_SEED: Final = 0xFFFFFFFFDABADABA
_NO_PARTITION: Final = "."


@lru_cache(maxsize=65536)
def id64(text: str) -> str:
    """Twelve characters that stand for a column or a partition.

    >>> id64("id"), id64("p0")
    ('sLZoasJosec=', 'Z+KNMU8CLlo=')
    """
    return b64encode(xxh64(text.encode(), _SEED).to_bytes(8, "big")).decode()


def id128(text: str) -> str:
    """Twenty-four characters that stand for a file."""
    return b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()


def partition_key(path: str) -> str:
    """How the metadata table calls a partition: a table without partitions has the one `.`."""
    return path or _NO_PARTITION


def partition_of_key(key: str) -> str:
    """The path of the partition that the metadata table calls so."""
    return "" if key == _NO_PARTITION else key


def column_stats_key(column: str, partition: str, file_name: str) -> str:
    """The key of what is known of a column in a file; the name is without its folder."""
    return id64(column) + id64(partition_key(partition)) + id128(file_name)


def partition_stats_key(column: str, partition: str) -> str:
    """The key of what is known of a column in a partition; those of the column's files in it begin with it."""
    return id64(column) + id64(partition_key(partition))


def bloom_filter_key(partition: str, file_name: str) -> str:
    """The key of a base file's bloom filter."""
    return id64(partition_key(partition)) + id128(file_name)


def group_of_key(key: str, groups: int) -> int:
    """The number of the file group, of so many in the partition, in which a key lies.

    >>> group_of_key("Hello", 4), group_of_key("polygenelubricants", 7)
    (2, 2)
    """
    signed = java_string_hash(key)
    return min(signed, (1 << 32) - signed) % groups


def by_group(records: Mapping[str, T], groups: int) -> list[dict[str, T]]:
    """The records of each file group of a partition that has so many."""
    sorted_out: list[dict[str, T]] = [{} for _ in range(groups)]
    for key, record in records.items():
        sorted_out[group_of_key(key, groups)][key] = record
    return sorted_out


def keys_by_group(keys: Sequence[str], groups: int) -> list[list[str]]:
    """The same for keys alone."""
    sorted_out: list[list[str]] = [[] for _ in range(groups)]
    for key in keys:
        sorted_out[group_of_key(key, groups)].append(key)
    return sorted_out

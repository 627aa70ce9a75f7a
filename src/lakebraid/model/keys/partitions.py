# SPDX-License-Identifier: Apache-2.0
"""Partition paths: the folder of a row, made of its partition values, and back as far as that is possible.

fields          values            plain            hive style                     url encoded
city            Oslo              Oslo             city=Oslo                      Oslo
city            null or ""        __HIVE_DEFAULT_PARTITION__   (city=__HIVE_DEFAULT_PARTITION__)
day, city       2024-05-17, a/b   2024-05-17/a/b   day=2024-05-17/city=a/b        2024-05-17/a%2Fb
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakebraid.errors import CorruptFile, InvalidArgument, LakebraidError
from lakebraid.limits import LEVEL_BYTES_MAX, NAME_BYTES_MAX, PARTITION_DEPTH_MAX
from lakebraid.model.config import TableConfig
from lakebraid.model.keys.keys import column_of, render_values

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_TO_ESCAPE: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ENCODED: Final = "properties={'hoodie.datasource.write.partitionpath.urlencode': 'true'}"
_ESCAPED: Final = re.compile("%([0-9A-Fa-f]{2})")


def partition_path(values: Sequence[str | None], fields: Sequence[str], hive_style: bool, url_encode: bool) -> str:
    """The folder below the table for these rendered values; empty for a table without partition fields.

    >>> partition_path(["2024-05-17", "a/b"], ["day", "city"], hive_style=True, url_encode=True)
    'day=2024-05-17/city=a%2Fb'
    """
    segments = []
    for value, field in zip(values, fields, strict=True):
        shown = (escape(value) if url_encode else value) if value else DEFAULT_PARTITION
        segments.append(f"{field}={shown}" if hive_style else shown)
    path = "/".join(segments)
    check_partition_path(path, error=InvalidArgument)
    return path


def partition_paths(
    table: pa.Table | pa.RecordBatch,
    fields: Sequence[str],
    hive_style: bool,
    url_encode: bool,
    *,
    consistent_timestamps: bool = False,
) -> pa.Array:
    """The folder of every row; each combination of values is put together only once."""
    if not fields:
        return pa.repeat("", table.num_rows)
    columns = [render_values(column_of(table, name), consistent_timestamps=consistent_timestamps) for name in fields]
    codes = _combination_codes(columns)
    first_rows = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    first_rows[codes[::-1]] = np.arange(table.num_rows - 1, -1, -1)
    combinations = zip(*(column.take(pa.array(first_rows)).to_pylist() for column in columns), strict=True)
    paths = [partition_path(values, fields, hive_style, url_encode) for values in combinations]
    return pa.array(paths, pa.string()).take(pa.array(codes))


def partition_values(
    path: str, fields: Sequence[str], hive_style: bool, url_encode: bool
) -> tuple[str | None, ...] | None:
    """The rendered values that gave this folder; None where they cannot be known.

    A single `None` value stands for null *or* empty: Hudi writes both as the default partition. Unknown are folders
    with more or fewer levels than fields (a value held a `/`) and folders that are not in the hive style they should be.

    >>> partition_values("day=2024-05-17/city=a%2Fb", ["day", "city"], hive_style=True, url_encode=True)
    ('2024-05-17', 'a/b')
    """
    segments = [path] if len(fields) == 1 else path.split("/") if path else []
    if len(segments) != len(fields):
        return None
    values: list[str | None] = []
    for segment, field in zip(segments, fields, strict=True):
        if hive_style and not segment.startswith(f"{field}="):
            return None
        shown = segment.removeprefix(f"{field}=") if hive_style else segment
        if not shown:
            return None
        values.append(None if shown == DEFAULT_PARTITION else unescape(shown) if url_encode else shown)
    return tuple(values)


def check_partition_path(path: str, *, error: type[LakebraidError] = CorruptFile) -> None:
    """Raises `error` unless this is a plain folder below the table that is not Hudi's own; the empty path is the table.

    Paths come out of files and out of users' values, and become names of objects that are read, written and deleted.
    """
    if path and (trouble := _path_trouble(path)):
        shown = path if len(path) <= 200 else path[:200] + "…"
        raise error(
            f"The partition path {shown!r} was refused: it {trouble}. Nothing was read or written there. "
            "Values that go into a path need url encoding "
            "(hoodie.datasource.write.partitionpath.urlencode=true) or cleaning.",
            path=path,
        )


def check_partition_values(rows: pa.Table, config: TableConfig) -> None:
    """Raises InvalidArgument for a value of a partition column that names no folder of its own; see `check_partition_value`.

    Hudi escapes nothing in a folder's name unless the table is url encoded.
    """
    for name in config.partition_fields:
        column = column_of(rows, name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            for value in column.unique().to_pylist():
                check_partition_value(value, name, config)


def check_partition_value(value: str | None, field: str, config: TableConfig) -> None:
    """Raises InvalidArgument for a text of which rows must not be written: Hudi could not read it, or would take it for
    another one. What is there already stays readable.
    """
    if value and (trouble := _value_trouble(value, field, config)):
        is_cured = _value_trouble(value, field, replace(config, url_encode=True)) is None
        raise InvalidArgument(
            f"{value!r:.200} cannot be a value of the partition column {field!r}: {trouble}. Nothing was written. Change "
            f"the value{f', or create the table with {_ENCODED}' if is_cured else ''}.",
            column=field,
            value=value,
        )


def escape(value: str) -> str:
    """Hive's escaping of one path segment: `%XX` for control characters and those with a meaning in paths."""
    return _TO_ESCAPE.sub(lambda found: f"%{ord(found[0]):02X}", value)


def unescape(segment: str) -> str:
    """The inverse of `escape`; a `%` that is not followed by two hexadecimal digits stays."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), segment)


def _combination_codes(columns: Sequence[pa.Array]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For every row the number of its combination of values: dense, and equal for equal combinations only."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        mixed = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        # Made dense again at each step, so that the product of many columns cannot overflow.
        codes = pa.array(mixed).dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _value_trouble(value: str, field: str, config: TableConfig) -> str | None:
    if value == DEFAULT_PARTITION:
        return "it is Hudi's name for NULL, which is what to write"
    shown = escape(value) if config.url_encode else value
    path = f"{field}={shown}" if config.hive_style else shown
    if ":" in path:
        return "Apache Hudi cannot read a folder with a ':' in its name"
    if control := _CONTROL.search(path):
        return f"it holds the character U+{ord(control[0]):04X}"
    if "/" in path and len(config.partition_fields) > 1:
        return "with several partition columns a '/' in one of them makes folders that belong to other values, too"
    if any(len(level.encode("utf-8", "surrogatepass")) > LEVEL_BYTES_MAX for level in path.split("/")):
        return f"its folder's name has more than {LEVEL_BYTES_MAX} bytes"
    trouble = _path_trouble(path)
    return trouble and f"its folder {trouble}"


def _path_trouble(path: str) -> str | None:
    if len(path.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        return f"is longer than {NAME_BYTES_MAX} bytes"
    if "\0" in path or "\\" in path:
        return "holds a NUL or a backslash"
    if path.startswith("/"):
        return "is absolute"
    segments = path.split("/")
    if len(segments) > PARTITION_DEPTH_MAX:
        return f"has more than {PARTITION_DEPTH_MAX} levels"
    if "" in segments:
        return "has an empty level ('//' or a '/' at the end)"
    if ".." in segments or "." in segments:
        return "has a '.' or '..' level"
    if any(segment.startswith(".hoodie") for segment in segments):
        return "has a level beginning with '.hoodie', which is Hudi's own"
    return None

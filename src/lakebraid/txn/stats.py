# SPDX-License-Identifier: Apache-2.0
"""What a commit says of the files that its tasks wrote (FORMAT, section 4), and what it touches.

What it touches, and what a write looks at, are told as sets of bits that fit into a wish and into every entry (LEDGER, G10).
Two sets with a place in common have a bit in common. The reverse does not hold: then a write is held against the other one
once more, and found to be apart from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final
from zlib import crc32

from lakebraid.errors import InvalidArgument
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat
from lakebraid.model.config import TableConfig
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.tasks.data_files import in_partition
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.ledger.entries import BEYOND

_BITS: Final = BEYOND.bit_length() - 1


def write_stats(files: Iterable[StagedFile], start: str) -> dict[str, tuple[WriteStat, ...]]:
    """One stat for each file of the write that began at `start`, by partition.

    InvalidArgument if two base files are of one file group: readers would take one of them, and half of the rows.
    """
    stats: dict[str, list[WriteStat]] = {}
    based: set[tuple[str, str]] = set()
    for file in files:
        if file.is_base and (file.partition, file.file_id) in based:
            raise InvalidArgument(
                f"The write {start} made two base files of the file group {file.file_id} in partition "
                f"{file.partition!r}; readers take one only. Nothing was published. Write all rows of a bulk load at "
                "once, or upsert them.",
                start=start,
                file_id=file.file_id,
                partition=file.partition,
            )
        if file.is_base:
            based.add((file.partition, file.file_id))
        stat = _base_stat(file) if file.is_base else _log_stat(file, start)
        stats.setdefault(file.partition, []).append(stat)
    return {partition: tuple(found) for partition, found in stats.items()}


def _base_stat(file: StagedFile) -> WriteStat:
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        prev_commit=file.previous or "null",  # Hudi's own word for "there was no base file before"
        num_writes=file.rows,
        num_deletes=file.deletes,
        num_update_writes=file.updates,
        num_inserts=file.rows if file.inserts < 0 else file.inserts,
        total_write_bytes=file.size,
        total_write_errors=0,
        partition_path=file.partition,
        file_size_in_bytes=file.size,
        cdc_stats={in_partition(file.partition, file.changes): file.changes_size} if file.changes else None,
    )


def _log_stat(file: StagedFile, start: str) -> WriteStat:
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        prev_commit=start,
        num_writes=file.rows,
        num_deletes=file.deletes,
        total_write_bytes=file.size,
        total_write_errors=0,
        partition_path=file.partition,
        file_size_in_bytes=file.size,
        log_version=1,
        log_offset=0,
        base_file="",
        log_files=(file.name,),
    )


def touched_by(config: TableConfig, content: CommitMetadata) -> int:
    """The mask of what a commit changes: its file groups, and where it brings keys that must not be there twice."""
    stats = [(partition, stat) for partition, found in content.write_stats.items() for stat in found]
    groups = [GroupId(partition, stat.file_id or "") for partition, stat in stats]
    groups += [GroupId(partition, file_id) for partition, ids in content.replaced.items() for file_id in ids]
    return mask_of(config, groups) | _keys_mask(config, (partition for partition, stat in stats if brings_keys(stat)))


def looked_at_by(config: TableConfig, files: Collection[StagedFile], looked_up: Iterable[GroupId] = ()) -> int:
    """The mask of what a write with these files is held against at its commit."""
    groups = [*(GroupId(file.partition, file.file_id) for file in files), *looked_up]
    return mask_of(config, groups) | _keys_mask(config, (f.partition for f in files if f.is_base and f.inserts))


def mask_of(config: TableConfig, groups: Iterable[GroupId]) -> int:
    """The mask of these file groups, or, in tables with buckets, of the buckets: the places of `find_clash`."""
    by_bucket = config.buckets is not None
    buckets = ((g.partition, g.file_id, bucket_of_file_id(g.file_id) if by_bucket else None) for g in groups)
    return _mask(f"{partition}/{file_id if bucket is None else bucket}" for partition, file_id, bucket in buckets)


def brings_keys(stat: WriteStat) -> bool:
    """Whether a file may hold keys that were not there before; log files hold none where keys are looked up."""
    is_rewrite = stat.prev_commit not in (None, "", "null")
    return stat.path is not None and stat.path.endswith(".parquet") and not (is_rewrite and stat.num_inserts == 0)


def _keys_mask(config: TableConfig, partitions: Iterable[str]) -> int:
    """Where keys are looked up, two writes may bring one key in different file groups (inserted_keys.py)."""
    if not config.has_filters:
        return 0
    return _mask(
        "the keys of the table" if config.is_global else f"the keys of {partition}" for partition in partitions
    )


def _mask(texts: Iterable[str]) -> int:
    mask = 0
    for text in texts:
        mask |= 1 << crc32(text.encode()) % _BITS
    return mask

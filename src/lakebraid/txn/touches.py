# SPDX-License-Identifier: Apache-2.0
"""What a commit touches, and what a write looks at, as masks.

Both are told as sets of bits that fit into a wish and into every entry (LEDGER, G10).
Two sets with a place in common have a bit in common. The reverse does not hold: then a write is held against the other one
once more, and found to be apart from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final
from zlib import crc32

from lakebraid.format.timeline.commit import CommitMetadata, WriteStat
from lakebraid.model.config import TableConfig
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.ledger.entries import BEYOND

_BITS: Final = BEYOND.bit_length() - 1


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

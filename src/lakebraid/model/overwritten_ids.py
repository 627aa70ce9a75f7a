# SPDX-License-Identifier: Apache-2.0
"""The file ids of buckets after overwrites: agreed by all writers, and never used before (scenario F8).

A replaced file group is gone for good, and file ids of buckets are fixed, so rows that come after an overwrite need
other ids. These follow from the start of the overwrite alone: a writer that knows which one was the last of a partition knows
the ids of its buckets, without looking at files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakebraid.errors import InvalidArgument
from lakebraid.format.times import is_instant_time
from lakebraid.model.keys.buckets import bucket_file_id


@dataclass(frozen=True, slots=True)
class Replaced:
    """The start of the last overwrite of each partition; of partitions that are not named, that of the whole table."""

    partitions: Mapping[str, str] = field(default_factory=dict)
    whole: str | None = None

    def file_id(self, partition: str, bucket: int) -> str:
        """The file group of a bucket: the fixed one as long as nothing was overwritten there."""
        start = self.partitions.get(partition) or self.whole
        return bucket_file_id(bucket) if start is None else replaced_file_id(bucket, start)

    def after(self, start: str, partitions: Iterable[str] | None) -> Replaced:
        """The same after one more overwrite: of these partitions, or of the whole table."""
        if partitions is None:
            return Replaced(whole=start)
        return Replaced({**self.partitions, **dict.fromkeys(sorted(partitions), start)}, self.whole)


def replaced_file_id(bucket: int, start: str) -> str:
    """The file id of a bucket since the overwrite that began at `start`: as long and of the same form as the fixed ones.

    >>> replaced_file_id(3, "20261116091228123")
    '00000003-2026-1116-0912-281230000000-0'
    """
    if not is_instant_time(start) or len(start) != 17:
        raise InvalidArgument(f"{start[:40]!r} is no start of an overwrite. Nothing was written.")
    number = bucket_file_id(bucket)[:8]
    return f"{number}-{start[:4]}-{start[4:8]}-{start[8:12]}-{start[12:]}0000000-0"

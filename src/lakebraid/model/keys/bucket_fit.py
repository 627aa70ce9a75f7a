# SPDX-License-Identifier: Apache-2.0
"""Which number of buckets a table has, by its keys and the file ids that they lie in.

No file of Hudi's has to say it: it may stand in the settings of the writers alone. But a key with the hash h in bucket b
says that the number of buckets divides h - b, and is greater than b. What all keys allow are the divisors of one number,
their greatest common divisor, which shrinks with each key; a few dozen keys leave one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np

from lakebraid.limits import BUCKETS_MAX
from lakebraid.model.config import TableConfig
from lakebraid.model.keys.buckets import Hashes

_FIELDS_TRIED_MAX: Final = 6
"""Of so many key columns each choice of hash columns is tried, 63 of them; of more, all and each alone."""


@dataclass(frozen=True, slots=True)
class BucketFit:
    """What keys say, if their buckets are the hashes of these columns of the key."""

    fields: tuple[str, ...]
    divisor: int = 0
    """What every number of buckets that fits divides; 0 if no key has said anything."""
    is_refuted: bool = False
    """Whether some key has a hash below its bucket, which no number of buckets gives."""

    def after(self, hashes: Hashes, bucket: int) -> BucketFit:
        """The same once keys with these hashes were seen in a bucket.

        >>> BucketFit(("id",)).after(np.array([7, 19, 31], np.uint32), 3).numbers(highest=3)
        (4,)
        """
        if self.is_refuted or not len(hashes):
            return self
        beyond = hashes.astype(np.int64) - bucket
        if beyond.min() < 0:
            return replace(self, is_refuted=True)
        return replace(self, divisor=int(np.gcd.reduce(beyond, initial=self.divisor)))

    def numbers(self, highest: int) -> tuple[int, ...] | None:
        """The numbers of buckets that all keys allow, where the greatest bucket that is there is `highest`; None: any."""
        if self.is_refuted:
            return ()
        return tuple(n for n in _divisors(self.divisor) if highest < n <= BUCKETS_MAX) if self.divisor else None

    def allows(self, buckets: int, highest: int) -> bool:
        """Whether no key and no file id speaks against this number."""
        return not self.is_refuted and self.divisor % buckets == 0 and highest < buckets


def hash_fields(config: TableConfig) -> list[tuple[str, ...]]:
    """The columns whose values may be hashed: those that the table states, else any of the key, all of them first."""
    keys = config.record_keys
    if set(config.bucket_fields) != set(keys) or not config.has_complex_keys:
        return [config.bucket_fields]
    sizes = range(len(keys), 0, -1) if len(keys) <= _FIELDS_TRIED_MAX else (len(keys), 1)
    return [chosen for size in sizes for chosen in combinations(keys, size)]


def _divisors(number: int) -> Iterator[int]:
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    yield from small
    yield from (number // n for n in reversed(small) if n * n != number)

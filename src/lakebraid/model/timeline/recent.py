# SPDX-License-Identifier: Apache-2.0
"""The part of a timeline that matters to a write: what is pending, and what began or completed since.

A timeline has thousands of names, and all but a few are of writes that had completed before this one began. They are told
apart by comparing text, before anything is made of them.

>>> old = ["20260102000000001.deltacommit.requested", "20260102000000001_20260102000000002.deltacommit"]
>>> late = ["20260102000000003.deltacommit.requested", "20260102000000003_20260102000000009.deltacommit"]
>>> open = ["20260102000000005.deltacommit.inflight"]
>>> first = ["20260101000000000_20260101000000001.deltacommit"]
>>> recent_names([*first, *old, *late, *open], "20260102000000007") == [*first, *late, *open]
True
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_WRITES: Final = frozenset({".commit", ".deltacommit", ".replacecommit"})
_OTHERS: Final = frozenset({".clean", ".rollback", ".restore", ".indexing"})
# A savepoint has the start of the write that it pins, and says nothing about that one's end.


def recent_names(names: Collection[str], since: str, starts: Collection[str] = ()) -> list[str]:
    """The names of instants that are pending, began or completed after `since`, or have one of these starts; and of the
    first completed write, which says where the timeline begins.

    All names of an instant, or none. What is not spelled as usual stays: whoever parses the names judges it.
    """
    # By position, not by pattern: start, '_', completion, action. There are thousands, and nearly all of them go.
    old = [n for n in names if n[17:18] == "_" and n <= since and n[18:] <= since and n[18:35].isdecimal()]
    writes = {n[:17] for n in old if n[35:] in _WRITES}
    writes.discard(min(writes, default=""))
    passed = writes.union(n[:17] for n in old if n[35:] in _OTHERS).difference(starts)
    return [n for n in names if n[:17] not in passed]

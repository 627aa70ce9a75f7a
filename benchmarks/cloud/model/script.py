# SPDX-License-Identifier: Apache-2.0
"""A commit as the product made it before decision 28: each decision is an entry of its own, each request waits for the one before.

As traced on 2026-11-18, of 1,000 rows by a lone writer that had committed before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Sent(NamedTuple):
    """One request, and what it is about if the model has to know: the ledger, an entry, the timeline, staged objects."""

    kind: str
    what: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """`look` lists the ledger; with what `think` asks for the entry is made; if it is created, `rest` follows."""

    before: tuple[Sent, ...]
    think: tuple[Sent, ...]
    rest: tuple[Sent, ...]

    @property
    def files(self) -> int:
        """What other processes copy if they find the entry before it is applied."""
        return self.rest.count(COPY)


LOOK, CREATE = Sent("list", "ledger"), Sent("put", "entry")
TIMELINE, COPY, STAGE, SWEEP = Sent("list", "timeline"), Sent("copy"), Sent("put"), Sent("delete", "staged")
_PROPERTIES, _HEARTBEAT, _MARKER, _DATA = Sent("get"), Sent("put"), Sent("put"), Sent("put")
_CLOCK, _PARTITION, _MARKERS, _REMOVED = Sent("head"), Sent("head"), Sent("list"), Sent("delete")


def commit_without_asks(buckets: int) -> tuple[Decision, Decision]:
    """Its beginning with the data files, and its publication: 20 requests, and two for each bucket."""
    files = [request for _ in range(buckets) for request in (_MARKER, _DATA)]
    begin = Decision((_PROPERTIES,), (TIMELINE, STAGE, _CLOCK), (LOOK, _HEARTBEAT, COPY, COPY, _PARTITION, *files))
    publish = Decision((), (TIMELINE, STAGE), (LOOK, COPY, SWEEP, _MARKERS, _REMOVED))
    return begin, publish


def requests_of(script: Sequence[Decision]) -> list[Sent]:
    """All requests of a commit that meets no other writer, in order."""
    return [sent for d in script for sent in (*d.before, LOOK, *d.think, CREATE, *d.rest)]

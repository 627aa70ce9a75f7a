# SPDX-License-Identifier: Apache-2.0
"""A commit of the product as the model plays it: the requests of one that was traced, cut where the ledger decides.

Nothing of it is written down here but how to tell an entry of the ledger from other objects: if a commit takes fewer
requests some day, or sends some of them at once, the next trace says so.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import lakebraid as lb
from benchmarks.cloud.rig.calls import TALLY, Call
from benchmarks.cloud.rig.latency import Latencies
from benchmarks.cloud.rig.storage import delayed
from benchmarks.cloud.workloads import COLUMNS, TABLE, some_rows

_ENTRY: Final = re.compile(r"/ledger/\d{20}$")
Step = tuple[Call, ...]
"""Requests that were under way at once."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`look` lists the ledger; with what `think` asks for the entry is made; if it is created, `rest` follows."""

    before: tuple[Step, ...]
    look: Step
    think: tuple[Step, ...]
    create: Step
    rest: tuple[Step, ...]

    @property
    def files(self) -> int:
        """What others copy who find the entry before it is true."""
        return sum(is_timeline_copy(call) for step in self.rest for call in step)


def traced_commit(buckets: int, latencies: Latencies) -> list[Call]:
    """The requests of one commit of 1,000 rows by a lone writer who has made others before."""
    with delayed(latencies), tempfile.TemporaryDirectory(prefix="lakebraid-cloud-") as folder:
        how = {"buckets": buckets, **TABLE}
        with delayed(latencies.scaled(0)):
            lb.Table.create(folder, COLUMNS, **how)
        table = lb.Table.open(folder)
        for stamp in (1, 2):
            mark = TALLY.mark()
            table.upsert(some_rows(1000, 10_000, stamp))
        return TALLY.since(mark)


def decisions(calls: Sequence[Call]) -> list[Decision]:
    """The parts of a commit; what follows one decision is its rest, up to the look of the next one."""
    steps = _steps(calls)
    creates = [at for at, step in enumerate(steps) if any(is_entry(call) for call in step)]
    if not creates:
        raise SystemExit("No entry of the ledger was created in the traced commit: adapt the model to the protocol.")
    looks = [max(at for at in range(create) if _is_look(steps[at])) for create in creates]
    found, begun = [], 0
    for create, look, end in zip(creates, looks, [*looks[1:], len(steps)], strict=True):
        parts = steps[begun:look], steps[look], steps[look + 1 : create], steps[create], steps[create + 1 : end]
        before, look_step, think, create_step, rest = parts
        found.append(Decision(tuple(before), look_step, tuple(think), create_step, tuple(rest)))
        begun = end
    return found


def is_entry(call: Call) -> bool:
    return call.kind == "put" and _ENTRY.search(call.name) is not None


def is_look(call: Call) -> bool:
    return call.kind == "list" and call.name.endswith("/ledger")


def is_timeline_list(call: Call) -> bool:
    return call.kind == "list" and call.name.endswith("/timeline")


def is_timeline_copy(call: Call) -> bool:
    return call.kind == "copy" and "/timeline/" in call.name


def is_sweep(call: Call) -> bool:
    return call.kind == "delete" and "/staged/" in call.name


def _is_look(step: Step) -> bool:
    return any(is_look(call) for call in step)


def _steps(calls: Sequence[Call]) -> list[Step]:
    """By overlap: a request belongs to the step before if it began before any of that had ended."""
    steps: list[list[Call]] = []
    for call in sorted(calls, key=lambda call: call.begin):
        if steps and call.begin < min(one.end for one in steps[-1]):
            steps[-1].append(call)
        else:
            steps.append([call])
    return [tuple(step) for step in steps]

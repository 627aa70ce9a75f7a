# SPDX-License-Identifier: Apache-2.0
"""What the commits of a table with change data capture say beside others: the file slices as they were before.

Hudi's CDC query merges a log file with the slice that its commit names, and calls that the rows before. Who names it when
writing cannot know what others publish until its commit. Here it is named in the round that publishes: whatever counts in that
round was published before, and nothing else can be published in between. docs/decisions/0020-change-data-capture.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakebraid.format.timeline.commit import WriteStat
from lakebraid.model.timeline.slicing import FileGroup, FileSlice, GroupId
from lakebraid.txn.ledger.rounds import Round

Stats = Mapping[str, tuple[WriteStat, ...]]


def with_slices_before(now: Round, stats: Stats) -> dict[str, tuple[WriteStat, ...]]:
    """The same stats; where changes are captured, those of log files say which base file and which log files their group
    had before, as of this round.
    """
    if not now.config.cdc_enabled or all(stat.log_files is None for found in stats.values() for stat in found):
        return dict(stats)
    view = now.view()
    told = {}
    for partition, found in stats.items():
        groups: dict[str, list[WriteStat]] = {}
        for stat in found:
            groups.setdefault(stat.file_id or "", []).append(stat)
        told[partition] = tuple(
            stat
            for file_id, own in groups.items()
            for stat in _of_group(view.groups.get(GroupId(partition, file_id)), own)
        )
    return told


def _of_group(held: FileGroup | None, own: list[WriteStat]) -> list[WriteStat]:
    """The stats of one file group, each with the slice before.

    Of several log files Hudi takes those that come before the one it reads, by name, so each is told on top of the others.
    """
    before = None if held is None else held.latest()
    base = _base_name(before, own)
    logs = () if before is None else tuple(_file_name(log.name) for log in before.logs)
    names = [_file_name(stat.path or "") for stat in own]
    if len(own) > 1:
        logs = tuple(name if name < min(names) else f"./{name}" for name in logs)
    return [
        replace(stat, base_file=base, log_files=() if stat.log_files is None else (*logs, name))
        for stat, name in zip(own, names, strict=True)
    ]


def _base_name(before: FileSlice | None, own: Iterable[WriteStat]) -> str:
    """The base file before; of a new group that which the write itself has begun it with, which is empty."""
    if before is not None and before.base is not None:
        return _file_name(before.base.name)
    return next((_file_name(stat.path or "") for stat in own if stat.log_files is None), "")


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]

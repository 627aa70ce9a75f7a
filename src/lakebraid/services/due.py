# SPDX-License-Identifier: Apache-2.0
"""Which file groups are due for compaction: pure rules over a view and the table's settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.times import parse_instant_time
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.services.settings import ServiceSettings, Setting
from lakebraid.table.view import View

_STRATEGIES: Final = ("NUM_COMMITS", "NUM_COMMITS_AFTER_LAST_REQUEST", "TIME_ELAPSED", "NUM_AND_TIME", "NUM_OR_TIME")


@dataclass(frozen=True, slots=True)
class Triggers:
    """When a file group is due: by any of its new log files, their age, and their size beside the base file.

    With Hudi's trigger strategy only what that names counts.
    """

    logs: int = 5
    """Hudi's default. Each new log file is one more to open and merge in every read of the group."""
    seconds: float = 3600.0
    """Hudi's default. Groups that are seldom written must come to their base files, too: read-optimised queries see
    nothing else, and cleaning waits for it."""
    share: float = 0.5
    """Log bytes for each byte of the base file. Merging a log costs a reader some times what plain reading does; from
    here on one rewriting of the base is paid back by the next few reads."""
    strategy: str = ""

    def are_met(self, lag: GroupLag, now_ms: int) -> bool:
        by_logs, by_time = lag.logs >= self.logs, now_ms - lag.oldest_ms >= self.seconds * 1000
        match self.strategy:
            case "NUM_COMMITS" | "NUM_COMMITS_AFTER_LAST_REQUEST":
                return by_logs
            case "TIME_ELAPSED":
                return by_time
            case "NUM_AND_TIME":
                return by_logs and by_time
            case "NUM_OR_TIME":
                return by_logs or by_time
            case _:
                return by_logs or by_time or self._is_heavy(lag)

    def _is_heavy(self, lag: GroupLag) -> bool:
        return lag.log_bytes >= limits.DUE_LOG_BYTES_MIN and lag.log_bytes > self.share * lag.base_bytes


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What lies on top of a group's base file."""

    group: GroupId
    logs: int
    log_bytes: int
    base_bytes: int
    oldest_ms: int
    """When the first of these log files was begun."""


def group_lags(view: View, zone: tzinfo) -> list[GroupLag]:
    """The groups with log files that are in no base file yet."""
    found = []
    for group, files in view.groups.items():
        newest = files.latest()
        if newest is None:
            continue
        # A log file of the compaction that wrote the base holds only the deletes it carried: nothing new.
        own = newest.base.request_time if newest.base else ""
        logs = [log for log in newest.logs if log.request_time != own]
        if logs:
            size = newest.base.size if newest.base else 0
            oldest_ms = min(parse_instant_time(log.request_time, zone) for log in logs)
            found.append(GroupLag(group, len(logs), sum(log.size for log in logs), size, oldest_ms))
    return found


def due_groups(lags: Iterable[GroupLag], triggers: Triggers, now_ms: int) -> frozenset[GroupId]:
    return frozenset(lag.group for lag in lags if triggers.are_met(lag, now_ms))


def parse_triggers(settings: ServiceSettings) -> Triggers:
    """What the table's settings say; the defaults where they say nothing."""
    strategy = (settings.trigger_strategy.text or "").strip().upper()
    if strategy and strategy not in _STRATEGIES:
        raise InvalidArgument(
            f"{settings.trigger_strategy.name}={strategy!r:.60} is none of {', '.join(_STRATEGIES)}. Nothing was changed. Correct the table's "
            "property, or remove it."
        )
    plain = Triggers()
    return Triggers(
        logs=int(_number(settings.trigger_logs, plain.logs)),
        seconds=_number(settings.trigger_seconds, plain.seconds),
        share=_number(settings.trigger_share, plain.share),
        strategy=strategy,
    )


def _number(setting: Setting, default: float) -> float:
    if setting.text is None:
        return default
    try:
        value = float(setting.text)
    except ValueError:
        value = 0.0
    if 0 < value < 10**12:
        return value
    name, text = setting.name, setting.text
    raise InvalidArgument(f"{name}={text!r:.60} must be a positive number. Nothing was changed. Correct the property.")

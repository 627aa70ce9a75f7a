# SPDX-License-Identifier: Apache-2.0
"""Models for tests of the viewer: of a story, and of a table with thousands of instants."""

from __future__ import annotations

import functools
from typing import Any

from lakebraid.format.names import LogFileName, State
from lakebraid.format.times import format_instant_time
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.web.details import Details, MadeFile, PlannedGroup
from lakebraid.web.gathering import DescribedInstant, Facts, load_facts
from lakebraid.web.picture import build_model
from tests.kit.tables.storyboard import NOON, Story, braided


@functools.cache
def told() -> Story:
    """The story of `braided`, told once; for looking only."""
    return braided()


def model_of(story: Story) -> dict[str, Any]:
    return build_model(load_facts(story.storage, story.clock))


def long_facts(count: int, writers: int = 12, groups: int = 16) -> Facts:
    """A table with so many instants, a compaction in every fifty, each write in four file groups."""
    story = Story("long")
    facts = load_facts(story.storage, story.clock)
    zone = facts.config.zone
    every = [GroupId(f"day={n % 4}", f"{n:08d}-0000-4000-8000-000000000000-0") for n in range(groups)]

    def seen(n: int) -> DescribedInstant:
        request_time, end = (format_instant_time(NOON + 700 * n + more, zone) for more in (0, 2000 + 90 * (n % 37)))
        if n % 50 == 49:
            plan = tuple(PlannedGroup(group, 3, has_base=True) for group in every[:4])
            return DescribedInstant(
                Instant(request_time, "commit", State.COMPLETED, end, "compaction"),
                Details("COMPACT", None, 900, plan=plan),
            )
        files = tuple(_file(every[(n + 5 * k) % groups], request_time) for k in range(4))
        return DescribedInstant(
            Instant(request_time, "deltacommit", State.COMPLETED, end),
            Details("UPSERT", f"writer-{n % writers}", 1000, files),
            n < 1000,
        )

    return Facts(
        facts.config,
        facts.path,
        NOON + 700 * count,
        tuple(map(seen, range(count))),
        view=facts.view,
        status=facts.status,
    )


def _file(group: GroupId, request_time: str) -> MadeFile:
    return MadeFile(group, LogFileName(group.file_id, request_time, 1, "17-45-103", "").format(), 123_456, 250)

# SPDX-License-Identifier: Apache-2.0
"""One action on the timeline."""

from __future__ import annotations

from dataclasses import dataclass

from lakebraid.format.names import State, TimelineFileName

WRITE_ACTIONS = frozenset({"commit", "deltacommit", "replacecommit"})
"""Completed actions that may make rows visible."""

_FAMILIES = {
    "commit": "write",
    "deltacommit": "write",
    "compaction": "write",
    "logcompaction": "write",
    "replacecommit": "write",
    "clustering": "write",
}
COMPLETED_AS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
"""What a plan of a table service is called when it is done. A savepoint has the request time of the commit that it pins. So the request time
alone does not name an instant (FORMAT, trap 17)."""


def action_family(action: str) -> str:
    """What may share one request time: all that writes rows is one family, every other action its own.

    >>> action_family("compaction"), action_family("commit"), action_family("savepoint")
    ('write', 'write', 'savepoint')
    """
    return _FAMILIES.get(action, action)


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """An action with its two times. `action` is the word of the furthest state's file; `planned` that of its plan."""

    request_time: str
    action: str
    state: State
    completion_time: str | None = None
    planned: str | None = None
    """The action word of the requested or inflight file, where one is there (compaction, clustering, …)."""

    @property
    def is_completed(self) -> bool:
        """Whether it is published: readers see it."""
        return self.state is State.COMPLETED

    @property
    def is_write(self) -> bool:
        """Whether the completed action may make rows visible."""
        return self.action in WRITE_ACTIONS

    @property
    def kind(self) -> str:
        """What a person calls it: a compaction stays one after it has completed as a commit."""
        return self.planned or self.action

    def file_name(self, state: State | None = None, layout: int = 2) -> str:
        """The name of the timeline file for its own state, or an earlier one."""
        state = state or self.state
        action = self.action if state is State.COMPLETED else (self.planned or self.action)
        completion = self.completion_time if state is State.COMPLETED and layout == 2 else None
        return TimelineFileName(self.request_time, completion, action, state).format(layout)

# SPDX-License-Identifier: Apache-2.0
"""Looking closely at a table: its audit, and the story of an instant. Nothing here changes anything."""

from __future__ import annotations

from lakebraid.clock import Clock
from lakebraid.inspect.audit.run import Audit, Progress, audit_table
from lakebraid.inspect.detail import Detail, load_details
from lakebraid.inspect.story import Story, load_story
from lakebraid.model.config import TableConfig
from lakebraid.storage import Storage


class Inspecting:
    """What a `Table` can tell of itself beyond its rows."""

    _storage: Storage
    _clock: Clock
    _config: TableConfig

    def audit(self, *, deep: bool = False, progress: Progress | None = None) -> Audit:
        """Holds what was committed against what readers get, and looks at everything around it; prints well.

        `deep` also reads the keys of all rows: each once, in its bucket and partition. `audit().is_healthy` says whether
        there is damage. Works on tables of Apache Hudi as well, and beside running writers. `progress` is told what is
        being looked at, and how many of how many are done.
        """
        return audit_table(self._storage, self._clock, deep=deep, progress=progress)

    def why(self, instant: str) -> Story:
        """The story of an instant: who wrote it, how it ended and by what rule, what hides its rows now; prints well."""
        return load_story(self._storage, self._clock, instant)

    def detail(self, instant: str) -> list[Detail]:
        """All that the files of an instant say: metadata, plan, written files. Several, if a savepoint shares its start."""
        return load_details(self._storage, self._config, instant)

# SPDX-License-Identifier: Apache-2.0
"""The services of a table: what keeps it small, fast and tidy, beside any number of writers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from lakebraid.api.planning import Source
from lakebraid.clock import Clock
from lakebraid.model.config import TableConfig
from lakebraid.services import compaction
from lakebraid.services.compaction import Compacted
from lakebraid.storage import Storage
from lakebraid.txn import operations
from lakebraid.txn.heartbeat import silence_ms_max
from lakebraid.txn.rescue import Rescue, rescue, sweep
from lakebraid.txn.session import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Maintenance:
    """What a `Table` can do beside reading and writing rows. Every service may run in any number of processes at once."""

    _storage: Storage
    _source: Source
    _config: TableConfig
    _clock: Clock
    _writing: Writing

    def status(self, instant: str) -> Literal["published", "refused", "open"]:
        """How the write of that instant ended, or that it has not."""
        return operations.status(self._writing.ledger(self._config), instant)

    def compact(self, *, spark: SparkSession | None = None) -> list[Compacted]:
        """Merges log files into base files, in process or, if there is much to do or `spark` is given, on Spark.

        Runs beside any number of writers and changes no answer. First brings plans to their end whose executors died.
        """
        return compaction.compact(self._writing, options=dict(self._source.options), spark=spark)

    def rollback(self, *, timeout_seconds: float | None = None) -> Rescue:
        """Takes back the writes of dead writers and removes what they left behind.

        Dead is who has shown no heartbeat for `timeout_seconds`; without it the table's setting counts, two minutes.
        A living writer whose beat is merely late may be hit; its commit is then refused, and nothing of it is visible.
        """
        ledger = self._writing.ledger(self._config)
        timeout_ms = silence_ms_max(self._config) if timeout_seconds is None else int(timeout_seconds * 1000)
        done = rescue(ledger, self._clock.token(), timeout_ms=timeout_ms)
        return replace(done, removed=sweep(self._storage, self._clock, self._config, ledger))

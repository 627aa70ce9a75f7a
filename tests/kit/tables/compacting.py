# SPDX-License-Identifier: Apache-2.0
"""A table that real writers and real compactions work on, one decision after the other, and what was written to it.

The same writes without any compaction are a `History`: the naive model answers for it, and `build_table` makes a
second table of it that nobody ever compacted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakebraid.clock import Clock
from lakebraid.format.log.blocks import read_blocks
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.services.merging.compaction import COMPACTION, CompactionResult, plan_compaction
from lakebraid.services.settings import Opened
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import begin_write, publish_write
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.writer import Writing
from tests.kit.models.oracle import Block, Group, History, Instant, Log, Settings
from tests.kit.tables.builder import StillClock, write_properties
from tests.kit.tables.built_files import put_file, schema_text, t

_FIRST = int(t(1)) - 1


def number(time: str) -> int:
    """The small number of an instant time: `t` the other way round."""
    return int(time) - _FIRST


class CountingClock(StillClock):
    """Stands still, so that the ledger gives the times 1, 2, 3 …; each token is another one."""

    def __init__(self) -> None:
        self.tokens = 0

    def now_ms(self) -> int:
        return super().now_ms() + 1

    def token(self) -> str:
        self.tokens += 1
        return f"{self.tokens:016x}"


@dataclass
class Bench:
    """The table, and the history of the writes alone."""

    settings: Settings
    columns: tuple[str, ...]
    clock: Clock = field(default_factory=CountingClock)
    compactions: list[CompactionResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.storage: Storage = MemoryStorage("memory://compacted", self.clock)
        write_properties(self.storage, self.settings)
        self.config, _ = load_config(self.storage)
        self.at = TableAt(self.storage, self.config, self.clock)
        self.ledger = Ledger(self.at)
        self.writing = Writing(self.storage, self.clock)
        self.history = History(self.settings)
        self.publish(self.begin({}))

    def begin(self, files: dict[Group, tuple[Block, ...]], columns: tuple[str, ...] | None = None) -> Instant:
        """A write begins and puts its log files down; `columns` are those of a partial update."""
        txn = self.clock.token()
        request_time = number(begin_write(self.ledger, txn, columns=columns))
        instant = Instant(request_time, "deltacommit", columns=self.columns)
        self.history.instants.append(instant)
        for group, blocks in files.items():
            log = Log(group, request_time, blocks)
            self.history.logs.append(log)
            put_file(self.storage, log, self.settings)
        return instant

    def publish(self, instant: Instant) -> None:
        metadata = CommitMetadata(extra={"schema": schema_text(self.columns, self.settings)}, operation="UPSERT")
        write = self.ledger.newest().state.open[t(instant.request_time)]
        done = publish_write(
            self.ledger, write.decider, t(instant.request_time), lambda _: metadata, states_schema=True
        )
        instant.completion = number(done)

    def give_up(self, instant: Instant) -> None:
        roll_back(self.ledger, self.clock.token(), t(instant.request_time))
        self.history.instants.remove(instant)
        self.history.logs = [log for log in self.history.logs if log.request_time != instant.request_time]
        # Nobody announced these files, so the rollback cannot find them.
        self.storage.delete([i.name for i in self.storage.list() if f"_{t(instant.request_time)}." in i.name])

    def plan(self) -> str | None:
        return plan_compaction(self.ledger)

    def run(self, request_time: str) -> CompactionResult:
        done = COMPACTION.run(Opened(self.writing, self.ledger), request_time)
        self.compactions.append(done)
        return done

    def compact(self) -> CompactionResult | None:
        request_time = self.plan()
        return None if request_time is None else self.run(request_time)

    def moments(self) -> list[int]:
        """Every completion, of writes and compactions."""
        writes = [i.completion for i in self.history.instants if i.completion is not None]
        return sorted([*writes, *(number(c.completion_time) for c in self.compactions)])

    def names(self, *, suffix: str = "") -> list[str]:
        """The data files."""
        found = [i.name for i in self.storage.list() if not i.name.startswith(".hoodie/")]
        return [n for n in found if n.endswith(suffix) and ".hoodie_partition_metadata" not in n]

    def instants_of_own_logs(self) -> list[list[str]]:
        """Of each log file that a compaction wrote the instants of its blocks, as they lie there."""
        names = [n for n in self.names() if any(f"_{c.instant}.log." in n for c in self.compactions)]
        blocks = [read_blocks(self.storage.read(name, 10**7), name).blocks for name in sorted(names)]
        return [[block.instant_time or "" for block in found] for found in blocks]

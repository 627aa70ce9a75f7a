# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows may lie in any file group, with small groups to cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lakebraid.api.table import Table
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.ledger.ledger import Ledger
from tests.kit.tables.scene import TickingClock, answer, files, make_table, row, table_on

COLUMNS = "id string not null, ts bigint, v string, w bigint"
NEW_GROUPS = {"hoodie.parquet.small.file.limit": "0"}
"""Every insert makes a file group of its own."""
GIVES_WAY = {
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
}
KINDS = ("cow", "mor")


@dataclass
class Grove:
    """A table with the simple index and some small file groups: group `n` has the keys n0, n1 and n2."""

    kind: str = "cow"
    groups: int = 3
    properties: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    clock: TickingClock = field(default_factory=TickingClock)

    def __post_init__(self) -> None:
        self.storage = MemoryStorage("memory://grove", self.clock)
        how: dict[str, Any] = {"table_type": self.kind, "index": "simple", "properties": NEW_GROUPS | self.properties}
        self.table = make_table(self.storage, self.clock, COLUMNS, **(how | self.arguments))
        for number in range(self.groups):
            self.table.insert([row(f"{number}{m}", "old", w=(5 * number + 7 * m) % 4) for m in range(3)])

    def other(self) -> Table:
        """The table as another process has it open."""
        return table_on(self.storage, self.clock)

    def ledger(self) -> Ledger:
        return self.table._writing.ledger(self.table._config)

    def rows(self) -> dict[str, str]:
        return answer(self.table)

    def files(self) -> list[str]:
        return files(self.storage)

    def groups_now(self) -> int:
        return len(self.table.snapshot().slices)

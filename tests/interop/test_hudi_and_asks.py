# SPDX-License-Identifier: Apache-2.0
"""Writers of ours that are decided in one entry of the ledger, before Apache Hudi's incremental reader and both snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hudi import HudiTableBuilder

from lakebraid import limits
from lakebraid.api.table import Table
from lakebraid.clock import SystemClock
from lakebraid.format.names import parse_timeline_file
from lakebraid.storage import LocalStorage
from lakebraid.txn.ledger import ledger
from lakebraid.txn.ledger.entries import LEDGER
from tests.interop.referee import Referee
from tests.kit.present import present
from tests.kit.tables.scene import Call, WatchedStorage, make_table, once, row, table_on

pytestmark = pytest.mark.interop
WRITERS = 3


@dataclass
class Poller:
    """A job that asks Hudi for what completed after the last completion it saw, as Hudi's own streams do."""

    referee: Referee
    table: Table
    after: str = "000"
    keys: Counter[str] = field(default_factory=Counter)
    polls: list[str] = field(default_factory=list)

    @property
    def folder(self) -> str:
        return self.table.path.removeprefix("file://")

    def poll(self) -> None:
        names = [path.name for path in Path(self.folder, ".hoodie/timeline").iterdir()]
        parsed = [found for name in names if (found := parse_timeline_file(name)) is not None]
        until = max(found.completion_time for found in parsed if found.completion_time)
        if until > self.after:
            begin, end = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
            self.keys.update(self._read("incremental", {begin: self.after, end: until}))
            self.polls.append(until)
            self.after = until

    def snapshot(self) -> list[str]:
        return sorted(self._read("snapshot", {}))

    def _read(self, mode: str, options: dict[str, str]) -> list[str]:
        found: list[dict[str, Any]] = self.referee.ask("read", path=self.table.path, mode=mode, options=options)["rows"]
        return [str(one["id"]) for one in found]


@pytest.fixture
def poller(referee: Referee, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Poller:
    monkeypatch.setattr(limits, "ASK_CALL_SECONDS_MIN", 0.0)
    return Poller(referee, make_table(LocalStorage(str(tmp_path / "t")), SystemClock(), buckets=2))


def publish_together(table: Table, turn: int, at_each_file: Callable[[], None]) -> list[str]:
    """Overlapping writers: all ask, and the last decides for all; something is done after each commit's file has appeared. Gives the keys that were acknowledged."""
    stores = [WatchedStorage(table._storage) for _ in range(WRITERS)]
    txns = [table_on(store, table._clock).begin() for store in stores]
    keys = [[f"{turn}-{n}-{i}" for i in range(4)] for n in range(WRITERS)]
    for txn, own in zip(txns, keys, strict=True):
        txn.write([row(key, "x") for key in own])

    def commit(n: int) -> None:
        if n + 1 < WRITERS:
            stores[n].after = once(_is_ask, lambda: commit(n + 1))
        else:
            stores[n].after = lambda call: at_each_file() if _is_completion(call) else None
        txns[n].commit()

    commit(0)
    entries = {present(table.why(txn.instant).completed_in) for txn in txns}
    assert len({found.entry for found in entries}) == 1, "they were not decided together"
    return [key for own in keys for key in own]


def _is_ask(call: Call) -> bool:
    return call.name == "create" and call.target.startswith(f"{LEDGER}/a.")


def _is_completion(call: Call) -> bool:
    return call.name == "copy" and call.target.endswith(".deltacommit")


def test_hudis_incremental_reader_sees_each_row_of_writers_that_were_decided_together_once(poller: Poller) -> None:
    rows = publish_together(poller.table, 1, poller.poll)
    assert len(poller.polls) == WRITERS, "Hudi looked after each commit"
    rows += publish_together(poller.table, 2, poller.poll)
    poller.poll()
    assert poller.keys == Counter(rows)
    assert poller.snapshot() == sorted(rows)
    batches = HudiTableBuilder.from_base_uri(poller.folder).build().read()
    assert sorted(key for batch in batches for key in batch.column("id").to_pylist()) == sorted(rows)


def test_hudis_incremental_reader_would_miss_rows_if_commits_of_an_entry_appeared_in_another_order(
    poller: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above would see: a planted bug."""
    in_order = vars(ledger)["copy_all"]

    def backwards(storage: Any, clock: Any, files: Any, **how: Any) -> Any:
        return in_order(storage, clock, tuple(reversed(files)), **how)

    monkeypatch.setattr(ledger, "copy_all", backwards)
    rows = publish_together(poller.table, 1, poller.poll)
    poller.poll()
    assert set(poller.keys) < set(rows)
    assert poller.snapshot() == sorted(rows), "snapshots lack nothing"

# SPDX-License-Identifier: Apache-2.0
"""Who writes is seen from the beginning, also of writers that are slow, dead or taken back."""

from __future__ import annotations

import json

import pytest

from lakebraid.api.table import Table
from lakebraid.errors import WriteConflict
from lakebraid.inspect.audit.run import audit_table
from lakebraid.limits import WRITER_NAME_CHARACTERS_MAX
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.ledger.entries import Entry, LedgerState, OpenWrite, format_entry, parse_entry
from lakebraid.txn.liveness.heartbeat import Heartbeat, beat
from lakebraid.web.gathering import load_facts
from lakebraid.web.picture import build_model
from tests.kit.tables.scene import TickingClock, make_table, row

pytestmark = pytest.mark.unit
MINUTE_MS = 60_000


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heartbeat, "run", lambda self: None)


class Four:
    """A table with a finished writer, a dead one, and two that have something open."""

    def __init__(self) -> None:
        self.clock = TickingClock()
        self.storage = MemoryStorage("memory://named", self.clock)
        self.table: Table = make_table(self.storage, self.clock)
        self.table.upsert([row("a", "1")], writer="finished")
        self.dead = self.table.begin(writer="dead")
        self.clock.ms += 3 * MINUTE_MS
        self.slow, self.fresh = self.table.begin(writer="slow"), self.table.begin(writer="fresh")

    def lanes(self) -> list[str]:
        model = build_model(load_facts(self.storage, self.clock))
        return [lane["name"] for lane in model["lanes"] if not lane["service"]]


@pytest.fixture
def four() -> Four:
    return Four()


def test_the_status_names_who_has_a_write_open_and_who_is_silent(four: Four) -> None:
    status = four.table.status()
    assert [(w.writer, w.is_silent) for w in status.writers] == [("dead", True), ("slow", False), ("fresh", False)]
    assert f"{four.slow.instant}  slow" in repr(status)


def test_the_timeline_names_who_has_a_write_open(four: Four) -> None:
    listing = four.table.timeline()
    assert [e.writer for e in listing][-4:] == ["finished", "dead", "slow", "fresh"]
    assert "by slow" in repr(listing) and "by finished" not in repr(listing)


def test_open_and_dead_writers_have_lanes_of_their_own_before_and_after_the_dead_one_is_taken_back(four: Four) -> None:
    assert four.lanes()[:4] == ["finished", "dead", "slow", "fresh"]
    four.table.rollback()
    assert four.lanes()[:4] == ["finished", "dead", "slow", "fresh"]


def test_why_names_the_writer_of_an_open_write_and_of_one_that_was_taken_back_because_it_died(four: Four) -> None:
    assert "Begun by slow." in repr(four.table.why(four.slow.instant))
    four.table.rollback()
    assert "Written by dead." in repr(four.table.why(four.dead.instant))


def test_an_audit_names_the_dead_writer(four: Four) -> None:
    (found,) = (f for f in audit_table(four.storage, four.clock).findings.shown if f.kind == "writer-dead")
    assert found.where == four.dead.instant and "deltacommit of dead has shown no sign of life" in found.what


@pytest.mark.parametrize("is_dead", [False, True])
def test_on_a_table_for_one_writer_the_other_one_is_told_by_name(is_dead: bool) -> None:
    clock = TickingClock()
    storage = MemoryStorage("memory://alone", clock)
    table = make_table(storage, clock, concurrency="single")
    first = table.begin(writer="nightly")
    beat(storage, first.instant)
    if is_dead:
        clock.ms += 3 * MINUTE_MS
        table.upsert([row("a", "1")], writer="other")
        assert table.why(first.instant).writer == "nightly"
    else:
        with pytest.raises(WriteConflict, match=rf"the write {first.instant} of nightly is open") as refused:
            table.upsert([row("a", "1")], retries=0)
        assert refused.value.facts["other_writer"] == "nightly"


def test_a_name_of_any_length_leaves_entries_small() -> None:
    clock = TickingClock()
    table = make_table(MemoryStorage("memory://long", clock), clock)
    table.begin(writer="n" * 10_000)
    (writer,) = table.status().writers
    assert writer.writer == "n" * (WRITER_NAME_CHARACTERS_MAX - 1) + "…"


def test_an_entry_of_a_release_that_named_nobody_is_read() -> None:
    opened = {"20260101000000000": OpenWrite("t", "deltacommit", writer="me")}
    entry = Entry(1, "t", "begin", "20260101000000000", 0, state=LedgerState(last="20260101000000000", open=opened))
    assert parse_entry(format_entry(entry), "x") == entry
    record = json.loads(format_entry(entry))
    record["state"]["open"]["20260101000000000"].pop()
    assert parse_entry(json.dumps(record).encode(), "x").state.writer_of("20260101000000000") is None

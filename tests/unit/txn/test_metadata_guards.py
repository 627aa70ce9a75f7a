# SPDX-License-Identifier: Apache-2.0
"""Which publications a metadata table refuses, and how it gets on with asks and with commits that appear in groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakebraid.errors import CommitRefused, UnsupportedTable
from lakebraid.format.metadata.commits import FOLDER
from lakebraid.format.names import LEDGER
from lakebraid.format.properties import format_properties, parse_properties
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.config import PUBLICATION_ORDER
from lakebraid.model.timeline.timeline import build_timeline
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.loading import PROPERTIES
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import publish_write
from lakebraid.txn.ledger.asks import Ask, parse_asks, wish_text
from lakebraid.txn.ledger.wishes import AGAIN, cleaned_wish, finish_wish, publish_wish
from tests.kit.metadata_tables.writing import Kept
from tests.kit.present import present
from tests.kit.races.far import FarCompany
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage

pytestmark = pytest.mark.unit


# --- beside asks and groups ------------------------------------------------------------------------------------------


def test_a_process_for_which_calls_take_long_asks_for_its_beginning_and_publishes_itself() -> None:
    watched = WatchedStorage(MemoryStorage("memory://far", TickingClock()))
    table = Kept(watched)

    def asked() -> set[str]:
        puts = [c.target for c in watched.calls if c.name == "create" and c.target.startswith(f"{LEDGER}/a.")]
        return {present(ask.wish()).kind for ask in parse_asks(puts)}

    far = replace(table.ledger(), company=FarCompany())
    write = table.begin(on=far)
    table.publish(write, far)
    assert asked() == {"begin"}
    table.check()
    assert table.by_folders() == {"p0": {write.name: write.size}}


@pytest.mark.parametrize("kind", ["publish", "finish", "cleaned"])
def test_a_publication_that_is_asked_for_as_if_there_were_no_metadata_table_is_not_decided(kind: str) -> None:
    """An author that looked at the properties before the metadata table was there: its commit would be hidden from Hudi."""
    table = Kept()
    write = table.begin()
    ledger = table.ledger()
    wished = {
        "publish": publish_wish(ledger.newest().state, write.request_time, has_rows=True, touches=0),
        "finish": finish_wish(write.request_time, 1, touches=0),
        "cleaned": cleaned_wish(write.request_time),
    }[kind]
    one = Ask(ledger.newest().number, "w" * 16, "t" * 16, present(wish_text(wished)))
    table.storage.create(one.name(), b"")
    table.begin("p1")
    state = table.ledger().newest().state
    assert state.decided["w" * 16].outcome == AGAIN
    assert write.request_time in state.open
    table.check()


def test_a_rollback_that_is_asked_for_is_decided_and_done() -> None:
    table = Kept()
    write = table.begin()
    far = replace(table.ledger(), company=FarCompany())
    far.newest()
    assert roll_back(far, "other", write.request_time)
    assert write.request_time not in table.ledger().newest().state.rollbacks


def test_the_files_of_an_entry_appear_in_their_order_though_the_table_lets_commits_appear_in_groups() -> None:
    """MDT, M1. A commit that appears before its delta commit is hidden from Hudi's readers."""
    table = Kept(MemoryStorage("memory://groups", TickingClock()))
    known = parse_properties(table.storage.read(PROPERTIES, 1 << 20), "here")
    table.storage.replace(PROPERTIES, format_properties({**known, PUBLICATION_ORDER: "group"}))
    early, later = table.begin(), table.begin("p1")
    table.publish(later)
    watched = WatchedStorage(table.storage, after=lambda _: table.check())
    table.publish(early, table.ledger(watched))
    assert table.ledger().newest().since is None


# --- what is refused -------------------------------------------------------------------------------------------------


def change_properties(table: Kept, **properties: str) -> None:
    known = parse_properties(table.storage.read(PROPERTIES, 1 << 20), "here")
    found = {**known, **{f"hoodie.table.metadata.{key.replace('_', '.')}": text for key, text in properties.items()}}
    table.storage.replace(PROPERTIES, format_properties(found))


@pytest.mark.parametrize(
    "changed", [{"partitions": "files"}, {"partitions": ""}, {"partitions_inflight": "record_index"}]
)
def test_a_metadata_table_that_was_changed_since_the_write_began_refuses_it(changed: dict[str, str]) -> None:
    """MDT, M7."""
    table = Kept()
    write = table.begin()
    ledger = table.ledger()
    change_properties(table, **changed)
    with pytest.raises(CommitRefused, match="was changed since this write began"):
        table.publish(write, ledger)
    assert table.logs(write.request_time) == []


def test_logs_go_to_as_many_file_groups_as_there_are_when_the_entry_is_made() -> None:
    """MDT, M7: the first attempt loses its slot, and the partition is rebuilt with another group before the second."""
    table = Kept(MemoryStorage("memory://groups", TickingClock()))
    write = table.begin()
    seen = list[int]()

    def tell(content: CommitMetadata, layout: object) -> object:
        seen.append(len(layout.groups["column_stats"]))  # type: ignore[attr-defined]
        return write.tell(content, layout)  # type: ignore[arg-type]

    def rebuild(call: Call) -> None:
        if call.is_entry() and len(seen) == 1:
            table.begin("p1")
            table.storage.create(f"{FOLDER}/column_stats/.col-stats-0002-0_{'0' * 17}.log.1_0-0-0", b"")

    slow = WatchedStorage(table.storage, before=rebuild)
    table.publish(write, table.ledger(slow), tell)  # type: ignore[arg-type]
    assert seen == [2, 3]


def test_a_file_group_that_is_missing_refuses_the_write() -> None:
    table = Kept()
    write = table.begin()
    table.storage.delete([f"{FOLDER}/column_stats/.col-stats-0000-0_{'0' * 17}.log.1_0-0-0"])
    with pytest.raises(UnsupportedTable, match="col-stats-0001-0, which are not understood"):
        table.publish(write)


def test_files_of_which_the_metadata_table_would_not_be_told_are_not_published() -> None:
    table = Kept()
    write = table.begin()
    with pytest.raises(UnsupportedTable, match="does not say what the metadata table is to be told"):
        publish_write(table.ledger(), write.decider, write.request_time, lambda _: write.content)
    table.check()


def test_a_commit_without_files_is_known_to_the_metadata_table_without_logs() -> None:
    table = Kept()
    write = table.begin()
    publish_write(table.ledger(), write.decider, write.request_time, lambda _: CommitMetadata())
    assert build_timeline(table.metadata_names()).completion_of(write.request_time) is not None
    assert table.logs(write.request_time) == []

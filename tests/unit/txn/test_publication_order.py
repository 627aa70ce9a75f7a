# SPDX-License-Identifier: Apache-2.0
"""Commits that are decided together appear one after the other, or side by side; no reader of ours takes a part for the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile, InvalidArgument, UnsupportedTable
from lakebraid.format.names import LEDGER, State, TimelineFileName, entry_name
from lakebraid.format.properties import format_properties, parse_properties
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.publication import parse_publication
from lakebraid.model.config import PUBLICATION_ORDER
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table import loading
from lakebraid.table.at import TableAt
from lakebraid.table.loading import PROPERTIES, load_config, load_timeline
from lakebraid.table.positions import Positions
from lakebraid.txn.actions.write import begin_write, publish_write
from lakebraid.txn.ledger.asks import Ask, wish_text
from lakebraid.txn.ledger.entries import format_entry, parse_entry
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.timeline_copies import copy_all
from lakebraid.txn.ledger.wishes import publish_wish
from tests.kit.depth import DeepStorage, measured
from tests.kit.tables.scene import Call, Scene, TickingClock, Write, answer, make_table, row, table_on

pytestmark = pytest.mark.unit
TIMELINE = ".hoodie/timeline"


def at(s: Scene) -> TableAt:
    return TableAt(s.storage, load_config(s.storage)[0], s.clock)


def completed(write: Write) -> str:
    name = TimelineFileName(write.request_time, write.completion, "deltacommit", State.COMPLETED).format()
    return f"{TIMELINE}/{name}"


class Half:
    """A table with one commit, and an entry that publishes two more, of which the later one is there first."""

    def __init__(self, order: str = "group") -> None:
        self.s = Scene(arguments={"publication_order": order})
        self.first, early, late = (self.s.write(row(key, key)) for key in "abc")
        self.early, self.late = early, late
        ledger = Ledger(at(self.s))
        newest = ledger.newest()
        files = tuple((f".hoodie/.lakebraid/staged/{n}", completed(w)) for n, w in enumerate((early, late)))
        since = self.first.completion if order == "group" else None
        together = replace(newest, number=newest.number + 1, files=files, since=since)
        self.s.storage.create(entry_name(together.number), format_entry(together))
        self._bytes = self.s.storage.read(completed(early), 1 << 20)
        self.s.storage.delete([completed(early)])

    def heal(self) -> None:
        self.s.storage.create(completed(self.early), self._bytes)

    def table(self) -> lb.Table:
        return table_on(self.s.storage, self.s.clock)


def test_a_reader_takes_neither_of_two_commits_while_the_earlier_one_is_missing() -> None:
    half = Half()
    assert answer(half.table()) == {"a": "a"}
    half.heal()
    assert answer(half.table()) == {"a": "a", "b": "b", "c": "c"}


def test_a_reader_of_the_past_does_not_get_a_later_commit_without_the_earlier_one() -> None:
    half = Half()
    assert answer(half.table(), as_of=half.late.completion) == {"a": "a"}


def test_changes_do_not_pass_over_a_commit_that_appears_after_a_later_one() -> None:
    half = Half()
    seen = half.table().changes(after=half.first.completion)
    assert seen.to_arrow().num_rows == 0
    half.heal()
    rest = half.table().changes(after=seen.next_position)
    assert sorted(rest.to_arrow()["id"].to_pylist()) == ["b", "c"]


def test_a_stream_does_not_pass_over_a_commit_that_appears_after_a_later_one() -> None:
    half = Half()
    positions = Positions(at(half.s))
    time = half.first.completion or ""
    assert positions.after(time) == []
    half.heal()
    assert [i.request_time for i in positions.after(time)] == [half.early.request_time, half.late.request_time]


def test_a_timeline_for_people_shows_no_later_commit_as_completed_without_the_earlier_one() -> None:
    half = Half()
    done = {e.instant.request_time for e in half.table().timeline() if e.instant.is_completed}
    assert half.first.request_time in done
    assert done.isdisjoint({half.early.request_time, half.late.request_time})
    half.heal()
    assert {i.request_time for i in load_timeline(at(half.s)).writes} >= {
        half.early.request_time,
        half.late.request_time,
    }


def test_an_entry_without_its_order_is_one_whose_files_appear_one_after_the_other() -> None:
    """An entry of a process that knows no groups; what a listing shows of it is a prefix."""
    half = Half()
    ledger = Ledger(at(half.s))
    newest = ledger.newest()
    ledger.storage.replace(entry_name(newest.number), format_entry(replace(newest, since=None)))
    assert answer(half.table()) == {"a": "a", "c": "c"}


def test_only_readers_of_tables_in_groups_look_at_the_ledger() -> None:
    def looks(order: str) -> list[str]:
        s, seen = Scene(arguments={"publication_order": order}), list[Call]()
        s.write(row("a", "a"))
        answer(s.other(before=seen.append))
        return [call.name for call in seen if call.target.startswith(LEDGER)]

    assert looks("each") == []
    assert looks("group") == ["list", "read", "list"]


def test_an_entry_that_is_newer_than_the_listing_of_the_ledger_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is listed beside the timeline, and perhaps before it."""
    half = Half()
    storage, later = half.s.storage, [max(n.name for n in half.s.storage.list(LEDGER)), completed(half.late)]
    taken = {name: storage.read(name, 1 << 20) for name in later}
    storage.delete(later)

    def appear(call: Call) -> None:
        if call.name == "list_names":
            for name in [*taken]:
                storage.create(name, taken.pop(name))

    monkeypatch.setattr(loading, "together", lambda _, *calls: [call() for call in reversed(calls)][::-1])
    assert answer(half.s.other(before=appear)) == {"a": "a"}
    assert not taken


def test_reading_the_newest_entry_keeps_readers_of_folders_waiting_for_no_call_more() -> None:
    def waits(order: str) -> int:
        storage, clock = MemoryStorage("memory://deep", TickingClock()), TickingClock()
        table = make_table(storage, clock, publication_order=order, partition_by="v")
        table.upsert([row("a", "a"), row("b", "b")])
        deep = cast("Storage", DeepStorage(storage))
        with measured(cast("DeepStorage", deep)) as depth:
            table_on(deep, clock).to_arrow()
        return depth.now

    assert waits("group") == waits("each")


def test_an_entry_that_is_trimmed_before_it_is_read_is_not_waited_for() -> None:
    s = Scene(arguments={"publication_order": "group"})
    s.write(row("a", "a"))

    def trim(call: Call) -> None:
        if call.name == "read" and call.target.startswith(LEDGER) and not gone:
            gone.append(call.target)
            s.write(row("b", "b"))
            s.storage.delete([call.target])

    gone = list[str]()
    table = s.other(before=trim)
    assert answer(table) == {"a": "a"}
    assert gone
    assert answer(table) == {"a": "a", "b": "b"}


def test_commits_of_one_entry_say_what_was_before_them() -> None:
    storage = MemoryStorage("memory://group", TickingClock())
    make_table(storage, storage.clock, publication_order="group")
    ledger = Ledger(TableAt(storage, load_config(storage)[0], storage.clock))
    request_times = [begin_write(ledger, name, beat=lambda _: None) for name in "ab"]
    before = ledger.newest()
    assert before.since is None
    wish = publish_wish(before.state, request_times[0], has_rows=False, touches=0)
    asked = Ask(before.number, "w" * 16, "t" * 16, wish_text(wish) or "", 1)
    storage.create(asked.name(), b"{}")
    publish_write(ledger, "b", request_times[1], lambda _: CommitMetadata())
    entry = ledger.newest()
    assert entry.since == before.time
    told = parse_publication(format_entry(entry), "here")
    assert (told.since, told.last) == (entry.since, entry.time)
    assert [name[:17] for _, name in told.completions] == [request_times[1], request_times[0]]
    assert parse_entry(format_entry(entry), "here") == entry


ONE, TWO, THREE, FOUR = (f"2026010100000000{n}" for n in "1234")
BEGINS = (f"{THREE}.deltacommit.requested", f"{THREE}.deltacommit.inflight")
PUBLISHED = (f"{ONE}_{FOUR}.deltacommit", f"{TWO}_{FOUR[:-1]}5.deltacommit")


@pytest.mark.parametrize(
    ("names", "in_a_row"),
    [
        (BEGINS, 1),
        ((*BEGINS, *PUBLISHED), 2),
        (PUBLISHED, 2),
        ((f"{THREE}.rollback.requested", *PUBLISHED), 3),
        ((*BEGINS, f"{THREE}_{FOUR}.deltacommit"), 2),
        ((f"{THREE}.deltacommit.requested", *PUBLISHED, f"{FOUR}.deltacommit.requested"), 3),
    ],
)
def test_the_files_of_a_write_that_begins_keep_no_published_one_waiting(names: tuple[str, ...], in_a_row: int) -> None:
    """All others appear in their order: so one completed file after the other, and what an entry begins and ends in this order."""
    storage, clock = MemoryStorage("memory://copies", TickingClock()), TickingClock()
    files = [(f"staged/{number}", f"{TIMELINE}/{name}") for number, name in enumerate(names)]
    for source, _ in files:
        storage.create(source, b"")
    deep = DeepStorage(storage)
    with measured(deep) as depth:
        assert copy_all(cast("Storage", deep), clock, files)
    assert {info.name for info in storage.list(TIMELINE)} == {target for _, target in files}
    assert depth.now == in_a_row


@pytest.mark.parametrize("data", [b"", b"[]", b'{"version": 2}', b'{"version": 2, "files": [], "time": "x"}'])
def test_a_damaged_entry_is_no_publication(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        parse_publication(data, "here")


def test_an_entry_of_a_newer_release_is_refused_by_readers_too() -> None:
    with pytest.raises(CorruptFile, match="newer lakebraid"):
        parse_publication(b'{"version": 3}', "here")


# The property


def order_of(properties: Any) -> str | None:
    return dict(properties).get(PUBLICATION_ORDER)


def test_the_order_of_publication_is_a_property_of_the_table() -> None:
    assert order_of(Scene(arguments={"publication_order": "group"}).table.properties) == "group"
    assert order_of(Scene(arguments={"properties": {PUBLICATION_ORDER: "group"}}).table.properties) == "group"
    assert order_of(Scene().table.properties) is None
    with pytest.raises(InvalidArgument, match="'each' or 'group'"):
        Scene(arguments={"publication_order": "grouped"})
    with pytest.raises(InvalidArgument, match="contradicts"):
        Scene(arguments={"publication_order": "each", "properties": {PUBLICATION_ORDER: "group"}})


def test_a_table_that_hudi_writes_too_publishes_one_after_the_other() -> None:
    with pytest.raises(InvalidArgument, match="Apache Hudi writes as well, commits appear one after the other"):
        lb.Table.create("/tmp/none", None, record_keys="id", shared=True, publication_order="group")


def test_an_order_that_is_not_known_is_refused_by_writers_and_services() -> None:
    s = Scene()
    s.write(row("a", "a"))
    properties = parse_properties(s.storage.read(PROPERTIES, 1 << 20), "here")
    s.storage.replace(PROPERTIES, format_properties({**properties, PUBLICATION_ORDER: "all"}))
    table = table_on(s.storage, s.clock)
    with pytest.raises(UnsupportedTable, match="Known are each and group"):
        table.upsert([row("b", "b")])
    with pytest.raises(UnsupportedTable, match="Known are each and group"):
        table.clean()
    assert answer(table) == {"a": "a"}

# SPDX-License-Identifier: Apache-2.0
"""Who follows a table on an object store fetches each data file once, and reads what is there, whatever happens to the files."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile
from lakebraid.storage import MemoryStorage, ObjectStorage, Storage
from lakebraid.tasks.changes.diff import batches, read_changes
from lakebraid.tasks.reading import kept_files
from lakebraid.tasks.reading.kept_files import KeptFiles
from tests.kit.depth import DeepStorage
from tests.kit.effort import played, seeds
from tests.kit.tables.scene import TickingClock, make_table, table_on

pytestmark = pytest.mark.unit
SCHEMA: Final = "id bigint, ts bigint, note string"
BUCKETS: Final = 4
Row = dict[str, Any]


class Far(DeepStorage):
    """An object store that notes which files are fetched."""

    def __init__(self, inner: MemoryStorage, reader: str = "") -> None:
        super().__init__(inner)
        self.memory, self.reader, self.fetched = inner, reader, list[str]()

    def read_listed(self, name: str, size_max: int) -> tuple[bytes, str]:
        self.fetched.append(name)
        return self.memory.read_listed(name, size_max)


def far(storage: MemoryStorage, reader: str = "") -> tuple[lb.Table, Far]:
    """The table as one that opens it far away has it."""
    store = Far(storage, reader)
    return table_on(cast("Storage", store), storage.clock), store


def rows(stamp: int, note: str = "") -> list[Row]:
    return [{"id": key, "ts": stamp, "note": f"{note}{key}"} for key in range(BUCKETS * 12)]


def orders(note: str = "", storage: MemoryStorage | None = None) -> tuple[lb.Table, MemoryStorage]:
    """A table with base files and a log in each bucket; each time its files have the same names."""
    storage = storage or MemoryStorage("memory://following", TickingClock())
    table = make_table(storage, TickingClock(), SCHEMA, buckets=BUCKETS)
    table.bulk_insert(rows(0, note))
    table.upsert(rows(1, note))
    return table, storage


def data_files(storage: MemoryStorage) -> set[str]:
    return {info.name for info in storage.list() if not info.name.startswith((".hoodie", ".lakebraid"))}


def notes(table: lb.Table) -> set[str]:
    return {note.rstrip("0123456789") for note in table.to_arrow().column("note").to_pylist()}


ACTS: Final[dict[str, Callable[[lb.Table, str], object]]] = {
    "read": lambda table, _: table.to_arrow(),
    "count": lambda table, _: table.count(),
    "changes": lambda table, before: table.changes(after=before).to_arrow(),
    "changes with images": lambda table, before: table.changes(after=before, images=True).to_arrow(),
    "changes without kinds": lambda table, before: table.changes(after=before, kinds=False).to_arrow(),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_was_fetched_once_is_not_fetched_again_and_of_a_new_commit_only_its_files_are(act: str) -> None:
    table, storage = orders()
    before = table.upsert(rows(2)).completion_time
    table.upsert(rows(3))
    reading, store = far(storage)
    ACTS[act](reading, before)
    assert max(Counter(store.fetched).values()) == 1
    assert len(store.fetched) == 4 * BUCKETS, "a base file and three logs of each bucket"
    again, other = far(storage)
    ACTS[act](again, before)
    assert other.fetched == []
    known, position = data_files(storage), table.changes().next_position
    table.upsert(rows(4))
    store.fetched.clear()
    ACTS[act](reading, position)
    assert {*store.fetched} == data_files(storage) - known
    assert len(store.fetched) == BUCKETS


def test_a_file_that_was_replaced_under_its_name_is_fetched_anew() -> None:
    _, storage = orders()
    reading, _ = far(storage)
    assert notes(reading) == {""}
    name = next(name for name in data_files(storage) if ".log." in name)
    data = storage.read(name, 1 << 20)
    at = data.rindex(b"PAR1")
    storage.replace(name, data[:at] + b"RAP1" + data[at + 4 :])  # as long as it was
    with pytest.raises(CorruptFile, match=name.rpartition("/")[2]):
        reading.to_arrow()
    storage.replace(name, data)
    assert notes(reading) == {""}


def test_a_table_that_was_made_anew_with_the_same_names_is_read_anew() -> None:
    _, storage = orders("old ")
    names = data_files(storage)
    assert notes(far(storage)[0]) == {"old "}
    storage.delete([info.name for info in storage.list()])
    orders("new ", storage)
    assert data_files(storage) == names
    assert notes(far(storage)[0]) == {"new "}


def test_another_table_under_the_same_address_is_read_from_its_own_files() -> None:
    (_, one), (_, two) = orders("one "), orders("two ")
    assert (one.url, data_files(one)) == (two.url, data_files(two))
    assert [notes(far(storage)[0]) for storage in (one, two, one)] == [{"one "}, {"two "}, {"one "}]


def test_a_reader_with_other_options_is_not_given_what_one_with_these_may_read() -> None:
    _, storage = orders()
    (reading, _), (reading_too, other) = far(storage, "one"), far(storage, "two")
    reading.to_arrow()
    reading_too.to_arrow()
    assert len(other.fetched) == 2 * BUCKETS
    stores = [ObjectStorage("s3://bucket/table", {"secret_access_key": key}) for key in ("confidential", "other")]
    assert stores[0].reader != stores[1].reader
    assert stores[0].reader == ObjectStorage("s3://bucket/table", {"secret_access_key": "confidential"}).reader
    assert "confidential" not in stores[0].reader


def test_what_is_replaced_between_its_listing_and_its_reading_is_kept_for_no_listing() -> None:
    storage = MemoryStorage("memory://following")
    store, kept = cast("Storage", Far(storage)), KeptFiles(1000, lambda data, _: data)
    storage.create("file", b"old")
    listed = storage.list()[0].version
    storage.replace("file", b"new")
    assert kept.get(store, "file", listed, 10) == b"new"
    assert kept.taken == 0
    storage.replace("file", b"newest")
    assert kept.get(store, "file", listed, 10) == b"newest"
    assert kept.get(store, "file", storage.list()[0].version, 10) == b"newest"
    assert kept.taken == len(b"newest")


def test_memory_stays_bounded_and_a_large_file_drives_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage("memory://following")
    store, kept = Far(storage), KeptFiles(40, lambda data, _: data)
    for number in range(10):
        storage.create(f"{number}", bytes(10))
    storage.create("large", bytes(11))
    monkeypatch.setattr("lakebraid.limits.KEPT_FILE_BYTES_MAX", 10)
    versions = {info.name: info.version for info in storage.list()}
    for _ in range(2):
        for name in ("large", *map(str, range(10))):
            kept.get(cast("Storage", store), name, versions[name], 100)
            assert kept.taken <= 40
    assert Counter(store.fetched)["large"] == 2
    store.fetched.clear()
    for name in ("9", "8", "7", "6"):
        kept.get(cast("Storage", store), name, versions[name], 100)
    assert store.fetched == []


def test_of_a_folder_on_a_disk_nothing_is_kept(tmp_path: Path) -> None:
    table = lb.Table.create(tmp_path, SCHEMA, record_keys="id", ordering_fields="ts", buckets=2)
    table.bulk_insert(rows(0))
    table.upsert(rows(1))
    taken = (kept_files.KEPT_LOGS.taken, kept_files.KEPT_BASES.taken)
    table.to_arrow()
    assert (kept_files.KEPT_LOGS.taken, kept_files.KEPT_BASES.taken) == taken


def differences(before: list[Row], after: list[Row], *, images: bool, kinds: bool) -> list[str]:
    """What changes between two states have to be, by brute force."""
    old, new = ({row["id"]: row for row in state} for state in (before, after))
    changed = [key for key in old if key in new and old[key] != new[key]]
    found = [("insert" if kinds else "upsert", new[key]) for key in new if key not in old]
    found += [("delete", old[key]) for key in old if key not in new]
    found += [("update_preimage", old[key]) for key in changed if images]
    found += [("update_postimage" if images else "update" if kinds else "upsert", new[key]) for key in changed]
    return sorted(repr((kind, row["id"], row["ts"], row["note"])) for kind, row in found)


def told(changes: pa.Table) -> list[str]:
    return sorted(repr((r["_change_type"], r["id"], r["ts"], r["note"])) for r in changes.to_pylist())


@pytest.mark.parametrize("seed", seeds(8))
def test_who_followed_a_table_all_the_time_is_told_what_really_changed(seed: int) -> None:
    """Random lives with compactions, cleans, restores, and tables made anew. The states are those of a table in memory, of
    which nothing is kept.
    """
    for playing in played([seed]):
        rng = random.Random(playing)
        table, storage = orders()
        following, _ = far(storage)
        states = {table.changes().next_position: table.to_arrow().to_pylist()}
        for step in range(14):
            table, keeps_states = _lived(rng, table, storage, [*states], step)
            newest, position = table.to_arrow().to_pylist(), table.changes().next_position
            states = {**(states if keeps_states else {}), position: newest}
            assert following.count() == len(newest)
            assert sorted(following.to_arrow().to_pylist(), key=repr) == sorted(newest, key=repr)
            after = rng.choice([*states])
            how: dict[str, Any] = rng.choice([{}, {"images": True}, {"kinds": False}])
            images, kinds = how.get("images", False), how.get("kinds", True)
            found = following.changes(after=after, **how).to_arrow()
            assert told(found) == differences(states[after], newest, images=images, kinds=kinds), step


def _lived(
    rng: random.Random, table: lb.Table, storage: MemoryStorage, positions: list[str], step: int
) -> tuple[lb.Table, bool]:
    """One step in the life of a table, and whether changes can still be read from the positions before."""
    some = [row | {"ts": rng.randint(0, 9), "note": f"in {step}"} for row in rows(0) if rng.random() < 0.4]
    match rng.randint(0, 12):
        case 0 | 1:
            table.compact()
        case 2:
            table.log_compact(logs_min=2)
        case 3:
            table.clean(versions=1)
            return table, False
        case 4:
            table.restore(rng.choice(positions))
            return table, False
        case 5:
            storage.delete([info.name for info in storage.list()])
            return orders(f"life {step} ", storage)[0], False
        case 6:
            table.delete([{"id": row["id"]} for row in some[:9]])
        case 7:
            table.delete([{"id": row["id"], "ts": row["ts"]} for row in some[:9]])
        case 8:
            table.upsert([{"id": row["id"], "ts": row["ts"]} for row in some], columns=["id", "ts"])
        case _:
            table.upsert([*some, {"id": 100 + step, "ts": step, "note": "new"}])
    return table, True


@pytest.mark.parametrize("late", range(6))
def test_rows_of_each_bucket_are_held_against_the_base_file_of_their_own(late: int) -> None:
    """One base file has a later row than the new ones, which is no change; those of the other buckets have none."""
    storage = MemoryStorage("memory://following", TickingClock())
    table = make_table(storage, storage.clock, SCHEMA, buckets=BUCKETS)
    before = table.bulk_insert([row | {"ts": 9 if row["id"] == late else 0} for row in rows(0)]).completion_time
    table.upsert(rows(5, "new "))
    for kinds in (True, False):
        changed = table.changes(after=before, kinds=kinds).to_arrow().column("id").to_pylist()
        assert sorted(changed) == [row["id"] for row in rows(5) if row["id"] != late]


@pytest.mark.parametrize("late", range(6))
def test_a_late_finisher_in_one_bucket_is_held_against_its_base_file_beside_others_that_are_not_late(late: int) -> None:
    """It began before rows that a compaction has put into the base file: it lost, and nothing changed."""
    storage = MemoryStorage("memory://following", TickingClock())
    table = make_table(storage, storage.clock, SCHEMA, buckets=BUCKETS, ordering_fields=())
    table.bulk_insert(rows(0))
    slow = table.begin("upsert")
    slow.write([{"id": late, "ts": 1, "note": "late"}])
    table.upsert(rows(2, "two "))
    table.compact()
    before = table.changes().next_position
    slow.commit()
    others = [row for row in rows(3, "three ") if row["id"] >= 6]
    table.upsert(others)
    changed = table.changes(after=before).to_arrow().column("id").to_pylist()
    assert sorted(changed) == [row["id"] for row in others]


def test_each_delete_is_told_with_the_completion_time_of_the_write_that_did_it() -> None:
    table, _ = orders()
    before = table.changes().next_position
    times = {key: table.delete([{"id": key}]).completion_time for key in range(8)}
    told_times = table.changes(after=before).to_arrow().select(["id", "_commit_completion_time"]).to_pylist()
    alone = {row["id"]: row["_commit_completion_time"] for row in told_times}
    assert {*alone} == {*times}
    assert {*alone.values()} <= {*times.values()}
    assert alone[7] == times[7]
    assert len({*alone.values()}) > 1, "those of other buckets have other last writes"


@pytest.mark.parametrize("copied", [1, 2], ids=["an older log", "the new log"])
def test_of_a_table_with_keys_in_strange_buckets_each_bucket_is_told_as_if_it_were_alone(copied: int) -> None:
    """In the place of one bucket's log lies one with later rows of another bucket's keys. Nobody knows what is right, but it
    must not depend on who is read with whom.
    """
    (table, storage), (twin, other) = orders(), orders()
    times = [table.upsert(rows(2 + turn)).completion_time for turn in range(2)]
    for turn in range(2):
        twin.upsert(rows(50 + turn, "strange "))
    own, strange = (
        sorted(name for name in data_files(storage) if name.startswith(f".0000000{bucket}") and ".log." in name)
        for bucket in (0, 1)
    )
    storage.replace(strange[copied], other.read(own[copied], 1 << 20))
    changes = table.changes(after=times[0])
    plan, tasks = changes.plan()
    assert [len(batch) for batch in batches(tasks, plan)] == [BUCKETS]
    alone = [rows for task in tasks for rows in read_changes(storage, plan, task, images=False)]
    assert told(changes.to_arrow()) == told(pa.concat_tables(alone))

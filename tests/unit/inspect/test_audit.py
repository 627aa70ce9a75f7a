# SPDX-License-Identifier: Apache-2.0
"""The audit finds every planted damage under its own name, and nothing in healthy tables."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.format.properties import checksum, format_properties, parse_properties
from lakebraid.format.times import parse_instant_time
from lakebraid.inspect.audit.findings import KINDS, Severity
from lakebraid.inspect.audit.run import audit_table
from lakebraid.model.timeline.slicing import FileGroup
from tests.breaking import HOURS, KEYS, WAYS, Broken, archived, fresh, rich
from tests.kit.reference import names, unpack
from tests.kit.tables.scene import CHANGES, Call, WatchedStorage, once, row, table_on

pytestmark = pytest.mark.unit

DEEP = {kind for kind in KINDS if kind.startswith("key-")}


@pytest.mark.parametrize("way", [pytest.param(w, id=w.__name__) for ways in WAYS.values() for w in ways])
def test_each_way_to_break_a_table_is_found_under_its_own_name(way: Callable[[], Broken]) -> None:
    kind = next(kind for kind, ways in WAYS.items() if way in ways)
    found = way().audit(deep=kind in DEEP)
    assert kind in found.findings.counts, repr(found)
    assert found.is_healthy == all(finding.severity is not Severity.DAMAGE for finding in found)


def test_every_kind_of_finding_has_a_way_to_break_a_table() -> None:
    assert {*KINDS} - {*WAYS} == {"slice-differs"}  # that one takes a reader that is broken: the next test


def test_a_reader_that_takes_other_files_than_the_commits_say_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    b = rich()
    monkeypatch.setattr(FileGroup, "latest", lambda group: group.slices[0])
    found = b.audit()
    assert {"slice-differs", "file-unreachable"} <= {*found.findings.counts}


def test_nothing_is_found_where_partial_updates_have_opened_rows() -> None:
    b = fresh(buckets=1, ordering_fields=None)
    for keys in ("ab", "bc"):
        b.table.upsert([{"id": key, "v": "x"} for key in keys], columns=["id", "v"])
    assert len(b.audit()) == 0
    b.table.log_compact()
    assert len(b.audit()) == 0


def test_nothing_is_found_where_a_compaction_carries_rows_past_an_open_write() -> None:
    b = fresh(buckets=1, ordering_fields=None)
    b.table.upsert([row("a", "1")])
    with b.table.begin() as still_open:
        b.table.delete([{"id": "a"}])
        b.table.upsert([row("a", "2")])
        b.table.compact()
        assert len(b.audit()) == 0
        still_open.write([row("b", "3")])
    assert len(b.audit()) == 0


def test_a_deep_audit_knows_keys_of_which_a_part_stands_only_in_the_name_of_the_folder(tmp_path: Path) -> None:
    path = unpack("v9_cow_partition_dropped", tmp_path).path
    file = path / ".hoodie" / "hoodie.properties"
    stated = parse_properties(file.read_bytes(), "the table")
    # Of each time there is one row in each partition: two rows of one time differ in the folder alone.
    stated |= {"hoodie.table.recordkey.fields": "ts,part", "hoodie.populate.meta.fields": "false"}
    stated |= {"hoodie.index.type": "GLOBAL_SIMPLE"}
    file.write_bytes(format_properties(stated | {"hoodie.table.checksum": str(checksum(stated))}))
    found = lb.Table.open(path).audit(deep=True)
    assert len(found) == 0, repr(found)


def _after_everything() -> Broken:
    """Every kind of write and service, one after the other."""
    b = fresh(buckets=2, partition_by="w")
    t = b.table
    t.bulk_insert([row(key, "0", w=n % 2) for n, key in enumerate(KEYS)])
    t.insert([row("new", "1", w=1)])
    t.upsert([row(key, "1", 1, n % 2) for n, key in enumerate(KEYS)])
    t.upsert([{"id": "a", "ts": 5, "v": "partial", "w": 0}], columns=["id", "ts", "v", "w"])
    t.delete([{"id": "b", "w": 1}])
    t.upsert([row("wide", "1") | {"more": 1}])
    t.log_compact()
    t.compact()
    t.savepoint(comment="kept")
    for n in range(3):
        t.upsert([row("a", f"{n}", 10 + n)])
        t.compact()
    given_up = t.begin()
    given_up.write([row("a", "no", 99)])
    given_up.abort()
    t.clean(versions=1)
    return b


def _after_archiving() -> Broken:
    b = archived()
    b.table.upsert([row("a", "later", 99)])
    return b


def _after_restoring() -> Broken:
    b = rich()
    b.table.savepoint()
    b.table.upsert([row("a", "later", 99)])
    b.table.compact()
    b.table.restore(b.table.savepoints()[0].instant)
    return b


def _between_writers() -> Broken:
    """Open writes, a plan, and a claim on it."""
    b = rich()
    first, second = b.table.begin(), b.table.begin()
    first.write([row("a", "open", 99)])
    b.table.plan_compaction()
    second.write([row("a", "late", 98)])
    second.commit()
    first._heartbeat.stop()
    return b


def _occ() -> Broken:
    b = fresh(concurrency="occ", buckets=1)
    first, second = b.table.begin(), b.table.begin()
    first.write([row("a", "1")])
    second.write([row("a", "2")])
    first.commit()
    with pytest.raises(lb.WriteConflict):
        second.commit()
    return b


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [rich, archived, fresh, _after_everything, _after_archiving, _after_restoring, _between_writers, _occ],
    ids=lambda make: make.__name__.strip("_"),
)
def test_nothing_is_found_in_a_healthy_table(make: Callable[[], Broken]) -> None:
    found = make().audit(deep=True)
    assert not len(found), repr(found)
    assert found.is_healthy


@pytest.mark.slow
def test_a_table_that_nobody_touched_for_hours_is_healthy() -> None:
    b = _after_everything()
    b.clock.ms += HOURS
    assert not len(b.audit()), repr(b.audit())


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_nothing_is_found_in_tables_of_apache_hudi(name: str, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    found = lb.Table.open(reference.path, clock=_At(reference.expected.get("timeline") or [])).audit(deep=True)
    assert {*found.findings.counts} == EXPECTED.get(name, set()), repr(found)


EXPECTED = {
    "v6_mor_pending": {"writer-dead"},  # a writer that was killed, without any heartbeat
    "v9_mor_bulk_insert": {"key-inserted-twice"},  # a key that was bulk-inserted twice, as its writer wanted
}


class _At(SystemClock):
    """Shows the real time, but never one before the table was written."""

    def __init__(self, timeline: list[str]) -> None:
        request_times = [name[:17] for name in timeline if name[:17].isdigit()]
        self._least_ms = max((parse_instant_time(request_time, UTC) for request_time in request_times), default=0)

    def now_ms(self) -> int:
        return max(super().now_ms(), self._least_ms + 10 * 60_000)


@pytest.mark.slow
def test_no_damage_is_seen_in_the_middle_of_writes_and_services() -> None:
    b = rich()
    seen: list[str] = []

    def look(call: Call) -> None:
        if call.name in CHANGES:
            found = [f"{f.kind} {f.where} after {call}" for f in b.audit() if f.severity is not Severity.UNTIDY]
            seen.extend(found)

    table = table_on(WatchedStorage(b.storage, after=look), b.clock)
    table.upsert([row("a", "5", 5)])
    table.compact()
    open_one = table.begin()
    open_one.write([row("b", "open", 9)])
    table.savepoint()
    table.upsert([row("c", "6", 6)])
    table.clean(versions=1)
    open_one.abort()
    table.archive(keep_min=2, keep_max=3)
    table.restore(table.savepoints()[0].instant)
    assert not seen, "\n".join(seen[:5])


@pytest.mark.slow
@pytest.mark.parametrize("service", ["upsert", "compact", "clean", "archive", "abort"])
def test_no_damage_is_seen_when_something_happens_during_the_audit(service: str) -> None:
    def happen(b: Broken, opened: lb.Transaction) -> None:
        match service:
            case "upsert":
                b.table.upsert([row("a", "5", 5)])
            case "compact":
                b.table.compact()
            case "clean":
                b.table.clean(versions=1)
            case "archive":
                b.table.archive(keep_min=1, keep_max=2)
            case _:
                opened.abort()

    for number in range(0, 100, 6):
        b = rich()
        opened = b.table.begin()
        opened.write([row("b", "open", 9)])
        hook = once(partial(_has_come_to, number), partial(happen, b, opened))
        found = audit_table(WatchedStorage(b.storage, before=hook), b.clock)
        bad = [f for f in found if f.severity is not Severity.UNTIDY]
        assert not bad, f"at call {number}: {bad}"
        opened.abort()


def _has_come_to(number: int, call: Call) -> bool:
    return call.number >= number


def _overwritten() -> Broken:
    b = fresh(buckets=2, partition_by="w")
    b.table.upsert([row(key, "1", 1, n % 2) for n, key in enumerate(KEYS)])
    b.table.insert_overwrite([row("a", "2", 2, 0)])
    b.table.delete_partitions(["1"])
    b.table.upsert([row("z", "2", 2, 0)])
    b.table.compact()
    b.table.clean(versions=1)
    return b


def _copied_on_write() -> Broken:
    b = fresh(table_type="cow", index="simple")
    b.table.insert([row(key, "1", 1) for key in KEYS])
    b.table.upsert([row("a", "2", 2)])
    b.table.delete([{"id": "b"}])
    b.table.clean(versions=1)
    return b


def _clustered() -> Broken:
    b = fresh(index="simple", concurrency="occ")
    b.table.insert([row(key, "1", 1) for key in KEYS])
    b.table.upsert([row("a", "2", 2)])
    b.table.insert([row("x", "1")])
    b.table.compact()
    b.table.cluster()
    b.table.upsert([row("a", "3", 3)])
    return b


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [_overwritten, _copied_on_write, _clustered], ids=lambda make: make.__name__.strip("_")
)
def test_nothing_is_found_in_a_healthy_table_of_another_kind(make: Callable[[], Broken]) -> None:
    found = make().audit(deep=True)
    assert not len(found), repr(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["key-two-groups", "key-twice"])
def test_equal_keys_are_found_in_several_passes_as_in_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = WAYS[kind][0]().audit(deep=True)
    monkeypatch.setattr(limits, "AUDIT_KEYS_MAX", 2)
    several = WAYS[kind][0]().audit(deep=True)
    assert one.findings == several.findings
    assert one.findings.counts[kind] > 0


def test_of_many_findings_of_one_kind_the_first_are_shown_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AUDIT_FINDINGS_MAX", 2)
    b = rich()
    b.storage.delete(b.logs())
    found = b.audit()
    assert found.findings.counts["file-missing"] == 4
    assert sum(finding.kind == "file-missing" for finding in found) == 2
    assert "… and 2 more of file-missing" in repr(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_an_audit_of_a_table_with_any_object_spoilt_ends_without_a_crash(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(12):
        b = chance.choice([rich, archived])()
        name = chance.choice([info.name for info in b.storage.list()])
        data = bytearray(b.read(name))
        match chance.choice(["cut", "flip", "junk", "delete"]):
            case "cut":
                data = data[: chance.randrange(len(data) + 1)]
            case "flip" if data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case "junk":
                data = bytearray(chance.randbytes(len(data)))
            case _:
                b.storage.delete([name])
        if b.names(name):
            b.storage.replace(name, bytes(data))
        for finding in b.audit(deep=True):
            assert finding.what and finding.where and finding.advice

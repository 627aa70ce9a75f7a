# SPDX-License-Identifier: Apache-2.0
"""Adoption: what it takes for a proof, and for a contradiction; and how properties are changed and set back."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid.errors import CommitRefused, CorruptFile, InvalidArgument, UnsupportedTable
from lakebraid.format.properties import format_properties
from lakebraid.services.adoption.result import Verdict
from lakebraid.table.loading import PROPERTIES, load_properties
from lakebraid.txn.actions.properties import FOLDER, change_properties, undo_properties
from tests.kit.adopting import buckets, contents, opened, state
from tests.kit.reference import our_rows
from tests.kit.tables.scene import Scene, WatchedStorage, once

pytestmark = pytest.mark.unit


LOOKED_UP = {"hoodie.index.type": "SIMPLE"}


def test_a_number_of_buckets_that_the_keys_leave_open_can_be_said(tmp_path: Path) -> None:
    _, table = opened("v9_mor_hidden_group", tmp_path)
    rows = table.to_arrow()
    for wrong in (3, 0, -1):
        with pytest.raises(InvalidArgument, match="speak against"):
            table.adopt(buckets=wrong)
    assert table.adopt(buckets=2).lines == buckets(2)
    table.upsert(rows)
    assert our_rows(table.to_arrow()) == our_rows(rows)


def test_a_number_of_buckets_is_not_taken_for_a_table_without(tmp_path: Path) -> None:
    reference, table = opened("v9_mor_bulk_insert", tmp_path)
    before = contents(reference.path)
    with pytest.raises(InvalidArgument, match="is no bucket"):
        table.adopt(buckets=2)
    assert contents(reference.path) == before


def test_an_empty_table_is_adopted_with_the_number_of_buckets_that_is_said(tmp_path: Path) -> None:
    _, table = opened("v9_mor_empty", tmp_path)
    assert table.adopt(buckets=8).is_writable


@pytest.mark.parametrize(("stated", "allowed"), [(1, "allow 2"), (4, "allow 2")])
def test_a_stated_number_of_buckets_is_held_against_keys_and_file_ids(
    stated: int, allowed: str, tmp_path: Path
) -> None:
    reference, table = opened("v9_mor_archived", tmp_path)
    lines = buckets(stated)
    state(reference.path, **lines)
    found = table.adopt(dry_run=True)
    assert [aspect.topic for aspect in found.obstacles] == ["index"]
    assert allowed in found.obstacles[0].why
    assert "audit --deep" in found.obstacles[0].why


def test_a_table_that_was_told_by_mistake_to_have_buckets_is_not_adopted_before_it_is_looked_at(tmp_path: Path) -> None:
    reference, table = opened("v9_mor_bulk_insert", tmp_path)
    state(reference.path, **buckets(2))
    with pytest.raises(UnsupportedTable, match=r"is no bucket.*audit --deep.*Take the line out"):
        table.adopt()
    state(reference.path, hoodie__index__type=None)
    assert table.adopt().lines == LOOKED_UP


@pytest.mark.parametrize(
    ("name", "generator"),
    [
        ("v9_mor_archived", "SIMPLE"),
        ("v9_mor_keys_complex_single", "COMPLEX"),
        ("v9_mor_partition_two_levels", "COMPLEX"),
        ("v9_mor_types_avro", "SIMPLE"),
    ],
)
def test_an_unstated_key_generator_is_proven_by_the_keys(name: str, generator: str, tmp_path: Path) -> None:
    reference, table = opened(name, tmp_path)
    state(reference.path, hoodie__table__keygenerator__type=None, hoodie__table__keygenerator__class=None)
    rows = lb.Table.open(reference.path).to_arrow()
    assert table.adopt().lines["hoodie.table.keygenerator.type"] == generator
    table.upsert(rows)
    assert our_rows(table.to_arrow()) == our_rows(rows)


def test_keys_that_are_not_made_as_stated_are_not_written(tmp_path: Path) -> None:
    reference, table = opened("v9_mor_keys_complex_single", tmp_path)
    state(reference.path, hoodie__table__keygenerator__type="SIMPLE")
    with pytest.raises(UnsupportedTable, match=r"has the key 'id:.*Rows would get other keys"):
        table.adopt()


def test_folders_that_are_not_made_as_stated_are_not_written(tmp_path: Path) -> None:
    reference, table = opened("v9_mor_archived", tmp_path)
    state(reference.path, hoodie__datasource__write__hive_style_partitioning="true")
    with pytest.raises(UnsupportedTable, match="a row lies in 'p0', of its columns 'part=p0' is made"):
        table.adopt()


def test_the_columns_that_buckets_are_the_hash_of_are_found(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lb.Table.create(
        path,
        "a string, b string",
        record_keys=["a", "b"],
        buckets=4,
        properties={"hoodie.bucket.index.hash.field": "b"},
    ).upsert([{"a": f"a{n}", "b": f"b{n % 40}"} for n in range(200)])
    said = ("index__type", "bucket__index__num__buckets", "bucket__index__hash__field", "write__concurrency__mode")
    state(path, **{f"hoodie__{key}": None for key in (*said, "lakebraid__fixed__file__ids")})
    found = lb.Table.open(path).adopt()
    assert found.lines == {**buckets(4), "hoodie.bucket.index.hash.field": "b"}


def test_partitions_that_were_not_looked_at_prove_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = opened("v9_mor_partition_encoded", tmp_path)
    monkeypatch.setattr("lakebraid.limits.ADOPTION_SLICES_MAX", 4)
    found = table.adopt(dry_run=True)
    assert (found.slices, found.partitions) == (4, 4)
    assert "--deep" in found.obstacles[0].why
    assert table.adopt(deep=True).lines == buckets(1)


def test_a_file_id_that_seems_to_name_a_bucket_beyond_reason_names_none(tmp_path: Path) -> None:
    _, table = opened("v9_cow_overwrite", tmp_path)
    why = next(aspect for aspect in table.adopt(dry_run=True).aspects if aspect.topic == "index")
    assert why.verdict is Verdict.CHANGE
    assert "40,814,403" in why.why


def test_lines_that_another_process_has_changed_since_stay_when_an_adoption_is_set_back(tmp_path: Path) -> None:
    reference, table = opened("v9_mor_archived", tmp_path)
    table.adopt()
    state(reference.path, hoodie__index__type="SIMPLE", hoodie__other="kept")
    found = table.adopt(undo=True)
    assert set(found.undone) == {"hoodie.bucket.index.num.buckets"}
    assert found.left == ("hoodie.index.type",)
    assert lb.Table.open(reference.path).properties["hoodie.other"] == "kept"
    with pytest.raises(InvalidArgument, match="nothing to set back"):
        table.adopt(undo=True)


def test_properties_that_changed_since_they_were_looked_at_are_not_written_over(tmp_path: Path) -> None:
    reference, table = opened("v9_mor_archived", tmp_path)
    known = dict(table.properties)
    state(reference.path, hoodie__other="new")
    storage = lb.storage.open_storage(reference.path)
    with pytest.raises(CommitRefused, match="left as they are"):
        change_properties(storage, known, buckets(2))
    assert not storage.list(FOLDER)


def test_properties_that_apache_hudi_is_changing_are_not_touched(tmp_path: Path) -> None:
    reference, table = opened("v9_mor_archived", tmp_path)
    main = reference.path / ".hoodie" / "hoodie.properties"
    main.rename(main.with_name("hoodie.properties.backup"))
    with pytest.raises(CommitRefused, match="being changed by another process"):
        table.adopt()


@pytest.mark.parametrize(
    "record", [b"", b"{", b'{"before": 1, "lines": {}}', b"[" * 100_000, b'{"before": "\xe2\x82\xac", "lines": {}}']
)
def test_a_damaged_record_of_an_adoption_changes_nothing(record: bytes, tmp_path: Path) -> None:
    reference, table = opened("v9_mor_archived", tmp_path)
    table.adopt()
    (reference.path / FOLDER / "000001.json").write_bytes(record)
    before = contents(reference.path)
    with pytest.raises(CorruptFile, match="no record of changed properties"):
        undo_properties(lb.storage.open_storage(reference.path))
    assert contents(reference.path) == before


def test_names_out_of_files_do_not_steer_the_terminal(tmp_path: Path) -> None:
    reference, table = opened("v9_mor_bulk_insert", tmp_path)
    state(reference.path, hoodie__table__partition__fields="\x1b[31mpart", hoodie__index__type="\x1b[2J")
    found = table.adopt(dry_run=True)
    assert {aspect.topic for aspect in found.obstacles} == {"partitions", "index"}
    assert "\x1b" not in repr(found)
    with pytest.raises(UnsupportedTable) as caught:
        table.adopt()
    assert "\x1b" not in caught.value.message


@pytest.mark.parametrize("index", ["bucket", "simple", "global_simple"])
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_a_table_that_was_made_here_is_written_as_it_is(table_type: str, index: str, tmp_path: Path) -> None:
    table = lb.Table.create(
        tmp_path / "t", "id bigint, p string", record_keys="id", partition_by="p", table_type=table_type, index=index
    )
    assert table.adopt().is_writable
    table.insert([{"id": n, "p": "x"} for n in range(20)])
    found = table.adopt()
    assert found.is_writable
    assert (found.lines, found.is_done, found.keys) == ({}, False, 20)


def test_of_two_adoptions_at_once_on_an_object_store_one_is_done() -> None:
    scene = Scene()
    known = load_properties(scene.storage)
    changed = format_properties({**known, "hoodie.other": "new"})
    storage = WatchedStorage(
        scene.storage,
        after=once(
            lambda call: call.target.startswith(FOLDER) and call.name == "create",
            lambda: scene.storage.replace(PROPERTIES, changed),
        ),
    )
    with pytest.raises(CommitRefused, match="left as they are"):
        change_properties(storage, known, buckets(2))
    assert scene.storage.read(PROPERTIES, 100_000) == changed
    assert not scene.storage.list(FOLDER)


def silenced(path: Path) -> lb.Table:
    """The table without the lines that tables of Hudi's do not have."""
    said = ("index__type", "bucket__index__num__buckets", "write__concurrency__mode", "lakebraid__fixed__file__ids")
    state(path, **{f"hoodie__{key}": None for key in said})
    return lb.Table.open(path)


@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_the_number_of_buckets_is_proven_by_keys_in_both_types_of_tables(table_type: str, tmp_path: Path) -> None:
    made = lb.Table.create(
        tmp_path / "t", "id string, v string", record_keys="id", table_type=table_type, buckets=6, concurrency="single"
    )
    rows = [{"id": f"k{n}", "v": "first"} for n in range(60)]
    made.insert(rows)
    table = silenced(tmp_path / "t")
    with pytest.raises(UnsupportedTable, match="lakebraid adopt"):
        table.upsert(rows)
    assert table.adopt().lines == buckets(6)
    table.upsert([row | {"v": "second"} for row in rows])
    assert table.to_arrow()["v"].to_pylist() == ["second"] * 60


def test_another_number_of_buckets_in_each_partition_is_not_adopted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lb.Table.create(path, "id string, p string", record_keys="id", partition_by="p", buckets=2, concurrency="single")
    for number, partition in ((2, "x"), (5, "y")):
        state(path, **buckets(number), hoodie__lakebraid__fixed__file__ids=None)
        lb.Table.open(path).upsert([{"id": f"k{n}", "p": partition} for n in range(50)])
    with pytest.raises(UnsupportedTable, match="speak against every number"):
        silenced(path).adopt()

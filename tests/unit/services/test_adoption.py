# SPDX-License-Identifier: Apache-2.0
"""Adoption: what tables of Apache Hudi are, what they must state to be written, and that nothing else is changed."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

import lakebraid as lb
from lakebraid.errors import CommitRefused, CorruptFile, InvalidArgument, UnsupportedTable
from lakebraid.format.properties import format_properties, parse_properties
from lakebraid.services.adoption.result import Verdict
from lakebraid.txn.actions.properties import FOLDER, change_properties, undo_properties
from tests.kit.reference import Reference, keep_times, names, our_rows, unpack

pytestmark = pytest.mark.unit


def buckets(number: int) -> dict[str, str]:
    return {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": str(number)}


AS_IT_IS: dict[str, str] = {}
LOOKED_UP = {"hoodie.index.type": "SIMPLE"}
METADATA = {"metadata table"}

NEEDS: dict[str, dict[str, str]] = {
    **dict.fromkeys(
        (
            "v9_cow_cdc",
            "v9_cow_cdc_keys_only",
            "v9_cow_clean_savepoint",
            "v9_cow_clustering",
            "v9_cow_empty_commit",
            "v9_cow_partition_plain",
            "v9_cow_types_row_writer",
        ),
        AS_IT_IS,
    ),
    **dict.fromkeys(
        (
            "v9_cow_overwrite",  # the id of its one file group has eight digits by chance
            "v9_mor_bloom_positions",
            "v9_mor_bulk_insert",
            "v9_mor_clustering",
            "v9_mor_clustering_logs",
            "v9_mor_overwrite",
        ),
        LOOKED_UP,
    ),
    **dict.fromkeys(
        (
            "v9_mor_archived",
            "v9_mor_bucket_nbcc_avro",
            "v9_mor_bucket_nbcc_parquet",
            "v9_mor_log_compaction",
            "v9_mor_nbcc_overlap",
            "v9_mor_pending_write_and_compaction",
            "v9_mor_rollback_completed",
            "v9_mor_rollback_failed",
            "v9_mor_schema_evolution",
        ),
        buckets(2),
    ),
    "v9_mor_keys_complex_single": buckets(4),
    "v9_mor_keys_composite": buckets(4),
}
"""What tables must state; all others that can be written have one bucket."""

IN_THE_WAY: dict[str, set[str]] = {
    "mdt_v6_mor": {"version"} | METADATA,
    "mdt_v8_mor": {"version"} | METADATA,
    "v9_cow_no_meta": {"columns"},
    "v9_cow_partition_dropped": {"columns"},
    "v9_mor_empty": {"index"},
    "v9_mor_fill_unavailable": {"merging"},
    "v9_mor_hidden_group": {"index"},
    "v9_mor_ignore_defaults_commit_time": {"merging"},
    "v9_mor_ignore_defaults_event_time": {"merging"},
    "v9_mor_keys_non_partitioned": {"index"},
    "v9_mor_metadata_default": METADATA,
    "v9_mor_metadata_table": METADATA,
    "v9_mor_no_meta": {"columns"},
    "v9_mor_no_meta_composite": {"columns"},
    "v9_mor_partition_custom": {"keys"},
    "v9_mor_partition_timestamp": {"keys"},
}


def obstacles_of(name: str) -> set[str]:
    known = {"version"} if name.startswith(("v6", "v8")) else METADATA if name.startswith("mdt") else set()
    return IN_THE_WAY.get(name, known)


DELETED = "_hoodie_is_deleted"
REFUSED = {
    "v9_cow_clustering": "a clustering is pending, and touches the same file groups",
    "v9_mor_keys_composite": "a key has the text that stands for NULL",
    "v9_mor_order_null": "a row has no ordering value",
}
"""Tables whose rows, as they are, no write takes."""

ADOPTABLE = [name for name in names() if not obstacles_of(name)]


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def keys_misplaced(table: lb.Table) -> dict[str, int]:
    """How many keys are there twice, or where they do not belong, as an audit finds them."""
    counts = table.audit(deep=True).findings.counts
    return {kind: count for kind, count in counts.items() if kind.startswith(("key-", "bucket-"))}


def opened(name: str, folder: Path) -> tuple[Reference, lb.Table]:
    reference = unpack(name, folder)
    keep_times(reference.path)
    return reference, lb.Table.open(reference.path)


def state(path: Path, **lines: str | None) -> None:
    """Puts lines into hoodie.properties by hand, or takes them out."""
    file = path / ".hoodie" / "hoodie.properties"
    changed = parse_properties(file.read_bytes(), "here") | {k.replace("__", "."): v for k, v in lines.items()}
    file.write_bytes(format_properties({key: value for key, value in changed.items() if value is not None}))


@pytest.mark.parametrize("name", names())
def test_a_dry_run_says_of_each_reference_table_what_it_needs_and_changes_nothing(name: str, tmp_path: Path) -> None:
    reference, table = opened(name, tmp_path)
    before = contents(reference.path)
    found = table.adopt(dry_run=True)
    assert contents(reference.path) == before
    assert {aspect.topic for aspect in found.obstacles} == obstacles_of(name), found
    assert found.is_possible is not bool(obstacles_of(name))
    if found.is_possible:
        assert found.lines == NEEDS.get(name, buckets(1))
        assert found.is_writable is not bool(found.lines)
        assert found.keys == table.count()
    assert all(aspect.why.endswith(".") for aspect in found.obstacles)
    assert name in repr(found)


@pytest.mark.parametrize("name", ADOPTABLE)
def test_an_adopted_table_has_the_same_rows_takes_them_once_more_and_can_be_set_back(
    name: str, tmp_path: Path
) -> None:
    reference, table = opened(name, tmp_path)
    before, rows = contents(reference.path), table.to_arrow()
    done = table.adopt()
    assert done.is_writable
    now = contents(reference.path)
    assert {file for file in now if now[file] != before.get(file)} <= {
        ".hoodie/hoodie.properties",
        f"{FOLDER}/000001.json",
    }
    assert our_rows(table.to_arrow()) == our_rows(rows)
    misplaced = keys_misplaced(table)
    if name not in REFUSED:
        table.upsert(
            rows.filter(pc.invert(pc.fill_null(rows[DELETED], False))) if DELETED in rows.column_names else rows
        )
    assert our_rows(lb.Table.open(reference.path).to_arrow()) == our_rows(rows)
    assert keys_misplaced(table) == misplaced
    if done.lines:
        assert set(table.adopt(undo=True).undone) == set(done.lines)
        assert (reference.path / ".hoodie" / "hoodie.properties").read_bytes() == before[".hoodie/hoodie.properties"]
        assert our_rows(lb.Table.open(reference.path).to_arrow()) == our_rows(rows)


@pytest.mark.parametrize("name", sorted({*names()} - {*ADOPTABLE}))
def test_a_table_that_cannot_be_adopted_is_left_as_it_is_and_the_error_says_what_to_do(
    name: str, tmp_path: Path
) -> None:
    reference, table = opened(name, tmp_path)
    before = contents(reference.path)
    with pytest.raises(UnsupportedTable, match=r"Cannot adopt .*Nothing was changed\.") as caught:
        table.adopt()
    assert contents(reference.path) == before
    assert {aspect.topic for aspect in caught.value.adoption.obstacles} == obstacles_of(name)
    assert any(word in caught.value.message for word in ("Apache Hudi", "--buckets", "Rows need"))


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

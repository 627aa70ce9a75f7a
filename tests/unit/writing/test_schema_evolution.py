# SPDX-License-Identifier: Apache-2.0
"""Schemas that change while others write: the eight rows of RFC-82, through the public API, and what goes beyond."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.errors import InvalidArgument, SchemaConflict
from lakebraid.model.schema.rfc82 import RFC_82, Outcome, pattern
from lakebraid.writing.request import SCHEMA_CONFLICT
from tests.kit.tables.scene import Scene

pytestmark = pytest.mark.unit

S1 = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string()), ("w", pa.int64())])
S2 = S1.append(pa.field("x", pa.int32()))
S3 = S1.append(pa.field("y", pa.string()))


def rows(schema: pa.Schema, key: str, ts: int = 1) -> pa.Table:
    values: dict[str, Any] = {"id": key, "ts": ts, "v": key, "w": 7, "x": 8, "y": "nine", "n": 3}
    return pa.table({f.name: pa.array([values[f.name]], f.type) for f in schema}, schema=schema)


def names(scene: Scene) -> list[str]:
    return list(scene.table.schema.names)


def read(scene: Scene) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in scene.table.to_arrow().to_pylist()}


def keys(scene: Scene) -> list[str]:
    return sorted(scene.table.to_arrow(columns=["id"]).column("id").to_pylist())


@pytest.mark.parametrize(
    ("row", "begun", "meanwhile", "own"),
    [
        (1, None, None, S1),
        (2, None, S1, S1),
        (3, None, S2, S3),
        (4, S1, None, S1),
        (5, S1, None, S2),
        (6, S1, S2, S1),
        (7, S1, S2, S2),
        (8, S1, S2, S3),
    ],
    ids=[f"row {number}" for number in range(1, 9)],
)
@pytest.mark.parametrize("is_older", [True, False], ids=["this one began first", "the other began first"])
def test_a_row_of_rfc_82(row: int, begun: Any, meanwhile: Any, own: pa.Schema, *, is_older: bool) -> None:
    scene = Scene(arguments={"schema": begun})
    transactions = {}
    for name in ("ours", "theirs") if is_older else ("theirs", "ours"):
        transactions[name] = (scene.table if name == "ours" else scene.other()).begin()
    if meanwhile is None:
        transactions["theirs"].abort()
    else:
        transactions["theirs"].write(rows(meanwhile, "theirs"))
        transactions["theirs"].commit()
    transactions["ours"].write(rows(own, "ours"))
    expected = next(r for r in RFC_82.values() if r.number == row)
    others = [] if meanwhile is None else ["theirs"]
    if expected.outcome is Outcome.CONFLICT:
        with pytest.raises(SchemaConflict, match=f"RFC-82, row {row}") as caught:
            transactions["ours"].commit()
        assert "this write" in caught.value.message, "the three schemas are laid side by side"
        assert scene.table.status(transactions["ours"].instant) == "refused"
        assert names(scene) == meanwhile.names
        assert keys(scene) == others
    else:
        transactions["ours"].commit()
        assert names(scene) == (meanwhile if expected.outcome is Outcome.THEIRS else own).names
        assert keys(scene) == sorted(["ours", *others])


def test_every_pattern_of_three_schemas_is_a_row_or_a_vanished_schema() -> None:
    found = {pattern(a, b, c) for a in (None, S1) for b in (None, S1, S2) for c in (S1, S2, S3)}
    assert found - {*RFC_82} == {"a-a", "a-b"}


def test_a_late_writer_that_evolves_the_schema_is_not_masked_by_a_younger_one() -> None:
    scene = Scene()
    late = scene.table.begin()
    scene.other().upsert(rows(S1, "younger"))
    late.write(rows(S2, "late"))
    late.commit()
    assert names(scene) == S2.names
    assert read(scene)["late"]["x"] == 8
    scene.other().upsert(rows(S1, "next"))
    assert names(scene) == S2.names, "whoever writes the old columns repeats the new schema"


def test_no_reader_meets_new_rows_without_their_columns() -> None:
    scene = Scene()
    seen: list[Any] = []

    def look(call: Any) -> None:
        if call.name == "copy":
            found = scene.table.to_arrow()
            if "late" in found.column("id").to_pylist():
                seen.append(found.schema.names)

    late = scene.other(after=look).begin()
    scene.other().upsert(rows(S1, "younger"))
    late.write(rows(S2, "late"))
    late.commit()
    assert all(found == S2.names for found in seen)
    assert seen


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (S2, S3, [*S1.names, "x", "y"]),
        (S1.append(pa.field("n", pa.int32())), S1.append(pa.field("n", pa.int64())), [*S1.names, "n"]),
    ],
    ids=["two columns", "one column, two widths"],
)
def test_merging_joins_evolutions_that_fit(first: pa.Schema, second: pa.Schema, both: list[str]) -> None:
    scene = Scene()
    one, two = scene.table.begin(schema_conflict="merge"), scene.other().begin(schema_conflict="merge")
    one.write(rows(first, "one"))
    two.write(rows(second, "two"))
    one.commit()
    two.commit()
    assert names(scene) == both
    assert keys(scene) == ["one", "two"]
    if "n" in both:
        assert scene.table.schema.field("n").type == pa.int64()


def test_merging_is_refused_where_a_column_cannot_be_both() -> None:
    scene = Scene(arguments={"properties": {SCHEMA_CONFLICT: "merge"}})
    one, two = scene.table.begin(), scene.other().begin()
    one.write(rows(S1.append(pa.field("n", pa.int32())), "one"))
    two.write(rows(S1.append(pa.field("n", pa.date32())), "two").set_column(4, "n", pa.array([None], pa.date32())))
    one.commit()
    with pytest.raises(SchemaConflict, match=r"n .*int32 .*date32"):
        two.commit()
    assert keys(scene) == ["one"]


WIDENINGS = [
    (pa.int32(), pa.int64(), 2**40),
    (pa.float32(), pa.float64(), 0.1),
    (pa.decimal128(5, 2), pa.decimal128(9, 4), None),
    (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 2**40, "b": "new"}),
    (pa.list_(pa.field("element", pa.int32())), pa.list_(pa.field("element", pa.int64())), [2**40]),
]


@pytest.mark.parametrize(("narrow", "wide", "value"), WIDENINGS, ids=[str(w[1])[:30] for w in WIDENINGS])
@pytest.mark.parametrize("is_compacted", [False, True], ids=["in logs", "compacted between"])
def test_a_wider_type_widens_the_column_and_older_rows_stay_readable(
    narrow: pa.DataType, wide: pa.DataType, value: Any, *, is_compacted: bool
) -> None:
    scene = Scene(arguments={"schema": S1.append(pa.field("c", narrow))})
    scene.table.upsert([{"id": "old", "ts": 1, "c": None}])
    if is_compacted:
        scene.table.compact()
    table = pa.table({"id": ["new"], "ts": pa.array([1], pa.int64()), "c": pa.array([value], wide)})
    scene.table.upsert(table)
    assert scene.table.schema.field("c").type == wide
    assert read(scene)["new"]["c"] == value
    assert read(scene)["old"]["c"] is None
    scene.table.upsert([{"id": "again", "ts": 1, "c": None}])
    assert scene.table.schema.field("c").type == wide


@pytest.mark.parametrize("column", ["id", "ts"])
def test_key_and_ordering_columns_keep_their_types(column: str) -> None:
    scene = Scene(arguments={"schema": pa.schema([("id", pa.int32()), ("ts", pa.int32()), ("v", pa.string())])})
    wide = pa.table({"id": pa.array([1], pa.int64()), "ts": pa.array([1], pa.int64()), "v": ["x"]})
    scene.table.upsert(wide)
    assert scene.table.schema.field(column).type == pa.int32(), "values that fit are taken as they are"
    with pytest.raises(InvalidArgument, match="keeps its type"):
        scene.table.alter().widen(column, "bigint").commit()


def test_a_type_of_another_family_is_refused_and_leaves_nothing_behind() -> None:
    scene = Scene()
    with pytest.raises(InvalidArgument, match="'v' has the type int64"):
        scene.table.upsert(pa.table({"id": ["a"], "ts": [1], "v": [5]}))
    assert scene.table.schema.names == S1.names


def test_without_evolve_new_columns_are_refused() -> None:
    scene = Scene()
    with pytest.raises(InvalidArgument, match="no column 'x'"):
        scene.table.upsert(rows(S2, "a"), evolve=False)
    assert names(scene) == S1.names


def test_pandas_rows_do_not_widen_a_column_whose_values_fit() -> None:
    pd = pytest.importorskip("pandas")
    scene = Scene(arguments={"schema": S1.append(pa.field("n", pa.int32()))})
    scene.table.upsert(pd.DataFrame({"id": ["a"], "ts": [1], "n": [5]}))
    assert scene.table.schema.field("n").type == pa.int32()
    scene.table.upsert(pd.DataFrame({"id": ["b"], "ts": [1], "n": [2**40]}))
    assert scene.table.schema.field("n").type == pa.int64()


def test_plain_rows_with_a_value_too_large_widen_the_column() -> None:
    scene = Scene(arguments={"schema": S1.append(pa.field("n", pa.int32()))})
    scene.table.upsert([{"id": "a", "ts": 1, "n": 5}])
    assert scene.table.schema.field("n").type == pa.int32()
    scene.table.upsert([{"id": "b", "ts": 1, "n": 2**40}])
    assert {k: r["n"] for k, r in read(scene).items()} == {"a": 5, "b": 2**40}


def test_a_read_as_of_a_time_before_the_change_has_the_columns_of_then() -> None:
    scene = Scene()
    before = scene.table.upsert(rows(S1, "a")).completion_time
    scene.table.upsert(rows(S2, "b"))
    assert scene.table.to_arrow(as_of=before).schema.names == S1.names
    assert scene.table.to_arrow().schema.names == S2.names


def test_a_delete_neither_evolves_nor_is_refused_by_an_evolution() -> None:
    scene = Scene()
    scene.table.upsert(rows(S1, "a"))
    delete = scene.table.begin("delete")
    scene.other().upsert(rows(S2, "b"))
    delete.write(pa.table({"id": ["a"]}))
    delete.commit()
    assert keys(scene) == ["b"]
    assert names(scene) == S2.names


def test_a_partial_update_may_bring_a_new_column() -> None:
    scene = Scene()
    scene.table.upsert(rows(S1, "a"))
    scene.table.upsert([{"id": "a", "ts": 2, "x": 5}], columns=["id", "ts", "x"])
    assert read(scene)["a"] == {"id": "a", "ts": 2, "v": "a", "w": 7, "x": 5}


def test_columns_that_differ_only_in_case_are_refused() -> None:
    scene = Scene()
    with pytest.raises(InvalidArgument, match="upper from lower"):
        scene.table.upsert(pa.table({"id": ["a"], "ts": [1], "V": ["x"]}))


ALTERATIONS: list[tuple[str, Callable[[Any], Any], list[tuple[str, Any]]]] = [
    ("add", lambda a: a.add("note", "string"), [*zip(S1.names, S1.types, strict=True), ("note", pa.string())]),
    ("two", lambda a: a.add("n", pa.int32()).widen("n", "bigint"),
     [*zip(S1.names, S1.types, strict=True), ("n", pa.int64())]),
    ("reorder", lambda a: a.reorder(["w", "id"]),
     [("w", pa.int64()), ("id", pa.string()), ("ts", pa.int64()), ("v", pa.string())]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "wanted"), [a[1:] for a in ALTERATIONS], ids=[a[0] for a in ALTERATIONS])
def test_alter_changes_the_schema_and_no_row(change: Any, wanted: list[tuple[str, Any]]) -> None:
    scene = Scene()
    scene.table.upsert(rows(S1, "a"))
    before = read(scene)["a"]
    change(scene.table.alter()).commit()
    assert [(f.name, f.type) for f in scene.table.schema] == wanted
    after = read(scene)["a"]
    assert {name: after[name] for name in before} == before
    assert scene.table.changes(after=scene.table.timeline()[1].instant.completion_time).to_arrow().num_rows == 0


@pytest.mark.parametrize(("table_type", "index"), [("cow", "bucket"), ("mor", "simple")])
def test_tables_that_place_their_rows_are_altered_as_well(table_type: str, index: str) -> None:
    scene = Scene(arguments={"table_type": table_type, "index": index})
    scene.table.upsert(rows(S1, "a"))
    scene.table.alter().add("note", "string").commit()
    assert (names(scene)[-1], read(scene)["a"]["note"]) == ("note", None)


def test_alter_adds_inside_a_struct() -> None:
    place = pa.field("place", pa.struct([("town", pa.string())]))
    scene = Scene(arguments={"schema": S1.append(place)})
    scene.table.upsert([{"id": "a", "ts": 1, "place": {"town": "here"}}])
    scene.table.alter().add("place.zip", "string").commit()
    assert read(scene)["a"]["place"] == {"town": "here", "zip": None}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda a: a.drop("v"), "cannot be dropped"),
        (lambda a: a.rename("v", "u"), "cannot be renamed"),
        (lambda a: a.add("v", "bigint"), "already, of type string"),
        (lambda a: a.widen("w", "int"), "is not wider"),
        (lambda a: a.widen("nope", "bigint"), "no column 'nope'"),
        (lambda a: a.reorder(["nope"]), "no column 'nope'"),
        (lambda a: a.add("v.inner", "string"), "no column 'v'"),
        (lambda a: a.nullable("nope"), "no column 'nope'"),
        (lambda a: a.add("V", "string"), "upper from lower"),
        (lambda a: a, "No change was named"),
    ],
    ids=["drop", "rename", "add twice", "narrow", "unknown", "unknown order", "no struct", "nullable", "case", "none"],
)
def test_an_alteration_that_cannot_be_is_refused_and_changes_nothing(change: Any, says: str) -> None:
    scene = Scene()
    with pytest.raises(InvalidArgument, match=says):
        change(scene.table.alter()).commit()
    assert names(scene) == S1.names


def test_of_two_alterations_at_once_the_second_is_refused_by_row_8() -> None:
    scene = Scene()
    writer = scene.other().begin()
    scene.table.alter().add("x", "int").commit()
    writer.write(rows(S3, "a"))
    with pytest.raises(SchemaConflict, match="row 8"):
        writer.commit()


def test_how_schema_conflicts_end_is_kept_with_the_table(tmp_path: Path) -> None:
    made = lb.Table.create(tmp_path / "t", S1, record_keys="id", ordering_fields="ts", schema_conflict="merge")
    one, two = made.begin(), lb.Table.open(tmp_path / "t").begin()
    one.write(rows(S2, "one"))
    two.write(rows(S3, "two"))
    one.commit()
    two.commit()
    assert made.schema.names == [*S1.names, "x", "y"]
    with pytest.raises(InvalidArgument, match="schema_conflict='mrge' is not known"):
        made.begin(schema_conflict="mrge")  # type: ignore[arg-type]


def test_rows_of_plain_values_go_by_columns_that_another_process_added_since(tmp_path: Path) -> None:
    table = lb.Table.create(tmp_path / "t", "id bigint, v string", record_keys="id", buckets=1)
    other = lb.Table.open(tmp_path / "t")
    other.upsert([{"id": 1, "v": "a"}])
    table.alter().add("n", pa.list_(pa.int32())).commit()
    other.upsert([{"id": 2, "v": "b", "n": [None]}])
    assert other.to_arrow(where="id = 2").to_pylist() == [{"id": 2, "v": "b", "n": [None]}]

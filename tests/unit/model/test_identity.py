# SPDX-License-Identifier: Apache-2.0
"""Two different keys never become one row, and no folder is made that Apache Hudi cannot read.

What Hudi 1.2.0 makes of each of these partition values is in tests/interop/test_hudi_partition_values.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebraid as lb
from lakebraid.model.creation.plan import plan_table
from lakebraid.model.keys.keys import check_distinct_keys, record_keys

pytestmark = pytest.mark.unit

ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
COLUMNS = "a string, b string, v string, ts bigint"


def two_keys(folder: Path, **options: Any) -> lb.Table:
    return lb.Table.create(folder / "t", COLUMNS, record_keys=["a", "b"], ordering_fields="ts", **options)


def keyed(a: str | None, b: str | None, v: str = "x", ts: int = 1) -> dict[str, Any]:
    return {"a": a, "b": b, "v": v, "ts": ts}


COLLIDING = {
    "a separator": (keyed("1", "2,b:3"), keyed("1,b:2", "3")),
    "NULL": (keyed("1", None), keyed("1", "__null__")),
    "the empty text": (keyed("1", ""), keyed("1", "__empty__")),
}


@pytest.mark.parametrize("kind", COLLIDING)
@pytest.mark.parametrize("options", [{}, {"table_type": "cow", "index": "simple"}], ids=["buckets", "placed"])
def test_of_two_keys_with_one_text_no_row_is_lost_in_silence(
    kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    table = two_keys(tmp_path, **options)
    with pytest.raises(lb.InvalidArgument, match=r"two different keys would be one row\. Nothing was written"):
        table.upsert(list(COLLIDING[kind]))
    assert table.count() == 0


def test_a_delete_by_such_a_key_does_not_take_another_row(tmp_path: Path) -> None:
    table = two_keys(tmp_path)
    table.upsert([keyed("1", None), keyed("1", "")])
    for key in ({"a": "1", "b": "__null__"}, {"a": "1", "b": "__empty__", "ts": 5}):
        with pytest.raises(lb.InvalidArgument, match="key column 'b'"):
            table.delete([key])
    assert table.count() == 2


def test_a_lookup_by_such_a_key_finds_no_other_row(tmp_path: Path) -> None:
    table = two_keys(tmp_path)
    table.upsert([keyed("1", None), keyed("1,2", "3:4,5")])
    assert table.count(where="a = '1' and b = '__null__'") == 0
    assert table.count(where="a = '1' and b is null") == 1
    assert table.to_arrow(where="a = '1,2' and b = '3:4,5'").num_rows == 1


def test_commas_and_colons_that_say_nothing_else_are_taken(tmp_path: Path) -> None:
    table = two_keys(tmp_path)
    rows = [keyed("x,y", "10:30"), keyed("x,c:y", ",b"), keyed("b:", "a,:b"), keyed("x,a:y", "z"), keyed("__null", "_")]
    table.upsert(rows)
    assert table.count() == len(rows)
    table.delete([{"a": row["a"], "b": row["b"]} for row in rows[1:]])
    assert table.to_arrow().to_pylist() == rows[:1]


def test_a_single_key_column_may_hold_anything(tmp_path: Path) -> None:
    table = lb.Table.create(tmp_path / "t", COLUMNS, record_keys="a", ordering_fields="ts")
    table.upsert([keyed(a, "x") for a in ("__null__", "__empty__", "1,b:2", "1,a:2")])
    assert table.count() == 4


THREE_KEYS = plan_table("memory://t", None, record_keys=["a", "b", "c"]).config
_PIECES = st.sampled_from(["1", ",", ":", "a", "b", "c", ",b:", ",c:", "__null__", "__empty__", ""])
_VALUE = st.one_of(st.none(), st.lists(_PIECES, max_size=3).map("".join))


@given(st.sets(st.tuples(_VALUE, _VALUE, _VALUE), max_size=40))
def test_keys_that_are_taken_differ_in_their_text(values: set[tuple[str | None, ...]]) -> None:
    keys = [text for key in values if (text := text_of(key)) is not None]
    assert len({*keys}) == len(keys)


def text_of(key: tuple[str | None, ...]) -> str | None:
    """The record key's text; None for what is refused."""
    rows = pa.table({name: pa.array([value], pa.string()) for name, value in zip("abc", key, strict=True)})
    try:
        check_distinct_keys(rows, THREE_KEYS.record_keys)
        text: str | None = record_keys(rows, ["a", "b", "c"], complex_form=True)[0].as_py()
    except lb.InvalidArgument:
        return None
    return text


LONG = "x" * 256
REFUSED_PLAIN = ["a:b", ":a", "\ta", "a\x7f", "a\nb", "/a", "a/", "a//b", "a\\b", "..", ".", "a/..", LONG, f"a/{LONG}"]
REFUSED = [".hoodie", ".hoodie_x", "__HIVE_DEFAULT_PARTITION__", LONG]


def parted(folder: Path, partition_by: Any = "p", **options: Any) -> lb.Table:
    ddl = "id int, ts bigint, p string, q string"
    made = {"record_keys": "id", "ordering_fields": "ts", "partition_by": partition_by, "buckets": 1}
    return lb.Table.create(folder / "t", ddl, **made | options)


@pytest.mark.parametrize("value", [*REFUSED_PLAIN, ".hoodie", "__HIVE_DEFAULT_PARTITION__"])
@pytest.mark.parametrize("operation", ["upsert", "delete"])
def test_a_value_that_hudi_cannot_read_as_a_folder_is_refused(value: str, operation: str, tmp_path: Path) -> None:
    table = parted(tmp_path)
    write: Any = {"upsert": table.upsert, "delete": table.delete}[operation]
    with pytest.raises(
        lb.InvalidArgument, match=r"value of the partition column 'p': .*Nothing was written"
    ) as refusal:
        write([{"id": 1, "ts": 1, "p": value, "q": ""}])
    advice = "partitionpath.urlencode"
    assert (advice in str(refusal.value)) == (value not in (*REFUSED, ".", "..") and LONG not in value), (
        "advice that would help"
    )
    assert not [one for one in Path(tmp_path, "t").iterdir() if one.name != ".hoodie"]


@pytest.mark.parametrize("hive_style", [False, True])
def test_a_url_encoded_table_takes_all_but_hudis_own_names(hive_style: bool, tmp_path: Path) -> None:
    table = parted(tmp_path, properties=ENCODED, hive_style_partitioning=hive_style)
    values = [v for v in REFUSED_PLAIN if LONG not in v and (hive_style or v not in (".", ".."))]
    table.upsert([{"id": n, "ts": 1, "p": value, "q": ""} for n, value in enumerate(values)])
    assert sorted(table.to_arrow()["p"].to_pylist()) == sorted(values)
    for value in REFUSED[2:] if hive_style else REFUSED:
        with pytest.raises(lb.InvalidArgument, match="partition column 'p'"):
            table.upsert([{"id": 1, "ts": 2, "p": value, "q": ""}])


def test_with_several_partition_columns_a_slash_would_put_two_rows_into_one_folder(tmp_path: Path) -> None:
    table = parted(tmp_path, ["p", "q"])
    places = [("a/b", "c"), ("a", "b/c")]
    with pytest.raises(lb.InvalidArgument, match="several partition columns"):
        table.upsert([{"id": 1, "ts": 1, "p": p, "q": q} for p, q in places])
    encoded = parted(tmp_path / "encoded", ["p", "q"], properties=ENCODED)
    encoded.upsert([{"id": 1, "ts": 1, "p": p, "q": q} for p, q in places])
    assert encoded.count() == 2


ORDINARY = [
    " a",
    "a ",
    ".a",
    "_a",
    "a/b",
    "a/.b",
    "a*b",
    "a{b}c",
    "a[b",
    "a?b",
    "a%b",
    "a#b",
    "a\U0001f40db",
    "é",
    "a=b",
    "x" * 255,
]


def test_ordinary_and_odd_values_that_hudi_reads_are_taken(tmp_path: Path) -> None:
    table = parted(tmp_path)
    table.upsert([{"id": n, "ts": 1, "p": value, "q": ""} for n, value in enumerate(ORDINARY)])
    assert sorted(table.to_arrow()["p"].to_pylist()) == sorted(ORDINARY)


def test_a_folder_that_an_older_release_made_can_be_read_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = parted(tmp_path)
    with monkeypatch.context() as older:
        older.setattr("lakebraid.model.incoming.check_partition_values", lambda *_: None)
        table.upsert([{"id": n, "ts": 1, "p": p, "q": ""} for n, p in enumerate(["a:b", "ok", "ok"])])
    assert table.count(where="p = 'a:b'") == 1
    table.delete([{"id": 1, "p": "ok"}])
    table.delete_partitions(["a:b"])
    assert table.to_arrow()["id"].to_pylist() == [2]


MISTAKES: dict[str, tuple[Any, str]] = {
    "keys as one text": (lambda t, make: make(record_keys="a,b"), r"Several columns are a list: \['a', 'b'\]"),
    "order as one text": (lambda t, make: make(ordering_fields="ts, v"), r"Several columns are a list: \['ts', 'v'\]"),
    "a comma too many": (lambda t, make: make(record_keys="a,"), r"no name of a column\. Nothing was created\.$"),
    "a switch that is none": (
        lambda t, make: make(properties={"hoodie.datasource.write.partitionpath.urlencode": "yes"}),
        "urlencode is true or false, not 'yes'",
    ),
    "keys without their columns": (lambda t, make: t.delete([1]), "1 is no row: .* dictionary"),
    "half a key": (lambda t, make: t.delete([{"a": "1"}]), r"b is missing.*delete\(where=…\)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_with_keys_is_told_with_what_to_do(mistake: str, tmp_path: Path) -> None:
    def make(**changes: Any) -> lb.Table:
        return lb.Table.create(tmp_path / "new", COLUMNS, **{"record_keys": "a", "ordering_fields": "ts"} | changes)

    do, message = MISTAKES[mistake]
    with pytest.raises(lb.InvalidArgument, match=message):
        do(two_keys(tmp_path), make)
    assert not (tmp_path / "new").exists()

# SPDX-License-Identifier: Apache-2.0
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import CorruptFile, InvalidArgument
from lakebraid.limits import PARTITION_DEPTH_MAX
from lakebraid.model.keys.partitions import (
    DEFAULT_PARTITION,
    check_partition_path,
    escape,
    partition_path,
    partition_paths,
    partition_values,
    unescape,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        # Folders that Hudi 1.2.0 made with url encoding on.
        ("a b", "a b"),
        ("é😀", "é😀"),
        ("x/y", "x%2Fy"),
        ("a:b", "a%3Ab"),
        ("q=1", "q%3D1"),
        ("100%", "100%25"),
        ("tab\there", "tab%09here"),
        ("[x]", "%5Bx%5D"),
        ("ok~!@$&()+,;.|<>`}", "ok~!@$&()+,;.|<>`}"),
        ("new\nline", "new%0Aline"),
        ("", DEFAULT_PARTITION),
        (None, DEFAULT_PARTITION),
        ("%2Fz", "%252Fz"),
        ("a\\b", "a%5Cb"),
    ],
)
def test_url_encoded_folders_are_those_of_hudi(value: str | None, encoded: str) -> None:
    assert partition_path([value], ["p"], hive_style=False, url_encode=True) == encoded
    assert partition_path([value], ["p"], hive_style=True, url_encode=True) == f"p={encoded}"


def test_without_encoding_a_slash_makes_more_levels() -> None:
    assert partition_path(["x/y", "z"], ["a", "b"], hive_style=False, url_encode=False) == "x/y/z"
    assert partition_values("x/y/z", ["a", "b"], hive_style=False, url_encode=False) is None
    assert partition_values("x/y", ["a"], hive_style=False, url_encode=False) == ("x/y",)


def test_folders_that_do_not_fit_the_fields_are_unknown_rather_than_guessed() -> None:
    assert partition_values("a=1", ["a", "b"], hive_style=True, url_encode=False) is None
    assert partition_values("x=1", ["a"], hive_style=True, url_encode=False) is None
    assert partition_values("somewhere", [], hive_style=False, url_encode=False) is None
    assert partition_values("", ["a"], hive_style=False, url_encode=False) is None
    assert partition_values("", [], hive_style=False, url_encode=False) == ()


@given(
    st.lists(st.one_of(st.none(), st.text(min_size=1)), min_size=1, max_size=4),
    st.booleans(),
)
def test_encoded_values_are_read_back_from_their_folder(values: list[str | None], hive_style: bool) -> None:
    fields = [f"f{at}" for at in range(len(values))]
    try:
        path = partition_path(values, fields, hive_style=hive_style, url_encode=True)
    except InvalidArgument:
        assert any(value in (".", "..") or (value or "").startswith(".hoodie") for value in values)
        return
    if DEFAULT_PARTITION not in values:
        assert partition_values(path, fields, hive_style=hive_style, url_encode=True) == tuple(values)


@given(st.text())
def test_unescape_undoes_escape(value: str) -> None:
    assert unescape(escape(value)) == value
    assert "/" not in escape(value)


def test_a_percent_sign_that_escapes_nothing_stays() -> None:
    assert unescape("100%-%2-%zz-%41") == "100%-%2-%zz-A"


_VALUES = st.one_of(st.none(), st.sampled_from(["", "x", "y", "z"]))


@given(st.lists(st.tuples(_VALUES, _VALUES, st.one_of(st.none(), st.integers(0, 3))), max_size=30))
def test_the_folders_of_many_rows_are_the_folders_of_each(
    rows: list[tuple[str | None, str | None, int | None]],
) -> None:
    fields = ["a", "b", "c"]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    table = pa.table({"a": pa.array(columns[0], pa.string()), "b": pa.array(columns[1], pa.string()), "c": columns[2]})
    rendered = [(a, b, None if c is None else str(c)) for a, b, c in rows]
    table = table.set_column(2, "c", table["c"].cast(pa.int64()))
    paths = partition_paths(table, fields, hive_style=True, url_encode=False)
    assert paths.to_pylist() == [partition_path(row, fields, hive_style=True, url_encode=False) for row in rendered]


def test_rows_of_an_unpartitioned_table_lie_in_the_table_itself() -> None:
    assert partition_paths(pa.table({"id": [1, 2]}), [], hive_style=True, url_encode=True).to_pylist() == ["", ""]


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "a/../b",
        ".",
        "a/.",
        "/etc",
        "a\\b",
        "a\x00b",
        "a//b",
        "a/",
        ".hoodie",
        "x/.hoodie/timeline",
        "x" * 5000,
        "/".join("x" * (PARTITION_DEPTH_MAX + 1)),
    ],
)
def test_no_path_leads_out_of_the_table_or_into_hudis_own_folder(path: str) -> None:
    with pytest.raises(CorruptFile, match="partition path"):
        check_partition_path(path)
    with pytest.raises(InvalidArgument):
        partition_path([path], ["p"], hive_style=False, url_encode=False)


@pytest.mark.parametrize("path", ["", "a", "a/b", "2024.01.01", "a..b", "day=2024-05-17/city=Oslo", "..."])
def test_ordinary_folders_are_fine(path: str) -> None:
    check_partition_path(path)

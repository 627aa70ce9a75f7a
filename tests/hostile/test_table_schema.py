# SPDX-License-Identifier: Apache-2.0
"""Table schemas that nobody can have meant: too deep, too wide, endless, or with names that steer what prints them."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.errors import InvalidArgument, LakebraidError
from lakebraid.format.timeline.commit import CommitMetadata, format_commit
from lakebraid.limits import SCHEMA_DEPTH_MAX, SCHEMA_FIELDS_MAX
from tests.hostile.attack import Target, look_at_everything, refusal, refused
from tests.hostile.forge_avro import nested, nested_text

pytestmark = pytest.mark.hostile


def commit_with(cow: Target, schema_text: str) -> None:
    """A commit whose own bytes are fine and whose table schema is not."""
    for commit in cow.named(r"timeline/\d+_\d+\.(commit|deltacommit)$"):
        cow.put(commit, format_commit(CommitMetadata(extra={"schema": schema_text}, operation="UPSERT")))


@pytest.mark.parametrize("kind", ["record", "array", "map", "union"])
@pytest.mark.parametrize("depth", [SCHEMA_DEPTH_MAX + 1, 40, 150])
def test_a_table_schema_nested_too_deeply_is_refused(cow: Target, kind: str, depth: int) -> None:
    commit_with(
        cow, json.dumps({"type": "record", "name": "t", "fields": [{"name": "a", "type": nested(depth, kind)}]})
    )
    refused("table schema", LakebraidError, lambda: lb.Table.open(cow.url).to_arrow())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"string"',
        nested_text(100_000).decode(),
        "[" * 1_000_000,
        '{"type":"record","name":"t","fields":' + '[{"name":"a","type":' * 50_000,
        '{"type":"record","name":"t","fields":[{"name":"a","type":"t"}]}',
        '{"type":"record","name":"t","fields":[{"name":"a","type":["int","string"]}]}',
        '{"type":"record","name":"t","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        '{"type":"record","name":"t","fields":[{"name":"\\ud800","type":"int"}]}',
        '{"type":"record","name":"t","fields":[{"name":"","type":"int"}]}',
        '{"type":"record","name":"t","fields":[]}',
        '{"type":"record","name":"t","fields":[{"name":"a","type":{"type":"fixed","name":"f","size":-1}}]}',
        '{"type":"record","name":"t","fields":[{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":99}}]}',
    ],
)
def test_a_table_schema_that_is_none_ends_in_rows_or_a_refusal(cow: Target, text: str) -> None:
    commit_with(cow, text)
    refusal("table schema", lambda: look_at_everything(cow.url), what=text[:60])


def test_a_schema_that_doubles_at_every_level_is_refused(cow: Target) -> None:
    schema: dict[str, Any] = {
        "type": "record",
        "name": "r0",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}],
    }
    fields = [{"name": "f0", "type": schema}]
    for level in range(1, 31):
        below = f"r{level - 1}"
        record = {"type": "record", "name": f"r{level}", "fields": [{"name": n, "type": below} for n in "ab"]}
        fields.append({"name": f"f{level}", "type": record})
    commit_with(cow, json.dumps({"type": "record", "name": "t", "fields": fields}))
    refused("table schema", LakebraidError, lambda: lb.Table.open(cow.url).to_arrow(), seconds_max=6)


def record(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "t", "fields": fields})


def test_fifty_thousand_columns_open_and_read_in_bounded_time(cow: Target) -> None:
    count = 50_000
    old = [{"name": n, "type": ["null", "string"]} for n in ("id", "v", "part")]
    wide = old + [{"name": f"column_{n}", "type": ["null", "long"]} for n in range(count)]
    commit_with(cow, record(wide))
    table = lb.Table.open(cow.url)
    assert refusal("wide schema", lambda: table.to_arrow(columns=["id", "column_7"]), seconds_max=10) is None
    assert refusal("wide schema", table.to_arrow, seconds_max=20) is None
    names = [f"column_{n}" for n in range(0, count, 2)]
    assert refusal("wide schema", lambda: table.to_arrow(columns=names), seconds_max=20) is None
    refused("wide schema", InvalidArgument, lambda: table.to_arrow(columns=["colum"]), seconds_max=10)
    refused("wide schema", InvalidArgument, lambda: table.to_arrow(where="colum = 1"), seconds_max=10)


def test_more_columns_than_the_limit_are_refused(cow: Target) -> None:
    commit_with(cow, record([{"name": f"c{n}", "type": "int"} for n in range(SCHEMA_FIELDS_MAX + 1)]))
    refused("wide schema", LakebraidError, lambda: lb.Table.open(cow.url).to_arrow(), seconds_max=10)


ODD_NAMES = [
    "a.b",
    "a`b",
    "a'b",
    'a"b',
    "💥",
    "__proto__",
    "constructor",
    " ",
    "a b",
    "1",
    "select",
    "*",
    "\x1b[31m",
    "<b>",
    "$" + "{x}",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_columns_with_odd_names_are_read_filtered_and_shown_harmlessly(cow: Target, name: str) -> None:
    commit_with(cow, record([{"name": "id", "type": "string"}, {"name": name, "type": ["null", "long"]}]))
    table = lb.Table.open(cow.url)
    assert refusal("column name", lambda: look_at_everything(cow.url)) is None
    rows = table.to_arrow(columns=[name])
    assert rows.column_names == [name]
    quoted = "`" + name.replace("`", "``") + "`"
    assert table.to_arrow(where=f"{quoted} is null").num_rows == rows.num_rows
    assert table.count(where=f"{quoted} = 1") == 0
    refused("column name", InvalidArgument, lambda: table.to_arrow(where=f"{quoted} = 'x'"))


def test_names_that_differ_in_case_only_must_be_written_exactly(cow: Target) -> None:
    commit_with(cow, record([{"name": n, "type": ["null", "string"]} for n in ("id", "ID", "Id")]))
    table = lb.Table.open(cow.url)
    assert table.to_arrow(columns=["ID"]).column_names == ["ID"]
    refused("column name", InvalidArgument, lambda: table.to_arrow(columns=["iD"]))
    refused("column name", InvalidArgument, lambda: table.to_arrow(where="iD = 'x'"))
    assert table.to_arrow(where="ID is null").num_rows > 0


@pytest.mark.parametrize(
    "kind", ["bytes", "boolean", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}]
)
def test_a_schema_of_other_types_than_the_files_ends_in_rows_or_a_refusal(
    cow: Target, mor: Target, kind: dict[str, str] | str
) -> None:
    for made in (cow, mor):
        schema = lb.Table.open(made.url).schema
        for name in schema.names:
            fields = [{"name": n, "type": ["null", kind if n == name else "string"]} for n in schema.names]
            commit_with(made, record(fields))
            refusal("other type", partial(look_at_everything, made.url), what=f"{name} {kind}")
    assert isinstance(schema, pa.Schema)

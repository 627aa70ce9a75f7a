# SPDX-License-Identifier: Apache-2.0
import json
import math
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.format.avro.container import read_record, write_record
from lakebraid.format.timeline.records import NAMESPACE, RECORDS, avro_schema, schema_misfit, value_misfit
from tests.kit.effort import times
from tests.kit.reference import names, unpack

pytestmark = [pytest.mark.unit, pytest.mark.slow]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PRIMITIVES = {
    "string": TEXT,
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "null": st.none(),
}


def values(schema: object) -> st.SearchStrategy:
    """Values of an Avro type, with every field given."""
    match schema:
        case list():
            return st.one_of(*map(values, schema))
        case {"type": "array", "items": items}:
            return st.lists(values(items), max_size=2)
        case {"type": "map", "values": item}:
            return st.dictionaries(TEXT, values(item), max_size=2)
        case {"type": "record", "fields": fields}:
            return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in fields})
    short = str(schema).removeprefix(f"{NAMESPACE}.")
    return PRIMITIVES[short] if short in PRIMITIVES else values(avro_schema(short))


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_read_back_as_it_was_written(name: str) -> None:
    @settings(max_examples=times(15), deadline=None)
    @given(values(avro_schema(name)))
    def check(record: Any) -> None:
        assert read_record(write_record(name, record), "here", name) == record
        assert value_misfit(record, name) is None

    check()


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_fits_itself_and_is_valid_avro(name: str) -> None:
    named: dict[str, object] = {}
    schema = fastavro.schema.expand_schema(avro_schema(name))
    assert schema_misfit(schema, named, name) is None


def without_decoration(schema: object) -> Any:
    match schema:
        case list():
            return [without_decoration(branch) for branch in schema]
        case {"type": "record", "name": name, "fields": fields}:
            parts = [(field["name"], without_decoration(field["type"])) for field in fields]
            return {"record": name.rpartition(".")[2], "fields": parts}
        case {"type": "array", "items": items}:
            return {"array": without_decoration(items)}
        case {"type": "map", "values": item}:
            return {"map": without_decoration(item)}
        case {"type": str(kind)}:
            return kind
    return str(schema).rpartition(".")[2]


def header_schema(data: bytes) -> dict[str, Any]:
    start = data.index(b'{"type":"record"')
    found: dict[str, Any] = json.JSONDecoder().raw_decode(data[start:].decode("utf-8", "replace"))[0]
    return found


BY_1_2_0 = [name for name in names() if not name.startswith("v6_flink")]
"""Hudi 0.14.0 on Flink states some unions in another order."""


@pytest.mark.parametrize("table", BY_1_2_0)
def test_the_schemas_are_those_that_hudi_puts_into_its_files(table: str, tmp_path: Path) -> None:
    seen = set()
    for path in sorted((unpack(table, tmp_path).path / ".hoodie").rglob("*")):
        if path.is_file() and path.read_bytes().startswith(b"Obj\x01"):
            schema = header_schema(path.read_bytes())
            ours = without_decoration(avro_schema(schema["name"]))
            if schema["name"] == "HoodieRollbackPlan":
                assert ours["fields"].pop() == ("lakebraidStory", ["null", "string"]), "which Hudi passes over"
            assert without_decoration(schema) == ours
            seen.add(schema["name"])
    assert seen or table in {
        "v9_mor_empty",
        "v6_mor_commit_time",
        "v6_mor_pending",
        "mdt_v6_mor",
    }  # no commit, or none in Avro


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([], "HoodieCommitMetadata"),
        ({"compacted": 1}, "HoodieCommitMetadata.compacted"),
        ({"version": True}, "HoodieCommitMetadata.version"),
        ({"version": 2**31}, "HoodieCommitMetadata.version"),
        ({"extraMetadata": {"a": "\ud800"}}, "HoodieCommitMetadata.extraMetadata.a"),
        ({"partitionToWriteStats": {"p": {}}}, "HoodieCommitMetadata.partitionToWriteStats.p"),
        (
            {"partitionToWriteStats": {"p": [{"numWrites": 1.5}]}},
            "HoodieCommitMetadata.partitionToWriteStats.p.[].numWrites",
        ),
        ({"partitionToWriteStats": {"p": [None]}}, "HoodieCommitMetadata.partitionToWriteStats.p.[]"),
    ],
)
def test_a_value_of_the_wrong_type_is_found_where_it_stands(value: dict[str, Any] | list[Any], where: str) -> None:
    assert value_misfit(value, "HoodieCommitMetadata") == where


def test_whole_numbers_widen_and_nothing_else_does() -> None:
    def fits(kind: object, name: str, field: str) -> bool:
        schema = {"type": "record", "name": name, "fields": [{"name": field, "type": kind}]}
        return schema_misfit(schema, {}, name) is None

    assert fits("int", "HoodieWriteStat", "numWrites")
    assert fits(["null", "int", "long"], "HoodieWriteStat", "numWrites")
    assert fits({"type": "map", "values": "long"}, "HoodieCompactionOperation", "metrics")
    assert not fits("double", "HoodieWriteStat", "numWrites")
    assert not fits("long", "HoodieWriteStat", "logVersion")
    assert not fits(["null", "int", "long", "string"], "HoodieWriteStat", "numWrites")
    assert not fits({"type": "array", "items": ["null", "string"]}, "HoodieWriteStat", "logFiles")


def test_a_number_that_is_none_is_not_written() -> None:
    operation = {"fileId": "f", "metrics": {"TOTAL_IO_MB": math.nan}}
    with pytest.raises(InvalidArgument, match="operations"):
        write_record("HoodieCompactionPlan", {"operations": [operation]})

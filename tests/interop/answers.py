# SPDX-License-Identifier: Apache-2.0
"""What Apache Hudi answers to every query of a table, as plain JSON. Runs in the worker."""

import datetime as dt
import decimal
import json
import re
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

# Names and sequence numbers differ from run to run and say nothing about the rows.
LEFT_OUT = ("_hoodie_file_name", "_hoodie_commit_seqno")
COMPLETED = re.compile(r"^(\d{17})_(\d{17})\.(\w+)$")
OLD_COMPLETED = re.compile(r"^(\d{17})\.(commit|deltacommit|replacecommit|rollback|clean|restore)$")
WRITES = ("commit", "deltacommit", "replacecommit")


def all_answers(spark: SparkSession, path: str, read_as: str = "") -> dict[str, Any]:
    """Schema, snapshot, read-optimised view, as-of and incremental reads at each completed time.

    `read_as` are columns for tables whose own types this Spark does not know.
    """
    # A table without a single commit has no answer but its schema, and Hudi may refuse even that.
    done = completed(path)
    found: dict[str, Any] = {"timeline": timeline(path), "completed": done}
    rows = partial(rows_of, spark, path, read_as=read_as)
    found["schema"] = answer(lambda: columns(query(spark, path, "snapshot", read_as=read_as)))
    found["snapshot"] = answer(partial(rows, "snapshot"))
    found["read_optimized"] = answer(partial(rows, "read_optimized"))
    times = sorted({completion for _, completion, action in done if action in WRITES})
    found["as_of"] = {time: answer(partial(rows, "as_of", {"as.of.instant": time})) for time in times}
    found["incremental_after"] = {time: answer(partial(rows, "incremental", begin(time))) for time in ["000", *times]}
    return found


def begin(time: str) -> dict[str, str]:
    return {"hoodie.datasource.read.begin.instanttime": time}


def query(
    spark: SparkSession, path: str, mode: str, options: dict[str, str] | None = None, read_as: str = ""
) -> DataFrame:
    kind = {"snapshot": "snapshot", "as_of": "snapshot", "cdc": "incremental"}.get(mode, mode)
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", kind)
    if mode == "cdc":
        reader = reader.option("hoodie.datasource.query.incremental.format", "cdc")
    if mode == "as_of":
        reader = reader.option("as.of.instant", (options or {})["as.of.instant"])
    if read_as:
        reader = reader.schema(read_as)
    return reader.options(**(options or {})).load(path)


def rows_of(
    spark: SparkSession, path: str, mode: str, options: dict[str, str] | None = None, read_as: str = ""
) -> list[dict[str, object]]:
    return encode_rows(query(spark, path, mode, options, read_as))


def answer(ask: Callable[[], object]) -> object:
    """The answer, or Hudi's refusal: that, too, is an answer worth keeping."""
    try:
        return ask()
    except Exception as refusal:  # noqa: BLE001
        return {"error": first_line(refusal)}


def first_line(trouble: Exception) -> str:
    """The innermost Java cause in one line, without the machine's paths."""
    causes = re.findall(r"(?:Caused by: )?([\w.]+(?:Exception|Error): [^\n]*)", str(trouble))
    text = causes[-1] if causes else str(trouble).strip().split("\n")[0]
    return re.sub(r"(file:)?/(?:[\w.=%+-]+/)+", ".../", text)[:300]


def timeline(path: str) -> list[str]:
    """The names in the active timeline's folder, which in version 6 is `.hoodie` itself."""
    folder = Path(path) / ".hoodie" / "timeline"
    if not folder.is_dir():
        folder = folder.parent
    return sorted(one.name for one in folder.iterdir() if one.name[:17].isdigit() and one.suffix != ".crc")


def completed(path: str) -> list[list[str]]:
    """[request time, completion time, action] of each completed instant; version 6 has no completion times."""
    found = []
    for name in timeline(path):
        if new := COMPLETED.match(name):
            found.append([new[1], new[2], new[3]])
        elif old := OLD_COMPLETED.match(name):
            found.append([old[1], old[1], old[2]])
    return sorted(found, key=lambda one: one[1])


def columns(frame: DataFrame) -> dict[str, Any]:
    return frame.schema.jsonValue()


def encode_rows(frame: DataFrame) -> list[dict[str, object]]:
    kept = [name for name in frame.columns if name not in LEFT_OUT]
    rows = [{name: encode(row[name]) for name in kept} for row in frame.collect()]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def encode(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case decimal.Decimal():
            return {"$decimal": f"{value:f}"}
        case dt.datetime():
            return {"$ts": value.isoformat()}
        case dt.date():
            return {"$date": value.isoformat()}
        case bytes() | bytearray():
            return {"$hex": bytes(value).hex()}
        case Row():
            return {name: encode(inner) for name, inner in value.asDict().items()}
        case list() | tuple():
            return [encode(inner) for inner in value]
        case dict():
            pairs = [[encode(key), encode(inner)] for key, inner in value.items()]
            return {"$map": sorted(pairs, key=lambda pair: json.dumps(pair[0]))}
        case uuid.UUID():
            return str(value)
    raise TypeError(f"no encoding for {type(value)}")

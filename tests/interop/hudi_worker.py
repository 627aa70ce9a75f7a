# SPDX-License-Identifier: Apache-2.0
"""One Spark 3.5 with Apache Hudi 1.2.0: reads one JSON command a line, answers one JSON line each.

It runs in the referee's own interpreter (referee.py makes it) and imports nothing of lakebraid. Commands, each with an `id` that the answer repeats:

    {"do": "make", "table": NAME, "root": DIR}        a definition of tables.py, by real Hudi; answers the expected rows
    {"do": "definitions"}                             the names of all definitions
    {"do": "answers", "path": P}                      all expected answers of a table that is there already
    {"do": "read", "path": P, "mode": M, "options"}   M: snapshot, read_optimized, as_of, incremental, cdc
    {"do": "write", "path": P, "rows": R, "options"}  R: a Parquet file's path, or {"schema": DDL, "json": [rows]},
                                                      or {"parquet": path, "where": SQL, "set": {column: SQL}}
    {"do": "begin", "path": P, "rows": R, "options"}  as write, with R as JSON; the write waits in the middle until
    {"do": "finish", "path": P}                       it is told to go on; answers when it is done
    {"do": "sql", "text": S}                          any SQL, CALL procedures included; answers its rows
    {"do": "log_compact", "path": P, "options", "step": "plan" | "run", "instant"}   answers the instant
    {"do": "stop"}
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import IO, Any

import pyspark
from pyspark.sql import DataFrame, SparkSession, functions

from tests.interop import (
    answers,
    tables,
    tables_keys,
    tables_merging,
    tables_new_types,
    tables_services,
    tables_types,
    tables_versions,
)


def main() -> None:
    # The JVM and its logs inherit file descriptor 1; answers go through a copy that they cannot reach.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = session(os.environ["REFEREE_JAR"])
    say(out, {"ready": True, "spark": pyspark.__version__})
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "stop":
            break
        try:
            say(out, {"id": command["id"], "ok": COMMANDS[command["do"]](spark, command)})
        except Exception as trouble:  # noqa: BLE001  the caller decides what a refusal of Hudi's means
            say(out, {"id": command["id"], "error": answers.first_line(trouble), "trace": traceback.format_exc()})
    spark.stop()


def say(out: IO[str], value: dict[str, Any]) -> None:
    out.write(json.dumps(value) + "\n")
    out.flush()


def session(jar: str) -> SparkSession:
    """A local Spark that knows Hudi; `jar` is a file, or a Maven coordinate that Spark's own ivy fetches."""
    where = "spark.jars" if Path(jar).exists() else "spark.jars.packages"
    utc = "-Duser.timezone=UTC"
    settings = {
        where: jar,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": utc,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.codegen.wholeStage": "false",  # compiling costs more than it saves on twenty rows
        "spark.sql.warehouse.dir": os.environ["REFEREE_WAREHOUSE"],
    }
    builder = SparkSession.builder.master("local[4]").appName("referee")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def make(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    return tables.make(spark, command["table"], command["root"])


def all_answers(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    return answers.all_answers(spark, command["path"])


def read(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    frame = answers.query(spark, command["path"], command.get("mode", "snapshot"), command.get("options", {}))
    return {"schema": frame.schema.jsonValue(), "rows": answers.encode_rows(frame)}


def write(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    options = {str(key): str(value) for key, value in command.get("options", {}).items()}
    rows_of(spark, command["rows"]).write.format("hudi").options(**options).mode(
        command.get("save_mode", "append")
    ).save(
        command["path"],
    )
    return {"completed": answers.completed(command["path"])}


def begin(spark: SparkSession, command: dict[str, Any]) -> None:
    given = command["rows"]
    hudi = tables.Hudi(spark, "it", command["path"], ddl=given["schema"])
    OPEN[hudi.path] = hudi.slow([tuple(row.values()) for row in given["json"]], options=command.get("options", {}))


def finish(_: SparkSession, command: dict[str, Any]) -> None:
    OPEN.pop(command["path"]).finish()


def rows_of(spark: SparkSession, rows: str | dict[str, Any]) -> DataFrame:
    if isinstance(rows, str):
        return spark.read.parquet(rows)
    if "parquet" in rows:
        found = spark.read.parquet(rows["parquet"]).where(rows["where"])
        return found.withColumns({name: functions.expr(text) for name, text in rows["set"].items()})
    lines = spark.sparkContext.parallelize([json.dumps(row) for row in rows["json"]], 1)
    return spark.read.schema(rows["schema"]).json(lines)


def sql(spark: SparkSession, command: dict[str, Any]) -> list[Any]:
    return answers.encode_rows(spark.sql(command["text"]))


def log_compact(spark: SparkSession, command: dict[str, Any]) -> str:
    hudi = tables.Hudi(spark, "it", command["path"], options=command["options"])
    return hudi.plan_log_compaction() if command["step"] == "plan" else hudi.run_log_compaction(command["instant"])


def definitions(_: SparkSession, __: dict[str, Any]) -> list[Any]:
    return sorted(tables.DEFINITIONS)


REGISTERED = (tables_keys, tables_merging, tables_new_types, tables_services, tables_types, tables_versions)
OPEN: dict[str, tables.Slow] = {}
COMMANDS = {
    "definitions": definitions,
    "make": make,
    "answers": all_answers,
    "read": read,
    "write": write,
    "begin": begin,
    "finish": finish,
    "sql": sql,
    "log_compact": log_compact,
}

if __name__ == "__main__":
    main()

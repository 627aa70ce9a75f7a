# SPDX-License-Identifier: Apache-2.0
"""Writers of Apache Hudi over S3A: threads of one Spark, in the environment of the referee. hudi.py starts it.

Reads one JSON object, makes the table, says "ready", waits for a line, and prints what became of it as one JSON object.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    # The JVM and its logs inherit file descriptor 1; answers go through a copy that they cannot reach.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    told = json.loads(sys.stdin.readline())
    spark = session(told["settings"])
    write(rows(spark, 10_000, 1, 0), told, mode="overwrite")
    write(rows(spark, 1000, 2, 0), told)  # what a Spark has to learn once is no part of a commit
    print("ready", file=out, flush=True)
    sys.stdin.readline()
    notes: list[dict[str, Any]] = [{} for _ in range(told["writers"])]
    writers = [threading.Thread(target=work, args=(spark, told, number, notes)) for number in range(told["writers"])]
    cpu = cpu_seconds(spark)
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    cpu = cpu_seconds(spark) - cpu
    print("done", file=out, flush=True)
    sys.stdin.readline()
    found = spark.read.format("hudi").load(told["url"])
    stamps = sorted(row[0] for row in found.select("ts").distinct().collect())
    print(json.dumps({"notes": notes, "cpu": cpu, "rows": found.count(), "stamps": stamps}), file=out, flush=True)
    spark.stop()


def session(settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.builder.master("local[4]").appName("cloud")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark: SparkSession, count: int, stamp: int, writer: int) -> DataFrame:
    """So many different keys below 10,000, of a writer."""
    key = f"(id * {10_000 // count} + {writer}) % 10000"
    values = f"{key} AS id", f"{stamp}L AS ts", f"{writer} AS writer", f"concat('note ', {key}) AS note"
    return spark.range(0, count, 1, 1).selectExpr(*values)


def write(frame: DataFrame, told: dict[str, Any], mode: str = "append") -> None:
    frame.write.format("hudi").options(**told["options"]).mode(mode).save(told["url"])


def work(spark: SparkSession, told: dict[str, Any], number: int, notes: list[dict[str, Any]]) -> None:
    spans, errors, last = [], [], 0
    until = time.monotonic() + told["seconds_max"]
    for turn in range(told["commits"]):
        begin = time.monotonic()
        if begin > until:
            break
        stamp = 10 + turn * told["writers"] + number
        try:
            write(rows(spark, 1000, stamp, number), told)
        except Exception as trouble:  # noqa: BLE001  a writer that is refused is counted, and goes on
            errors.append(str(trouble)[:300])
        else:
            spans.append((begin, time.monotonic()))
            last = stamp
    notes[number] = {"spans": spans, "errors": errors, "last": last}


def cpu_seconds(spark: SparkSession) -> float:
    """Of this process and of its JVM, as the kernel counts them."""
    gateway: Any = spark.sparkContext._gateway
    fields = Path(f"/proc/{gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + time.process_time()


if __name__ == "__main__":
    main()

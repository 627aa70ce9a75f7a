# SPDX-License-Identifier: Apache-2.0
"""Three streams joined in one table, without a join: each writes its own columns of the rows that it knows of.

No stream waits for another, nothing is kept in memory for rows whose other half is still to come, and any of them may be
late by a year. Run it with `python examples/streaming_join.py`.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb

STREAMS = {
    "orders": "order_id string, customer string, amount double",
    "payments": "order_id string, paid boolean",
    "shipments": "order_id string, carrier string",
}
COUNT = 30


def events(stream: str) -> list[dict[str, Any]]:
    """What a stream brings, in an order of its own: not every order is paid, nor shipped, and some are changed."""
    made: list[dict[str, Any]] = []
    for n in range(COUNT):
        key = f"order-{n:03}"
        match stream:
            case "orders":
                made += [{"order_id": key, "customer": f"c{n % 7}", "amount": float(n + v)} for v in range(1 + n % 2)]
            case "payments" if n % 3:
                made.append({"order_id": key, "paid": n % 5 != 0})
            case "shipments" if n % 4 == 0:
                made.append({"order_id": key, "carrier": f"carrier-{n % 2}"})
    return made if stream == "orders" else made[::-1]


def arrive(folder: Path, rows: list[dict[str, Any]], files: int) -> None:
    """Puts the events into files, as they would come one after the other."""
    folder.mkdir(parents=True)
    size = -(-len(rows) // files)
    for n in range(files):
        text = "\n".join(json.dumps(row) for row in rows[n * size : (n + 1) * size])
        (folder / f"{n}.json").write_text(text)
        os.utime(folder / f"{n}.json", (n, n))  # Spark takes files in the order of their times


def join(spark: SparkSession, folder: Path) -> tuple[DataFrame, DataFrame]:
    """The table that the streams have filled, and the batch join of the same events."""
    columns = "order_id string, customer string, amount double, paid boolean, carrier string"
    table = lb.Table.create(folder / "joined", columns, record_keys="order_id", buckets=1)
    queries = []
    for name, schema in STREAMS.items():
        arrive(folder / name, events(name), files=2)
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder / name))
        queries.append(table.stream(frame, writer=name, columns=frame.columns, trigger="available now"))
    for query in queries:
        query.awaitTermination()

    newest = [{row["order_id"]: row for row in events(name)} for name in STREAMS]  # of equal keys the last
    orders, payments, shipments = (
        spark.createDataFrame([*rows.values()], schema) for rows, schema in zip(newest, STREAMS.values(), strict=True)
    )
    expected = orders.join(payments, "order_id", "full").join(shipments, "order_id", "full")
    return table.to_spark(spark=spark).orderBy("order_id"), expected.orderBy("order_id")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        joined, expected = join(lb.session(), Path(made))
        joined.show(5)
        print("equal to the batch join:", joined.collect() == expected.collect())

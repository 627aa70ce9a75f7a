# SPDX-License-Identifier: Apache-2.0
"""Three streams joined in one table, without a join: each writes its own columns of the rows that it knows of.

No stream waits for another, nothing is kept in memory for rows whose other half is still to come, and any of them may be
late by a year. Events come out of order: each stream has a clock of its own, the column that orders its columns, and an
event that is older than what the row has changes nothing. Run it with `python examples/streaming_join.py`.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb

STREAMS = {
    "orders": "order_id string, order_ts bigint, customer string, amount double",
    "payments": "order_id string, pay_ts bigint, paid boolean",
    "shipments": "order_id string, ship_ts bigint, carrier string",
}
GROUPS = {"order_ts": ["customer", "amount"], "pay_ts": ["paid"], "ship_ts": ["carrier"]}
COUNT = 30


def events(stream: str) -> list[dict[str, Any]]:
    """What a stream brings: not every order is paid, nor shipped; some events are overtaken by later ones."""
    made: list[dict[str, Any]] = []
    for n in range(COUNT):
        key = f"order-{n:03}"
        match stream:
            case "orders":
                amounts = [float(n + time) for time in range(1 + n % 3)]
                made += [
                    {"order_id": key, "order_ts": t, "customer": f"c{n % 7}", "amount": a}
                    for t, a in enumerate(amounts)
                ]
            case "payments" if n % 3:
                made += [{"order_id": key, "pay_ts": 1000 + t, "paid": t == n % 2} for t in range(2)]
            case "shipments" if n % 4 == 0:
                made.append({"order_id": key, "ship_ts": -n, "carrier": f"carrier-{n % 2}"})
    return made[::-1] if stream == "payments" else made[::2] + made[1::2]  # the newest first, or every second one late


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
    columns = ", ".join(dict.fromkeys(column for schema in STREAMS.values() for column in schema.split(", ")))
    table = lb.Table.create(folder / "joined", columns, record_keys="order_id", ordering_fields=GROUPS, buckets=1)
    queries = []
    for name, schema in STREAMS.items():
        arrive(folder / name, events(name), files=2)
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder / name))
        queries.append(table.stream(frame, writer=name, columns=frame.columns, trigger="available now"))
    for query in queries:
        query.awaitTermination()

    newest = [
        {row["order_id"]: row for row in sorted(events(name), key=lambda row: row[clock])}  # of equal keys the newest
        for name, clock in zip(STREAMS, GROUPS, strict=True)
    ]
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

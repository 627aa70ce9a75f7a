# SPDX-License-Identifier: Apache-2.0
"""A year is loaded again while the stream goes on: the ordering column decides, not who comes last.

The backfill is a row of numbered batches. It is stopped in the midst and started again from its beginning; what is done
is not done twice. Run it with `python examples/backfill.py`.
"""

import tempfile
from pathlib import Path
from typing import Any

import lakebraid as lb

KEYS = 200
MONTHS = 12


def month(number: int) -> list[dict[str, Any]]:
    """Corrected readings of one month, with the time at which they were taken."""
    return [{"sensor": f"s{n:03}", "ts": 100 * number + n % 7, "value": -1.0 * number} for n in range(KEYS)]


def live(batch: int) -> list[dict[str, Any]]:
    """What the stream brings: newer readings of some sensors."""
    return [
        {"sensor": f"s{n:03}", "ts": 10_000 + batch, "value": float(batch)} for n in range(batch * 10, batch * 10 + 25)
    ]


def load_again(table: lb.Table, months: range) -> int:
    """Loads months again; how many of them were not there yet."""
    results = [table.upsert(month(number), writer="backfill", batch=number) for number in months]
    return sum(not result.is_repeated for result in results)


def backfill(folder: Path) -> dict[str, Any]:
    """What was seen on the way."""
    table = lb.Table.create(
        folder / "readings",
        "sensor string, ts bigint, value double",
        record_keys="sensor",
        ordering_fields="ts",
        buckets=2,
    )
    before = load_again(table, range(7))  # and then its machine is taken away
    for batch in range(6):
        table.upsert(live(batch), writer="live", batch=batch)
    after = load_again(table, range(MONTHS))  # started anew, from the first month

    expected: dict[str, tuple[int, float]] = {}
    for rows in (*map(month, range(MONTHS)), *map(live, range(6))):
        for row in rows:
            expected[row["sensor"]] = max(expected.get(row["sensor"], (-1, 0.0)), (row["ts"], row["value"]))
    found = {row["sensor"]: (row["ts"], row["value"]) for row in table.to_arrow().to_pylist()}
    return {
        "months before": before,
        "months after": after,
        "writers": table.writers(),
        "as expected": found == expected,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for what, value in backfill(Path(made)).items():
            print(f"{what:15} {value}")

# SPDX-License-Identifier: Apache-2.0
"""One writer of delta-rs: run by `delta.py` in an environment that has it, and not lakebraid."""

import json
import sys
import time
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa

TRIES_MAX = 30
"""As often as lakebraid does an optimistic write again."""
KEYS = 10_000


def main() -> None:
    told = json.loads(sys.stdin.readline())
    if told["work"] != "create":
        deltalake.DeltaTable(told["url"], storage_options=told["options"])
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps({"create": create, "check": check}.get(told["work"], commits)(told)))


def some_rows(count: int, stamp: int, writer: int, seed: int) -> pa.Table:
    ids = np.random.default_rng(seed).choice(KEYS, count, replace=False)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "ts": pa.array(np.full(count, stamp), pa.int64()),
            "writer": pa.array(np.full(count, writer), pa.int32()),
            "note": pa.array([f"note {key}" for key in ids]),
        }
    )


def create(told: dict[str, Any]) -> dict[str, Any]:
    """Once: every key is there, in one file."""
    deltalake.write_deltalake(told["url"], some_rows(KEYS, 0, 0, 0), storage_options=told["options"])
    return {}


def check(told: dict[str, Any]) -> dict[str, Any]:
    """What is there after all writers have ended."""
    table = deltalake.DeltaTable(told["url"], storage_options=told["options"])
    return {"version": table.version(), "rows": table.count()}


def commits(told: dict[str, Any]) -> dict[str, Any]:
    spans, errors, again, failed = [], [], 0, 0
    begun, cpu = time.monotonic(), time.process_time()
    for turn in range(told["commits"]):
        at = time.monotonic()
        if at > begun + told["seconds_max"]:
            break
        rows = some_rows(1000, time.time_ns(), told["number"], 1000 * told["number"] + turn)
        for _ in range(TRIES_MAX):
            try:
                write(told, rows)
            except deltalake.exceptions.CommitFailedError as error:
                errors.append(str(error)[:300])
                again += 1
                if time.monotonic() > begun + told["seconds_max"]:
                    failed += 1
                    break
            else:
                spans.append((at, time.monotonic()))
                break
        else:
            failed += 1
    cpu = time.process_time() - cpu
    return {"spans": spans, "errors": errors, "again": again, "failed": failed, "cpu": cpu}


def write(told: dict[str, Any], rows: pa.Table) -> None:
    url, options = told["url"], told["options"]
    if told["work"] == "append":
        deltalake.write_deltalake(url, rows, mode="append", storage_options=options)
        return
    table = deltalake.DeltaTable(url, storage_options=options)
    merging = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    merging.when_matched_update_all("s.ts >= t.ts").when_not_matched_insert_all().execute()


if __name__ == "__main__":
    main()

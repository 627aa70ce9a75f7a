# SPDX-License-Identifier: Apache-2.0
"""Changes in the form of Hudi's CDC queries: op, ts_ms, and the rows before and after as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from lakebraid.format.python_rows import python_rows
from lakebraid.tasks.changes.diff import CHANGE_TYPE, COMPLETION

CDC_SCHEMA: Final = pa.schema(
    [("op", pa.string()), ("ts_ms", pa.string()), ("before", pa.string()), ("after", pa.string())]
)
_EXTRA: Final = (CHANGE_TYPE, COMPLETION)


def cdc_rows(changes: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Changes with images, each table of one kind and before an update's after: in Hudi's four columns."""
    before: pa.Table | None = None
    for table in changes:
        match table.column(CHANGE_TYPE)[0].as_py():
            case "insert":
                yield _rows("i", table, None, table)
            case "delete":
                yield _rows("d", table, table, None)
            case "update_preimage":
                before = table
            case _:
                yield _rows("u", table, before, table)


def _rows(op: str, times: pa.Table, before: pa.Table | None, after: pa.Table | None) -> pa.Table:
    count = times.num_rows
    columns = [pa.repeat(op, count), times.column(COMPLETION), _texts(before, count), _texts(after, count)]
    return pa.Table.from_arrays(columns, schema=CDC_SCHEMA)


def _texts(rows: pa.Table | None, count: int) -> pa.Array:
    if rows is None:
        return pa.nulls(count, pa.string())
    shown = rows.select([name for name in rows.column_names if name not in _EXTRA])
    return pa.array([_json(row) for row in python_rows(shown, may_lose=True)], pa.string())


def _json(row: dict[str, Any]) -> str:
    return json.dumps(row, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)

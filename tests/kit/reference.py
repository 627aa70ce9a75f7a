# SPDX-License-Identifier: Apache-2.0
"""The reference tables: written by Apache Hudi, with the rows that Hudi reads from them."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import os
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

DATA = Path(__file__).parents[1] / "data"
TEXTS = {"v9_mor_partition_timestamp": ("at",)}
LEFT_OUT = ("_hoodie_file_name", "_hoodie_commit_seqno")


@dataclass(frozen=True)
class Reference:
    """One table on disk and what Hudi says of it."""

    name: str
    path: Path
    expected: dict[str, Any]

    @cached_property
    def completed(self) -> list[tuple[str, str, str]]:
        return [tuple(c) for c in self.expected.get("completed") or ()]

    @property
    def overlaps(self) -> bool:
        """Whether some write started before an earlier-started one had completed: then as-of means different things."""
        writes = sorted(
            (s, c) for s, c, action in self.completed if action in ("commit", "deltacommit", "replacecommit")
        )
        return any(later[0] < earlier[1] for earlier, later in zip(writes, writes[1:], strict=False))

    def hudi(self, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return hudi_rows(rows, TEXTS.get(self.name, ()))

    def times(self) -> list[str]:
        done = {c for _, c, action in self.completed if action in ("commit", "deltacommit", "replacecommit")}
        return sorted(done)


def names() -> list[str]:
    return sorted(p.stem for p in DATA.glob("*.zip"))


def unpack(name: str, folder: Path) -> Reference:
    with zipfile.ZipFile(DATA / f"{name}.zip") as archive:
        archive.extractall(folder)
    expected = json.loads((DATA / f"{name}.json").read_text())
    return Reference(name, folder / name, expected)


def decode(value: Any) -> Any:
    """Hudi's answer in plain Python values, comparable with ours."""
    if isinstance(value, list):
        return tuple(decode(v) for v in value)
    if not isinstance(value, dict):
        return "NaN" if isinstance(value, float) and math.isnan(value) else value
    match list(value.items()):
        case [("$decimal", text)]:
            return decimal.Decimal(text)
        case [("$ts", text)]:
            return dt.datetime.fromisoformat(text).replace(tzinfo=None)
        case [("$date", text)]:
            return dt.date.fromisoformat(text)
        case [("$hex", text)]:
            return bytes.fromhex(text)
        case [("$base64", text)]:
            return base64.b64decode(text)
        case [("$double" | "$float", text)]:
            return decode(float(text))
        case [("$map", pairs)]:
            return frozenset((decode(k), decode(v)) for k, v in pairs)
    return tuple(sorted((k, decode(v)) for k, v in value.items()))


def plain(value: Any, kind: pa.DataType) -> Any:
    """Our value in the same form."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return frozenset((plain(k, kind.key_type), plain(v, kind.item_type)) for k, v in value)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return tuple(plain(v, kind.value_type) for v in value)
    if pa.types.is_struct(kind):
        return tuple(sorted((f.name, plain(value[f.name], f.type)) for f in kind))
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def our_rows(table: pa.Table, columns: Iterable[str] | None = None) -> list[tuple[Any, ...]]:
    """Sorted rows of (column, value) pairs."""
    chosen = sorted(c for c in (columns or table.column_names) if c not in LEFT_OUT)
    rows = []
    for row in table.select(chosen).to_pylist():
        rows.append(tuple((c, plain(row[c], table.schema.field(c).type)) for c in chosen))
    return sorted(rows, key=repr)


def hudi_rows(rows: list[dict[str, Any]], texts: Iterable[str] = ()) -> list[tuple[Any, ...]]:
    """Hudi's rows. Columns in `texts` are numbers that Hudi hands out as text (FORMAT, trap 28)."""

    def one(row: dict[str, Any]) -> tuple[Any, ...]:
        row = row | {c: int(row[c]) for c in texts if row.get(c) is not None}
        return tuple((c, decode(row[c])) for c in sorted(row) if c not in LEFT_OUT)

    return sorted((one(r) for r in rows), key=repr)


def keep_times(path: Path) -> None:
    """Gives the files of the timeline the times at which they were written, which say that its local time was UTC."""
    for file in (path / ".hoodie" / "timeline").glob("*_*"):
        completed = dt.datetime.strptime(f"{file.name[18:35]}000", "%Y%m%d%H%M%S%f").replace(tzinfo=dt.UTC).timestamp()
        os.utime(file, (completed, completed))

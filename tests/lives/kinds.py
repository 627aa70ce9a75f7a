# SPDX-License-Identifier: Apache-2.0
"""Kinds of tables, their columns, and values for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa

from lakebraid.api.table import Table
from lakebraid.clock import Clock
from lakebraid.model.config import CDC, CDC_MODE, CDC_MODES, CLOCK_SKEW
from lakebraid.model.writable import FILE_LOCK
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from tests.kit.tables.scene import make_table
from tests.lives.values import LENGTHS, LONG_LENGTHS, TEXTS, an_edge

Row = dict[str, Any]
Columns = dict[str, str]
"""Names of columns and of their types."""

SOFT: Final = "_hoodie_is_deleted"
TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal": pa.decimal128(9, 2),
    "wide decimal": pa.decimal128(20, 2),
    "time": pa.timestamp("us", "UTC"),
    "local time": pa.timestamp("us"),
    "date": pa.date32(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "point": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "long point": pa.struct([("a", pa.int64()), ("b", pa.string())]),
    "point of three": pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.float64())]),
    "list": pa.list_(pa.int32()),
    "map": pa.map_(pa.string(), pa.int64()),
    "points": pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])),
}
WIDER: Final = {
    "int": ("bigint",),
    "float": ("double",),
    "decimal": ("wide decimal",),
    "point": ("long point", "point of three"),
}
PLAIN: Final = tuple(name for name in TYPES if name not in ("wide decimal", "long point", "point of three"))
_KEY_TEXTS: Final = (
    "a",
    "B",
    "c d",
    "ä",
    "k,1",
    "k:2",
    "id:k",
    "a/b",
    "\U0001f600",
    "'",
    "100%",
    "__empty_",
    "~z",
    "0",
)
_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Kind:
    """What a table is, from its creation on."""

    table_type: str = "mor"
    index: str = "bucket"
    concurrency: str = "nbcc"
    ordering: tuple[str, ...] = ("ts",)
    """Without any, the last writer wins."""
    keys: tuple[str, ...] = ("id",)
    partitions: tuple[str, ...] = ()
    hive: bool = False
    block_format: str = "parquet"
    buckets: int = 2
    columns: tuple[tuple[str, str], ...] = (("id", "string"), ("ts", "bigint"), ("v", "string"))
    required: tuple[str, ...] = ()
    merges: bool = False
    """Schema changes of two writers are joined."""
    properties: tuple[tuple[str, str], ...] = ()
    captures: str = ""
    """The mode of change data capture, if there is any."""
    shared: bool = False
    """Whether every decision is made inside of Hudi's lock."""
    lengths: tuple[int, ...] | None = LENGTHS
    """How long texts may be; None for tables of short values alone."""
    key_texts: tuple[str, ...] = _KEY_TEXTS
    """Keys that are texts are these."""
    spread: int = 5
    """How far apart the ordering values of a row lie at most."""

    @property
    def is_placed(self) -> bool:
        """Whether writes look at the table, so that two of one key never overlap."""
        return self.table_type == "cow" or self.index != "bucket"

    @property
    def is_global(self) -> bool:
        return self.index == "global_simple"

    @property
    def identifying(self) -> tuple[str, ...]:
        return self.keys if self.is_global else (*self.partitions, *self.keys)

    @property
    def needed(self) -> tuple[str, ...]:
        """What every row must bring."""
        return tuple(dict.fromkeys((*self.keys, *self.partitions, *self.ordering)))

    def identity(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.identifying)

    def partition(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.partitions)

    def create(self, clock: Clock, storage: Storage | None = None) -> Table:
        storage = storage or MemoryStorage("memory://life", clock)
        schema = pa.schema([pa.field(n, TYPES[t], n not in self.required) for n, t in self.columns])
        return make_table(
            storage,
            clock,
            schema,
            record_keys=list(self.keys),
            ordering_fields=list(self.ordering) or None,
            partition_by=list(self.partitions) or None,
            table_type=self.table_type,
            index=self.index,
            concurrency=self.concurrency,
            buckets=self.buckets,
            hive_style_partitioning=self.hive,
            properties=dict(self.properties) | self._stated(),
        )

    def _stated(self) -> dict[str, str]:
        stated = {"hoodie.lakebraid.schema.conflict": "merge"} if self.merges else {}
        if self.captures:
            stated |= {CDC: "true", CDC_MODE: self.captures}
        if self.shared:
            stated |= {"hoodie.write.lock.provider": FILE_LOCK, CLOCK_SKEW: "1"}
        return stated


def random_kind(dice: Random) -> Kind:
    """Any kind that `create` offers."""
    table_type = dice.choice(["mor", "mor", "mor", "cow"])
    index = dice.choice(["bucket", "bucket", "bucket", "simple", "global_simple"])
    is_free = table_type == "mor" and index == "bucket"
    concurrency = dice.choice(["nbcc", "nbcc", "occ"] if is_free else ["occ", "occ", "occ", "single"])
    columns: Columns = {}
    keys = dice.choice([("id",), ("id",), ("id", "k2")])
    columns["id"] = dice.choice(["string", "string", "bigint", "date"])
    columns["k2"] = dice.choice(["string", "int"])
    partitions = dice.choice([(), ("p",), ("p",), ("p", "q")])
    columns["p"], columns["q"] = dice.choice(["string", "string", "int", "date"]), "string"
    ordering = dice.choice([("ts",), ("ts",), ("ts", "seq"), (), ()])
    columns["ts"], columns["seq"] = dice.choice(["bigint", "time", "int"]), "int"
    columns = {n: t for n, t in columns.items() if n in (*keys, *partitions, *ordering) or n == "ts"}
    for number in range(dice.randint(1, 5)):
        columns[f"c{number}"] = dice.choice(PLAIN)
    if dice.random() < 0.4:
        columns[SOFT] = "boolean"
    shuffled = list(columns.items())
    if dice.random() < 0.3:
        dice.shuffle(shuffled)
    properties: dict[str, str] = {}
    if dice.random() < 0.5:
        properties["hoodie.datasource.write.partitionpath.urlencode"] = "true"
    if index != "bucket" and dice.random() < 0.4:
        name = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
        properties["hoodie.clustering.updates.strategy"] = name
    if dice.random() < 0.3:
        properties["hoodie.parquet.small.file.limit"] = "0"
    shared = dice.random() < 0.15
    allows = "hoodie.clustering.updates.strategy" in properties
    if dice.random() < 0.3 or (shared and allows):  # else Hudi's clusterings may drop rows, and it is refused
        name = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
        properties["hoodie.write.lock.conflict.resolution.strategy"] = name
    required = ("c0",) if dice.random() < 0.2 else ()
    captures = dice.choice(CDC_MODES) if dice.random() < 0.2 else ""
    return Kind(
        table_type,
        index,
        concurrency,
        ordering,
        keys,
        partitions,
        dice.random() < 0.5,
        dice.choice(["parquet", "avro"]),
        dice.choice([1, 2, 4]),
        tuple(shuffled),
        required,
        dice.random() < 0.3,
        tuple(properties.items()),
        captures,
        shared,
        dice.choices([None, LENGTHS, LONG_LENGTHS], [0.57, 0.4, 0.03])[0],
    )


def a_key(dice: Random, kind: Kind) -> Row:
    """Key and partition columns out of a small pool."""
    types = dict(kind.columns)
    row: Row = {}
    for name in kind.keys:
        row[name] = _key_value(dice, types[name], kind.key_texts)
    if len(kind.keys) > 1 and dice.random() < 0.1:
        row[kind.keys[1]] = dice.choice([None, "" if types[kind.keys[1]] == "string" else None])
    odd = "a/b=c?" if dict(kind.properties).get("hoodie.datasource.write.partitionpath.urlencode") else "d.e f"
    for name in kind.partitions:
        match types[name]:
            case "string":
                row[name] = dice.choice(["x", "y", "ä", odd, None])
            case "int":
                row[name] = dice.choice([1, -2, None])
            case _:
                row[name] = dice.choice([date(2026, 1, 1), date(1969, 12, 31), None])
    return row


def an_order(dice: Random, kind: Kind, least: int) -> Row:
    """Ordering columns; the first is at least that."""
    types = dict(kind.columns)
    row: Row = {}
    for name in kind.ordering:
        number = dice.randint(least, least + kind.spread) if name == "ts" else dice.randint(0, 2)
        if number == 0 and kind.ordering == (name,) and types[name] == "int":
            number = 1  # in a delete an int 0 says "no ordering value" (docs/differences.md)
        row[name] = order_value(number, types[name])
    return row


def order_value(number: int, kind: str) -> Any:
    return _DAY + timedelta(seconds=number) if kind == "time" else number


def order_number(value: Any) -> int:
    return int((value - _DAY).total_seconds()) if isinstance(value, datetime) else value


def a_value(dice: Random, kind: str, lengths: tuple[int, ...] | None = LENGTHS) -> Any:  # noqa: PLR0912  a line for each type
    """A value of that type; seldom None, and now and then one of the edges, as long as that."""
    chance = dice.random()
    if chance < 0.15:
        return None
    if chance < 0.3 and lengths is not None:
        return an_edge(dice, kind, lengths)
    number = dice.randint(-3, 3)
    match kind:
        case "string":
            return dice.choice(TEXTS)
        case "int":
            return dice.choice([number, 2**31 - 1])
        case "bigint":
            return dice.choice([number, 2**31, -(2**63)])
        case "float" | "double":
            return number / 2
        case "decimal":
            return Decimal(dice.randint(-999, 999)).scaleb(-2)
        case "wide decimal":
            return Decimal(dice.choice([number, 10**15])).quantize(Decimal("0.01"))
        case "time":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=number, microseconds=1)
        case "local time":
            return datetime(1999, 12, 31, 23, 59, 59, 999999) + timedelta(days=number)
        case "date":
            return date(1970, 1, 1) + timedelta(days=number)
        case "boolean":
            return number > 0
        case "binary":
            return bytes(range(max(number, 0)))
        case "list":
            return [n if n % 2 else None for n in range(abs(number))]
        case "map":
            return [(f"k{n}", n or None) for n in range(abs(number))]
        case "points":
            return [{"a": n, "b": None} if n else None for n in range(abs(number))]
        case "point" | "long point":
            return {"a": number or None, "b": dice.choice(TEXTS)}
        case "point of three":
            return {"a": number, "b": None, "c": number / 2}
    raise AssertionError(kind)


def as_arrow(kind: Kind, rows: list[Row], columns: Columns, new: Columns | None = None) -> pa.Table:
    """Rows in the types of the table, or in those that they bring."""
    types = {**columns, **(new or {})}
    names = list(rows[0]) if rows else list(kind.needed)
    return pa.Table.from_pylist(rows, pa.schema([(name, TYPES[types[name]]) for name in names]))


def fitted(value: Any, kind: str) -> Any:
    """A value as a column of that, perhaps wider, type gives it back."""
    if isinstance(value, dict):
        return {inner.name: value.get(inner.name) for inner in TYPES[kind]}
    return value


def _key_value(dice: Random, kind: str, texts: tuple[str, ...]) -> Any:
    match kind:
        case "string":
            return dice.choice(texts)
        case "date":
            return date(2026, 1, 1) + timedelta(days=dice.randint(0, 9))
        case _:
            return dice.randint(-2, 9)

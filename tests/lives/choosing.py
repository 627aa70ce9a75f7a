# SPDX-License-Identifier: Apache-2.0
"""The next step of a life, with all it needs, by dice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from tests.lives.judging import OVERWRITES
from tests.lives.kinds import PLAIN, SOFT, WIDER, Columns, Row, a_key, a_value, an_order, order_number
from tests.lives.life import Life
from tests.lives.values import MISFITS

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
WEIGHTS: Final[Mapping[str, float]] = {
    "write": 30,
    "overlap": 24,
    "partial": 8,
    "delete": 8,
    "overwrite": 4,
    "alter": 5,
    "compact": 7,
    "cluster": 4,
    "plan": 6,
    "run": 6,
    "clean": 5,
    "archive": 4,
    "savepoint": 3,
    "unpin": 2,
    "restore": 3,
    "rescue": 1,
    "tend": 2,
    "consume": 5,
    "wait": 2,
    "swap": 4,
    "look": 10,
    "misfit": 4,
    "hold": 3,
}


def choose(dice: Random, life: Life, weights: Mapping[str, float] = WEIGHTS) -> Step:
    """The next step, with all it needs."""
    while True:
        name = dice.choices(list(weights), list(weights.values()))[0]
        step = getattr(Chooser(dice, life), name)()
        if step is not None:
            return (
                (step[0], step[1:-1], step[-1])
                if isinstance(step[-1], dict) and step[0] in _NAMED
                else (step[0], step[1:], {})
            )


_NAMED = ("write", "plan", "compact", "cluster", "clean")


class Chooser:
    """One throw of the dice; gives the name of the step, its arguments, and for some a dictionary of named ones."""

    def __init__(self, dice: Random, life: Life) -> None:
        self.dice, self.life, self.kind = dice, life, life.kind
        self.floors: dict[Any, int] = life.__dict__.setdefault("floors", {})
        self.columns = life.world.columns

    def write(self) -> tuple[Any, ...]:
        operation = self.dice.choice(["upsert"] * 5 + ["insert"] * 2 + ["bulk_insert"])
        new = self.new_columns() if self.dice.random() < 0.12 else {}
        how: dict[str, Any] = {}
        if self.dice.random() < 0.1:
            how["batch"] = (self.dice.choice(["w1", "w2"]), self.dice.randint(0, 6))
        if self.dice.random() < 0.05:
            how["is_inline"] = True
        return "write", operation, self.rows(operation, {**self.columns, **new}), new, how

    def misfit(self) -> tuple[Any, ...] | None:
        """A row with a value that one of its columns cannot hold."""
        names = [n for n, t in self.columns.items() if t in MISFITS]
        rows = [row for row in self.rows("upsert", self.columns) if {*self.columns} <= {*row}]
        if not names or not rows or self.kind.concurrency == "single":
            return None
        name = self.dice.choice(names)
        return "misfit", rows[0], name, self.dice.choice(MISFITS[self.columns[name]])

    def overlap(self) -> tuple[Any, ...] | None:
        names = list(self.life.open)
        if not names or (len(names) < 4 and self.dice.random() < 0.35):
            name = f"t{len(self.life.past)}{self.dice.randint(0, 99)}"
            kinds = ["upsert"] * 6 + ["insert", "delete", "bulk_insert", "insert_overwrite_table", "insert_overwrite"]
            operation = self.dice.choice(kinds[:-1] if self.kind.is_global else kinds)
            may_be_partial = not self.kind.is_global and self.may_be_partial()
            if operation == "upsert" and may_be_partial and self.dice.random() < 0.4:
                return "begin", name, operation, self.some_columns()
            return "begin", name, operation
        name = self.dice.choice(names)
        made = self.life.open[name]
        if made.is_dead:
            return "commit", name
        what = self.dice.choices(["more", "less", "commit", "abort"], [5, 1, 3, 0.5])[0]
        if what == "more":
            if self.kind.captures and made.operation in OVERWRITES and made.calls:
                return None  # Hudi could not read the commit, so it would be refused
            columns = {**made.began.columns, **made.columns}
            if made.partial is not None:
                return "more", name, self.partial_rows(made.partial, columns)
            new = self.new_columns(columns) if self.dice.random() < 0.1 and made.operation != "delete" else {}
            rows = self.rows(made.operation, {**columns, **new})
            if made.operation == "delete":
                rows = [{n: row[n] for n in self.kind.needed} for row in rows]
            return "more", name, rows, new
        if what == "less":
            if made.operation in ("insert_overwrite", "insert_overwrite_table", "bulk_insert"):
                return None
            keys = [self.key() for _ in range(self.dice.randint(1, 3))]
            return "less", name, [{**key, **self.order(key)} for key in keys]
        return what, name

    def may_be_partial(self) -> bool:
        """Where logs and a flag of deletes meet, Apache Hudi reads no partial rows, and so they are refused."""
        return self.kind.table_type == "cow" or SOFT not in self.columns

    def partial(self) -> tuple[Any, ...] | None:
        if not self.may_be_partial():
            return None
        names = self.some_columns()
        rows = self.partial_rows(names, self.columns)
        return ("write", "upsert", rows, {}, {"partial": names}) if rows else None

    def some_columns(self) -> list[str]:
        free = [n for n in self.columns if n not in (*self.kind.needed, SOFT)]
        chosen = self.dice.sample(free, self.dice.randint(1, len(free)))
        return [*self.kind.needed, *dict.fromkeys([*self.kind.required, *chosen])]

    def partial_rows(self, names: Sequence[str], columns: Columns) -> list[Row]:
        """Rows of these columns, as wide as the writer knows them, older than what is there or newer."""
        kind = self.kind
        rows: dict[Any, Row] = {}
        for _ in range(self.dice.randint(1, 4)):
            key = self.key()
            identity = kind.identity(key)
            there = self.life.world.rows().get(identity)
            if there is not None and kind.is_global:
                key |= {n: there[n] for n in kind.partitions}
            row = {**key, **self.order(key)}
            rows[identity] = {n: row[n] if n in row else self.value(n, columns[n]) for n in names}
        return list(rows.values())

    def delete(self) -> tuple[Any, ...]:
        keys = [self.key() for _ in range(self.dice.randint(1, 4))]
        there = list(self.life.world.rows().values())
        if there:
            row = self.dice.choice(there)
            keys.append({n: row[n] for n in (*self.kind.partitions, *self.kind.keys)})
        if self.kind.ordering and self.dice.random() < 0.4:
            keys = [{**key, **self.order(key)} for key in keys]
        for key in keys:
            self.buried(key)
        keys = [{n: key[n] for n in (*self.kind.needed,) if n in key} for key in keys]
        return "delete", keys

    def overwrite(self) -> tuple[Any, ...] | None:
        if self.kind.partitions and self.dice.random() < 0.4:
            key = self.key()
            return "delete_partitions", [{n: key[n] for n in self.kind.partitions}]
        # Where a key is there once in all partitions, an overwrite of one does not look at the others.
        operations = ["insert_overwrite_table", "insert_overwrite"]
        operation = self.dice.choice(operations[:1] if self.kind.is_global else operations)
        return "write", operation, self.rows(operation, self.columns), {}, {}

    def alter(self) -> tuple[Any, ...]:
        steps: list[tuple[Any, ...]] = []
        added: Columns = {}
        for _ in range(self.dice.randint(1, 2)):
            wider = [n for n, t in self.columns.items() if t in WIDER and n not in self.kind.needed]
            what = self.dice.choice(["add", "widen", "reorder", "nullable"])
            if what == "add":
                new = self.new_columns(added)
                added |= new
                steps += [("add", *pair) for pair in new.items()]
            elif what == "widen" and wider and not any(s[0] == "widen" for s in steps):
                name = self.dice.choice(wider)
                steps.append(("widen", name, self.dice.choice(WIDER[self.columns[name]])))
            elif what == "reorder":
                names = list(self.columns)
                steps.append(("reorder", self.dice.sample(names, self.dice.randint(1, len(names)))))
            elif self.kind.required:
                steps.append(("nullable", self.kind.required[0]))
        return "alter", steps or [("add", self.free_name(), "int")]

    def compact(self) -> tuple[Any, ...] | None:
        if self.kind.table_type == "cow":
            return None
        if self.dice.random() < 0.2:
            return ("log_compact",)
        return "compact", {"sort_by": ["ts"]} if self.dice.random() < 0.2 else {}

    def cluster(self) -> tuple[Any, ...] | None:
        if self.kind.index == "bucket":
            return None
        return "cluster", {"sort_by": ["ts"]} if self.dice.random() < 0.5 else {}

    def plan(self) -> tuple[Any, ...] | None:
        kinds = ["clean"] if self.dice.random() < 0.2 else []
        kinds += ["compaction", "log_compaction"] if self.kind.table_type == "mor" else []
        kinds += ["clustering"] * 2 if self.kind.index != "bucket" else []
        if not kinds:
            return None
        what = self.dice.choice(kinds)
        how: dict[str, Any] = {"commits": self.dice.randint(1, 4)} if what == "clean" else {}
        if what in ("clustering", "log_compaction") and self.dice.random() < 0.5:
            how["removable"] = True
        return "plan", f"p{len(self.life.past)}{self.dice.randint(0, 99)}", what, how

    def run(self) -> tuple[Any, ...] | None:
        if not self.life.plans:
            return None
        name = self.dice.choice(list(self.life.plans))
        return ("take_back" if self.dice.random() < 0.2 else "run"), name

    def clean(self) -> tuple[Any, ...]:
        return "clean", self.dice.choice(
            [{"commits": 1}, {"commits": 3}, {"versions": 1}, {"versions": 2}, {"hours": 1}]
        )

    def archive(self) -> tuple[Any, ...]:
        least = self.dice.randint(1, 4)
        return "archive", least, least + self.dice.randint(0, 3)

    def savepoint(self) -> tuple[Any, ...]:
        return ("savepoint",)

    def unpin(self) -> tuple[Any, ...]:
        return "unpin", self.dice.randint(0, 9)

    def restore(self) -> tuple[Any, ...]:
        return "restore", self.dice.choice([0, 1, 1, 2, 3, 5])

    def rescue(self) -> tuple[Any, ...]:
        return ("rescue",)

    def tend(self) -> tuple[Any, ...]:
        return ("tend",)

    def consume(self) -> tuple[Any, ...]:
        return "consume", self.dice.choice(["c1", "c2"])

    def hold(self) -> tuple[Any, ...]:
        return ("let_go" if self.life.held else "hold",)

    def wait(self) -> tuple[Any, ...]:
        return "wait", self.dice.choice([1, 30, 300, 4000])

    def swap(self) -> tuple[Any, ...]:
        return (self.dice.choice(["swap", "reopen"]),)

    def look(self) -> tuple[Any, ...]:
        plain = [n for n, t in self.columns.items() if t in ("string", "int", "bigint", "time", "date", "decimal")]
        terms: list[tuple[str, str, Any]] = []
        rows = list(self.life.world.rows().values())
        for _ in range(self.dice.randint(1, 2)):
            name = self.dice.choice(plain)
            values = [row[name] for row in rows if row[name] is not None]
            value = self.dice.choice(values) if values else None
            other = self.value(name, self.columns[name])
            value = other if value is None or self.dice.random() < 0.2 else value
            if value is None:
                terms.append((name, self.dice.choice(["is null", "is not null"]), None))
            elif self.dice.random() < 0.2:
                terms.append((name, "in", [v for v in (value, other) if v is not None]))
            else:
                terms.append((name, self.dice.choice(["=", "!=", "<", ">="]), value))
        names = list(self.columns)
        columns = None if self.dice.random() < 0.3 else self.dice.sample(names, self.dice.randint(1, len(names)))
        if any(operator.startswith("is") for _, operator, _ in terms):
            terms = [t for t in terms if t[1].startswith("is")]
            return "look", columns, " and ".join(f"{name} {operator}" for name, operator, _ in terms), terms
        return "look", columns, terms, terms

    # --- rows --------------------------------------------------------------------------------------------------------

    def rows(self, operation: str, columns: Columns) -> list[Row]:
        names = list(columns)
        optional = [n for n in names if n not in (*self.kind.needed, *self.kind.required)]
        left_out = {n for n in optional if self.dice.random() < 0.1} if operation != "delete" else set()
        rows = []
        for _ in range(self.dice.choice([0, 1, 1, 2, 3, 5, 8])):
            key = self.key()
            row = {**key, **self.order(key)}
            for name in names:
                if name not in row and name not in left_out:
                    row[name] = self.value(name, columns[name])
            if SOFT in row:
                may = operation in ("upsert", "insert") and self.dice.random() < 0.2
                row[SOFT] = True if may else self.dice.choice([False, None])
                if may:
                    self.buried(row)
            rows.append({n: row[n] for n in names if n in row})
        return rows

    def key(self) -> Row:
        return a_key(self.dice, self.kind)

    def order(self, key: Row) -> Row:
        floor = self.floors.get(self.kind.identity(key))
        return an_order(self.dice, self.kind, -1 if floor is None else floor + 1)

    def value(self, name: str, kind: str) -> Any:
        value = a_value(self.dice, kind, self.kind.lengths)
        while value is None and name in self.kind.required:
            value = a_value(self.dice, kind, self.kind.lengths)
        return value

    def buried(self, key: Row) -> None:
        """Where a delete leaves no trace after a compaction, older events are not told apart from newer ones."""
        kind = self.kind
        if kind.ordering and kind.is_placed and kind.table_type == "mor":
            identity = kind.identity(key)
            given = order_number(key["ts"]) if "ts" in key else 0
            self.floors[identity] = max(given, self.highest(identity), self.floors.get(identity, 0))

    def highest(self, identity: Any) -> int:
        versions = self.life.world.versions.get(identity, ())
        seen = [order_number(v.order[0]) for v in versions]
        seen += [
            order_number(c.row["ts"])
            for m in self.life.open.values()
            for c in m.changes
            if self.kind.identity(c.row) == identity and "ts" in c.row
        ]
        return max(seen, default=0)

    def new_columns(self, known: Columns | None = None) -> Columns:
        """Columns that neither the table has nor, beside it, the writer that asks."""
        names = [f"n{self.dice.randint(0, 99)}" for _ in range(self.dice.randint(1, 2))]
        new = {name: self.dice.choice(PLAIN) for name in names if name not in self.columns}
        return {name: kind for name, kind in new.items() if name not in (known or {})}

    def free_name(self) -> str:
        name = f"n{self.dice.randint(0, 999)}"
        while name in self.columns:
            name = f"n{self.dice.randint(0, 999)}"
        return name

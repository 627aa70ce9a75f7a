# SPDX-License-Identifier: Apache-2.0
"""Changes that Spark computes from the rows that are there: update, delete where, merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.pandas.types import from_arrow_type

from lakebraid.spark.read import as_frame
from lakebraid.writing.result import WriteResult
from tests.lives.checking import Term, holds
from tests.lives.choosing import Chooser, Step
from tests.lives.judging import Open
from tests.lives.kinds import SOFT, TYPES, Row, as_arrow
from tests.lives.life import Life
from tests.lives.world import Change

_FLAT = ("string", "int", "bigint", "date", "boolean", "binary", "decimal", "time", "double")
_NUMBERS = ("int", "bigint")
Even = str
"""The name of a column of numbers: a condition that only Spark knows."""
Wanted = Sequence[Term] | Even | None


def update(life: Life, values: Mapping[str, tuple[str, Any]], wanted: Wanted) -> None:
    """Gives the matching rows new values: plain ones, or those of another column as it was."""
    rows = [row for row in life.world.rows().values() if _matches(row, wanted)]
    made = life.opening("upsert", None, [], None)
    made.changes += [Change({**row, **{n: _new(row, told) for n, told in values.items()}}) for row in rows]
    given = {name: _column(life, name, told) for name, told in values.items()}
    _finish(life, made, lambda how: life.table.update(given, _where(wanted), **how))


def delete_where(life: Life, wanted: Wanted) -> None:
    """Deletes the matching rows as they are."""
    rows = [row for row in life.world.rows().values() if _matches(row, wanted)]
    made = life.opening("delete", None, [], None)
    made.changes += [Change({n: row[n] for n in life.kind.needed}, is_delete=True) for row in rows]
    _finish(life, made, lambda how: life.table.delete(where=_where(wanted) or "1 = 1", **how))


def merge(life: Life, source: list[Row], even: Even | None, *, updates: bool, inserts: bool, is_frame: bool) -> None:
    """Merges rows: those that meet one of an even number are deleted, others updated; those that meet none inserted."""
    kind = life.kind
    there = {kind.partition(row) + kind.identity(row): row for row in life.world.rows().values()}
    made = life.opening("upsert", None, [], None)
    for row in source:
        met = there.get(kind.partition(row) + kind.identity(row))
        if met is not None and even is not None and _matches(met, even):
            made.changes.append(Change({n: met[n] for n in kind.needed}, is_delete=True))
        elif met is not None and updates:
            made.changes.append(Change({**met, **row}))
        elif met is None and inserts:
            made.changes.append(Change({**dict.fromkeys(life.world.columns), **row}))
    rows: Any = as_arrow(kind, source, life.world.columns)
    if is_frame:
        rows = as_frame(rows, None)
    named: dict[str, Any] = {
        "matched_update": "all" if updates else None,
        "matched_delete": None if even is None else f"coalesce(t.`{even}`, 0) % 2 = 0",
        "not_matched_insert": "all" if inserts else None,
    }
    _finish(life, made, lambda how: life.table.merge(rows, **named, **how))


def look_on_spark(
    life: Life, columns: Sequence[str] | None, where: Sequence[Term] | str, terms: Sequence[Term]
) -> None:
    """What Spark's tasks read is what is read here, and what changed since the beginning leads to it."""
    here, there = (
        life.table.to_arrow(columns, where).to_pylist(),
        life.table.to_spark(columns, where).toArrow().to_pylist(),
    )
    assert sorted(map(_plain, here)) == sorted(map(_plain, there)), where


def choose_change(dice: Random, life: Life) -> Step:
    """The next such step."""
    chooser = Chooser(dice, life)
    name = dice.choice(["update", "update", "delete_where", "merge", "merge", "merge"])
    if name == "delete_where":
        for row in life.world.rows().values():
            chooser.buried(row)
        return "delete_where", (_some(chooser),), {}
    if name == "update":
        values = {n: _value(chooser, n) for n in dice.sample(_free(chooser), 1 if len(_free(chooser)) == 1 else 2)}
        return "update", (values, _some(chooser)), {}
    numbers = [n for n, t in chooser.columns.items() if t in _NUMBERS]
    even = dice.choice(numbers) if numbers and dice.random() < 0.4 else None
    rows = {
        chooser.kind.partition(row) + chooser.kind.identity(row): row for row in chooser.rows("merge", chooser.columns)
    }
    if even is not None:
        for row in rows.values():
            chooser.buried(row)
    how = {"updates": dice.random() < 0.8, "inserts": dice.random() < 0.8, "is_frame": dice.random() < 0.5}
    if not (how["updates"] or how["inserts"] or even):
        how["updates"] = True
    return "merge", (list(rows.values()), even), how


def _finish(life: Life, made: Open, call: Any) -> None:
    how = {"retries": 0} if life.has_clusterings() else {}
    result: WriteResult | None = life.tried(made, lambda: call(how))
    if result is not None:
        life.published(made, result)


def _free(chooser: Chooser) -> list[str]:
    return [n for n in chooser.columns if n not in (*chooser.kind.needed, SOFT)]


def _value(chooser: Chooser, name: str) -> tuple[str, Any]:
    kind = chooser.columns[name]
    same = [n for n, t in chooser.columns.items() if t == kind and n != name and n not in chooser.kind.required]
    if same and name not in chooser.kind.required and chooser.dice.random() < 0.5:
        return "of", chooser.dice.choice(same)
    value = chooser.value(name, kind)
    while kind not in _FLAT and value is not None:
        value = chooser.value(name, kind)
        if name in chooser.kind.required:
            return "of", name
    return "plain", value


def _some(chooser: Chooser) -> Wanted:
    numbers = [n for n, t in chooser.columns.items() if t in _NUMBERS]
    what = chooser.dice.random()
    if what < 0.2:
        return None
    if what < 0.4 and numbers:
        return chooser.dice.choice(numbers)
    terms: Sequence[Term] = chooser.look()[-1]
    return terms if not any(operator.startswith("is") for _, operator, _ in terms) else None


def _matches(row: Row, wanted: Wanted) -> bool:
    if wanted is None:
        return True
    if isinstance(wanted, str):
        return (row[wanted] or 0) % 2 == 0
    return all(holds(row, term) for term in wanted)


def _where(wanted: Wanted) -> Any:
    return f"coalesce(`{wanted}`, 0) % 2 = 0" if isinstance(wanted, str) else wanted


def _new(row: Row, told: tuple[str, Any]) -> Any:
    return row[told[1]] if told[0] == "of" else told[1]


def _column(life: Life, name: str, told: tuple[str, Any]) -> Column:
    if told[0] == "of":
        return F.col(f"`{told[1]}`")
    kind = from_arrow_type(TYPES[life.world.columns[name]])
    return F.lit(told[1]).cast(kind)


def _plain(row: Row) -> str:
    return str({n: v.isoformat() if hasattr(v, "isoformat") else v for n, v in row.items()})

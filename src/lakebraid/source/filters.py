# SPDX-License-Identifier: Apache-2.0
"""Spark's filters as ours, where both certainly mean the same. Spark applies all of them again: ours only save work."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from lakebraid.model.predicate import parse as p

_OPERATORS: Final = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_TYPES: Final[dict[type[DataType], type]] = {
    BooleanType: bool,
    ByteType: int,
    DateType: date,
    IntegerType: int,
    LongType: int,
    ShortType: int,
    StringType: str,
}
"""Types whose values compare alike here and there. Numbers with a point do not: Spark has an order for NaN."""


def where_of(filters: Iterable[Filter], schema: StructType) -> p.Predicate | None:
    """All filters that can be taken over, as one; None if there is none."""
    terms = [term for one in filters if (term := _term(one, schema)) is not None]
    return None if not terms else terms[0] if len(terms) == 1 else p.And(tuple(terms))


def _term(given: Filter, schema: StructType) -> p.Predicate | None:
    path: tuple[str, ...] = getattr(given, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names or "." in path[0]:
        return None
    name, kind = path[0], type(schema[path[0]].dataType)
    match given:
        case IsNull():
            return p.IsNull(name)
        case IsNotNull():
            return p.IsNull(name, True)
        case In(value=values) if values and all(_fits(value, kind) for value in values):
            return p.In(name, tuple(values))
        case StringStartsWith(value=str(value)) if kind is StringType:
            return p.StartsWith(name, value)
        case _ if type(given) in _OPERATORS and _fits(getattr(given, "value", None), kind):
            return p.Compare(name, _OPERATORS[type(given)], given.value)  # type: ignore[attr-defined]
    return None


def _fits(value: Any, kind: type[DataType]) -> bool:
    wanted = _TYPES.get(kind)
    if wanted is None or value is None or isinstance(value, datetime):
        return False
    return type(value) is wanted

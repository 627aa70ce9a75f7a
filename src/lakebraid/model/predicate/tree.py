# SPDX-License-Identifier: Apache-2.0
"""The values a `where` is made of, and what can be said of one without knowing any table.

A column is written as a dotted path (`address.city`); a name that itself has a dot or a backquote stands in backquotes
(`` `odd.name`.part ``, a backquote in it doubled).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final, TypeAlias

from lakebraid.errors import InvalidArgument
from lakebraid.limits import PREDICATE_DEPTH_MAX, PREDICATE_TERMS_MAX, PREDICATE_VALUES_MAX

Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | None
"""What a column is compared with; a `datetime` is a `date` too."""

NEGATED: Final = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The six comparisons, each with the one that is true exactly where it is false."""

_DIGITS_MAX: Final = 76  # of Arrow's widest decimal; Spark's has 38
_COLUMN_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`; unknown where the column is null, everywhere if the value is."""

    column: str
    op: str
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """`column [NOT] IN (values)`."""

    column: str
    values: tuple[Value, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS [NOT] NULL`; never unknown."""

    column: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class StartsWith:
    """`column [NOT] LIKE 'prefix%'`."""

    column: str
    prefix: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of them."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    part: Predicate


@dataclass(frozen=True, slots=True)
class Literal:
    """True or false of every row."""

    value: bool


Predicate: TypeAlias = Compare | In | IsNull | StartsWith | And | Or | Not | Literal


def columns_of(predicate: Predicate) -> frozenset[str]:
    """The columns it looks at."""
    return frozenset(node.column for node in _nodes(predicate) if not isinstance(node, And | Or | Not | Literal))


def normal_form(predicate: Predicate) -> Predicate:
    """A predicate true of the same rows, without Not and without nulls among its values.

    In three-valued logic a row is kept only where the whole is true. With every Not pushed down to a comparison,
    "unknown" can no longer become true further up, so a part that is nowhere true is simply false.
    """
    check_predicate(predicate)
    return _normal(predicate, negate=False)


def conjunction(parts: Sequence[Predicate]) -> Predicate:
    """All of the parts, as simply as it can be said."""
    if Literal(value=False) in parts:
        return Literal(value=False)
    left = tuple(part for part in parts if part != Literal(value=True))
    return left[0] if len(left) == 1 else And(left) if left else Literal(value=True)


def disjunction(parts: Sequence[Predicate]) -> Predicate:
    """Any of the parts, as simply as it can be said."""
    if Literal(value=True) in parts:
        return Literal(value=True)
    left = tuple(part for part in parts if part != Literal(value=False))
    return left[0] if len(left) == 1 else Or(left) if left else Literal(value=False)


def check_predicate(predicate: Predicate) -> None:
    """Raises InvalidArgument if it is too deep, too large, or made of things that cannot be compared."""
    values = 0
    for terms, node in enumerate(_nodes(predicate), start=1):
        values += len(node.values) if isinstance(node, In) else 0
        if terms > PREDICATE_TERMS_MAX:
            raise InvalidArgument(
                f"The where has more than {PREDICATE_TERMS_MAX} conditions. Use IN, or a join instead."
            )
        if values > PREDICATE_VALUES_MAX:
            raise InvalidArgument(f"The where lists more than {PREDICATE_VALUES_MAX} values. Use a join instead.")
        _check_node(node)


def column_path(column: str) -> tuple[str, ...]:
    """The names that lead to a column.

    >>> column_path("address.city"), column_path("`odd.name`.part")
    (('address', 'city'), ('odd.name', 'part'))
    """
    names, at = [], 0
    while found := _COLUMN_PART.match(column, at):
        names.append(found[1].replace("``", "`") if found[1] else found[2])
        if found.end() == len(column):
            return tuple(names)
        if column[found.end()] != ".":
            break
        at = found.end() + 1
    raise InvalidArgument(f"{column!r} is not a column. Write names with odd characters in backquotes.", column=column)


def column_text(path: Sequence[str]) -> str:
    """The inverse of `column_path`."""
    return ".".join(quoted(name) if "." in name or "`" in name else name for name in path)


def quoted(name: str) -> str:
    """A name in backquotes, as Spark SQL takes any."""
    return f"`{name.replace('`', '``')}`"


def _nodes(predicate: Predicate) -> Iterator[Predicate]:
    pending = [(predicate, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > PREDICATE_DEPTH_MAX:
            raise InvalidArgument(f"The where is nested more than {PREDICATE_DEPTH_MAX} levels deep. Simplify it.")
        yield node
        if isinstance(node, And | Or):
            pending += [(part, depth + 1) for part in node.parts]
        elif isinstance(node, Not):
            pending.append((node.part, depth + 1))


def _check_node(node: object) -> None:
    match node:
        case Compare(column, op, value):
            column_path(column)
            check_value(value)
            if op not in NEGATED:
                raise InvalidArgument(f"{op!r} is not a comparison; there are {' '.join(NEGATED)}.")
        case In(column, values):
            column_path(column)
            if not values:
                raise InvalidArgument(f"The list of values for {column} is empty.", column=column)
            for value in values:
                check_value(value)
        case StartsWith(column, prefix):
            column_path(column)
            check_value(prefix)
        case IsNull(column):
            column_path(column)
        case _ if not isinstance(node, And | Or | Not | Literal):
            raise InvalidArgument(f"{node!r} is not part of a where.")


def check_value(value: object) -> None:
    """Raises InvalidArgument if nothing can be compared with it."""
    match value:
        case None | bool() | float() | bytes():
            fine = True
        case date():
            fine = not isinstance(value, datetime) or _has_utc(value)
        case int():
            fine = abs(value) < 10**_DIGITS_MAX
        case Decimal():
            fine = (
                value.is_finite()
                and abs(value.adjusted()) < _DIGITS_MAX
                and len(value.as_tuple().digits) <= _DIGITS_MAX
            )
        case str():
            fine = not re.search("[\ud800-\udfff]", value)
        case _:
            fine = False
    if not fine:
        shown = repr(value) if not isinstance(value, int) else "an integer of too many digits"
        raise InvalidArgument(f"Nothing can be compared with {shown[:100]} ({type(value).__name__}).")


def _has_utc(value: datetime) -> bool:
    try:
        return value.tzinfo is None or value.astimezone(UTC) is not None
    except OverflowError:
        return False


def _normal(predicate: Predicate, *, negate: bool) -> Predicate:
    match predicate:
        case Compare(column, op, value):
            return Literal(value=False) if value is None else Compare(column, NEGATED[op] if negate else op, value)
        case In(column, values, negated):
            return _normal_in(column, values, negated=negated != negate)
        case IsNull(column, negated):
            return IsNull(column, negated != negate)
        case StartsWith(column, prefix, negated):
            return StartsWith(column, prefix, negated != negate)
        case Not(part):
            return _normal(part, negate=not negate)
        case Literal(value):
            return Literal(value != negate)
        case And(parts) | Or(parts):
            normal = [_normal(part, negate=negate) for part in parts]
            return conjunction(normal) if isinstance(predicate, And) != negate else disjunction(normal)


def _normal_in(column: str, values: tuple[Value, ...], *, negated: bool) -> Predicate:
    given = tuple(value for value in values if value is not None)
    if negated:
        # x NOT IN (1, NULL) is false for 1 and unknown for everything else.
        return Literal(value=False) if len(given) < len(values) else In(column, given, negated=True)
    return In(column, given) if given else Literal(value=False)

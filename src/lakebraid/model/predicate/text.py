# SPDX-License-Identifier: Apache-2.0
"""Spark SQL's text of a predicate: the part of its grammar that a `where` needs, read and written.

or     := and (OR and)*
and    := unary (AND unary)*
unary  := NOT* ( "(" or ")" | TRUE | FALSE | column test? | literal comparison column )
test   := comparison literal | [NOT] IN "(" literal, … ")" | [NOT] BETWEEN literal AND literal
        | [NOT] LIKE 'prefix%' | IS [NOT] NULL
"""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import Final, NamedTuple

from lakebraid.errors import InvalidArgument
from lakebraid.limits import PREDICATE_BYTES_MAX, PREDICATE_DEPTH_MAX, PREDICATE_TERMS_MAX, PREDICATE_VALUES_MAX
from lakebraid.model.predicate.literals import UNTYPED, literal_text, number, string_text, string_value, typed_value
from lakebraid.model.predicate.tree import (
    And,
    Compare,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    Value,
    check_predicate,
    column_path,
    column_text,
    quoted,
)

_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|[LSYD])?(?!\w))
    | (?P<name>[^\W\d]\w*)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<comparison><=>|<=|>=|<>|!=|==|=|<|>)
    | (?P<mark>[(),.+!-])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_COMPARISONS: Final = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_RESERVED: Final = frozenset({"and", "or", "not", "in", "is", "null", "like", "between", "true", "false"})
_BEYOND: Final = "A where holds comparisons of one column with constants; use Spark's filter on the result for more"


def parse_text(text: str) -> Predicate:
    """The predicate that this SQL text means; InvalidArgument with a caret under the place that is not understood."""
    if len(text.encode("utf-8", "surrogatepass")) > PREDICATE_BYTES_MAX:
        raise InvalidArgument(f"The where text is longer than {PREDICATE_BYTES_MAX} bytes. Use a join instead.")
    if not text.strip():
        raise InvalidArgument("The where text is empty. Leave it out to keep every row.")
    parser = _Parser(text)
    predicate = parser.disjunction(depth=1)
    if parser.token.kind != "end":
        raise parser.trouble("expected AND, OR or the end here")
    return predicate


def to_text(predicate: Predicate) -> str:
    """Spark SQL text that means exactly this predicate, whatever its names and values hold.

    >>> to_text(And((Compare("a.b", ">", 1), In("city", ("Oslo", "Bergen"), negated=True))))
    "`a`.`b` > 1 AND `city` NOT IN ('Oslo', 'Bergen')"
    """
    check_predicate(predicate)
    return _print(predicate)


def _print(predicate: Predicate) -> str:
    match predicate:
        case Compare(column, op, value):
            return f"{_column(column)} {op} {literal_text(value)}"
        case In(column, values, negated):
            listed = ", ".join(literal_text(value) for value in values)
            return f"{_column(column)} {'NOT ' if negated else ''}IN ({listed})"
        case IsNull(column, negated):
            return f"{_column(column)} IS {'NOT ' if negated else ''}NULL"
        case StartsWith(column, prefix, negated):
            pattern = re.sub(r"[\\%_]", r"\\\g<0>", prefix) + "%"
            return f"{_column(column)} {'NOT ' if negated else ''}LIKE {string_text(pattern)}"
        case Literal(value):
            return "true" if value else "false"
        case Not(part):
            return f"NOT ({_print(part)})"
        case And(parts):
            return " AND ".join(map(_part, parts)) or "true"
        case Or(parts):
            return " OR ".join(map(_part, parts)) or "false"


def _part(part: Predicate) -> str:
    return f"({_print(part)})" if isinstance(part, And | Or) else _print(part)


def _column(column: str) -> str:
    return ".".join(quoted(name) for name in column_path(column))


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Parser:
    """One pass over the tokens; `token` is the next one that has not been used."""

    __slots__ = ("_next", "_text", "token")

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        self.token = _Token("start", "", 0)
        self._advance()

    def disjunction(self, depth: int) -> Predicate:
        parts = [self._conjunction(depth)]
        while self._took("or"):
            parts.append(self._conjunction(depth))
            self._check_length(parts, PREDICATE_TERMS_MAX)
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def trouble(self, why: str, at: int | None = None) -> InvalidArgument:
        at = self.token.at if at is None else at
        begin = max(self._text.rfind("\n", 0, at) + 1, at - 60)
        line = self._text[begin : at + 60].split("\n")[0]
        return InvalidArgument(
            f"The where text is not understood at character {at + 1}: {why}.\n"
            f"  {line.translate({9: ' ', 13: ' '})}\n  {' ' * (at - begin)}^",
            position=at,
        )

    def _conjunction(self, depth: int) -> Predicate:
        parts = [self._unary(depth)]
        while self._took("and"):
            parts.append(self._unary(depth))
            self._check_length(parts, PREDICATE_TERMS_MAX)
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _check_length(self, parts: Sized, most: int) -> None:
        """Stops at once: what is too long in the end need not be read to the end."""
        if len(parts) > most:
            raise self.trouble(f"there are more than {most:,} of these; use a join instead")

    def _unary(self, depth: int) -> Predicate:
        negations = 0
        while negations <= PREDICATE_DEPTH_MAX and (self._took("not") or self._took("!")):
            negations += 1
        if negations > PREDICATE_DEPTH_MAX or depth > PREDICATE_DEPTH_MAX:
            raise self.trouble(f"it is nested more than {PREDICATE_DEPTH_MAX} levels deep")
        predicate: Predicate
        if self._took("("):
            predicate = self.disjunction(depth + 1)
            self._expect(")")
        else:
            predicate = self._condition()
        for _ in range(negations):
            predicate = Not(predicate)
        return predicate

    def _condition(self) -> Predicate:
        if self._starts_literal():
            return self._literal_first()
        column = self._column()
        if self.token.kind == "comparison":
            return Compare(column, self._comparison(), self._literal())
        if self._took("is"):
            negated = self._took("not")
            self._expect("null")
            return IsNull(column, negated)
        negated = self._took("not")
        if self._took("in"):
            return In(column, self._list(), negated)
        if self._took("between"):
            return self._between(column, negated)
        if self._took("like"):
            return self._like(column, negated)
        if negated:
            raise self.trouble("expected IN, BETWEEN or LIKE after NOT")
        return Compare(column, "=", value=True)

    def _literal_first(self) -> Predicate:
        at = self.token.at
        value = self._literal()
        if self.token.kind == "comparison":
            op = _MIRRORED[self._comparison()]
            if self._starts_literal():
                raise self.trouble(f"this compares two constants. {_BEYOND}")
            return Compare(self._column(), op, value)
        if isinstance(value, bool):
            return Literal(value)
        raise self.trouble("a constant alone is no condition", at)

    def _comparison(self) -> str:
        token = self._take()
        if token.text not in _COMPARISONS:
            raise self.trouble(f"{token.text} is not supported here. {_BEYOND}", token.at)
        return _COMPARISONS[token.text]

    def _list(self) -> tuple[Value, ...]:
        self._expect("(")
        values = [self._literal()]
        while self._took(","):
            values.append(self._literal())
            self._check_length(values, PREDICATE_VALUES_MAX)
        self._expect(")")
        return tuple(values)

    def _between(self, column: str, negated: bool) -> Predicate:
        low = self._literal()
        self._expect("and")
        between = And((Compare(column, ">=", low), Compare(column, "<=", self._literal())))
        return Not(between) if negated else between

    def _like(self, column: str, negated: bool) -> Predicate:
        token = self.token
        pattern = self._literal()
        if self.token.text.lower() == "escape" or not isinstance(pattern, str):
            raise self.trouble(f"LIKE takes one string of the form 'prefix%'. {_BEYOND}")
        prefix = re.sub(r"\\([\\%_])", r"\1", pattern.removesuffix("%"))
        plain = re.fullmatch(r"(?:[^\\%_]|\\[\\%_])*(%?)", pattern, re.DOTALL)
        if not plain:
            raise self.trouble(f"only LIKE 'prefix%' is supported. {_BEYOND}", token.at)
        if plain[1]:
            return StartsWith(column, prefix, negated)
        return Compare(column, "!=" if negated else "=", re.sub(r"\\([\\%_])", r"\1", pattern))

    def _column(self) -> str:
        names = [self._name()]
        while self._took("."):
            names.append(self._name())
        if self.token.text == "(":
            raise self.trouble(f"functions are not supported. {_BEYOND}")
        return column_text(names)

    def _name(self) -> str:
        token = self._take()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        if token.kind == "name" and token.text.lower() not in _RESERVED:
            return token.text
        raise self.trouble("expected a column", token.at)

    def _starts_literal(self) -> bool:
        word = self.token.text.lower()
        if self.token.kind in ("number", "string") or word in ("+", "-"):
            return True
        if self.token.kind != "name":
            return False
        after = self._peek()
        return (
            word in UNTYPED
            or (word in ("date", "timestamp", "timestamp_ntz", "timestamp_ltz", "x") and after == "string")
            or (word == "double" and after == "mark(")
        )

    def _literal(self) -> Value:
        token = self._take()
        try:
            return self._literal_of(token)
        except ValueError as problem:
            raise self.trouble(str(problem), token.at) from problem

    def _literal_of(self, token: _Token) -> Value:
        word = token.text.lower()
        if word in ("+", "-") and self.token.kind == "number":
            return number(self._take().text, negative=word == "-")
        if token.kind == "number":
            return number(token.text)
        if token.kind == "string":
            return string_value(token.text)
        if token.kind == "name" and word in UNTYPED:
            return UNTYPED[word]
        if token.kind == "name" and self.token.kind == "string":
            return typed_value(word, string_value(self._take().text))
        if word == "double" and self._took("("):
            text = string_value(self._expect_kind("string"))
            self._expect(")")
            return typed_value(word, text)
        raise ValueError(f"expected a constant here. {_BEYOND}")

    def _expect(self, text: str) -> None:
        if not self._took(text):
            raise self.trouble(f"expected {text.upper()}")

    def _expect_kind(self, kind: str) -> str:
        if self.token.kind != kind:
            raise self.trouble(f"expected a {kind}")
        return self._take().text

    def _took(self, text: str) -> bool:
        if self.token.kind in ("name", "mark") and self.token.text.lower() == text:
            self._advance()
            return True
        return False

    def _take(self) -> _Token:
        token = self.token
        self._advance()
        return token

    def _peek(self) -> str:
        token = self._read(self._next)
        return token.kind + (token.text if token.kind == "mark" else "")

    def _advance(self) -> None:
        self.token = self._read(self._next)
        self._next = self.token.at + len(self.token.text)

    def _read(self, at: int) -> _Token:
        found = _TOKEN.match(self._text, at)
        if found and found.lastgroup == "space":
            at = found.end()
            found = _TOKEN.match(self._text, at)
        if found and found.lastgroup:
            return _Token(found.lastgroup, found[0], at)
        if at == len(self._text):
            return _Token("end", "", at)
        raise self.trouble("this is not part of SQL, or a quote is not closed", at)

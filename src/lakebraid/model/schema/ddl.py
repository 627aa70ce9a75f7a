# SPDX-License-Identifier: Apache-2.0
"""Spark SQL's text of a schema, as `df.schema.simpleString()` and CREATE TABLE spell it.

columns := column ("," column)*  |  "struct" "<" columns ">"
column  := name [":"] type [NOT NULL] [COMMENT 'text']
type    := a name, a name with numbers, array<type>, map<type, type> or struct<columns>

Lengths of char and varchar are read and not kept: a Hudi table stores both as string. Comments are not kept either.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import pyarrow as pa

from lakebraid.digits import whole_number
from lakebraid.errors import InvalidArgument
from lakebraid.limits import SCHEMA_BYTES_MAX, SCHEMA_DEPTH_WRITTEN_MAX

_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*)
    | (?P<word>\w+)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<mark>[<>(),:])
    """,
    re.VERBOSE | re.DOTALL,
)
_UTC: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": _UTC,
    "timestamp_ltz": _UTC,
    "timestamp_ntz": pa.timestamp("us"),
    "time": pa.time64("us"),
}
_DECIMALS: Final = frozenset({"decimal", "dec", "numeric"})
_TEXTS: Final = frozenset({"char", "character", "varchar"})
_IMPOSSIBLE: Final = {
    "void": "it has no values; name the type that it will have",
    "interval": "keep its length as a bigint",
    "geometry": "keep it as binary or string",
    "geography": "keep it as binary or string",
    "object": "keep it as binary",
}
_ONLY_READ: Final = {
    "variant": "keep it as a string of JSON",
    "vector": "keep it as array<float>",
    "blob": "keep it as binary",
}


def parse_ddl(text: str) -> pa.Schema:
    """The columns that this text names; InvalidArgument with a caret under the place that is not understood.

    >>> parse_ddl("id bigint NOT NULL, tags array<string>, addr struct<a:int,b:decimal(10,2)>").names
    ['id', 'tags', 'addr']
    >>> parse_ddl("id bigint, name strin")
    Traceback (most recent call last):
    lakebraid.errors.InvalidArgument: The schema text is not understood at character 17: 'strin' is no type. ...
    """
    if len(text) > SCHEMA_BYTES_MAX:
        raise InvalidArgument(f"The schema text has more than {SCHEMA_BYTES_MAX:,} characters. Nothing was created.")
    parser = _Parser(text)
    columns = parser.whole() if parser.is_struct() else parser.columns(1)
    if parser.token.kind != "end":
        raise parser.trouble("expected a comma, NOT NULL, COMMENT or the end here")
    return pa.schema(columns)


def parse_ddl_type(text: str) -> pa.DataType:
    """The type that this text names, as in `decimal(10,2)` or `array<int>`."""
    parser = _Parser(text)
    kind = parser.type(1)
    if parser.token.kind != "end":
        raise parser.trouble("expected the end here")
    return kind


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Parser:
    """One token ahead; each method takes what it understands and leaves the rest."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.token = self._next()

    def is_struct(self) -> bool:
        return self.token.text.lower() == "struct" and self._text[self._at :].lstrip().startswith("<")

    def whole(self) -> list[pa.Field]:
        return list(self.type(0))

    def columns(self, depth: int) -> list[pa.Field]:
        found = [self._column(depth)]
        while self._took(","):
            found.append(self._column(depth))
        return found

    def _column(self, depth: int) -> pa.Field:
        name = self._name()
        self._took(":")
        kind = self.type(depth)
        nullable = True
        if self._took("not"):
            self._take("null", "expected NULL after NOT")
            nullable = False
        if self._took("comment"):
            if self.token.kind != "string":
                raise self.trouble("expected the comment in quotes")
            self._advance()
        return pa.field(name, kind, nullable)

    def _name(self) -> str:
        token = self.token
        if token.kind == "word":
            self._advance()
            return token.text
        if token.kind == "quoted":
            self._advance()
            return token.text[1:-1].replace("``", "`")
        raise self.trouble("expected the name of a column")

    def type(self, depth: int) -> pa.DataType:
        token = self.token
        name = token.text.lower() if token.kind == "word" else ""
        if depth > SCHEMA_DEPTH_WRITTEN_MAX:
            raise self.trouble(f"types are nested deeper than {SCHEMA_DEPTH_WRITTEN_MAX} levels")
        if not name:
            raise self.trouble("expected a type")
        self._check_possible(name)
        self._advance()
        match name:
            case "array":
                return pa.list_(pa.field("element", self._inside(depth, 1)[0]))
            case "map":
                return pa.map_(*self._inside(depth, 2))
            case "struct":
                return self._struct(depth)
            case _ if name in _DECIMALS:
                return self._decimal(token)
            case _ if name in _TEXTS:
                self._numbers(1)
                return pa.string()
            case _ if name in _TYPES:
                return self._plain(name)
        raise self.trouble(f"{token.text[:60]!r} is no type", token.at)

    def _check_possible(self, name: str) -> None:
        if name in _IMPOSSIBLE:
            raise self.trouble(f"a Hudi table cannot hold the type {name}: {_IMPOSSIBLE[name]}")
        if name in _ONLY_READ:
            raise self.trouble(f"the type {name} is read and not written: {_ONLY_READ[name]}")

    def _plain(self, name: str) -> pa.DataType:
        if name == "time" and self.token.text == "(":
            self._numbers(1)
        if name == "string" and self.token.text.lower() == "collate":
            raise self.trouble("a Hudi table cannot keep a collation; leave it out")
        if name == "timestamp" and self._took("without"):
            return self._zone_words("time", "zone", kind=pa.timestamp("us"))
        if name == "timestamp" and self._took("with"):
            return self._zone_words("local", "time", "zone", kind=_UTC)
        return _TYPES[name]

    def _zone_words(self, *words: str, kind: pa.DataType) -> pa.DataType:
        for word in words:
            self._take(word, f"expected {word.upper()} here")
        return kind

    def _inside(self, depth: int, count: int) -> list[pa.DataType]:
        self._take("<", "expected '<' and the type of its elements")
        kinds = [self.type(depth + 1)]
        while len(kinds) < count:
            self._take(",", "expected a comma and the type of the values")
            kinds.append(self.type(depth + 1))
        self._take(">", "expected '>' here")
        return kinds

    def _struct(self, depth: int) -> pa.DataType:
        self._take("<", "expected '<' and the fields of the struct")
        if self.token.text == ">":
            raise self.trouble("a struct needs a field")
        fields = self.columns(depth + 1)
        self._take(">", "expected a comma or '>' here")
        return pa.struct(fields)

    def _decimal(self, token: _Token) -> pa.DataType:
        digits = [*self._numbers(2), 0] if self.token.text == "(" else [10, 0]
        precision, scale = digits[:2]
        if not 1 <= precision <= 38:
            raise self.trouble(f"a decimal has 1 to 38 digits, not {precision}", token.at)
        if scale > precision:
            raise self.trouble(f"a decimal of {precision} digits cannot have {scale} of them after the point", token.at)
        return pa.decimal128(precision, scale)

    def _numbers(self, most: int) -> list[int]:
        self._take("(", "expected '(' and a number")
        numbers = [self._number()]
        while len(numbers) < most and self._took(","):
            numbers.append(self._number())
        self._take(")", "expected ')' here")
        return numbers

    def _number(self) -> int:
        number = whole_number(self.token.text, 9)
        if number is None:
            raise self.trouble("expected a number")
        self._advance()
        return number

    def _took(self, text: str) -> bool:
        is_it = self.token.kind in ("word", "mark") and self.token.text.lower() == text
        if is_it:
            self._advance()
        return is_it

    def _take(self, text: str, why: str) -> None:
        if not self._took(text):
            raise self.trouble(why)

    def _advance(self) -> None:
        self.token = self._next()

    def _next(self) -> _Token:
        while self._at < len(self._text):
            found = _TOKEN.match(self._text, self._at)
            if found is None or found.lastgroup is None:
                raise self.trouble("this character has no meaning in a schema", self._at)
            self._at = found.end()
            if found.lastgroup != "space":
                return _Token(found.lastgroup, found.group(), found.start())
        return _Token("end", "", len(self._text))

    def trouble(self, why: str, at: int | None = None) -> InvalidArgument:
        at = self.token.at if at is None else at
        begin = max(self._text.rfind("\n", 0, at) + 1, at - 60)
        line = self._text[begin : at + 60].split("\n")[0]
        return InvalidArgument(
            f"The schema text is not understood at character {at + 1}: {why}. Nothing was created. Write columns as in "
            f"`id bigint, tags array<string>, ts timestamp`.\n"
            f"  {line.translate({9: ' ', 13: ' '})}\n  {' ' * (at - begin)}^",
            position=at,
        )

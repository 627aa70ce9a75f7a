# SPDX-License-Identifier: Apache-2.0
"""Record keys: the text Hudi's key generators make of a row, and its parser.

one field                  7                     7
several fields             (7, "Oslo")           id:7,city:Oslo
null or empty, several     (None, "")            refused: nothing would identify the row
                           (7, None)             id:7,city:__null__
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import InvalidArgument

NULL_TEXT: Final = "__null__"
EMPTY_TEXT: Final = "__empty__"


def record_keys(
    table: pa.Table | pa.RecordBatch,
    fields: Sequence[str],
    complex_form: bool,
    *,
    consistent_timestamps: bool = False,
) -> pa.Array:
    """The record key of every row: the value's text, or `f1:v1,f2:v2` in the complex form.

    Raises InvalidArgument for a row that nothing identifies: a null or empty key, or a complex one of only such values.
    """
    if not fields:
        raise InvalidArgument("No record key fields were given, so rows have no key. Name at least one column.")
    columns = [render_values(column_of(table, name), consistent_timestamps=consistent_timestamps) for name in fields]
    if complex_form:
        return _complex_keys(columns, fields)
    if len(columns) == 1:
        _check_identified(columns, fields)
        return columns[0]
    raise InvalidArgument(f"{len(fields)} key fields ({', '.join(fields)}) need the complex form of the record key.")


def render_values(column: pa.Array | pa.ChunkedArray, *, consistent_timestamps: bool = False) -> pa.Array:
    """Java's text of each value, as Hudi's key generators write it into keys and partition paths; null stays null.

    Timestamps are the number of microseconds since 1970, whatever the column's unit. With `consistent_timestamps`
    (Hudi's `…consistent.logical.timestamp.enabled`), those with a zone read `2024-02-29 12:34:56.123` in UTC instead.
    Floating point follows Java 19 and later; older ones print a few values with more digits, so avoid them as keys.
    """
    if isinstance(column, pa.ChunkedArray):
        chunks = [render_values(chunk, consistent_timestamps=consistent_timestamps) for chunk in column.chunks]
        return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())
    if pa.types.is_dictionary(column.type):
        texts = render_values(column.dictionary, consistent_timestamps=consistent_timestamps)
        return texts.take(column.indices)
    return _render_plain(column, consistent_timestamps)


def parse_record_key(text: str, fields: Sequence[str]) -> list[str | None]:
    """The values that Hudi's bucket index takes out of a key's text; no fields (or one empty name) means all.

    Values may hold `:` and `,` as long as no `,` is followed by a `:`; what cannot be told apart is cut as Hudi cuts it.

    >>> parse_record_key("a:x,y:z,b:2", ["a", "b"])
    ['x', '2']
    >>> parse_record_key("id:7", ["id"])
    ['id:7']
    >>> parse_record_key("a:10:30,b:__null__", ["a", "b"])
    ['10:30', None]
    """
    if "," not in text or ":" not in text:
        return [text]
    every = not fields or list(fields) == [""]
    values: list[str | None] = []
    at = 0
    while at < len(text):
        colon = text.index(":", at)
        end = _value_end(text, colon)
        if every or text[at:colon] in fields:
            values.append(_plain_value(text[colon + 1 : end]))
        at = end + 1
    return values or [text]


def column_of(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray:
    """A column by its name, or a field inside structs by its dotted path; InvalidArgument if there is none."""
    if name in table.schema.names:
        return table.column(name)
    root, *path = name.split(".")
    if path and root in table.schema.names:
        try:
            return pc.struct_field(table.column(root), path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            pass  # the same answer as for a missing column
    raise InvalidArgument(
        f"There is no column {name!r} in the rows, and keys or partitions need it. Columns: {', '.join(table.schema.names)}.",
        column=name,
    )


def check_distinct_keys(rows: pa.Table, fields: Sequence[str]) -> None:
    """Raises InvalidArgument for a value of a key column that cannot be told from another one.

    Hudi escapes nothing in the text of a key of several columns (`a:1,b:2`). Values that would make it ambiguous are
    refused, so that no row takes another one's place.
    """
    for name in fields if len(fields) > 1 else ():
        column = column_of(rows, name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            _check_text(column, name, fields)


def _complex_keys(columns: Sequence[pa.Array], fields: Sequence[str]) -> pa.Array:
    _check_identified(columns, fields)
    parts = []
    for position, (column, name) in enumerate(zip(columns, fields, strict=True)):
        filled = pc.fill_null(column, NULL_TEXT)
        shown = pc.if_else(pc.equal(filled, ""), EMPTY_TEXT, filled)
        parts += [f",{name}:" if position else f"{name}:", shown]
    return pc.binary_join_element_wise(*parts, "")


def _check_identified(columns: Sequence[pa.Array], fields: Sequence[str]) -> None:
    nothing = None
    for column in columns:
        blank = pc.fill_null(pc.equal(column, ""), True)
        nothing = blank if nothing is None else pc.and_(nothing, blank)
    row = pc.index(nothing, True).as_py()
    if row >= 0:
        raise InvalidArgument(
            f"Row {row} has no record key: {' and '.join(fields)} {'is' if len(fields) == 1 else 'are'} null or empty. "
            "Nothing was written. Filter such rows out or give them a key.",
            row=row,
            fields=tuple(fields),
        )


def _check_text(column: pa.ChunkedArray, name: str, fields: Sequence[str]) -> None:
    """A value must not stand for NULL or the empty text, nor hold what begins the value of another key column."""
    _refuse(column, pc.is_in(column, value_set=pa.array([NULL_TEXT, EMPTY_TEXT], column.type)), name)
    if pc.any(pc.match_substring(column, ",")).as_py():
        for other in fields[1:]:
            _refuse(column, pc.match_substring(column, f",{other}:"), name, other)


def _refuse(column: pa.ChunkedArray, found: pa.ChunkedArray, name: str, other: str | None = None) -> None:
    """Raises for the first row that was found, if there is one."""
    row = pc.index(found, True).as_py()
    if row < 0:
        return
    value = column[row].as_py()
    why = (
        f"it holds ',{other}:', with which the value of {other!r} begins in Hudi's record keys"
        if other is not None
        else f"Hudi's record keys have this text for {'NULL' if value == NULL_TEXT else 'the empty text'}"
    )
    raise InvalidArgument(
        f"Row {row} has {value!r:.200} in the key column {name!r}, and {why}: two different keys would be one row. "
        "Nothing was written. Change the value, or use a single key column.",
        row=row,
        column=name,
    )


def _render_plain(column: pa.Array, consistent_timestamps: bool) -> pa.Array:
    kind = column.type
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return _distinctly(column, lambda value: java_double_text(value, single=pa.types.is_float32(kind)))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _distinctly(column, bytes.hex)
    if pa.types.is_date(kind):
        return _java_years(pc.cast(column, pa.string()))
    if pa.types.is_timestamp(kind):
        micros = _micros(column)
        return (
            _timestamp_texts(micros) if consistent_timestamps and kind.tz is not None else pc.cast(micros, pa.string())
        )
    if _casts_like_java(kind):
        return pc.cast(column, pa.string())
    raise InvalidArgument(f"A column of type {kind} cannot be a record key or partition: Hudi has no text for it.")


def _casts_like_java(kind: pa.DataType) -> bool:
    # Decimals too: Arrow follows BigDecimal.toString, with 1E-10 where there are more than six leading zeros.
    types = pa.types
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(
        text or types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind) or types.is_null(kind)
    )


def java_double_text(value: float, *, single: bool = False) -> str:
    """Java's Double.toString (Float.toString if `single`): `1.0E10`, `9.999E-4`, `NaN`, `-Infinity`.

    >>> [java_double_text(x) for x in (1.0, 1e7, 0.001, 5e-324)]
    ['1.0', '1.0E7', '0.001', '4.9E-324']
    """
    if value != value:  # noqa: PLR0124 -- NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = _shortest_digits(value, single=single)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return sign + _positional(digits, exponent)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _shortest_digits(value: float, *, single: bool) -> tuple[str, str, int]:
    shown = np.format_float_scientific(np.float32(value) if single else np.float64(value), unique=True, trim="-")
    if re.fullmatch(r"-?\de[+-]\d+", shown):
        shown = f"{float(value):.1e}"  # Java shows two digits at least, and then the two nearest ones
    mantissa, _, exponent = shown.lstrip("-").partition("e")
    digits = mantissa.replace(".", "").rstrip("0") or "0"
    return ("-" if shown.startswith("-") else ""), digits, int(exponent)


def _positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{whole}.{digits[exponent + 1 :] or '0'}"


def _distinctly(column: pa.Array, text_of: Any) -> pa.Array:
    encoded = column.dictionary_encode()
    texts = pa.array([text_of(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)


def _java_years(texts: pa.Array) -> pa.Array:
    # Java writes years beyond 9999 with a plus sign; Arrow without.
    return pc.replace_substring_regex(texts, r"^(\d{5,}-)", r"+\1")


def _micros(column: pa.Array) -> pa.Array:
    try:
        return pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
    except pa.ArrowInvalid as problem:
        raise InvalidArgument(
            f"A {column.type} value does not fit whole microseconds, which is what Hudi keeps ({problem}). "
            "Round the column first."
        ) from problem


def _timestamp_texts(micros: pa.Array) -> pa.Array:
    # java.sql.Timestamp of whole milliseconds, cut toward zero as Java divides; no trailing zeros but the first digit.
    millis = pc.divide(micros, 1000)
    texts = pc.cast(pc.cast(millis, pa.timestamp("ms")), pa.string())
    return pc.replace_substring_regex(texts, r"(\.\d)(\d*?)0+$", r"\1\2")


def _value_end(text: str, colon: int) -> int:
    """Where the value after `colon` ends: the last comma before the first later colon that has one; else the end."""
    looked, later = colon, text.find(":", colon + 1)
    while later >= 0:
        comma = text.rfind(",", looked, later)
        if comma >= 0:
            return comma
        looked, later = later, text.find(":", later + 1)
    return len(text)


def _plain_value(value: str) -> str | None:
    if value == NULL_TEXT:
        return None
    return "" if value == EMPTY_TEXT else value

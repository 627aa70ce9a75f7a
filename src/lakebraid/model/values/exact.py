# SPDX-License-Identifier: Apache-2.0
"""The one rule for values on their way in: a column's type takes a value as it is, or the value is refused.

type                     takes                                                    refuses
boolean                  bool                                                     0, 1
int, long                whole numbers in range: 5, 5.0, Decimal("5")             5.5, NaN, True, "5"
float, double            numbers with exactly that value                          2**53 + 1, Decimal("0.1")
float                    also Python's floats, as the nearest float               1e300, 1e-300
decimal                  numbers with exactly that value: 5, 0.5, Decimal("1.50") 0.1, Decimal("1.55") where one digit is kept
string                   str                                                      bytes, numbers, UUIDs
binary                   bytes, bytearray, memoryview                             str
date                     date                                                     datetime
timestamp                datetime with a zone                                     without one; nanoseconds that would be cut off
timestamp_ntz            datetime without a zone                                  with one; nanoseconds that would be cut off
struct, list, map        dictionaries, lists, dictionaries or pairs               names that the struct has not

None is NULL. Scalars of numpy, pandas and Arrow count as what they hold. `arrow_casts` is the same rule for Arrow's columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Context, Decimal, InvalidOperation
from decimal import Inexact as Rounded
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.model.values.plain_values import STEPS, are_plain, fit_floats

_DIGITS_MAX: Final = 40


class Inexact(ValueError):
    """A value that a type cannot hold as it is."""

    def __init__(self, shown: str, kind: pa.DataType, why: str, instead: str) -> None:
        super().__init__(why)
        self.shown, self.kind, self.why, self.instead = shown, kind, why, instead
        self.row: int | None = None
        """Which row it is in, where that can be told."""
        self.path: tuple[str, ...] = ()
        """Where in a nested column it is."""

    def inside(self, name: str) -> Inexact:
        """The same, seen from what surrounds it."""
        self.path = (name, *self.path)
        return self

    def at(self, row: int) -> Inexact:
        """The same, in this row."""
        self.row = row
        return self


def refused(trouble: Inexact, column: str, undone: str = "Nothing was written.") -> InvalidArgument:
    """What the user is told."""
    name = ".".join((column, *trouble.path))
    place = "Column" if trouble.row is None else f"Row {trouble.row}: column"
    return InvalidArgument(
        f"{place} {name!r} has the type {trouble.kind!s:.300} and cannot take {trouble.shown}: {trouble.why}. {undone} "
        f"{trouble.instead}.",
        column=column,
        row=trouble.row,
        wanted=str(trouble.kind),
    )


def exact_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values as an Arrow array of this type; Inexact tells the first that cannot be held as it is.

    >>> exact_array([1, 2.0, None], pa.int64()).to_pylist()
    [1, 2, None]
    """
    if are_plain(values, kind):
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            pass  # one of them does not fit: which, is found out below
    return pa.array(list(_converted(values, kind)), kind)


def exact_value(value: Any, kind: pa.DataType) -> Any:
    """The value as Arrow takes it for this type without a change; Inexact if it does not.

    >>> exact_value(2.0, pa.int64()), exact_value("a", pa.string())
    (2, 'a')
    """
    return None if value is None else _rule(kind)(_unboxed(value, kind), kind)


def _converted(values: Iterable[Any], kind: pa.DataType) -> Iterator[Any]:
    rule = _rule(kind)
    for row, value in enumerate(values):
        try:
            yield None if value is None else rule(_unboxed(value, kind), kind)
        except Inexact as trouble:
            trouble.at(row)
            raise


def _unboxed(value: Any, kind: pa.DataType) -> Any:
    """What a scalar of numpy or Arrow holds, as Python has it."""
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, np.datetime64):
        return _moment(value, kind)
    if isinstance(value, np.longdouble):
        if np.longdouble(float(value)) == value or np.isnan(value):
            return float(value)
        raise _not(value, kind, "it has more digits than a double", "Round it")
    return value.item() if isinstance(value, np.generic) else value


def _moment(value: np.datetime64, kind: pa.DataType) -> Any:
    unit = np.datetime_data(value.dtype)[0]
    found = value.astype("datetime64[D]" if unit in "YMWD" else "datetime64[us]")
    plain = found.item()
    if unit in ("Y", "M", "W") or np.isnat(value) or found != value or not isinstance(plain, date):
        raise _not(value, kind, "it is no day and no time in whole microseconds", "Round it, or give None for NULL")
    return plain


def _rule(kind: pa.DataType) -> Callable[[Any, pa.DataType], Any]:
    return next((rule for is_kind, rule in _RULES if is_kind(kind)), _as_it_is)


def _as_it_is(value: Any, kind: pa.DataType) -> Any:
    """Types that no table has are found by Arrow alone; the reader of the schema refuses them."""
    try:
        pa.array([value], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise _not(value, kind, f"{error!s:.100}", "Convert it") from None
    return value


def _boolean(value: Any, kind: pa.DataType) -> bool:
    if isinstance(value, bool):
        return value
    raise _another(value, kind, "a truth value")


def _integer(value: Any, kind: pa.DataType) -> int:
    number = _number(value, kind)
    is_huge = isinstance(number, Decimal) and number.adjusted() > _DIGITS_MAX  # as an int it would fill the memory
    whole = 10**_DIGITS_MAX if is_huge else int(number)
    if whole != number and not is_huge:
        raise _not(value, kind, "it has digits behind the point", "Round it, so that you decide how")
    is_signed = pa.types.is_signed_integer(kind)
    high = 1 << (kind.bit_width - is_signed)
    if -high * is_signed <= whole < high:
        return whole
    raise _not(value, kind, "it is out of range", "Widen the column first (`alter().widen`), or correct it")


def _floating(value: Any, kind: pa.DataType) -> float:
    if isinstance(value, float):
        return value if kind == pa.float64() else _nearest(value, kind)
    number = _number(value, kind)
    try:
        found = float(number)
    except OverflowError:
        found = math.inf
    if kind != pa.float64():
        with np.errstate(over="ignore", under="ignore"):
            found = float(np.float32(found))
    if math.isinf(found) or Decimal(found) != number:
        raise _not(
            value, kind, "no such number has exactly that value", "Give a float, so that you decide how it is rounded"
        )
    return found


def _nearest(value: float, kind: pa.DataType) -> float:
    """A float column means the nearest float, for Python has no other floats than doubles; but no digits at all is too few."""
    if fit_floats([value]):
        return value
    raise _not(value, kind, "it is out of range", "Widen the column to double first (`alter().widen`), or correct it")


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    number = Decimal(_number(value, kind))
    try:
        return number.quantize(Decimal((0, (1,), -kind.scale)), context=_digits(kind.precision))
    except (Rounded, InvalidOperation):
        why = f"it has more digits than {kind.precision - kind.scale} before and {kind.scale} behind the point"
        instead = (
            "Give a Decimal" if isinstance(value, float) else "Round it, or widen the column first (`alter().widen`)"
        )
        raise _not(value, kind, why, instead) from None


def _digits(precision: int) -> Context:
    return Context(prec=precision, traps=[Rounded, InvalidOperation])


def _number(value: Any, kind: pa.DataType) -> int | float | Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _another(value, kind, "a number")
    if (isinstance(value, float) and not math.isfinite(value)) or (
        isinstance(value, Decimal) and not value.is_finite()
    ):
        raise _not(value, kind, "it is no finite number", "Give None for NULL, or correct it")
    return value


def _text(value: Any, kind: pa.DataType) -> str:
    if not isinstance(value, str):
        raise _another(value, kind, "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _not(value, kind, "it holds half a character", "Correct it") from None
    return value


def _bytes(value: Any, kind: pa.DataType) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _another(value, kind, "bytes")
    if pa.types.is_fixed_size_binary(kind) and len(bytes(value)) != kind.byte_width:
        raise _not(value, kind, f"it has not {kind.byte_width} bytes", "Correct it")
    return bytes(value)


def _date(value: Any, kind: pa.DataType) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    instead = "Say which day it is: .date()" if isinstance(value, datetime) else "Convert it first"
    raise _another(value, kind, "a date", instead)


def _time(value: Any, kind: pa.DataType) -> time:
    if not isinstance(value, time):
        raise _another(value, kind, "a time of day")
    if value.tzinfo is not None:
        raise _not(value, kind, "it has a zone, which the column has not", "Convert it and drop its zone")
    _check_step(value, value.microsecond, kind)
    return value


def _timestamp(value: Any, kind: pa.DataType) -> datetime:
    if not isinstance(value, datetime):
        raise _another(value, kind, "a datetime")
    if value != value:  # noqa: PLR0124 -- pandas' NaT
        raise _not(value, kind, "it is no time", "Give None for NULL")
    if getattr(value, "nanosecond", 0):
        raise _not(value, kind, "it is finer than microseconds", "Round it, so that you decide how")
    _check_step(value, value.microsecond, kind)
    offset = value.utcoffset()
    if (offset is None) != (kind.tz is None):
        if offset is None:
            raise _not(value, kind, "it has no zone, so it is no moment", "Give it one: .replace(tzinfo=…)")
        raise _not(value, kind, "it has a zone, which the column has not", "Convert it and drop its zone")
    return datetime.combine(value.date(), value.timetz())  # pandas' own would be asked for nanoseconds


def _check_step(value: Any, microsecond: int, kind: pa.DataType) -> None:
    if microsecond % STEPS[kind.unit]:
        raise _not(value, kind, f"it is finer than {kind.unit}", "Round it, so that you decide how")


def _struct(value: Any, kind: pa.DataType) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _another(value, kind, "a dictionary")
    strange = [name for name in value if not isinstance(name, str) or kind.get_field_index(name) < 0]
    if strange:
        raise _not(
            value, kind, f"the struct has no field {strange[0]!r:.100}", "Drop it, or add it to the column first"
        )
    return {field.name: _part(value.get(field.name), field.type, field.name) for field in kind}


def _list(value: Any, kind: pa.DataType) -> list[Any]:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = list(value)
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping) or not isinstance(value, Iterable):
        raise _another(value, kind, "a list")
    return [_part(element, kind.value_type, "element") for element in value]


def _map(value: Any, kind: pa.DataType) -> list[tuple[Any, Any]]:
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list | tuple) or any(not isinstance(p, list | tuple) or len(p) != 2 for p in pairs):
        raise _another(value, kind, "a dictionary or a list of pairs")
    if any(key is None for key, _ in pairs):
        raise _not(value, kind, "one of its keys is None", "Give it a key")
    return [(_part(k, kind.key_type, "key"), _part(v, kind.item_type, "value")) for k, v in pairs]


def _part(value: Any, kind: pa.DataType, name: str) -> Any:
    try:
        return exact_value(value, kind)
    except Inexact as trouble:
        raise trouble.inside(name) from None


def _not(value: Any, kind: pa.DataType, why: str, instead: str) -> Inexact:
    try:
        shown = f"{value!r:.100}"
    except Exception:  # noqa: BLE001  Python does not print a number of 5,000 digits, and a user's class may do anything
        shown = "a value that cannot be printed"
    return Inexact(f"{shown} ({type(value).__name__})", kind, why, instead)


def _another(value: Any, kind: pa.DataType, wanted: str, instead: str = "Convert it first") -> Inexact:
    return _not(value, kind, f"it is not {wanted}", instead)


def is_text(kind: pa.DataType) -> bool:
    """Whether it is text of any kind."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether it is bytes of any kind."""
    is_ = pa.types
    plain = is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind)
    return bool(plain or is_.is_fixed_size_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether it is a list that is not merely a view of one."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


_RULES: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...]] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _floating),
    (pa.types.is_decimal, _decimal),
    (is_text, _text),
    (is_bytes, _bytes),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (is_list, _list),
)

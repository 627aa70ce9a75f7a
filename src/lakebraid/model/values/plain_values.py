# SPDX-License-Identifier: Apache-2.0
"""Which plain Python values Arrow itself takes exactly: found out by their types, a column at a time, for speed.

Arrow is not asked where it would cut off or guess: floats into whole numbers, times without zone into those with one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

_NONE: Final = type(None)
_WHOLE: Final = frozenset(
    {_NONE, int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64}
)
_PLAIN: Final[tuple[tuple[Callable[[pa.DataType], bool], frozenset[type]], ...]] = (
    (pa.types.is_integer, _WHOLE),
    (pa.types.is_float64, frozenset({_NONE, float, int, np.float64, np.float32})),
    (pa.types.is_string, frozenset({_NONE, str, np.str_})),
    (pa.types.is_binary, frozenset({_NONE, bytes, bytearray})),
    (pa.types.is_boolean, frozenset({_NONE, bool})),
    (pa.types.is_date, frozenset({_NONE, date})),
)
"""Kinds of columns, and values that Arrow turns into them exactly or not at all."""
STEPS: Final = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}
"""Microseconds between two values; what Python has is never finer than microseconds."""


def are_plain(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Whether Arrow itself takes these values exactly, or raises."""
    is_ = pa.types
    found = set(map(type, values))
    if found <= {_NONE}:
        return True
    for is_kind, plain in _PLAIN:
        if is_kind(kind):
            return found <= plain
    if is_.is_decimal(kind):
        return found <= {_NONE, Decimal, int} and _are_coarse(values, kind.scale)
    if is_.is_float32(kind):
        return found <= {_NONE, float} and fit_floats([v for v in values if v is not None])
    if is_.is_timestamp(kind):
        zones = {v.tzinfo for v in values if v is not None} if found <= {_NONE, datetime} else set()
        return bool(zones) and all((zone is None) is (kind.tz is None) for zone in zones) and STEPS[kind.unit] == 1
    if is_.is_list(kind):
        return found <= {_NONE, list, tuple} and are_plain(_inside(values), kind.value_type)
    if is_.is_map(kind):
        return found <= {_NONE, dict} and all(
            are_plain(part, inner)
            for part, inner in zip(_entries(values), (kind.key_type, kind.item_type), strict=True)
        )
    return is_.is_struct(kind) and found <= {_NONE, dict} and _are_plain_structs(values, kind)


def _inside(values: Sequence[Any]) -> list[Any]:
    return list(itertools.chain.from_iterable(filter(None, values)))


def _entries(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return _inside(values), list(itertools.chain.from_iterable(map(dict.values, filter(None, values))))


def _are_plain_structs(values: Sequence[Any], kind: pa.DataType) -> bool:
    given = list(filter(None, values))
    names = {field.name for field in kind}
    return names.issuperset(itertools.chain.from_iterable(given)) and all(
        are_plain([value.get(field.name) for value in given], field.type) for field in kind
    )


def _are_coarse(values: Sequence[Any], scale: int) -> bool:
    """Whether no decimal begins so far behind the point that Arrow would divide it by more than it has a power of ten for."""
    return min(map(Decimal.adjusted, [v for v in values if type(v) is Decimal]), default=0) >= -scale - 1


def fit_floats(values: Sequence[float]) -> bool:
    given = np.array(values, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        nearest = given.astype(np.float32)
    return bool(np.all((np.isinf(nearest) == np.isinf(given)) & ((nearest == 0) == (given == 0))))

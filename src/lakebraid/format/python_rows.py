# SPDX-License-Identifier: Apache-2.0
"""Arrow's rows as Python values, maps as dictionaries.

Arrow's own `to_pylist(maps_as_pydicts=…)` came with pyarrow 20, and leaves maps inside of maps as lists of pairs up to 21.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

_Convert = Callable[[Any], Any]


def python_rows(rows: pa.Table, *, may_lose: bool = False) -> list[dict[str, Any]]:
    """One dictionary for each row. If a map has a key twice: KeyError, or with `may_lose` the last of its values."""
    converted = [(f.name, convert) for f in rows.schema if (convert := _converter(f.type, may_lose)) is not None]
    found: list[dict[str, Any]] = rows.to_pylist()
    for row in found:
        for name, convert in converted:
            row[name] = convert(row[name])
    return found


def _converter(kind: pa.DataType, may_lose: bool) -> _Convert | None:
    """What turns Arrow's values of a type, in which maps are lists of pairs; None if there is nothing to do."""
    if pa.types.is_map(kind):
        return _map_converter(_converter(kind.item_type, may_lose), may_lose)
    if pa.types.is_struct(kind):
        inner = [(f.name, convert) for f in kind if (convert := _converter(f.type, may_lose)) is not None]
        return _struct_converter(inner) if inner else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        convert = _converter(kind.value_type, may_lose)
        return None if convert is None else lambda values: None if values is None else [convert(v) for v in values]
    return None


def _map_converter(item: _Convert | None, may_lose: bool) -> _Convert:
    def convert(pairs: Any) -> Any:
        if pairs is None:
            return None
        found = dict(pairs) if item is None else {key: item(value) for key, value in pairs}
        if len(found) < len(pairs) and not may_lose:
            raise KeyError(f"a map has a key twice: {[key for key, _ in pairs]!s:.300}")
        return found

    return convert


def _struct_converter(inner: list[tuple[str, _Convert]]) -> _Convert:
    def convert(struct: Any) -> Any:
        return None if struct is None else struct | {name: own(struct[name]) for name, own in inner}

    return convert

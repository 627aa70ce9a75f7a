# SPDX-License-Identifier: Apache-2.0
"""When a list, struct or map counts as changed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakebraid.tasks.changes.diff import differing

pytestmark = pytest.mark.unit


def test_nan_inside_of_lists_structs_and_maps_is_no_change() -> None:
    kind = pa.struct([("l", pa.list_(pa.float32(), 2)), ("m", pa.map_(pa.string(), pa.float64())), ("n", pa.int32())])
    nan = float("nan")
    row = {"l": [nan, 1.0], "m": [("a", nan)], "n": 1}
    others: list[Any] = [
        row | {"n": 2},
        row | {"l": [nan, 2.0]},
        row | {"l": None},
        row | {"m": []},
        row | {"m": [("b", nan)]},
    ]
    old = pa.table({"s": pa.array([row, None, *([row] * len(others)), None], kind)})
    new = pa.table({"s": pa.array([row, None, *others, row], kind)})
    assert differing(old, new).tolist() == [False, False, True, True, True, True, True, True]

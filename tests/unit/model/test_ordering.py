# SPDX-License-Identifier: Apache-2.0
"""Which of several versions of a row is the row: the vectorised answer against a naive fold."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.model.ordering import compare, order_keys, ranks, winners

pytestmark = pytest.mark.unit

DELETE_ALL = "unconditional"


def naive_winner(versions: list[tuple[int, Any]]) -> int:
    """Folds (row, ordering value) in sequence, as one would by hand."""
    best, best_order = -1, None
    for row, order in versions:
        if order is DELETE_ALL or best == -1 or best_order is DELETE_ALL or order >= best_order:
            best, best_order = row, order
    return best


@given(
    st.lists(st.tuples(st.integers(0, 4), st.one_of(st.integers(-3, 3), st.just(DELETE_ALL))), min_size=1, max_size=40)
)
def test_the_winner_is_the_one_a_fold_by_hand_finds(rows: list[tuple[int, object]]) -> None:
    codes = np.array([code for code, _ in rows], np.int64)
    values = pa.array([None if v is DELETE_ALL else v for _, v in rows], pa.int64())
    cuts = np.array([v is DELETE_ALL for _, v in rows])
    best = winners(codes, order_keys([values], len(rows)), cuts, 5)
    for code in range(5):
        own = [(i, v) for i, (c, v) in enumerate(rows) if c == code]
        assert best[code] == naive_winner(own)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40))
def test_without_ordering_values_the_last_version_wins(rows: list[tuple[int, bool]]) -> None:
    codes = np.array([code for code, _ in rows], np.int64)
    cuts = np.array([v for _, v in rows])
    best = winners(codes, order_keys([], len(rows)), cuts, 5)
    for code in range(5):
        assert best[code] == max((i for i, (c, _) in enumerate(rows) if c == code), default=-1)


SAMPLES = {
    "int32": pa.array([-(2**31), -1, 0, 7, 2**31 - 1], pa.int32()),
    "int64": pa.array([-(2**62), 0, 1, 2**62], pa.int64()),
    "double": pa.array([-math.inf, -1.5, -0.0, 0.0, 1e-300, 2.5, math.inf, math.nan], pa.float64()),
    "float": pa.array([-math.inf, -1.5, 0.0, 2.5, math.inf, math.nan], pa.float32()),
    "string": pa.array([None, "", "a", "b", "é", "€", "日"], pa.string()),
    "decimal": pa.array([None, Decimal("-1.50"), Decimal("0.00"), Decimal("99.99")], pa.decimal128(10, 2)),
    "date": pa.array([None, dt.date(1960, 1, 1), dt.date(1970, 1, 1), dt.date(2026, 1, 1)], pa.date32()),
    "timestamp": pa.array([None, dt.datetime(1960, 1, 1), dt.datetime(2026, 1, 1)], pa.timestamp("us", tz="UTC")),
    "boolean": pa.array([None, False, True], pa.bool_()),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_values_of_every_type_rise_in_java_order_with_nan_highest_and_a_null_that_is_no_number_lowest(
    kind: str,
) -> None:
    values = SAMPLES[kind]
    below = order_keys([values[:-1]], len(values) - 1)
    above = order_keys([values[1:]], len(values) - 1)
    assert compare(above, below)[0].all()
    assert not compare(below, above)[0].any()
    assert compare(below, below)[1].all()
    (rank,) = ranks(order_keys([values], len(values)))
    assert (rank[1:] > rank[:-1]).all()


def test_the_first_of_several_ordering_fields_decides() -> None:
    left = order_keys([pa.array([1, 2, 1, 1]), pa.array(["z", "a", "b", None])], 4)
    right = order_keys([pa.array([2, 1, 1, 1]), pa.array(["a", "z", "a", None])], 4)
    greater, equal = compare(left, right)
    assert greater.tolist() == [False, True, True, False]
    assert equal.tolist() == [False, False, False, True]


def test_a_null_number_counts_as_zero() -> None:
    zeros, nulls = order_keys([pa.array([0, 0, 0])], 3), order_keys([pa.array([None, -5, 10], pa.int64())], 3)
    greater, equal = compare(zeros, nulls)
    assert (greater.tolist(), equal.tolist()) == ([False, True, False], [True, False, False])

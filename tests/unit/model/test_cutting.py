# SPDX-License-Identifier: Apache-2.0
"""Rows are cut by their bytes, however unequal they are, and taken in any order beyond the 2 GiB of an Arrow array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.model.values import arrow_numpy
from lakebraid.model.values.arrow_numpy import take_pieces, take_rows
from lakebraid.model.values.cutting import cut

pytestmark = pytest.mark.unit


def _rows(lengths: list[int]) -> pa.Table:
    return pa.table(
        {"n": pa.array(range(len(lengths)), pa.int64()), "v": pa.array(["x" * n for n in lengths], pa.string())}
    )


@given(st.lists(st.sampled_from([0, 1, 5, 100, 3000]), max_size=60), st.integers(1, 2000), st.integers(1, 50))
def test_no_piece_is_larger_than_it_may_be_unless_it_is_one_row(
    lengths: list[int], bytes_max: int, rows_max: int
) -> None:
    rows = _rows(lengths)
    pieces = list(cut(rows, bytes_max, rows_max))
    assert pa.concat_tables([rows.slice(0, 0), *pieces]).equals(rows)
    for piece in pieces:
        assert 1 <= piece.num_rows <= rows_max
        assert piece.num_rows == 1 or piece.nbytes <= bytes_max


def test_equal_rows_make_equal_pieces() -> None:
    rows = _rows([100] * 1000)
    assert {piece.num_rows for piece in cut(rows, rows.nbytes // 4)} == {250}
    assert [piece.num_rows for piece in cut(rows, rows.nbytes, 300)] == [300, 300, 300, 100]


@given(st.lists(st.lists(st.integers(0, 300), max_size=8), min_size=1, max_size=6), st.data())
def test_rows_of_many_chunks_are_taken_piece_by_piece_as_all_at_once(
    chunks: list[list[int]], data: st.DataObject
) -> None:
    rows = pa.concat_tables([_rows(chunk) for chunk in chunks])
    places = np.array(data.draw(st.permutations(range(rows.num_rows))), np.int64)
    places = places[: data.draw(st.integers(0, len(places)))]
    expected = rows.take(pa.array(places, pa.int64()))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "TAKEN_BYTES", 200)
        patched.setattr(arrow_numpy, "_ARRAY_BYTES_MAX", 400)
        assert take_rows(rows, places).equals(expected)
        pieces = list(take_pieces(rows, places))
        assert pa.concat_tables([rows.slice(0, 0), *pieces]).equals(expected)
        assert all(piece.num_rows <= 1 or piece.nbytes <= 400 for piece in pieces) or rows.nbytes <= 200

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.model.values.arrow_numpy import filled, to_arrow, to_bools, to_doubles, to_ints, to_mask

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100])
def test_numbers_and_flags_come_back_from_arrow_as_they_went_also_out_of_a_slice(length: int) -> None:
    numbers = np.arange(length, dtype=np.int64) - 3
    flags = numbers % 3 == 0
    for first in (0, 1, 9):
        assert to_ints(to_arrow(numbers).slice(first)).tolist() == numbers[first:].tolist()
        assert to_doubles(to_arrow(numbers).slice(first)).tolist() == numbers[first:].tolist()
        assert to_bools(to_mask(flags).slice(first)).tolist() == flags[first:].tolist()
    assert to_mask(flags).equals(pa.array(flags))
    assert to_arrow(numbers[::2]).equals(pa.array(numbers[::2]))


def test_a_null_never_becomes_a_number_by_itself() -> None:
    for array in (pa.array([1, None]), pa.array([True, None])):
        with pytest.raises(ValueError, match="1 of 2 values are null"):
            to_ints(array)
    assert filled(pa.array([1, None]), 7).to_pylist() == [1, 7]


READ = """
import sys
import lakebraid as lb
print(lb.Table.open(sys.argv[1]).to_arrow().num_rows, "pandas" in sys.modules)
"""


@pytest.mark.slow
def test_reading_a_table_with_logs_does_not_import_pandas(tmp_path: Path) -> None:
    # A quarter of a CPU second in every process that reads, each of Spark's workers among them.
    rows = pa.table({"id": ["a", "b", "c"], "ts": [1, 2, 3]})
    table = lb.Table.create(tmp_path / "t", rows.schema, record_keys="id", ordering_fields="ts", buckets=1)
    table.bulk_insert(rows)
    table.upsert(pa.table({"id": ["b", "d"], "ts": [4, 5]}))
    done = subprocess.run([sys.executable, "-c", READ, str(table.path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4", "False"]

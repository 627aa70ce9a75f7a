# SPDX-License-Identifier: Apache-2.0
"""Small files of very large rows, which are somebody's data: read batch by batch they take no more memory than is promised.

The promise of SECURITY.md: half a GiB, and three times the largest row.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebraid as lb
from tests.hostile.attack import target
from tests.hostile.forge_parquet import BYTE_ARRAY, Column, number_column, page, parquet, text_column
from tests.hostile.streamed import read_streamed
from tests.kit.tally import TALLY

pytestmark = pytest.mark.hostile

MIB = 1 << 20
PROMISED = 512 * MIB


def _text(length: int) -> bytes:
    return length.to_bytes(4, "little") + b" " * length


FILES = {
    "3,000 times a text of 1 MiB": (parquet([text_column(b"v", b"a" * MIB, 3000)], 3000), MIB),
    "100,000 times a text of 20 KB": (parquet([text_column(b"v", b"a" * 20_000, 100_000)], 100_000), 20_000),
    "60 times a text of 50 MiB": (parquet([text_column(b"v", b"a" * 50 * MIB, 60, codec="zstd")], 60), 50 * MIB),
    "pages of one text of 100 MiB each": (
        parquet(
            [
                Column(
                    b"v",
                    BYTE_ARRAY,
                    page(_text(100 * MIB), values=1, codec="zstd") * 20,
                    20,
                    "zstd",
                    plain_bytes=20 * (100 * MIB + 100),
                    is_text=True,
                )
            ],
            20,
        ),
        100 * MIB,
    ),
    "300,000 equal numbers": (parquet([number_column(b"ts", 300_000)], 300_000), 8),
}


@pytest.mark.parametrize("name", FILES)
def test_large_rows_in_small_files_are_streamed_in_the_memory_that_is_promised(tmp_path: Path, name: str) -> None:
    data, row_bytes = FILES[name]
    made = target("v9_cow_no_meta")
    honest = made.saved(tmp_path / "honest")
    made.put(next(n for n in made.live() if n.endswith(".parquet")), data)
    found = read_streamed(made.saved(tmp_path / "bomb"), honest)
    TALLY.tried["legal bomb"] += 1
    TALLY.peak_bytes = max(TALLY.peak_bytes, (found["grew"], name))
    print(name, found)
    assert found["grew"] < PROMISED + 3 * row_bytes, found
    assert found["bytes"] >= found["rows"] * row_bytes, "the texts themselves came"
    assert found["rows"] == lb.Table.open(made.url).count()
    assert found["seconds"] < 60

# SPDX-License-Identifier: Apache-2.0
"""Footers over which pyarrow would abort the process, and the one parser that stands before it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile
from lakebraid.format.parquet import footer as parquet_footer
from lakebraid.format.parquet.chunk import Leaf, parse_chunk, quick_chunk
from lakebraid.format.parquet.rows import open_parquet_file
from tests.hostile.attack import Target, files_of, read_rows, target
from tests.hostile.confined import read_confined
from tests.hostile.forge_parquet import INT64, Column, items, number, page, parquet, signed, struct, text, unsigned
from tests.hostile.mutations import mutate
from tests.kit.tally import TALLY

pytestmark = pytest.mark.hostile

PAGE = page(bytes(24), values=3)


def _column(*, metadata: bytes = b"", chunk: bytes = b"", codec: str | None = None) -> Column:
    return Column(b"id", INT64, PAGE, 3, codec, more_metadata=metadata, more=chunk)


KILLERS = {
    "more chunks than columns": parquet([_column()], 3, times=2),
    "fewer chunks than columns": parquet([_column()], 3, times=0),
    "an encrypted column": parquet([_column(chunk=struct(5, struct(2, items(1, [unsigned(1) + b"a"], 8))))], 3),
    "a histogram of the wrong length": parquet([_column(metadata=struct(7, items(2, [signed(1)] * 9, 6)))], 3),
    "sizes of texts that are numbers": parquet([_column(metadata=struct(7, number(1, 5, 6)))], 3),
    "bounds without bytes": parquet([_column(metadata=struct(3, text(1, b""), text(1, b"")))], 3),
    "bounds of one byte": parquet([_column(metadata=struct(3, text(5, b"x"), text(1, b"x")))], 3),
    "an unknown compression": parquet([_column(codec="unknown")], 3),
    "statistics twice": parquet([_column(metadata=struct(3, text(1, b"")) + b"\x0c" + signed(12) + b"\0")], 3),
}


def test_footers_over_which_pyarrow_would_abort_are_refused_and_the_process_lives(tmp_path: Path) -> None:
    paths = []
    for name, data in KILLERS.items():
        made = target("v9_cow_no_meta")
        made.put(next(n for n in made.live() if n.endswith(".parquet")), data)
        paths.append(made.saved(tmp_path / name))
    outcomes = read_confined(paths, warm_up=target("v9_cow_no_meta").saved(tmp_path / "honest"))
    for name, outcome in zip(KILLERS, outcomes, strict=True):
        TALLY.tried["footer that kills"] += 1
        TALLY.refused += 1
        assert outcome["error"] == "CorruptFile", (name, outcome)


@pytest.mark.parametrize("where", ["id is not null", "id = 5", "id > 3"])
@pytest.mark.parametrize("name", sorted(KILLERS))
def test_a_filter_looks_at_no_statistics_that_were_not_checked(cow: Target, name: str, where: str) -> None:
    cow.put(next(n for n in cow.live() if n.endswith(".parquet")), KILLERS[name])
    with pytest.raises(CorruptFile):
        lb.Table.open(cow.url).to_arrow(where=where)


CODECS = {0: "UNCOMPRESSED", 1: "SNAPPY", 2: "GZIP"}


def _real_files() -> list[bytes]:
    tables = ("v9_cow_types_row_writer", "v9_mor_types_compacted", "v9_cow_no_meta", "v9_mor_evolution_nested")
    found = [data for table in tables for name, data in files_of(table).items() if name.endswith(".parquet")]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": ["x", None], "b": [[1], [2, 3]], "c": [b"1", b"2"]}), sink)
    return [*found, sink.getvalue().to_pybytes()]


def test_the_numbers_of_real_footers_are_those_that_pyarrow_reads() -> None:
    for data in _real_files():
        file = open_parquet_file(pa.BufferReader(data), len(data), "a real file")
        for number_, group in enumerate(file.footer.groups):
            for index, chunk in enumerate(group.chunks):
                other = file.metadata.row_group(number_).column(index)
                assert file.footer.leaves[index].path == other.path_in_schema
                assert CODECS[chunk.codec] == other.compression
                assert chunk[:5] == (
                    other.num_values,
                    other.total_uncompressed_size,
                    other.total_compressed_size,
                    other.data_page_offset,
                    other.dictionary_page_offset if other.has_dictionary_page else -1,
                )


def test_the_quick_look_at_a_chunk_never_differs_from_the_thorough_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parsers of one chunk would be a way past the checks if any bytes told them different things."""
    random = Random(9)
    seen: list[tuple[bytes, int, Leaf]] = []
    monkeypatch.setattr(parquet_footer, "quick_chunk", lambda data, at, leaf: seen.append((data, at, leaf)))
    for data in _real_files():
        open_parquet_file(pa.BufferReader(data), len(data), "a real file")
    agreed = 0
    for data, at, leaf in seen:
        for changed in [data[at:], *(mutate(data[at : at + 300], random) for _ in range(60))]:
            TALLY.tried["footer chunk"] += 1
            agreed += _agree(changed, leaf)
    assert agreed > 200


def _agree(data: bytes, leaf: Leaf) -> bool:
    try:
        quick = quick_chunk(data, 0, leaf)
    except (ValueError, IndexError):
        return False
    if quick is None:
        return False
    assert quick == parse_chunk(data, 0, leaf)
    return True


def test_damaged_footers_end_in_rows_or_a_refusal_in_a_process_that_lives(tmp_path: Path) -> None:
    """Whatever pyarrow does not survive takes the confined process down, and the test with it."""
    random = Random(10)
    base = next(n for n in target("v9_cow_types_row_writer").live() if n.endswith(".parquet"))
    data = files_of("v9_cow_types_row_writer")[base]
    length = int.from_bytes(data[-8:-4], "little")
    paths = []
    for variant in range(150):
        footer = mutate(data[-8 - length : -8], random)
        made = target("v9_cow_types_row_writer")
        made.put(base, data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
        paths.append(made.saved(tmp_path / str(variant)))
    assert read_rows(target("v9_cow_types_row_writer").saved(tmp_path / "honest"))
    for outcome in read_confined(paths, warm_up=tmp_path / "honest"):
        TALLY.tried["footer damaged"] += 1
        TALLY.refused += outcome["error"] is not None
        assert not str(outcome["error"]).startswith("raw"), outcome

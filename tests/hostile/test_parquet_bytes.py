# SPDX-License-Identifier: Apache-2.0
"""Base files that are cut, flipped or no Parquet at all, and files that unfold to more than any machine has."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile, LakebraidError
from tests.hostile.attack import Target, check_message, each, is_soon, read_rows, refusal, refused, target
from tests.hostile.confined import MEMORY_MAX, read_confined
from tests.hostile.forge_parquet import (
    DELTA_BYTE_ARRAY,
    DICTIONARY,
    FIXED,
    INT64,
    INT96,
    Column,
    dictionary_page,
    nested_schema,
    number_column,
    page,
    parquet,
    repeated,
    signed,
    text_column,
    unsigned,
)
from tests.kit.tally import TALLY

pytestmark = pytest.mark.hostile

MIB = 1 << 20


def _base(made: Target) -> str:
    return next(name for name in made.live() if name.endswith(".parquet"))


def _delta(length: int, rows: int) -> bytes:
    """DELTA_BYTE_ARRAY of one long text, and of rows that repeat all of it for no bytes."""
    prefixes = _packed([0, length], rows)
    return prefixes + _packed([length, 0], rows) + b"a" * length


def _packed(values: list[int], count: int) -> bytes:
    """DELTA_BINARY_PACKED of the two values, the second for all rows but the first."""
    step = values[1] - values[0]
    least = min(step, 0)
    deltas = b"".join((delta - least).to_bytes(4, "little") for delta in (step, *[0] * 127))
    blocks = -(-(count - 1) // 128)
    head = unsigned(128) + unsigned(4) + unsigned(count) + signed(values[0])
    return head + signed(least) + bytes((32, 32, 32, 32)) + deltas + (signed(0) + bytes(4)) * (blocks - 1)


HARMLESS = {
    "no bytes": b"",
    "garbage": bytes(range(256)) * 4,
    "only magics": b"PAR1PAR1",
    "a footer of 4 GiB": b"PAR1" + bytes(50) + b"\xff\xff\xff\xff" + b"PAR1",
    "a footer of -1 bytes": b"PAR1" + bytes(50) + b"\xff\xff\xff\x7f" + b"PAR1",
    "an encrypted footer": b"PARE" + bytes(50) + (20).to_bytes(4, "little") + b"PARE",
    "an unknown compression": parquet([Column(b"id", INT64, page(bytes(24), values=3), 3, "lzo")], 3),
    "-5 rows": parquet([number_column(b"id", 5)], -5),
    "more rows than values": parquet([number_column(b"id", 5)], 50),
    "rows without columns": parquet([], 100),
    "rows that the groups do not have": parquet([number_column(b"id", 5)], 5, group_rows=4),
    "a chunk beyond the end": parquet([Column(b"id", INT64, page(bytes(24), values=3), 3, stored_bytes=10**9)], 3),
    "a chunk of -1 bytes": parquet([Column(b"id", INT64, page(bytes(24), values=3), 3, stored_bytes=-1)], 3),
    "two columns of one name": parquet([number_column(b"id", 3), number_column(b"id", 3)], 3),
    "a name that is no text": parquet([number_column(b"\xff\xfe", 3)], 3),
    "a text that is no UTF-8": parquet([text_column(b"v", b"\xff\xfe", 3)], 3),
    "40 levels": nested_schema(40),
    "100,000 levels": nested_schema(100_000),
    "an index beyond the dictionary": parquet(
        [
            Column(
                b"id",
                INT64,
                dictionary_page(bytes(8), values=1) + page(repeated(5, b"\x01"), values=5, encoding=DICTIONARY),
                5,
            )
        ],
        5,
    ),
}


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_a_base_file_that_is_none_is_refused_or_read_as_nulls(cow: Target, name: str) -> None:
    base = _base(cow)
    cow.put(base, HARMLESS[name])
    error = refusal("forged Parquet", lambda: read_rows(cow.url), what=name)
    assert isinstance(error, LakebraidError) or name in ("40 levels", "100,000 levels")
    refusal("forged Parquet", lambda: lb.Table.open(cow.url).count(), what=name)
    refusal("forged Parquet", lambda: lb.Table.open(cow.url).to_arrow(where="id = 5"), what=name)


@pytest.mark.parametrize("table", ["v9_cow_no_meta", "v9_cow_types_row_writer", "v9_mor_types_compacted"])
def test_a_base_file_cut_anywhere_is_refused(table: str) -> None:
    made = target(table)
    base = _base(made)
    data = made.files[base]
    cuts = [
        data[:end]
        for end in sorted({*range(0, len(data), max(1, len(data) // 150)), *range(len(data) - 30, len(data))})
    ]
    outcomes = each("base file cut", made, base, cuts, read=read_rows)
    assert set(outcomes) == {"CorruptFile"}, outcomes


@pytest.mark.parametrize("table", ["v9_cow_no_meta", "v9_cow_types_row_writer", "v9_mor_types_compacted"])
def test_a_base_file_with_flipped_bytes_ends_in_rows_or_a_refusal(table: str) -> None:
    made = target(table)
    base = _base(made)
    data, random = made.files[base], Random(11)
    footer = int.from_bytes(data[-8:-4], "little")
    places = [
        *range(0, len(data), max(1, len(data) // 200)),
        *(random.randrange(len(data) - footer - 8, len(data)) for _ in range(300)),
    ]
    flipped = [data[:at] + bytes((data[at] ^ (1 << random.randrange(8)),)) + data[at + 1 :] for at in places]
    outcomes = each("base file flipped", made, base, flipped, read=read_rows)
    assert outcomes["CorruptFile"] > 5


def test_statistics_beyond_the_calendar_do_not_prune_wrongly(cow: Target) -> None:
    """Bounds that Python's dates cannot hold, in a file whose rows are fine."""
    made = target("v9_mor_order_date")
    schema = lb.Table.open(made.url).schema
    name = next(f.name for f in schema if pa.types.is_date(f.type))
    for base in [n for n in made.live() if n.endswith(".parquet")]:
        rows = pq.read_table(pa.BufferReader(made.files[base]))
        far = pa.array([2**31 - 1] * rows.num_rows, pa.int32()).cast(pa.date32())
        sink = pa.BufferOutputStream()
        pq.write_table(rows.set_column(rows.schema.get_field_index(name), name, far), sink)
        made.put(base, sink.getvalue().to_pybytes())
    assert refusal("far dates", lambda: lb.Table.open(made.url).to_arrow(where=f"{name} > date '2020-01-01'")) is None


BOMBS = {
    "2^40 rows": parquet([number_column(b"id", 2**40)], 2**40),
    "2^62 rows": parquet([number_column(b"id", 2**62)], 2**62),
    "2^40 rows and no column": parquet([], 2**40),
    "2^40 rows that only the footer has": parquet([number_column(b"id", 5)], 2**40),
    "a billion equal numbers": parquet([number_column(b"id", 10**9)], 10**9),
    "60 million equal numbers": parquet([number_column(b"id", 6 * 10**7)], 6 * 10**7),
    "60 million rows of an unknown column": parquet([number_column(b"other", 6 * 10**7)], 6 * 10**7),
    "15 million equal numbers in a wider table": parquet([number_column(b"id", 15 * 10**6)], 15 * 10**6),
    "a million times a text of a MiB": parquet([text_column(b"v", b"a" * MIB, 10**6)], 10**6),
    "the same, compressed": parquet([text_column(b"v", b"a" * MIB, 10**6, codec="gzip")], 10**6),
    "the same, and the footer lies": parquet(
        [text_column(b"v", b"a" * MIB, 10**6, codec="gzip", plain_bytes=100)], 10**6
    ),
    "a million times a text of 50 MiB": parquet(
        [text_column(b"v", b"a" * 50 * MIB, 10**6, codec="zstd", plain_bytes=900)], 10**6
    ),
    "a page of 1.5 GB out of 48 KB": parquet(
        [Column(b"id", INT64, page(bytes(1500 * MIB), values=3, codec="zstd"), 3, "zstd", plain_bytes=900)], 3
    ),
    "a page that claims 2 GiB": parquet(
        [Column(b"id", INT64, page(bytes(99), values=3, codec="zstd", claims=2**31 - 1), 3, "zstd", plain_bytes=900)], 3
    ),
    "a page that claims -5 bytes": parquet(
        [Column(b"id", INT64, page(bytes(99), values=3, codec="zstd", claims=-5), 3, "zstd", plain_bytes=900)], 3
    ),
    "texts that repeat the one before": parquet(
        [Column(b"v", 6, page(_delta(MIB, 10**6), values=10**6, encoding=DELTA_BYTE_ARRAY), 10**6, is_text=True)], 10**6
    ),
    "texts of a fixed length of 2 GiB": parquet(
        [Column(b"v", FIXED, page(bytes(99), values=3), 3, width=2**31 - 1)], 3
    ),
    "a thousand pages of 64 MiB": parquet(
        [
            Column(
                b"id" if not n else b"c%d" % n,
                INT64,
                page(bytes(60 * MIB), values=3, codec="zstd"),
                3,
                "zstd",
                plain_bytes=900,
            )
            for n in range(20)
        ],
        3,
    ),
    "times of 96 bits": parquet([Column(b"ts", INT96, page(bytes(36), values=3), 3)], 3),
    "an unknown number for a compression": parquet([Column(b"id", INT64, page(bytes(24), values=3), 3, "unknown")], 3),
}
LEGAL = {
    "a million times a text of a MiB",
    "the same, compressed",
    "the same, and the footer lies",
    "texts that repeat the one before",
}
"""Files as somebody may want them: they can be read in batches, but their rows fit into no memory."""
READ = {"times of 96 bits"}


def test_files_that_unfold_a_million_times_are_refused_soon_and_in_little_memory(tmp_path: Path) -> None:
    paths = []
    for name, bomb in BOMBS.items():
        made = target("v9_cow_no_meta")
        made.put(_base(made), bomb)
        paths.append(made.saved(tmp_path / name))
    outcomes = read_confined(paths, warm_up=target("v9_cow_no_meta").saved(tmp_path / "honest"))
    for name, outcome in zip(BOMBS, outcomes, strict=True):
        _judge(name, outcome)
        assert outcome["error"] == ("EnvironmentProblem" if name in LEGAL else "CorruptFile") or name in READ, (
            name,
            outcome,
        )


def test_bombs_in_log_blocks_and_in_the_history_are_refused_soon_and_in_little_memory(tmp_path: Path) -> None:
    from lakebraid.format.log.blocks import format_block, read_blocks

    paths = {}
    for name in (
        "2^40 rows",
        "a million times a text of a MiB",
        "the same, and the footer lies",
        "a page of 1.5 GB out of 48 KB",
    ):
        made = target("v9_mor_bucket_nbcc_parquet")
        log = next(n for n in made.live() if ".log." in n and read_blocks(made.files[n], n).blocks[0].type == 5)
        block = read_blocks(made.files[log], log).blocks[0]
        made.put(log, format_block(block.type, block.header, BOMBS[name]))
        paths[f"{name} in a log"] = made.saved(tmp_path / f"log {name}")
        made = target("v9_mor_archived")
        for history in made.named(r"history/\d.*\.parquet$"):
            made.put(history, BOMBS[name])
        paths[f"{name} in the history"] = made.saved(tmp_path / f"history {name}")
    times = [text_column(name, b"2" * 17, 10**7) for name in (b"instantTime", b"completionTime", b"action")]
    made = target("v9_mor_archived")
    for history in made.named(r"history/\d.*\.parquet$"):
        made.put(history, parquet(times, 10**7))
    paths["ten million instants"] = made.saved(tmp_path / "many instants")
    for (name, _), outcome in zip(
        paths.items(),
        read_confined([*paths.values()], warm_up=target("v9_mor_archived").saved(tmp_path / "ok")),
        strict=True,
    ):
        _judge(name, outcome)
        assert outcome["error"] == "CorruptFile", (name, outcome)


def _judge(name: str, outcome: dict[str, Any]) -> None:
    TALLY.tried["bomb"] += 1
    TALLY.refused += outcome["error"] is not None
    TALLY.slowest = max(TALLY.slowest, (outcome["seconds"], name))
    TALLY.peak_bytes = max(TALLY.peak_bytes, (outcome["grew"], name))
    assert not str(outcome["error"]).startswith("raw"), (name, outcome)
    if outcome["error"]:
        check_message(CorruptFile(outcome["message"]))
    assert outcome["grew"] < 0.75 * MEMORY_MAX, (name, outcome)
    assert is_soon(outcome["seconds"], 20), (name, outcome)


def test_the_forge_makes_honest_files_too() -> None:
    data = parquet([text_column(b"v", b"abc", 4, codec="gzip"), number_column(b"id", 4)], 4)
    assert pq.read_table(pa.BufferReader(data)).to_pydict() == {"v": ["abc"] * 4, "id": [0] * 4}
    refused("forged Parquet", CorruptFile, lambda: _refuse())


def _refuse() -> None:
    from lakebraid.format.parquet.rows import read_parquet_block

    read_parquet_block(BOMBS["2^40 rows"], None, "a bomb")

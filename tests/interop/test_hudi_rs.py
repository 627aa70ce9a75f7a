# SPDX-License-Identifier: Apache-2.0
"""hudi-rs, the second judge, agrees with Apache Hudi on the stored tables, but for what is listed here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

from tests.interop.expected import Row
from tests.kit.reference import Reference, names, our_rows, unpack

pytestmark = pytest.mark.interop

# What it refuses: the table, and a part of its message.
REFUSED = {
    "mdt_types_unpartitioned": "not yet implemented",
    "v9_cow_partition_dropped": "hoodie.datasource.write.drop.partition.columns",
    "v9_mor_blob": "reconcile: column 'c'",
    "v9_mor_mysql_debezium": "Multiple ordering fields",
    "v9_mor_ntz_and_nan": "not yet implemented",
    "v9_mor_order_two_fields": "Multiple ordering fields",
    "v9_mor_partition_custom": "is not present in the table schema",
    "v9_mor_types_avro": "reconcile: column 'structs'",
    "v9_mor_types_compacted": "reconcile: column 'structs'",
}
VECTORS = "gives the bytes of vectors, not their numbers"
# What it answers otherwise: per table the record keys of rows that only one of the two gives, and why.
DIFFERENT = {
    "mdt_nbcc_bucket": (
        {"1", "2", "4", "5", "6", "7", "8", "9"},
        "lists files through the metadata table, and shows only groups that have a base file then",
    ),
    "v6_flink_mor_compacted": ({"2"}, "leaves out log files that follow a pending compaction"),
    "v9_cow_vector": ({"1", "3", "4", "5"}, VECTORS),
    "v9_mor_fill_unavailable": (
        {"6"},
        "leaves Debezium's placeholder in the row when the older value is in a base file",
    ),
    "v9_mor_hidden_group": ({"1", "3"}, "shows committed rows behind a dead first writer, as we do"),
    "v9_mor_partition_encoded": ({"7"}, "takes an empty partition value from the file; Hudi takes null from the path"),
    "v9_mor_vector": ({"1", "2", "3", "5"}, VECTORS),
    "v9_mor_vector_parquet": ({"1", "3", "5"}, VECTORS),
}


@pytest.mark.parametrize("name", [name for name in names() if name not in REFUSED])
def test_hudi_rs_gives_the_rows_that_hudi_gives(name: str, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    theirs, hudis = read(reference), reference.hudi(reference.expected["snapshot"])
    differing = {str(dict(row)["_hoodie_record_key"]) for row in symmetric(theirs, hudis)}
    assert differing == DIFFERENT.get(name, (set(),))[0]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_hudi_rs_refuses_it_still_refuses(name: str, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    with pytest.raises(BaseException, match=REFUSED[name]):  # some refusals are Rust panics
        read(reference)


def read(reference: Reference) -> list[Row]:
    batches = HudiTableBuilder.from_base_uri(str(reference.path)).build().read()
    return our_rows(pa.Table.from_batches(batches)) if batches else []


def symmetric(ours: list[Row], theirs: list[Row]) -> list[Row]:
    return [row for row in ours if row not in theirs] + [row for row in theirs if row not in ours]

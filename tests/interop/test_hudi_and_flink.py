# SPDX-License-Identifier: Apache-2.0
"""A table of Flink that Apache Hudi has upgraded to version 9 is written by us, and Hudi and we read the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid.format.names import parse_data_file
from tests.interop.referee import Referee
from tests.kit.reference import hudi_rows, keep_times, our_rows, unpack

pytestmark = pytest.mark.interop


def groups(path: Path) -> Counter[tuple[str, str]]:
    """The number of file ids of each bucket of a partition."""
    parsed = ((file.parent.name, parse_data_file(file.name)) for file in path.rglob("*") if file.is_file())
    ids = {(folder, found.file_id) for folder, found in parsed if found is not None}
    return Counter((folder, file_id[:8]) for folder, file_id in ids)


def test_rows_go_into_the_buckets_that_flink_made_and_hudi_reads_them(referee: Referee, tmp_path: Path) -> None:
    path = unpack("v9_flink_mor_bucket", tmp_path).path
    keep_times(path)
    before = groups(path)
    with (path / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write("\nhoodie.index.type=BUCKET\nhoodie.bucket.index.num.buckets=2\n")
    table = lb.Table.open(path)

    table.upsert([{"id": 1, "name": "ours", "ts": 40, "part": "p"}, {"id": 7, "name": "new", "ts": 40, "part": "q"}])
    table.delete([{"id": 4, "part": "p"}])
    table.compact()
    table.upsert([{"id": 2, "name": "last", "ts": 50, "part": "p"}])

    rows = table.to_arrow(meta_columns=True)
    assert our_rows(rows) == hudi_rows(referee.ask("read", path=str(path))["rows"])
    names = dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))
    assert names == {1: "ours", 2: "last", 3: "c", 5: "e", 6: "new", 7: "new"}
    assert {key: groups(path)[key] for key in before} == before == dict.fromkeys(before, 1)

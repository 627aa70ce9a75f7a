# SPDX-License-Identifier: Apache-2.0
"""We compact and tidy the metadata tables of tables that Apache Hudi made: Hudi reads by them with its defaults, and writes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakebraid.clock import SystemClock
from lakebraid.format.properties import parse_properties
from lakebraid.services.metadata.compaction import compact_metadata
from lakebraid.services.metadata.tidying import tidy_metadata
from lakebraid.services.settings import Opened
from lakebraid.storage import open_storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import PROPERTIES, load_config, load_table, load_timeline
from lakebraid.table.metadata.lookups import load_files
from lakebraid.table.metadata.opening import open_metadata_table
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.writer import Writing
from tests.interop.referee import Referee
from tests.kit.present import present
from tests.kit.reference import unpack

pytestmark = pytest.mark.interop

BY_FOLDERS = {"hoodie.metadata.enable": "false"}
SCHEMA = "id bigint, name string, price double, ts bigint, part string"


@pytest.mark.parametrize("name", ["mdt_cow_default", "mdt_nbcc_bucket"])
def test_hudi_reads_by_a_metadata_table_that_we_have_compacted(referee: Referee, tmp_path: Path, name: str) -> None:
    path = unpack(name, tmp_path).path
    before = rows(referee, path)
    assert before
    tend(path)
    assert rows(referee, path) == rows(referee, path, BY_FOLDERS) == before


def test_hudi_writes_on_over_a_metadata_table_that_we_have_compacted_and_we_compact_it_again(
    referee: Referee, tmp_path: Path
) -> None:
    path = unpack("mdt_cow_default", tmp_path).path
    for turn in range(2):
        tend(path)
        upsert(referee, path, {"id": 100 + turn, "name": f"turn {turn}", "price": 1.0, "ts": 10, "part": "p9"})
        found = rows(referee, path)
        assert found == rows(referee, path, BY_FOLDERS)
        assert sum('"name": "turn' in row for row in found) == turn + 1
        check_listing(path)


def rows(referee: Referee, path: Path, options: dict[str, str] | None = None) -> list[str]:
    found: dict[str, Any] = referee.ask("read", path=str(path), options=options or {})
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in found["rows"])


def upsert(referee: Referee, path: Path, row: dict[str, Any]) -> None:
    name = parse_properties((path / PROPERTIES).read_bytes(), str(path))["hoodie.table.name"]
    options = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.table.ordering.fields": "ts",
    }
    referee.ask("write", path=str(path), rows={"json": [row], "schema": SCHEMA}, options=options)


def tend(path: Path) -> None:
    """What our services do to the metadata table."""
    storage, clock = open_storage(str(path)), SystemClock()
    at = TableAt(storage, load_config(storage)[0], clock)
    opened = Opened(Writing(storage, clock), Ledger(at))
    present(compact_metadata(opened, deltas=1))
    tidy_metadata(opened)


def check_listing(path: Path) -> None:
    """Our look at the metadata table gives what lies in the folders."""
    storage = open_storage(str(path))
    at = TableAt(storage, load_config(storage)[0], SystemClock())
    listed = present(load_files(present(open_metadata_table(at, load_timeline(at)))))
    names = {f"{partition}/{name}" for partition, files in listed.items() for name in files}
    assert names == {file.name for file in load_table(at).files}

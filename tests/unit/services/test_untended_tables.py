# SPDX-License-Identifier: Apache-2.0
"""Tables that no service may touch: each refuses by name, before it has changed a byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakebraid import Table, UnsupportedTable
from tests.kit.reference import unpack

pytestmark = pytest.mark.unit

SERVICES: dict[str, Callable[[Table], Any]] = {
    "rollback": lambda table: table.rollback(timeout_seconds=0),
    "rollback of a plan": lambda table: table.rollback(plan="20260101000000000"),
    "clean": lambda table: table.clean(commits=1),
    "archive": lambda table: table.archive(keep_min=1, keep_max=2),
    "compact": lambda table: table.compact(),
    "log_compact": lambda table: table.log_compact(),
    "cluster": lambda table: table.cluster(),
    "savepoint": lambda table: table.savepoint(),
    "delete_savepoint": lambda table: table.delete_savepoint("20260101000000000"),
    "restore": lambda table: table.restore("20260101000000000"),
    "consumer": lambda table: table.consumer("reports"),
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("version", [6, 8])
def test_no_service_touches_a_table_of_another_version(tmp_path: Path, version: int, service: str) -> None:
    path = unpack(f"v{version}_mor_deletes", tmp_path).path
    # What Hudi's own writers have under way, and what a rollback would take for the leftovers of dead ones.
    for kind in (".temp", ".heartbeat"):
        left = Path(path, ".hoodie", kind, "20260101000000000", "MARKERS.type")
        left.parent.mkdir(parents=True)
        left.write_text("DIRECT")
    before = _files(path)
    with pytest.raises(UnsupportedTable, match=rf"table version {version}.*Nothing was changed"):
        SERVICES[service](Table.open(path))
    assert _files(path) == before


def _files(path: str | Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(Path(path).rglob("*")) if file.is_file()}

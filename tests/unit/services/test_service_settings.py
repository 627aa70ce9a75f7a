# SPDX-License-Identifier: Apache-2.0
"""The one door of services: properties are read once, and what they say is a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from lakebraid.api.table import Table
from lakebraid.errors import InvalidArgument
from lakebraid.services.settings import ServiceSettings, Setting, parse_settings
from lakebraid.storage.memory import MemoryStorage
from tests.kit.tables.clustering import COLUMNS, NEW_GROUPS
from tests.kit.tables.scene import TickingClock, WatchedStorage, make_table, row

pytestmark = pytest.mark.unit

PROPERTIES = ".hoodie/hoodie.properties"
BUCKETS: dict[str, Any] = {"buckets": 2}
ANYWHERE: dict[str, Any] = {"index": "simple", "properties": NEW_GROUPS, "schema": COLUMNS}
SERVICES: dict[str, tuple[dict[str, Any], Callable[[Table], Any]]] = {
    "compact": (BUCKETS, lambda table: table.compact()),
    "compact, planned": (BUCKETS, lambda table: table.plan_compaction()),
    "compact, as a dry run": (BUCKETS, lambda table: table.compact(dry_run=True)),
    "log_compact": (BUCKETS, lambda table: table.log_compact(logs_min=2)),
    "cluster": (ANYWHERE, lambda table: table.cluster()),
    "cluster, planned": (ANYWHERE, lambda table: table.plan_clustering()),
    "clean": (BUCKETS, lambda table: table.clean(commits=1)),
    "rollback": (BUCKETS, lambda table: table.rollback()),
    "archive": (BUCKETS, lambda table: table.archive(keep_min=1, keep_max=1)),
    "savepoint": (BUCKETS, lambda table: table.savepoint()),
}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_reads_the_properties_of_its_table_once(service: str) -> None:
    arguments, run = SERVICES[service]
    clock = TickingClock()
    storage = WatchedStorage(MemoryStorage("memory://served", clock))
    table = make_table(storage, clock, **({"schema": COLUMNS} | arguments))
    for number in range(3):
        table.insert([row(f"{number}{n}", "old") for n in range(3)])
    storage.calls.clear()
    assert run(table) is not None
    reads = [call for call in storage.calls if call.name == "read" and call.target == PROPERTIES]
    assert len(reads) == 1


def test_settings_are_a_value_of_what_the_properties_state_and_nothing_else() -> None:
    properties = {
        "hoodie.compaction.target.io": "512",
        "hoodie.table.name": "orders",
        "hoodie.clustering.inline": "TRUE ",
    }
    settings = parse_settings(properties)
    assert settings == parse_settings(dict(properties))
    assert settings.compaction_io_mb == Setting("hoodie.compaction.target.io", "512")
    assert settings.compaction_io_mb.number == 512
    assert settings.clustering_inline.is_true
    stated = {field.name for field in fields(settings) if getattr(settings, field.name).text is not None}
    assert stated == {"compaction_io_mb", "clustering_inline"}
    with pytest.raises(FrozenInstanceError):
        settings.keep_min = Setting("hoodie.keep.min.commits", "1")  # type: ignore[misc]


def test_each_setting_has_a_name_of_its_own() -> None:
    names = [getattr(ServiceSettings(), field.name).name for field in fields(ServiceSettings)]
    assert len({*names}) == len(names) == 30
    assert all(name.startswith("hoodie.") for name in names)


def test_a_setting_that_cannot_be_read_stops_only_the_service_that_needs_it() -> None:
    clock = TickingClock()
    properties = {"hoodie.clean.commits.retained": "ten", "hoodie.compaction.target.io": "much"}
    table = make_table(MemoryStorage("memory://served", clock), clock, properties=properties)
    table.upsert([row("a", "1")])
    assert len(table.compact()) == 1, "without a strategy that bounds it nobody asks for the target"
    with pytest.raises(InvalidArgument, match=r"hoodie\.clean\.commits\.retained"):
        table.clean()
    with pytest.raises(InvalidArgument, match=r"hoodie\.compaction\.target\.io is 'much'"):
        table.compact(strategy="bounded_io")

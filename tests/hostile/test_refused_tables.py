# SPDX-License-Identifier: Apache-2.0
"""Real tables with a setting that cannot be read: refused by name, before any data is touched."""

from __future__ import annotations

import contextlib

import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile, LakebraidError, UnsupportedTable
from lakebraid.format.properties import format_properties, parse_properties
from tests.hostile.attack import PROPERTIES, Target, look_at_everything, refusal, refused, target

pytestmark = pytest.mark.hostile


def _set(made: Target, **changes: str | None) -> None:
    properties = parse_properties(made.files[PROPERTIES], "the properties")
    for key, value in changes.items():
        name = key.replace("__", ".")
        properties.pop(name, None)
        if value is not None:
            properties[name] = value
    made.put(PROPERTIES, format_properties(properties))


def _without_data(made: Target) -> None:
    made.storage.delete(n for n in made.files if n != PROPERTIES)


@pytest.mark.parametrize("version", ["10", "7", "0", "-1", "abc", "9.0", "٩", "1e1", str(10**30), "9" * 5000, "9 9"])
def test_a_table_version_that_is_not_known_is_refused_by_its_number(cow: Target, version: str) -> None:
    _set(cow, hoodie__table__version=version)
    _without_data(cow)
    error = refused("properties setting", UnsupportedTable, lambda: lb.Table.open(cow.url))
    assert "version" in str(error)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hoodie__table__type": "MERGE_ON_WRITE"}, "MERGE_ON_WRITE"),
        ({"hoodie__table__base__file__format": "ORC"}, "ORC"),
        ({"hoodie__table__base__file__format": "HFILE"}, "HFILE"),
        ({"hoodie__table__base__file__format": "LANCE"}, "LANCE"),
        ({"hoodie__table__base__file__format": "\x1b[2J"}, "format"),
        ({"hoodie__table__multiple__base__file__formats__enable": "true"}, "formats"),
        ({"hoodie__bootstrap__base__path": "/elsewhere"}, "bootstrap"),
        ({"hoodie__table__bootstrap__base__path": "s3://elsewhere"}, "bootstrap"),
        ({"hoodie__record__merge__mode": "CUSTOM", "hoodie__compaction__payload__class": "com.acme.Mine"}, "Mine"),
        ({"hoodie__record__merge__mode": "CUSTOM"}, "custom"),
        ({"hoodie__record__merge__mode": "SOMETIMES"}, "SOMETIMES"),
        ({"hoodie__record__merge__mode": None, "hoodie__table__payload__class": "com.acme.Mine"}, "Mine"),
        ({"hoodie__table__partial__update__mode": "SOME"}, "SOME"),
        ({"hoodie__table__format": "iceberg"}, "iceberg"),
        ({"hoodie__table__timeline__timezone": "MARS"}, "MARS"),
    ],
)
def test_a_feature_that_cannot_be_read_is_refused_by_its_name(
    cow: Target, changes: dict[str, str | None], says: str
) -> None:
    _set(cow, **changes)
    _without_data(cow)
    error = refused("properties setting", UnsupportedTable, lambda: look_at_everything(cow.url))
    assert says in str(error)


@pytest.mark.parametrize("key", ["hoodie__timeline__path", "hoodie__timeline__history__path"])
@pytest.mark.parametrize(
    "folder",
    ["..", "../../x", "/etc", "a/../../b", "a//b", "a\\..\\b", ".", "a\0b", "a\nb", "x/" * 100 + "y", "y" * 5000],
)
def test_a_timeline_folder_that_leaves_the_table_is_refused(cow: Target, key: str, folder: str) -> None:
    _set(cow, **{key: folder})
    refused("timeline folder", (UnsupportedTable, CorruptFile), lambda: look_at_everything(cow.url))


@pytest.mark.parametrize("count", ["0", "-5", "1e3", "9" * 30, "9" * 5000, "x", "2147483648", "٣", " 4 "])
def test_a_number_of_buckets_that_is_none_is_refused(mor: Target, count: str) -> None:
    _set(mor, hoodie__bucket__index__num__buckets=count, hoodie__index__type="BUCKET")
    refused("properties setting", UnsupportedTable, lambda: look_at_everything(mor.url))


def test_a_billion_buckets_cost_nothing(mor: Target) -> None:
    _set(mor, hoodie__bucket__index__num__buckets="2147483647", hoodie__index__type="BUCKET")
    assert refusal("properties setting", lambda: look_at_everything(mor.url)) is None


@pytest.mark.parametrize(
    "names", ["nowhere", "id.x", "a`b", ",,,", "id,id,id", "x" * 10_000, ",".join("abcdefgh" * 500)]
)
@pytest.mark.parametrize(
    "key",
    [
        "hoodie__table__recordkey__fields",
        "hoodie__table__partition__fields",
        "hoodie__table__ordering__fields",
        "hoodie__bucket__index__hash__field",
    ],
)
@pytest.mark.parametrize("table", ["v9_mor_bucket_nbcc_avro", "v9_mor_no_meta", "v9_cow_partition_dropped"])
def test_columns_that_are_not_there_end_in_rows_or_a_refusal(table: str, key: str, names: str) -> None:
    made = target(table)
    _set(made, **{key: names})
    refusal("properties setting", lambda: look_at_everything(made.url))
    refusal("properties setting", lambda: lb.Table.open(made.url).to_arrow(where="id = 'k1'"))


@pytest.mark.parametrize("table", ["v9_mor_types_avro", "v9_mor_types_parquet", "v9_mor_evolution_nested"])
def test_any_column_as_key_order_or_delete_mark_ends_in_rows_or_a_refusal(table: str) -> None:
    made = target(table)
    for name in lb.Table.open(made.url).schema.names:
        marker = "hoodie__record__merge__property__hoodie__payload__delete__"
        for changes in (
            {"hoodie__table__recordkey__fields": name},
            {"hoodie__table__recordkey__fields": name, "hoodie__populate__meta__fields": "false"},
            {"hoodie__table__ordering__fields": name, "hoodie__record__merge__mode": "EVENT_TIME_ORDERING"},
            {"hoodie__table__partition__fields": name, "hoodie__datasource__write__drop__partition__columns": "true"},
            {f"{marker}field": name, f"{marker}marker": "x"},
        ):
            _set(made, **changes)
            refusal("properties setting", lambda: look_at_everything(made.url), what=f"{table} {changes}")


def test_a_change_of_every_flag_ends_in_rows_or_a_refusal() -> None:
    made = target("v9_mor_partition_encoded")
    properties = parse_properties(made.files[PROPERTIES], "the properties")
    for key in properties:
        for value in ("", "true", "false", "\u0000", "../..", "💥", "a" * 5000, "0"):
            _set(made, **{key.replace(".", "__"): value})
            error = refusal("properties setting", lambda: look_at_everything(made.url), what=f"{key}={value[:20]!r}")
            assert error is None or isinstance(error, LakebraidError)


@pytest.mark.parametrize("number", ["9" * 5000, "²", "５", "-1", "1_000", ""])
@pytest.mark.parametrize(
    "name",
    [
        "hoodie.client.heartbeat.interval_in_ms",
        "hoodie.client.heartbeat.tolerable.misses",
        "hoodie.log.compaction.blocks.threshold",
        "hoodie.parquet.small.file.limit",
        "hoodie.lakebraid.clock_skew_ms",
    ],
)
def test_a_number_in_the_properties_that_is_none_is_passed_over_or_refused_by_name(
    cow: Target, name: str, number: str
) -> None:
    _set(cow, **{name.replace(".", "__"): number})
    with contextlib.suppress(LakebraidError):  # nothing else may be raised
        table = lb.Table.open(cow.url)
        assert table.count() >= 0
        table.log_compact()

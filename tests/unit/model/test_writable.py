# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebraid.errors import UnsupportedTable
from lakebraid.model.config import parse_config
from lakebraid.model.creation.plan import plan_table
from lakebraid.model.writable import FILE_LOCK, STORAGE_LOCK, check_writable
from tests.kit.reference import names, unpack

pytestmark = pytest.mark.unit

URL = "/data/t"
WRITTEN_MS = 1_767_323_045_678  # 2026-01-02 03:04:05.678 UTC


def properties(**changes: str | None) -> dict[str, str]:
    spec = plan_table(URL, "id bigint, ts timestamp, p string", record_keys="id", ordering_fields="ts")
    lines = dict(spec.properties)
    for key, value in changes.items():
        lines.pop(key.replace("__", "."), None)
        if value is not None:
            lines[key.replace("__", ".")] = value
    return lines


def check(lines: dict[str, str], **facts: Any) -> None:
    check_writable(parse_config(lines, URL), lines, URL, **facts)


def test_a_table_that_was_made_here_may_be_written() -> None:
    check(properties())
    check(properties(hoodie__write__lock__provider=FILE_LOCK))
    check(properties(hoodie__write__lock__provider=STORAGE_LOCK))


def test_a_table_that_leaves_the_mode_to_its_writers_may_be_written() -> None:
    check(properties(hoodie__write__concurrency__mode=None))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hoodie__table__version": "8"}, "version 8"),
        ({"hoodie__table__version": "6"}, "version 6"),
        ({"hoodie__table__type": "COPY_ON_WRITE"}, "NON_BLOCKING_CONCURRENCY_CONTROL with COPY_ON_WRITE"),
        ({"hoodie__index__type": "SIMPLE"}, "NON_BLOCKING_CONCURRENCY_CONTROL with the index SIMPLE"),
        ({"hoodie__write__concurrency__mode": "FREE_FOR_ALL"}, "FREE_FOR_ALL"),
        ({"hoodie__table__payload__class": "com.acme.Mine"}, "Mine"),
        ({"hoodie__table__partial__update__mode": "IGNORE_DEFAULTS"}, "IGNORE_DEFAULTS"),
        ({"hoodie__table__metadata__partitions": "files,column_stats"}, r"metadata table \(files, column_stats\)"),
        ({"hoodie__table__metadata__partitions.inflight": "files"}, "metadata table"),
        (
            {"hoodie__table__cdc__enabled": "true", "hoodie__table__cdc__supplemental__logging__mode": "op_key"},
            "capture in the mode OP_KEY",
        ),
        ({"hoodie__populate__meta__fields": "false"}, "meta columns"),
        ({"hoodie__allow__operation__metadata__field": "true"}, "_hoodie_operation"),
        ({"hoodie__datasource__write__drop__partition__columns": "true"}, "partition columns"),
        ({"hoodie__table__recordkey__fields": None}, "Hudi generates"),
        ({"hoodie__table__keygenerator__type": None}, "unstated key generator"),
        ({"hoodie__table__keygenerator__type": "TIMESTAMP"}, "TIMESTAMP"),
        ({"hoodie__table__keygenerator__type": "CUSTOM"}, "CUSTOM"),
        ({"hoodie__table__keygenerator__type": "SIMPLE"}, "do not fit"),
        ({"hoodie__table__partition__fields": "p"}, "do not fit"),
        ({"hoodie__datasource__write__keygenerator__consistent__logical__timestamp__enabled": "true"}, "as text"),
        ({"hoodie__index__type": "BLOOM"}, "BLOOM"),
        ({"hoodie__index__type": "SIMPLE"}, "index SIMPLE"),
        ({"hoodie__index__type": None}, "does not state"),
        ({"hoodie__bucket__index__num__buckets": None}, "does not state"),
        ({"hoodie__index__bucket__engine": "CONSISTENT_HASHING"}, "consistent hashing"),
        ({"hoodie__bucket__index__partition__expressions": "a,1"}, "each partition"),
        ({"hoodie__bucket__index__hash__field": "ts"}, "not in the key"),
        ({"hoodie__write__lock__provider": "org.apache.hudi.x.InProcessLockProvider"}, "InProcessLockProvider"),
        (
            {"hoodie__write__lock__provider": FILE_LOCK, "hoodie__write__lock__filesystem__path": "/locks"},
            "outside of the table",
        ),
        ({"hoodie__table__timeline__timezone": "LOCAL"}, "local time"),
        ({"hoodie__table__timeline__timezone": None}, "local time"),
    ],
)
def test_what_a_write_would_damage_is_refused_by_name(changes: dict[str, str | None], says: str) -> None:
    with pytest.raises(UnsupportedTable, match=says) as caught:
        check(properties(**changes))
    assert caught.value.path == URL
    assert "Nothing was changed" in caught.value.message


@pytest.mark.parametrize("folder", ["consistent_hashing_metadata", "partition_bucket_index_meta"])
def test_a_bucket_index_that_only_lies_on_storage_is_refused_too(folder: str) -> None:
    check(properties(), bucket_index_folders=[".hoodie/.bucket_index/other"])
    with pytest.raises(UnsupportedTable, match="buckets"):
        check(properties(), bucket_index_folders=[f".hoodie/.bucket_index/{folder}"])


@pytest.fixture
def oslo() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Oslo"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_a_timeline_in_local_time_may_be_written_only_where_the_zone_is_that_of_its_writers(oslo: None) -> None:
    lines = properties(hoodie__table__timeline__timezone="LOCAL")
    here, there, late = "20260102040405678", "20260102030405678", "20260102041405678"
    check(lines, completed={})
    check(lines, completed={here: WRITTEN_MS + 900, "20260101000000000": 7})
    for other in (there, late):
        with pytest.raises(UnsupportedTable, match="not this machine's"):
            check(lines, completed={other: WRITTEN_MS})


def test_settings_of_hudis_own_tables_are_read_and_none_of_them_is_written_by_mistake(tmp_path: Path) -> None:
    for name in names():
        reference = unpack(name, tmp_path / name)
        lines = _properties_of(reference.path)
        config = parse_config(lines, name)
        assert config.concurrency in ("nbcc", "occ", "single")
        if config.version < 9 or config.metadata_partitions or not (config.buckets or config.is_placed):
            with pytest.raises(UnsupportedTable):
                check_writable(config, lines, name, completed={})


def _properties_of(path: Path) -> dict[str, str]:
    from lakebraid.format.properties import parse_properties

    return parse_properties((path / ".hoodie" / "hoodie.properties").read_bytes(), "here")

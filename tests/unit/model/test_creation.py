# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.errors import InvalidArgument
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.properties import check_properties, format_properties, parse_properties
from lakebraid.model.config import MergeMode, parse_config
from lakebraid.model.creation.plan import TableSpec, check_agrees, plan_table
from lakebraid.model.writable import check_writable

pytestmark = pytest.mark.unit

DDL = "id bigint, city string, day date, ts timestamp, price decimal(10,2), w double, raw binary, tags array<string>"


def plan(schema: Any = DDL, url: str = "/data/trips", **changes: Any) -> TableSpec:
    return plan_table(url, schema, **({"record_keys": ["id"], "ordering_fields": ["ts"]} | changes))


def test_the_properties_pin_all_that_a_hudi_job_without_options_must_get_right() -> None:
    lines = plan().properties
    wanted = {
        "hoodie.table.name": "trips",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.keygenerator.type": "NON_PARTITION",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": "8",
        "hoodie.metadata.enable": "false",
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.clean.failed.writes.policy": "LAZY",
    }
    assert wanted.items() <= lines.items()
    assert not {"hoodie.write.lock.provider", "hoodie.table.partition.fields"} & lines.keys()
    check_properties(lines, "here")
    assert "" not in lines.values()
    assert parse_properties(format_properties(lines), "here") == lines


def test_what_is_planned_is_what_every_opener_reads_and_may_write() -> None:
    spec = plan(partition_by=["city", "day"], hive_style_partitioning=True, name="t-1", buckets=3)
    config = parse_config(spec.properties, "here")
    assert config == spec.config
    assert (config.name, config.buckets, config.hive_style, config.partition_fields) == (
        "t-1",
        3,
        True,
        ("city", "day"),
    )
    assert (config.concurrency, config.index, config.lock_provider) == ("nbcc", "bucket", None)
    assert parse_avro_schema(config.create_schema or "", "here") == spec.schema
    check_writable(config, spec.properties, "here")


@pytest.mark.parametrize(
    ("keys", "parts", "generator"),
    [
        ("id", None, "NON_PARTITION"),
        (["id", "city"], [], "NON_PARTITION"),
        ("id", "city", "SIMPLE"),
        (["id", "city"], ["day"], "COMPLEX"),
        ("id", ["day", "city"], "COMPLEX"),
    ],
)
def test_the_key_generator_is_the_one_that_hudi_would_choose(
    keys: list[str] | str, parts: list[str] | str | None, generator: str
) -> None:
    assert plan(record_keys=keys, partition_by=parts).config.key_generator == generator


def test_without_ordering_fields_the_later_commit_wins() -> None:
    nothing: list[Any] = [None, [], ()]
    for none in nothing:
        config = plan(ordering_fields=none).config
        assert (config.merge_mode, config.ordering_fields) == (MergeMode.COMMIT_TIME, ())


def test_without_a_schema_the_first_commit_brings_it() -> None:
    spec = plan(None, record_keys="whatever")
    assert spec.schema is None and spec.config.create_schema is None and not spec.seed_base


def test_buckets_are_seeded_where_there_are_no_partitions() -> None:
    assert plan().seed_base and plan(seed_base=True).seed_base
    assert not plan(seed_base=False).seed_base
    assert not plan(partition_by="city").seed_base
    with pytest.raises(InvalidArgument, match="partitions"):
        plan(partition_by="city", seed_base=True)
    with pytest.raises(InvalidArgument, match="no schema"):
        plan(None, seed_base=True)


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("/data/t", "FileSystemBasedLockProvider"),
        ("relative/t", "FileSystemBasedLockProvider"),
        ("file:///data/t", "FileSystemBasedLockProvider"),
        ("s3://bucket/t", "StorageBasedLockProvider"),
        ("gs://bucket/t", "StorageBasedLockProvider"),
        ("az://bucket/t", "StorageBasedLockProvider"),
    ],
)
def test_a_shared_table_pins_the_lock_that_its_store_has(url: str, provider: str) -> None:
    lock = plan(url=url, shared=True).config.lock_provider
    assert lock == f"org.apache.hudi.client.transaction.lock.{provider}"
    assert plan(url=url, properties={"hoodie.write.lock.provider": lock}).config.lock_provider == lock
    with pytest.raises(InvalidArgument, match="shared"):
        plan(url=url, shared=True, properties={"hoodie.write.lock.provider": f"{lock}Other"})


def test_a_table_in_memory_cannot_be_shared_and_no_foreign_lock_is_accepted() -> None:
    with pytest.raises(InvalidArgument, match="memory"):
        plan(url="memory://t", shared=True)
    with pytest.raises(InvalidArgument, match="ZookeeperBasedLockProvider"):
        plan(properties={"hoodie.write.lock.provider": "org.apache.hudi.x.ZookeeperBasedLockProvider"})


@pytest.mark.parametrize("argument", ["table_type", "index", "concurrency"])
@pytest.mark.parametrize("value", ["other", "", 7])
def test_a_choice_that_does_not_exist_is_refused_with_those_that_do(argument: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{argument} must be '"):
        plan(**{argument: value})


def test_hudis_own_words_are_taken_for_a_choice() -> None:
    spec = plan(table_type="MERGE_ON_READ", index="BUCKET", concurrency="non_blocking_concurrency_control")
    assert spec == plan()


@pytest.mark.parametrize(
    ("changes", "key", "argument"),
    [
        ({}, "hoodie.table.type=COPY_ON_WRITE", "table_type"),
        ({}, "hoodie.datasource.write.table.type=COPY_ON_WRITE", "table_type"),
        ({}, "hoodie.table.recordkey.fields=city", "record_keys"),
        ({}, "hoodie.datasource.write.recordkey.field=ID", "record_keys"),
        ({}, "hoodie.datasource.write.partitionpath.field=city", "partition_by"),
        ({}, "hoodie.datasource.write.precombine.field=day", "ordering_fields"),
        ({}, "hoodie.write.record.merge.mode=COMMIT_TIME_ORDERING", "ordering_fields"),
        ({}, "hoodie.bucket.index.num.buckets=9", "buckets"),
        ({}, "hoodie.index.type=BLOOM", "index"),
        ({}, "hoodie.index.bucket.engine=CONSISTENT_HASHING", "index"),
        ({}, "hoodie.write.concurrency.mode=SINGLE_WRITER", "concurrency"),
        ({"name": "a"}, "hoodie.table.name=b", "name"),
        ({"hive_style_partitioning": False}, "hoodie.datasource.write.hive_style_partitioning=true", "hive_style"),
        ({}, "hoodie.table.create.schema={}", "schema"),
        ({}, "hoodie.metadata.enable=true", "always"),
        ({}, "hoodie.table.version=8", "always"),
        ({}, "hoodie.table.timeline.timezone=LOCAL", "always"),
        ({}, "hoodie.cleaner.policy.failed.writes=EAGER", "always"),
        ({}, "hoodie.populate.meta.fields=false", "always"),
        ({}, "hoodie.datasource.write.drop.partition.columns=true", "always"),
        ({}, "hoodie.table.metadata.partitions=files", "always"),
    ],
)
def test_a_property_that_contradicts_an_argument_is_refused_naming_both(
    changes: dict[str, Any], key: str, argument: str
) -> None:
    name, _, value = key.partition("=")
    with pytest.raises(InvalidArgument, match="contradicts") as caught:
        plan(properties={name: value}, **changes)
    assert argument in caught.value.message
    assert value in caught.value.message


def test_a_property_that_says_the_same_as_an_argument_changes_nothing() -> None:
    same = {
        "hoodie.datasource.write.recordkey.field": "id , city",
        "hoodie.table.precombine.field": "ts",
        "hoodie.metadata.enable": False,
        "hoodie.bucket.index.num.buckets": 8,
        "hoodie.index.type": "bucket",
    }
    assert plan(record_keys=["id", "city"], properties=same) == plan(record_keys=["id", "city"])


def test_other_properties_are_kept_and_defaults_give_way() -> None:
    spec = plan(
        partition_by="city",
        properties={
            "hoodie.datasource.write.hive_style_partitioning": True,
            "hoodie.datasource.write.partitionpath.urlencode": "true",
            "hoodie.table.name": "mine",
            "hoodie.database.name": "db",
            "hoodie.client.heartbeat.interval_in_ms": 20_000,
            "hoodie.payload.delete.field": "city",
            "hoodie.payload.delete.marker": "D",
        },
    )
    config = spec.config
    assert (config.hive_style, config.url_encode, config.name) == (True, True, "mine")
    assert (config.delete_field, config.delete_marker) == ("city", "D")
    assert spec.properties["hoodie.client.heartbeat.interval_in_ms"] == "20000"
    check_properties(spec.properties, "here")


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"fs.s3a.endpoint": "x"}, "begin with 'hoodie.'"),
        ({7: "x"}, "begin with"),
        ({"hoodie.": "x"}, "begin with"),
        ({"hoodie.a b": "x"}, "begin with"),
        ({"hoodie.datasource.hive_sync.password": "x"}, "secret"),
        ({"hoodie.table.checksum": "1"}, "calculated"),
        ({"hoodie.x": None}, "must be text"),
        ({"hoodie.x": 1.5}, "must be text"),
        ({"hoodie.x": "\ud800"}, "not be read back"),
        ({"hoodie.table.precombine.field": "ts", "hoodie.table.ordering.fields": "day"}, "twice"),
        ({"hoodie.table.payload.class": "com.acme.Mine"}, "Mine"),
        ({"hoodie.table.partial.update.mode": "SOMETIMES"}, "SOMETIMES"),
        ({"hoodie.table.keygenerator.type": "TIMESTAMP"}, "TIMESTAMP"),
        ({"hoodie.bucket.index.hash.field": "city"}, "not in the key"),
        ({"hoodie.bucket.index.partition.expressions": "a,1"}, "each partition"),
        ({"hoodie.payload.delete.field": "city"}, "belong together"),
        ({"hoodie.payload.delete.field": "no", "hoodie.payload.delete.marker": "D"}, "no column"),
        ({"hoodie.table.name": "a/b"}, "name of a table"),
    ],
)
def test_a_property_that_would_make_a_table_nobody_can_use_is_refused(
    properties: dict[int | str, Any], says: str
) -> None:
    with pytest.raises(InvalidArgument, match=says):
        plan(properties=properties)


def test_a_secret_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(InvalidArgument) as caught:
        plan(properties={"hoodie.x.secret": "hunter2"})
    assert "hunter2" not in caught.value.message + repr(caught.value.facts)


@pytest.mark.parametrize("argument", ["record_keys", "ordering_fields", "partition_by"])
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("nosuch", "no column"),
        ("ID", "Did you mean 'id'"),
        ("addr.a", "inside a struct"),
        (["id", "id"], "twice"),
        (["id", "Id"], "twice"),
        ("id,city", "no name"),
        (" id", "no name"),
        ([""], "no name"),
        (7, "must be names"),
        (b"id", "must be names"),
        ([7], "must be names"),
        ({"id"}, "must be names"),
        ("tags", "tags"),
    ],
)
def test_columns_that_cannot_play_their_role_are_refused(argument: str, value: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        plan(**{argument: value})


@pytest.mark.parametrize("argument", ["record_keys", "partition_by"])
@pytest.mark.parametrize("column", ["w", "raw"])
def test_values_whose_text_depends_on_the_writer_are_no_keys(argument: str, column: str) -> None:
    with pytest.raises(InvalidArgument, match="text"):
        plan(**{argument: column})


def test_rows_are_ordered_only_by_what_a_delete_can_carry() -> None:
    wide = pa.schema([("id", pa.int64()), ("d", pa.decimal128(38, 18))])
    with pytest.raises(InvalidArgument, match="15 digits"):
        plan(wide, ordering_fields="d")
    for column in ("w", "price", "day", "city", "ts"):
        assert plan(ordering_fields=column).config.ordering_fields == (column,)


def test_bytes_order_no_rows_since_hudi_fails_on_them(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"'raw' has the type binary.*Nothing was created\. Order by"):
        plan(ordering_fields="raw")
    stated_later = lb.Table.create(tmp_path / "t", None, record_keys="id", ordering_fields="raw")
    with pytest.raises(InvalidArgument, match=r"'raw' has the type binary.*Nothing was written"):
        stated_later.upsert([{"id": 1, "raw": b"x"}])
    assert not stated_later.snapshot().slices


def test_a_table_needs_a_key() -> None:
    with pytest.raises(InvalidArgument, match="record_keys is empty"):
        plan(record_keys=[])


@pytest.mark.parametrize("buckets", [0, -1, True, "8", 8.0, 100_000_001, None])
def test_a_number_of_buckets_that_no_file_id_can_hold_is_refused(buckets: Any) -> None:
    with pytest.raises(InvalidArgument, match="buckets must be"):
        plan(buckets=buckets)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("/data/my trips/", "my_trips"),
        ("s3://b/x%20y", "x_20y"),
        ("/", "table"),
        ("memory://t", "t"),
        ("/d/zür", "zür"),
    ],
)
def test_a_table_is_named_after_its_folder(url: str, name: str) -> None:
    assert plan(url=url).config.name == name


@pytest.mark.parametrize("name", ["a b", "a.b", "x" * 256, 7, "a/b", "a\n"])
def test_names_that_catalogs_do_not_take_are_refused(name: int | str) -> None:
    with pytest.raises(InvalidArgument, match="name of a table"):
        plan(name=name)


def test_an_existing_table_agrees_only_if_it_is_the_one_described() -> None:
    existing = plan().config
    check_agrees(plan("id bigint, ts timestamp", name="other"), existing)
    check_agrees(plan(properties={"hoodie.compact.inline": "false"}), existing)
    for changes, setting in (
        ({"buckets": 4}, "buckets"),
        ({"record_keys": ["id", "city"]}, "record_keys"),
        ({"partition_by": "city"}, "partition_fields"),
        ({"ordering_fields": "day"}, "ordering_fields"),
        ({"shared": True}, "lock_provider"),
        ({"hive_style_partitioning": True}, "hive_style"),
    ):
        with pytest.raises(InvalidArgument, match="exists already") as caught:
            check_agrees(plan(**changes), existing)
        assert caught.value.setting == setting

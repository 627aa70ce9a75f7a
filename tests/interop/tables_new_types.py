# SPDX-License-Identifier: Apache-2.0
"""The types that came with Hudi 1.2: VECTOR and BLOB by SQL; VARIANT by Hudi's Java client, for its SQL needs Spark 4."""

from collections.abc import Iterable
from typing import Any

from tests.interop.tables import ONE_BUCKET, QUIET, Hudi, table
from tests.interop.tables_types import SQL

UPSERTS = {"hoodie.spark.sql.insert.into.operation": "upsert", "hoodie.compact.inline": "false"}
VECTORS = "id int, f vector(3), d vector(2, double), b vector(4, int8), ts bigint, part string"
META = ", ".join(
    f"_hoodie_{name} string" for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
)
REFERENCE = "struct<external_path: string, offset: bigint, length: bigint, managed: boolean>"

# What Spark 4 makes of {"a":1,"b":["x",null,2.5]}, {"a":2,"c":{"d":true}} and "text": metadata and value.
VARIANTS = (
    ("01020001026162", "020200010002110c01030300020309057800200119000000"),
    ("010300010203616364", "020200010002080c02020102000104"),
    ("010000", "1174657874"),
)


@table("VECTOR columns of floats, doubles and bytes: a base file, an Avro log, a compaction, a further log")
def v9_mor_vector(hudi: Hudi) -> None:
    vectors(hudi, SQL | UPSERTS)
    hudi.compact()
    insert(hudi, vector_row(2, "array(0.5f, 0.25f, -0f)", "array(1D, -1D)", "array(1Y, 2Y, 3Y, 4Y)", 30))


@table("VECTOR columns in Parquet log blocks")
def v9_mor_vector_parquet(hudi: Hudi) -> None:
    hudi.set(hoodie__logfile__data__block__format="parquet")
    try:
        vectors(hudi, SQL | UPSERTS)
    finally:
        hudi.spark.conf.unset("hoodie.logfile.data.block.format")


@table("COW, VECTOR columns: by bulk_insert's row writer, and merged by an upsert")
def v9_cow_vector(hudi: Hudi) -> None:
    hudi.create(VECTORS, SQL | UPSERTS | {"type": "cow"}, "part")
    hudi.set(hoodie__spark__sql__insert__into__operation="bulk_insert")
    try:
        insert(hudi, *FIRST, vector_row(4, "array(7f, 7f, 7f)", "null", "null", 10, "q"))
    finally:
        hudi.spark.conf.unset("hoodie.spark.sql.insert.into.operation")
    insert(hudi, *SECOND)


@table(
    "BLOB columns, inline and out of line, on top and in a list: a base file, an Avro log, a compaction, a further log"
)
def v9_mor_blob(hudi: Hudi) -> None:
    hudi.create("id int, c blob, ts bigint, part string", SQL | UPSERTS, "part")
    insert(hudi, f"(1, {inline('hello')}, 10, 'p')", "(2, null, 10, 'p')", f"(3, {inline('')}, 10, 'p')")
    insert(hudi, f"(1, {inline('HELLO')}, 20, 'p')", f"(4, {outside('/a/b', 1, 2)}, 20, 'p')")
    hudi.compact()
    insert(hudi, f"(2, {outside('/c', 'null', 'null')}, 30, 'p')")


@table("an unshredded VARIANT column: a base file and two Avro logs; read by Hudi as a struct, for want of Spark 4")
def v9_mor_variant(hudi: Hudi) -> None:
    hudi.read_as = f"{META}, id int, v struct<metadata: binary, value: binary>, ts bigint, part string"
    schema = variant_schema(hudi)
    start(hudi)
    upsert_records(hudi, schema, [(1, VARIANTS[0], 10), (2, None, 10), (3, VARIANTS[2], 10)])
    upsert_records(hudi, schema, [(1, VARIANTS[1], 20), (4, VARIANTS[0], 20)])
    upsert_records(hudi, schema, [(2, VARIANTS[2], 30)])


def vectors(hudi: Hudi, properties: dict[str, str]) -> None:
    hudi.create(VECTORS, properties, "part")
    insert(hudi, *FIRST)
    insert(hudi, *SECOND)


def insert(hudi: Hudi, *rows: str) -> None:
    hudi.sql(f"insert into {{table}} values {', '.join(rows)}")


def vector_row(key: int, floats: str, doubles: str, numbers: str, ts: int, part: str = "p") -> str:
    return f"({key}, {floats}, {doubles}, {numbers}, {ts}, '{part}')"


FIRST = (
    vector_row(1, "array(1.5f, -2.25f, 0.1f)", "array(0.1D, 2D)", "array(1Y, -128Y, 127Y, 0Y)", 10),
    vector_row(2, "null", "null", "null", 10),
    vector_row(3, "array(0f, 0f, 0f)", "null", "array(9Y, 9Y, 9Y, 9Y)", 10),
)
SECOND = (
    vector_row(1, "array(9.5f, -2.25f, 1.1754944E-38f)", "array(9.1D, 2D)", "array(9Y, -128Y, 127Y, 0Y)", 20),
    vector_row(3, "null", "array(1D, 5E-324D)", "array(0Y, 0Y, 0Y, 0Y)", 5),
    vector_row(5, "array(float('nan'), float('infinity'), 0f)", "array(1D, 1D)", "null", 20),
)


def inline(text: str) -> str:
    return f"named_struct('type', 'INLINE', 'data', cast('{text}' as binary), 'reference', cast(null as {REFERENCE}))"


def outside(path: str, offset: object, length: object) -> str:
    reference = f"'external_path', '{path}', 'offset', {offset}, 'length', {length}, 'managed', false"
    return f"named_struct('type', 'OUT_OF_LINE', 'data', cast(null as binary), 'reference', cast(named_struct({reference}) as {REFERENCE}))"


def variant_schema(hudi: Hudi) -> Any:
    """The schema of the rows, as Hudi's own parser understands it."""
    schemas = hudi.java("org.apache.hudi.common.schema.HoodieSchema")
    fields = (("id", '"int"'), ("v", schemas.createVariant().toString()), ("ts", '"long"'), ("part", '"string"'))
    listed = ",".join(f'{{"name":"{name}","type":["null",{kind}],"default":null}}' for name, kind in fields)
    text = f'{{"type":"record","name":"{hudi.name}_record","namespace":"hoodie.{hudi.name}","fields":[{listed}]}}'
    return schemas.parse(text)


def start(hudi: Hudi) -> None:
    """An empty table, as `HoodieTableMetaClient` makes it."""
    hudi.options = QUIET | ONE_BUCKET | {"hoodie.table.name": hudi.name}
    hudi.options |= {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.table.ordering.fields": "ts"}
    hudi.options |= {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
    }
    hudi.ddl = "id int"
    builder = hudi.java("org.apache.hudi.common.table.HoodieTableMetaClient").newTableBuilder()
    builder.setTableType("MERGE_ON_READ").setTableName(hudi.name).setRecordKeyFields("id").setPartitionFields("part")
    builder.setOrderingFields("ts").setKeyGeneratorClassProp("org.apache.hudi.keygen.SimpleKeyGenerator")
    builder.setRecordMergeMode(hudi.java("org.apache.hudi.common.config.RecordMergeMode").EVENT_TIME_ORDERING)
    builder.setCommitTimezone(hudi.java("org.apache.hudi.common.model.HoodieTimelineTimeZone").UTC)
    settings = hudi.spark.sparkContext._jsc.hadoopConfiguration()
    builder.initTable(hudi.java("org.apache.hudi.storage.hadoop.HadoopStorageConfiguration")(settings), hudi.path)


def upsert_records(hudi: Hudi, schema: Any, rows: Iterable[tuple[int, tuple[str, str] | None, int]]) -> None:
    """One commit by `SparkRDDWriteClient`, with Avro records."""
    settings = hudi.java("java.util.HashMap")()
    for key, value in hudi.options.items():
        settings.put(key, value)
    session = hudi.spark.sparkContext
    client = hudi.java("org.apache.hudi.DataSourceUtils").createHoodieClient(
        session._jsc, schema.toString(), hudi.path, hudi.name, settings
    )
    try:
        records = hudi.java("java.util.ArrayList")()
        for row in rows:
            records.add(record(hudi, schema.toAvroSchema(), *row))
        instant = client.startCommit()
        if not client.commit(instant, client.upsert(session._jsc.parallelize(records, 1), instant)):
            raise AssertionError("Hudi did not commit")
    finally:
        client.close()


def record(hudi: Hudi, schema: Any, key: int, variant: tuple[str, str] | None, ts: int) -> Any:
    record_class = hudi.java("org.apache.avro.generic.GenericData").Record
    row = record_class(schema)
    row.put("id", key)
    if variant is not None:
        value = record_class(schema.getField("v").schema().getTypes().get(1))
        for name, data in zip(("metadata", "value"), variant, strict=True):
            value.put(name, hudi.java("java.nio.ByteBuffer").wrap(bytes.fromhex(data)))
        row.put("v", value)
    row.put("ts", 10**10 + ts)  # smaller numbers become ints on their way to Java
    row.put("part", "p")
    own = hudi.java("org.apache.hudi.common.model.HoodieKey")(str(key), "p")
    return hudi.java("org.apache.hudi.common.model.HoodieAvroIndexedRecord")(own, row)

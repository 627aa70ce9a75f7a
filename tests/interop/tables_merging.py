# SPDX-License-Identifier: Apache-2.0
"""Which version of a row wins: ordering values, deletes, partial updates."""

import datetime as dt

from pyspark.sql import DataFrame

from tests.interop.tables import NBCC, ONE_BUCKET, Hudi, table

ROW = "id int, name string, price double, ts long, part string"
PARTIAL = {
    "type": "mor",
    "primaryKey": "id",
    "orderingFields": "ts",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.metadata.enable": "false",
    "hoodie.table.timeline.timezone": "UTC",
}
WIDE = "id int, a string, b string, c string, d string, ts long, part string"


@table("MERGE INTO with some columns, sequences of partial blocks in every order of their ordering values")
def v9_mor_partial_fold(hudi: Hudi) -> None:
    partial_sequences(hudi)


@table("the same partial sequences, then a compaction, then one more partial update")
def v9_mor_partial_compacted(hudi: Hudi) -> None:
    partial_sequences(hudi)
    hudi.options = {"hoodie.metadata.enable": "false"}
    hudi.compact()
    partial(hudi, "a", [(1, "9", 60), (2, "9", 5)])


def sql_table(hudi: Hudi, columns: str, properties: dict[str, str] | None = None) -> None:
    hudi.set(hoodie__spark__sql__insert__into__operation="upsert", hoodie__compact__inline="false")
    hudi.create(columns, PARTIAL | (properties or {}), "part")


# Per key the ordering values of three partial updates, of columns a+b, b+c, c+d, over a base row with ts 10.
SEQUENCES = {
    1: (20, 30, 40),
    2: (40, 30, 20),
    3: (20, 40, 30),
    4: (40, 20, 30),
    5: (30, 20, 40),
    6: (5, 5, 5),
    7: (20, 20, 20),
    8: (5, 20, 5),
    9: (30, 40, 20),
}


def partial_sequences(hudi: Hudi) -> None:
    sql_table(hudi, WIDE)
    hudi.frame([(key, "a0", "b0", "c0", "d0", 10, "p") for key in [*SEQUENCES, 10]], WIDE).createOrReplaceTempView(
        "source"
    )
    hudi.sql("insert into {table} select * from source")
    for step, columns in enumerate(("ab", "bc", "cd")):
        partial(hudi, columns, [(key, f"{step + 1}", times[step]) for key, times in SEQUENCES.items()])


def partial(hudi: Hudi, columns: str, rows: list[tuple[int, str, int]]) -> None:
    """Sets each one-letter column to its letter and the given text."""
    ddl = "id int, " + ", ".join(f"{one} string" for one in columns) + ", ts long, part string"
    source = [(key, *(f"{one}{text}" for one in columns), when, "p") for key, text, when in rows]
    hudi.frame(source, ddl).createOrReplaceTempView("source")
    assigned = ", ".join(f"t.{one} = s.{one}" for one in [*columns, "ts"])
    hudi.sql(
        f"merge into {{table}} t using source s on t.id = s.id and t.part = s.part when matched then update set {assigned}",
    )


# The ordering column's SQL type and three rising values of it.
ORDERINGS = {
    "int": ("int", "10", "20", "30"),
    "string": ("string", "'10'", "'20'", "'3'"),
    "decimal": ("decimal(12,3)", "-1.5", "99.250", "100"),
    "timestamp": ("timestamp", "'2024-01-01 00:00:00.000001'", "'2024-01-01 00:00:00.000002'", "'2025-01-01 00:00:00'"),
}
ORDERED = "id int, name string, o {kind}, part string, _hoodie_is_deleted boolean"


def order_by(kind: str) -> None:
    def definition(hudi: Hudi) -> None:
        sql_type, low, middle, high = ORDERINGS[kind]
        hudi.define(ORDERED.format(kind=sql_type), ordering="o", options=NBCC)
        ordered(hudi, sql_type, low, middle, high)

    definition.__name__ = f"v9_mor_order_{kind}"
    table(
        f"event time by a {kind} column: newer, older, equal; deletes that are newer, older, equal; then compaction and once more"
    )(definition)


def ordered(hudi: Hudi, sql_type: str, low: str, middle: str, high: str) -> None:
    def rows(name: str, values: dict[int, str], deleted: bool = False) -> DataFrame:
        listed = ", ".join(
            f"({key}, '{name}', cast({value} as {sql_type}), 'p', {str(deleted).lower()})"
            for key, value in values.items()
        )
        return hudi.spark.sql(f"select * from values {listed} as t(id, name, o, part, _hoodie_is_deleted)").coalesce(1)

    hudi.upsert(rows("base", dict.fromkeys(range(1, 10), middle)))
    hudi.upsert(
        rows("change", {1: low, 2: middle, 3: high}).union(rows("gone", {4: low, 5: middle, 6: high}, deleted=True))
    )
    hudi.upsert(rows("again", {5: low, 6: middle}).union(rows("gone", {7: high, 8: low}, deleted=True)))
    hudi.compact()
    late = {1: low, 2: middle, 6: low, 7: middle, 9: high}
    hudi.upsert(rows("late", late).union(rows("gone", {3: middle, 8: middle}, deleted=True)))


for _kind in ORDERINGS:
    order_by(_kind)


@table(
    "event time by a date column: newer, older, equal, delete operation, compaction (Hudi cannot write a delete with a date in it)"
)
def v9_mor_order_date(hudi: Hudi) -> None:
    days = {name: dt.date(2024, 1, day) for name, day in (("low", 1), ("middle", 2), ("high", 3))}
    hudi.define("id int, name string, o date, part string", ordering="o", options=NBCC)
    hudi.upsert([(key, "base", days["middle"], "p") for key in range(1, 6)])
    hudi.upsert([(key, name, day, "p") for key, (name, day) in enumerate(days.items(), 1)])
    hudi.delete([(4, "", days["low"], "p")])
    hudi.compact()
    hudi.upsert([(1, "late", days["low"], "p"), (2, "late", days["middle"], "p"), (4, "back", days["low"], "p")])


TWO = "id int, name string, o1 int, o2 string, part string, _hoodie_is_deleted boolean"


@table("event time by two columns, the first int, the second text: each may decide, deletes too, then compaction")
def v9_mor_order_two_fields(hudi: Hudi) -> None:
    hudi.define(TWO, ordering="o1,o2", options=NBCC)
    hudi.upsert([(key, "base", 5, "m", "p", False) for key in range(1, 10)])
    hudi.upsert(
        [
            (1, "first newer", 6, "a", "p", False),
            (2, "first older", 4, "z", "p", False),
            (3, "second newer", 5, "n", "p", False),
        ]
    )
    hudi.upsert([(4, "second older", 5, "l", "p", False), (5, "equal", 5, "m", "p", False), (6, "", 5, "z", "p", True)])
    hudi.upsert([(7, "", 5, "a", "p", True), (8, "", 4, "z", "p", True), (6, "back", 6, "a", "p", False)])
    hudi.delete([(9, "", 0, "", "p", False)])
    hudi.compact()
    hudi.upsert([(1, "late older", 6, "A", "p", False), (9, "back", 1, "a", "p", False), (3, "", 5, "n", "p", True)])


PLAIN = "id int, name string, ts long, part string, _hoodie_is_deleted boolean"


@table("commit time ordering with an ordering column that is ignored: updates, deletes, inserts again, compaction")
def v9_mor_commit_time(hudi: Hudi) -> None:
    hudi.define(PLAIN, options=NBCC | {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"})
    commit_time(hudi)


@table("commit time ordering by default, for no ordering column is set: updates, deletes, inserts again, compaction")
def v9_mor_no_ordering(hudi: Hudi) -> None:
    hudi.define(PLAIN, ordering="", options=ONE_BUCKET)
    commit_time(hudi)


def commit_time(hudi: Hudi) -> None:
    hudi.upsert([(key, "base", 50, "p", False) for key in range(1, 8)])
    hudi.upsert(
        [(1, "older", 10, "p", False), (2, "newer", 90, "p", False), (3, "", 10, "p", True), (4, "", 90, "p", True)]
    )
    hudi.delete([(5, "", 10, "p", False)])
    hudi.upsert(
        [(3, "back", 5, "p", False), (4, "back", 5, "p", False), (5, "back", 5, "p", False), (6, "", 0, "p", True)]
    )
    hudi.compact()
    hudi.upsert([(1, "", 1, "p", True), (6, "back", 1, "p", False), (7, "last", 1, "p", False)])


MARKED = "id int, name string, ts long, op string, part string"


@table("rows whose column op says D are deletes: newer, older and equal ordering values, inserted again, compaction")
def v9_mor_delete_marker(hudi: Hudi) -> None:
    marker = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    hudi.define(MARKED, options=ONE_BUCKET | marker | {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"})
    hudi.upsert([(key, "base", 10, "I", "p") for key in range(1, 8)])
    hudi.upsert(
        [
            (1, "u", 20, "U", "p"),
            (2, "", 20, "D", "p"),
            (3, "", 5, "D", "p"),
            (4, "", 10, "D", "p"),
            (5, "null op", 11, None, "p"),
        ]
    )
    hudi.upsert([(2, "back", 30, "I", "p"), (4, "stale", 5, "I", "p"), (6, "small d", 12, "d", "p")])
    hudi.compact()
    hudi.upsert([(7, "", 40, "D", "p"), (1, "", 19, "D", "p")])


@table("the first write of a table holds rows that are deletes already: bulk_insert, insert and upsert into new groups")
def v9_mor_born_deleted(hudi: Hudi) -> None:
    hudi.define(PLAIN, options=ONE_BUCKET)
    hudi.write("bulk_insert", [(1, "live", 10, "p", False), (2, "dead", 10, "p", True), (3, "null", 10, "p", None)])
    hudi.write("insert", [(4, "live", 10, "q", False), (5, "dead", 10, "q", True)])
    hudi.upsert([(6, "live", 10, "r", False), (7, "dead", 10, "r", True)])
    hudi.upsert([(2, "stale", 5, "p", False), (5, "stale", 5, "q", False), (7, "stale", 5, "r", False)])


@table(
    "null values in an int ordering column, in base rows and in updates: Hudi takes them for 0 (in a long column it fails)"
)
def v9_mor_order_null(hudi: Hudi) -> None:
    hudi.define("id int, name string, o int, part string", ordering="o", options=NBCC)
    hudi.upsert(
        [
            (1, "null", None, "p"),
            (2, "ten", 10, "p"),
            (3, "null", None, "p"),
            (4, "zero", 0, "p"),
            (5, "minus", -5, "p"),
            (6, "null", None, "p"),
        ]
    )
    hudi.upsert(
        [
            (1, "ten", 10, "p"),
            (2, "null", None, "p"),
            (3, "null again", None, "p"),
            (4, "null", None, "p"),
            (5, "null", None, "p"),
            (6, "minus", -5, "p"),
        ]
    )
    hudi.compact()
    hudi.upsert([(1, "null late", None, "p"), (3, "minus", -5, "p"), (5, "minus", -5, "p"), (4, "zero", 0, "p")])


PAYLOAD = "hoodie.datasource.write.payload.class"
PATCH = "id int, a string, b int, c string, ts long, part string"


@table(
    "IGNORE_DEFAULTS by event time (PartialUpdateAvroPayload): nulls keep the other row's value, in both directions of time"
)
def v9_mor_ignore_defaults_event_time(hudi: Hudi) -> None:
    hudi.define(PATCH, options=ONE_BUCKET | {PAYLOAD: "org.apache.hudi.common.model.PartialUpdateAvroPayload"})
    patches(hudi)


@table("IGNORE_DEFAULTS by commit time (OverwriteNonDefaultsWithLatestAvroPayload): nulls keep the older row's value")
def v9_mor_ignore_defaults_commit_time(hudi: Hudi) -> None:
    hudi.define(
        PATCH, options=ONE_BUCKET | {PAYLOAD: "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload"}
    )
    patches(hudi)


def patches(hudi: Hudi) -> None:
    hudi.upsert([(key, "a0", None, "c0", 10, "p") for key in range(1, 8)])
    hudi.upsert(
        [
            (1, "a1", None, None, 20, "p"),
            (2, None, 1, None, 5, "p"),
            (3, None, 1, "c1", 10, "p"),
            (4, None, None, None, 30, "p"),
        ]
    )
    hudi.upsert(
        [
            (1, None, 2, "c2", 15, "p"),
            (2, "a2", None, None, 30, "p"),
            (3, "a2", 2, None, 5, "p"),
            (5, None, 2, None, 40, "p"),
        ]
    )
    hudi.upsert([(5, "a3", 3, None, 30, "p"), (6, None, None, "c3", 5, "p"), (1, None, 3, None, 30, "p")])
    hudi.compact()
    hudi.upsert([(1, None, None, "c4", 50, "p"), (2, None, 4, None, 1, "p"), (7, None, 4, None, 5, "p")])


DEBEZIUM = "id int, a string, b int, c string, _event_lsn long, _change_operation_type string, part string"
UNAVAILABLE = "__debezium_unavailable_value"


@table(
    "FILL_UNAVAILABLE (PostgresDebeziumAvroPayload): the marker text keeps the other row's value; deletes by operation type"
)
def v9_mor_fill_unavailable(hudi: Hudi) -> None:
    payload = "org.apache.hudi.common.model.debezium.PostgresDebeziumAvroPayload"
    hudi.define(DEBEZIUM, ordering="_event_lsn", options=ONE_BUCKET | {PAYLOAD: payload})
    hudi.upsert([(key, "a0", 0, "c0", 10, "c", "p") for key in range(1, 8)])
    hudi.upsert(
        [
            (1, UNAVAILABLE, 1, "c1", 20, "u", "p"),
            (2, UNAVAILABLE, 1, "c1", 5, "u", "p"),
            (3, "a1", None, UNAVAILABLE, 20, "u", "p"),
            (4, "", 0, "", 20, "d", "p"),
        ]
    )
    hudi.upsert(
        [
            (1, UNAVAILABLE, 2, UNAVAILABLE, 30, "u", "p"),
            (3, UNAVAILABLE, 2, "c2", 15, "u", "p"),
            (4, UNAVAILABLE, 2, "c2", 30, "u", "p"),
            (5, "", 0, "", 5, "d", "p"),
        ]
    )
    hudi.compact()
    hudi.upsert([(6, UNAVAILABLE, 3, UNAVAILABLE, 40, "u", "p"), (7, "a3", 3, UNAVAILABLE, 5, "u", "p")])


@table("MySQL Debezium payload: two-part event sequence as the ordering, deletes by operation type")
def v9_mor_mysql_debezium(hudi: Hudi) -> None:
    payload = "org.apache.hudi.common.model.debezium.MySqlDebeziumAvroPayload"
    ddl = "id int, a string, _event_bin_file string, _event_pos long, _event_seq string, _change_operation_type string, part string"
    hudi.define(ddl, ordering="_event_bin_file,_event_pos", options=ONE_BUCKET | {PAYLOAD: payload})
    hudi.upsert([(key, "a0", "bin.000002", 100, "bin.000002.100", "c", "p") for key in range(1, 6)])
    hudi.upsert(
        [
            (1, "a1", "bin.000003", 5, "bin.000003.5", "u", "p"),
            (2, "a1", "bin.000001", 999, "bin.000001.999", "u", "p"),
            (3, "", "bin.000002", 200, "x", "d", "p"),
        ]
    )


@table("AWS DMS payload: rows whose Op is D are deletes, by commit time")
def v9_mor_aws_dms(hudi: Hudi) -> None:
    hudi.define(
        "id int, a string, Op string, ts long, part string",
        options=ONE_BUCKET | {PAYLOAD: "org.apache.hudi.common.model.AWSDmsAvroPayload"},
    )
    hudi.upsert([(key, "a0", "I", 10, "p") for key in range(1, 6)])
    hudi.upsert([(1, "a1", "U", 5, "p"), (2, "", "D", 5, "p"), (3, "", "D", 20, "p")])
    hudi.upsert([(2, "back", "I", 1, "p")])

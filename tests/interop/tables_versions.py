# SPDX-License-Identifier: Apache-2.0
"""Tables of the older versions 8 and 6, as Hudi 1.2.0 still writes them."""

from tests.interop.tables import ONE_BUCKET, Hudi, table
from tests.interop.tables_merging import WIDE, partial, sql_table
from tests.interop.tables_services import ROW, SIMPLE, rows

OLD = {"hoodie.write.auto.upgrade": "false"}
EIGHT = OLD | {"hoodie.write.table.version": "8"}
SIX = OLD | {
    "hoodie.write.table.version": "6",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}
PRECOMBINE = {"hoodie.datasource.write.precombine.field": "ts"}


@table("version 8: deletes of each kind, an older update, compaction, a failed write rolled back, a last update")
def v8_mor_deletes(hudi: Hudi) -> None:
    hudi.define(ROW, options=ONE_BUCKET | EIGHT | PRECOMBINE)
    old_life(hudi)


@table(
    "version 6: deletes of each kind, an older update, compaction, a failed write rolled back by a command block, a last update"
)
def v6_mor_deletes(hudi: Hudi) -> None:
    hudi.define(ROW, options=ONE_BUCKET | SIX | PRECOMBINE)
    old_life(hudi)


def old_life(hudi: Hudi) -> None:
    hudi.upsert(rows("base", dict.fromkeys(range(1, 9), 10)))
    hudi.upsert(rows("u", {1: 20, 2: 5, 3: 10}) + rows("", {4: 20}, deleted=True) + rows("", {5: 5}, deleted=True))
    hudi.delete(rows("", {6: 0}))
    hudi.compact()
    hudi.upsert(rows("logs", {3: 15}))
    hudi.fail(rows("dead", {1: 90, 7: 90, 99: 90}))
    hudi.keep("snapshot_with_failed_write")
    hudi.upsert(rows("late", {1: 15, 2: 30, 6: 1, 7: 10}))


@table("version 6: a failed write is still pending; its blocks lie in a log file that a completed write shares")
def v6_mor_pending(hudi: Hudi) -> None:
    hudi.define(ROW, options=ONE_BUCKET | SIX | PRECOMBINE)
    hudi.upsert(rows("base", dict.fromkeys(range(1, 5), 10)))
    hudi.upsert(rows("u", {1: 20}))
    hudi.fail(rows("dead", {1: 90, 2: 90}))


@table("version 6 by commit time (OverwriteWithLatestAvroPayload): older values win when they come later")
def v6_mor_commit_time(hudi: Hudi) -> None:
    latest = {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"}
    hudi.define(ROW, options=ONE_BUCKET | SIX | PRECOMBINE | latest)
    hudi.upsert(rows("base", dict.fromkeys(range(1, 5), 10)))
    hudi.upsert(rows("older", {1: 5}) + rows("", {2: 5}, deleted=True))
    hudi.delete(rows("", {3: 0}))
    hudi.upsert(rows("back", {3: 1}))


@table("version 6, COW: upserts, a delete, insert_overwrite of a partition")
def v6_cow_overwrite(hudi: Hudi) -> None:
    hudi.define(ROW, mor=False, options=SIMPLE | SIX | PRECOMBINE)
    hudi.upsert(rows("base", {1: 10, 2: 10}) + rows("base", {3: 10}, "q"))
    hudi.upsert(rows("u", {1: 20, 2: 5}))
    hudi.delete(rows("", {2: 0}))
    hudi.write("insert_overwrite", rows("over", {9: 1}, "q"))


@table("version 6: small archival and cleaning settings, inline compaction; the older instants live in the archive")
def v6_mor_archived(hudi: Hudi) -> None:
    small = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.commits.archival.batch": "1",
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "3",
    }
    hudi.define(ROW, options=ONE_BUCKET | SIX | PRECOMBINE)
    hudi.upsert(rows("base", dict.fromkeys(range(1, 7), 10)))
    for step in range(1, 8):
        hudi.upsert(rows(f"u{step}", {step % 6 + 1: 10 + step}), options=small)


@table("version 8, SQL-made: MERGE INTO partial updates")
def v8_mor_partial(hudi: Hudi) -> None:
    hudi.spark.conf.set("hoodie.write.auto.upgrade", "false")
    hudi.spark.conf.set("hoodie.write.table.version", "8")
    try:
        sql_table(hudi, WIDE, {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"})
        hudi.frame([(key, "a0", "b0", "c0", "d0", 10, "p") for key in range(1, 5)], WIDE).createOrReplaceTempView(
            "source"
        )
        hudi.sql("insert into {table} select * from source")
        partial(hudi, "ab", [(1, "1", 20), (2, "1", 40), (3, "1", 5)])
        partial(hudi, "bc", [(1, "2", 30), (2, "2", 30), (3, "2", 6)])
    finally:
        hudi.spark.conf.unset("hoodie.write.auto.upgrade")
        hudi.spark.conf.unset("hoodie.write.table.version")


@table("written as version 6, then upgraded to version 9 by a newer writer, and updated again")
def v9_mor_upgraded_from_6(hudi: Hudi) -> None:
    hudi.define(
        ROW,
        options=ONE_BUCKET
        | PRECOMBINE
        | {"hoodie.datasource.write.payload.class": SIX["hoodie.datasource.write.payload.class"]},
    )
    hudi.upsert(rows("base", dict.fromkeys(range(1, 5), 10)), options=SIX)
    hudi.upsert(rows("u", {1: 20, 2: 5}), options=SIX)
    hudi.upsert(rows("after", {3: 20, 4: 5}))

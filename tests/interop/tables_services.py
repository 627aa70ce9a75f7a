# SPDX-License-Identifier: Apache-2.0
"""What table services and overlapping writers leave behind."""

from functools import partial
from typing import Any

from tests.interop import answers
from tests.interop.tables import NBCC, ONE_BUCKET, Hudi, table
from tests.interop.tables_merging import WIDE, sql_table

ROW = "id int, name string, ts bigint, part string, _hoodie_is_deleted boolean"
BLOOM = {"hoodie.index.type": "BLOOM"}
SIMPLE = {"hoodie.index.type": "SIMPLE"}


def rows(name: str, values: dict[int, int], part: str = "p", deleted: bool = False) -> list[tuple[Any, ...]]:
    return [(key, name, ts, part, deleted) for key, ts in values.items()]


@table(
    "NBCC: a slow writer begins before and ends after a fast one and a compaction plan; newer, equal and older values; a delete of each"
)
def v9_mor_late_writer(hudi: Hudi) -> None:
    hudi.define(ROW, options=NBCC)
    late_writer(hudi)


@table("the same late writer under commit time ordering: the answer may change when the compaction runs")
def v9_mor_late_writer_commit_time(hudi: Hudi) -> None:
    hudi.define(ROW, options=NBCC | {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"})
    late_writer(hudi)


def late_writer(hudi: Hudi) -> None:
    hudi.upsert(rows("base", dict.fromkeys(range(1, 9), 10)))
    late = rows("slow", {1: 40, 2: 30, 3: 20, 4: 50, 9: 5}) + rows("slow gone", {5: 40, 6: 30, 7: 20}, deleted=True)
    slow = hudi.slow(late)
    hudi.upsert(rows("fast", dict.fromkeys(range(1, 8), 30)) + rows("fast gone", {8: 30}, deleted=True))
    hudi.plan_compaction()
    hudi.keep("snapshot_while_slow")
    slow.finish()
    hudi.keep("snapshot_before_compaction")
    hudi.call("run_compaction", op="run")
    hudi.upsert(rows("last", {1: 35, 9: 5, 8: 20}))


@table("NBCC: two slow writers cross two compactions; the first completes between the plans, the second after both")
def v9_mor_late_writers_two_compactions(hudi: Hudi) -> None:
    hudi.define(ROW, options=NBCC)
    hudi.upsert(rows("base", dict.fromkeys(range(1, 7), 10)))
    one = hudi.slow(rows("one", {1: 20, 2: 30, 3: 40}))
    two = hudi.slow(rows("two", {2: 20, 3: 40, 4: 15, 5: 9}))
    hudi.upsert(rows("fast", {1: 20, 4: 20, 6: 20}))
    hudi.compact()
    one.finish()
    hudi.compact()
    hudi.keep("snapshot_before_two")
    two.finish()


@table(
    "a first write into an empty table is pending and dead; another one is completed after it (Hudi hides the group)"
)
def v9_mor_hidden_group(hudi: Hudi) -> None:
    hudi.define(ROW, options=NBCC)
    hudi.upsert(rows("seen", {1: 10}, "q"))
    hudi.fail(rows("dead", {1: 50, 2: 50}))
    hudi.upsert(rows("live", {1: 10, 3: 10}))


@table("log compaction twice, the second over the first's output, with deletes of each kind, then compaction pending")
def v9_mor_log_compaction_chain(hudi: Hudi) -> None:
    hudi.define(ROW, options=ONE_BUCKET)
    hudi.upsert(rows("base", dict.fromkeys(range(1, 9), 10)))
    hudi.upsert(rows("u1", {1: 20, 2: 20, 3: 5}) + rows("", {4: 20}, deleted=True))
    hudi.delete(rows("", {5: 0}))
    hudi.upsert(rows("u1b", {2: 20, 7: 20}))
    hudi.log_compact()
    hudi.upsert(rows("u2a", {7: 25}))
    hudi.upsert(rows("u2", {1: 15, 2: 30, 4: 15, 5: 1}) + rows("", {6: 5}, deleted=True))
    hudi.log_compact()
    hudi.upsert(rows("u3", {4: 30, 6: 8}))


@table("bloom index, MOR: updates with record positions, deletes, compaction, an update by Parquet blocks")
def v9_mor_bloom_positions(hudi: Hudi) -> None:
    positions(hudi, BLOOM)


def positions(hudi: Hudi, index: dict[str, str]) -> None:
    hudi.define(ROW, options=index | {"hoodie.write.record.positions": "true"})
    hudi.write("insert", rows("base", dict.fromkeys(range(1, 9), 10)))
    hudi.upsert(rows("u", {2: 20, 3: 5}) + rows("", {4: 20}, deleted=True))
    hudi.delete(rows("", {6: 0}))
    hudi.compact()
    hudi.upsert(rows("late", {1: 30, 6: 1}), options={"hoodie.logfile.data.block.format": "parquet"})


@table(
    "MOR: insert_overwrite of one partition, updates after it, delete_partition of another, insert_overwrite_table at last but one"
)
def v9_mor_overwrite(hudi: Hudi) -> None:
    hudi.define(ROW, options=SIMPLE)
    hudi.upsert(rows("base", {1: 10, 2: 10}, "p") + rows("base", {3: 10, 4: 10}, "q") + rows("base", {5: 10}, "r"))
    hudi.upsert(rows("u", {1: 20}, "p") + rows("u", {3: 20}, "q"))
    hudi.write("insert_overwrite", rows("over", {1: 5, 6: 5}, "p"))
    hudi.upsert(rows("after", {6: 10}, "p") + rows("stale", {1: 1}, "p"))
    hudi.write("delete_partition", rows("", {0: 0}, "q"), options={"hoodie.datasource.write.partitions.to.delete": "q"})


@table("COW: upsert, delete, insert_overwrite_table, upsert, delete_partition, and the old file groups still there")
def v9_cow_overwrite(hudi: Hudi) -> None:
    hudi.define(ROW, mor=False, options=SIMPLE)
    hudi.upsert(rows("base", {1: 10, 2: 10}, "p") + rows("base", {3: 10}, "q"))
    hudi.delete(rows("", {2: 0}))
    hudi.write("insert_overwrite_table", rows("over", {1: 5, 7: 5}, "p") + rows("over", {8: 5}, "r"))
    hudi.upsert(rows("after", {7: 10}, "p"))
    hudi.write("delete_partition", rows("", {0: 0}, "r"), options={"hoodie.datasource.write.partitions.to.delete": "r"})


@table(
    "COW: small files clustered by a sort column, then an upsert into the new groups; one more clustering is planned only"
)
def v9_cow_clustering(hudi: Hudi) -> None:
    hudi.define(ROW, mor=False, options=BLOOM | {"hoodie.parquet.small.file.limit": "0"})
    hudi.write("insert", rows("base", {3: 10, 1: 10}))
    hudi.write("insert", rows("more", {4: 10, 2: 10}))
    hudi.call("run_clustering", op="scheduleAndExecute", order="ts")
    hudi.upsert(rows("after", {1: 20, 5: 10}))
    hudi.call("run_clustering", op="schedule")


@table("MOR: log files under a clustering plan that is pending, then completed clustering and updates after it")
def v9_mor_clustering_logs(hudi: Hudi) -> None:
    hudi.define(ROW, options=BLOOM | {"hoodie.parquet.small.file.limit": "0"})
    hudi.write("insert", rows("base", {1: 10, 2: 10}))
    hudi.write("insert", rows("more", {3: 10, 4: 10}))
    hudi.upsert(rows("u", {1: 20}) + rows("", {3: 20}, deleted=True))
    hudi.call("run_clustering", op="scheduleAndExecute")
    hudi.upsert(rows("after", {1: 30, 2: 5}))


@table("savepoint, later commits with compaction, restore to the savepoint, and one more commit")
def v9_mor_restore(hudi: Hudi) -> None:
    hudi.define(ROW, options=ONE_BUCKET)
    hudi.upsert(rows("base", {1: 10, 2: 10}))
    hudi.upsert(rows("u", {1: 20}))
    pinned = latest(hudi)
    hudi.sql(f"call create_savepoint(path => '{{path}}', commit_time => '{pinned}')")
    hudi.upsert(rows("undone", {2: 30, 3: 30}))
    hudi.compact()
    hudi.upsert(rows("undone too", {1: 40}))
    hudi.keep("snapshot_before_restore")
    hudi.sql(f"call rollback_to_savepoint(path => '{{path}}', instant_time => '{pinned}')")
    hudi.upsert(rows("after", {2: 20}))


def latest(hudi: Hudi) -> str:
    return answers.completed(hudi.path)[-1][0]


@table("MOR: cleaned and archived by tiny settings while compactions go on; most history is gone")
def v9_mor_cleaned_archived(hudi: Hudi) -> None:
    small = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.commits.archival.batch": "1",
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "2",
    }
    hudi.define(ROW, options=ONE_BUCKET)
    hudi.upsert(rows("base", dict.fromkeys(range(1, 7), 10)))
    for step in range(1, 8):
        hudi.upsert(
            rows(f"u{step}", {step % 6 + 1: 10 + step}) + rows("", {(step + 3) % 6 + 1: 9 + step}, deleted=True),
            options=small,
        )


@table("metadata table with files and column_stats, MOR, not partitioned, an update")
def v9_mor_metadata_default(hudi: Hudi) -> None:
    small = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.column.list": "id"}
    hudi.define("id int, name string, ts bigint", partition="", options=ONE_BUCKET | small)
    hudi.upsert([(1, "base", 10), (2, "base", 10)])
    hudi.upsert([(1, "u", 20)])


@table("bulk_insert only, no update ever, two partitions, two files in one")
def v9_mor_bulk_insert(hudi: Hudi) -> None:
    hudi.define(ROW, options=SIMPLE)
    hudi.write("bulk_insert", rows("one", {1: 10, 2: 10}) + rows("one", {3: 10}, "q"))
    hudi.write("bulk_insert", rows("two", {1: 10, 4: 10}))


@table("made by SQL, never written")
def v9_mor_empty(hudi: Hudi) -> None:
    sql_table(hudi, WIDE)


@table("a commit with rows between two commits without any")
def v9_cow_empty_commit(hudi: Hudi) -> None:
    hudi.define(ROW, mor=False, options=SIMPLE | {"hoodie.allow.empty.commit": "true"})
    hudi.upsert([])
    hudi.upsert(rows("base", {1: 10, 2: 10}))
    hudi.delete(rows("", {1: 0, 2: 0, 9: 0}))
    hudi.upsert([])


CDC = {"hoodie.table.cdc.enabled": "true"}


@table("CDC on a MOR table: inserts, updates, deletes of each kind, compaction; Hudi's change rows after each time")
def v9_mor_cdc(hudi: Hudi) -> None:
    hudi.define(ROW, options=ONE_BUCKET | CDC)
    changes(hudi)


@table("CDC on a COW table that keeps operation and key only")
def v9_cow_cdc_keys_only(hudi: Hudi) -> None:
    hudi.define(ROW, mor=False, options=SIMPLE | CDC | {"hoodie.table.cdc.supplemental.logging.mode": "OP_KEY_ONLY"})
    changes(hudi, compact=False)


def changes(hudi: Hudi, *, compact: bool = True) -> None:
    hudi.upsert(rows("base", {1: 10, 2: 10, 3: 10}))
    hudi.upsert(rows("u", {1: 20, 2: 5, 4: 10}) + rows("", {3: 20}, deleted=True))
    if compact:
        hudi.compact()
    hudi.delete(rows("", {1: 0}))
    hudi.upsert(rows("back", {1: 1}))
    hudi.extras["cdc_after"] = {
        time: answers.answer(partial(answers.rows_of, hudi.spark, hudi.path, "cdc", answers.begin(time)))
        for time in ["000", *(one[1] for one in answers.completed(hudi.path))]
    }

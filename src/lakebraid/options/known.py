# SPDX-License-Identifier: Apache-2.0
"""The table: every option that is known, by Hudi's names. docs/options.md is made from it.

Names are compared without regard to case, as Spark does. The first row that fits counts: exact names come before
patterns. Services of a table follow its properties, so what sets them is kept there when a write creates the table.
"""

from __future__ import annotations

from typing import Final

from lakebraid.options.concurrent import CONCURRENT_OPTIONS
from lakebraid.options.option import Option, done, read, refused, tuning

_KEPT: Final = "kept in the table that this write creates; its services go by it"
_SERVICE: Final = "services run beside the writers: `lakebraid services`, `t.services.run()` or hoodie.compact.inline"
_PLACED: Final = "where rows go and how many tasks there are is decided by their number and size"

WRITE_OPTIONS: Final[tuple[Option, ...]] = (
    *CONCURRENT_OPTIONS,
    done(
        "hoodie.datasource.write.operation",
        "which write it is; upsert if nothing is said",
        values=(
            "upsert",
            "insert",
            "bulk_insert",
            "delete",
            "insert_overwrite",
            "insert_overwrite_table",
            "delete_partition",
        ),
    ),
    done("hoodie.table.name", "the name of a table that this write creates", "hoodie.datasource.write.table.name"),
    done(
        "hoodie.datasource.write.recordkey.field",
        "the key columns; a table without them is not created",
        "hoodie.table.recordkey.fields",
    ),
    done(
        "hoodie.datasource.write.precombine.field",
        "the ordering columns: of equal keys the greatest wins; without them the last writer does",
        "hoodie.table.precombine.field",
        "hoodie.table.ordering.fields",
        "hoodie.payload.ordering.field",
    ),
    done(
        "hoodie.datasource.write.partitionpath.field",
        "the partition columns",
        "hoodie.table.partition.fields",
    ),
    done(
        "hoodie.datasource.write.table.type",
        "merge_on_read if nothing is said (Hudi: copy_on_write)",
        "hoodie.table.type",
        "hoodie.datasource.write.storage.type",
        values=("merge_on_read", "copy_on_write", "mor", "cow"),
    ),
    done("hoodie.index.type", "bucket if nothing is said", values=("bucket", "simple")),
    done("hoodie.bucket.index.num.buckets", "buckets in each partition; 8 if nothing is said (Hudi: 256)"),
    done("hoodie.index.bucket.engine", "simple buckets", values=("simple",)),
    done("hoodie.bucket.index.hash.field", "must be key columns; kept in the table", values=()),
    done(
        "hoodie.datasource.write.keygenerator.type",
        "checked: keys and partitions follow from their columns",
        "hoodie.table.keygenerator.type",
        values=("simple", "complex", "non_partition"),
    ),
    done(
        "hoodie.datasource.write.keygenerator.class",
        "the same by class name",
        "hoodie.table.keygenerator.class",
        values=(
            "org.apache.hudi.keygen.simplekeygenerator",
            "org.apache.hudi.keygen.complexkeygenerator",
            "org.apache.hudi.keygen.nonpartitionedkeygenerator",
        ),
    ),
    done("hoodie.datasource.write.hive_style_partitioning", "folders are called column=value", is_switch=True),
    done("hoodie.datasource.write.partitionpath.urlencode", "kept in the table", is_switch=True),
    done(
        "hoodie.record.merge.mode",
        "checked: it follows from the ordering columns",
        "hoodie.write.record.merge.mode",
        values=("event_time_ordering", "commit_time_ordering"),
    ),
    done("hoodie.payload.delete.field", "kept in the table: rows with the marker in this column are deletes"),
    done("hoodie.payload.delete.marker", "kept in the table"),
    done("hoodie.compact.inline", "true: all services that are due are run after the commit", is_switch=True),
    done(
        "hoodie.logfile.data.block.format",
        "parquet if nothing is said; avro where a text column orders rows",
        values=("parquet", "avro"),
    ),
    done("hoodie.datasource.write.partitions.to.delete", "the folders that delete_partition empties"),
    done(
        "hoodie.datasource.overwrite.mode",
        "which rows insert_overwrite replaces: those of its partitions (dynamic), or all (static)",
        values=("dynamic", "static"),
    ),
    done(
        "hoodie.table.cdc.enabled",
        "true: Hudi's CDC query can read the table that this write creates; lakebraid's reads every table",
        is_switch=True,
    ),
    done(
        "hoodie.table.cdc.supplemental.logging.mode",
        "kept in the table; data_before_after if nothing is said",
        values=("op_key_only", "data_before", "data_before_after"),
    ),
    done(
        "hoodie.lakebraid.publication.order",
        "kept in the table that this write creates: each: commits that are decided together appear one after the other; group: "
        "side by side, for tables whose changes are not read with Apache Hudi. Also `Table.create(publication_order=…)`",
        values=("each", "group"),
    ),
    done("hoodie.clean.policy", _KEPT, "hoodie.cleaner.policy"),
    done("hoodie.clean.commits.retained", _KEPT, "hoodie.cleaner.commits.retained"),
    done("hoodie.clean.hours.retained", _KEPT, "hoodie.cleaner.hours.retained"),
    done("hoodie.clean.fileversions.retained", _KEPT, "hoodie.cleaner.fileversions.retained"),
    done("hoodie.keep.min.commits", _KEPT),
    done("hoodie.keep.max.commits", _KEPT),
    done("hoodie.compact.inline.max.delta.commits", _KEPT),
    done("hoodie.compact.inline.max.delta.seconds", _KEPT),
    done("hoodie.compact.inline.trigger.strategy", _KEPT),
    done("hoodie.log.compaction.inline", _KEPT, is_switch=True),
    done("hoodie.log.compaction.blocks.threshold", _KEPT),
    done(
        "lakebraid.writer",
        "the name of a stream into the table, the same over restarts: each of its batches is published once",
        "hoodie.datasource.write.streaming.checkpoint.identifier",
    ),
    done("checkpointLocation", "where Spark keeps the progress of a stream"),
    done("lakebraid.evolve", "false: rows may not bring columns or wider types", is_switch=True),
    # What would change rows and is not done.
    refused(
        "hoodie.datasource.write.insert.drop.duplicates",
        "rows whose key is there already are updates; leave them out yourself",
        harmless=("false",),
    ),
    refused("hoodie.datasource.insert.dup.policy", "the same", harmless=("none",)),
    refused(
        "hoodie.datasource.write.payload.class",
        "custom mergers are Java; rows merge by ordering columns, or the last writer wins",
        "hoodie.compaction.payload.class",
        harmless=(
            "org.apache.hudi.common.model.defaulthoodierecordpayload",
            "org.apache.hudi.common.model.eventtimeavropayload",
            "org.apache.hudi.common.model.overwritewithlatestavropayload",
        ),
    ),
    refused("hoodie.datasource.write.record.merger.*", "custom mergers are Java"),
    refused("hoodie.write.record.merge.*", "custom mergers are Java"),
    refused("hoodie.record.merge.strategy.id", "custom mergers are Java"),
    refused("hoodie.table.partial.update.mode", "use `t.upsert(rows, columns=[…])`: absent is not NULL"),
    refused("hoodie.write.partial.update.*", "use `t.upsert(rows, columns=[…])`: absent is not NULL"),
    refused("hoodie.keygen.timebased.*", "the timestamp key generator is not written; compute the column yourself"),
    refused(
        "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled", "not written", harmless=("false",)
    ),
    refused("hoodie.datasource.write.slash.separated.date.partitioning", "not written", harmless=("false",)),
    refused("hoodie.datasource.write.secondarykey.column", "there are no secondary indexes"),
    refused("hoodie.bucket.index.partition.*", "every partition has the same number of buckets"),
    refused("hoodie.populate.meta.fields", "rows always have Hudi's five columns", harmless=("true",)),
    refused(
        "hoodie.datasource.write.drop.partition.columns", "files keep their partition columns", harmless=("false",)
    ),
    refused("hoodie.allow.operation.metadata.field", "rows have Hudi's five columns and no sixth", harmless=("false",)),
    refused("hoodie.metadata.enable", "no metadata table is written", harmless=("false",)),
    refused("hoodie.metadata.index.*", "no metadata table is written", harmless=("false",)),
    refused("hoodie.write.table.version", "version 9 is written", harmless=("9",)),
    refused("hoodie.table.version", "version 9 is written", harmless=("9",)),
    refused(
        "hoodie.table.base.file.format", "base files are Parquet", "hoodie.base.file.format", harmless=("parquet",)
    ),
    refused("hoodie.table.timeline.timezone", "new tables keep UTC", harmless=("utc",)),
    refused("hoodie.schema.on.read.enable", "columns are added and widened, not renamed", harmless=("false",)),
    refused(
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
        "columns are never dropped",
        harmless=("false",),
    ),
    refused(
        "hoodie.write.set.null.for.missing.columns",
        "rows must have the table's columns, or name theirs",
        harmless=("false",),
    ),
    refused("hoodie.combine.before.*", "of equal keys in one write the greatest is kept, always", harmless=("true",)),
    refused("hoodie.merge.allow.duplicate.on.inserts", "a key has one row", harmless=("false",)),
    refused(
        "hoodie.write.ignore.failed",
        "a write is whole or not there",
        "hoodie.datasource.write.streaming.ignore.failed.batch",
        harmless=("false",),
    ),
    refused("hoodie.bootstrap.*", "no bootstrap"),
    refused("hoodie.partition.ttl.inline", "nothing is removed by age", harmless=("false",)),
    refused(
        "hoodie.clustering.inline",
        "use `t.cluster()`",
        "hoodie.datasource.clustering.inline.enable",
        harmless=("false",),
    ),
    refused(
        "hoodie.clustering.async.enabled",
        "use `t.cluster()`",
        "hoodie.datasource.clustering.async.enable",
        harmless=("false",),
    ),
    refused("hoodie.datasource.hive_sync.enable", "no catalog is told of the table", harmless=("false",)),
    refused("hoodie.datasource.meta.sync.enable", "no catalog is told of the table", harmless=("false",)),
    refused("hoodie.write.lock.filesystem.path", "the lock lies in .hoodie"),
    refused("hoodie.errortable.enable", "a row that does not fit is an error", harmless=("false",)),
    refused("hoodie.precommit.validators*", "validators are Java; check the data frame before it is written"),
    refused("hoodie.static.overwrite.partition.paths", "use hoodie.datasource.overwrite.mode"),
    refused("hoodie.write.schema", "the rows' own columns are written", "hoodie.avro.schema"),
    refused("hoodie.index.class", "the index is bucket or simple"),
    refused("hoodie.metaserver.enabled", "the timeline lies in the table", harmless=("false",)),
    refused(
        "hoodie.deltastreamer.keygen.timebased.*",
        "the timestamp key generator is not written; compute the column yourself",
    ),
    # What changes no row.
    tuning("hoodie.datasource.write.reconcile.schema", "rows may bring columns, and may lack those that can be NULL"),
    tuning("hoodie.datasource.write.row.writer.enable", "there is one way to write"),
    tuning("hoodie.datasource.write.commitmeta.key.prefix", "nothing is copied from the options into the commit"),
    tuning("hoodie.datasource.write.streaming.*", "batches are written once, see the streams"),
    tuning("hoodie.datasource.compaction.async.enable", _SERVICE),
    tuning("hoodie.datasource.hive_sync.*", "no catalog is told of the table"),
    tuning("hoodie.datasource.meta*", "no catalog is told of the table"),
    tuning("hoodie.datasource.partition_extractor_class", "no catalog is told of the table"),
    tuning("hoodie.database.name", "no catalog is told of the table"),
    tuning("hoodie.*.shuffle.parallelism", _PLACED),
    tuning("hoodie.bulkinsert.*", _PLACED),
    tuning("hoodie.copyonwrite.*", _PLACED),
    tuning("hoodie.record.size.*", _PLACED),
    tuning("hoodie.finalize.write.parallelism", _PLACED),
    tuning("hoodie.storage.layout.*", _PLACED),
    tuning("hoodie.parquet.*", "files have sizes and codecs of their own"),
    tuning("hoodie.logfile.*", "files have sizes and codecs of their own"),
    tuning("hoodie.bloom*", "the index is bucket or simple"),
    tuning("hoodie.index.bloom.*", "the index is bucket or simple"),
    tuning("hoodie.simple.index.*", "keys are looked up as it is cheapest"),
    tuning("hoodie.global.*", "the index is bucket or simple"),
    tuning("hoodie.record.index.*", "the index is bucket or simple"),
    tuning("hoodie.bucket.index.*", "the number of buckets stays"),
    tuning("hoodie.clean*", _SERVICE),
    tuning("hoodie.compact*", _SERVICE),
    tuning("hoodie.log.compaction.*", _SERVICE),
    tuning("hoodie.clustering.*", _SERVICE),
    tuning("hoodie.archive*", _SERVICE),
    tuning("hoodie.commits.archival.batch", _SERVICE),
    tuning("hoodie.timeline.*", _SERVICE),
    tuning("hoodie.rollback.*", "dead writes are rolled back by any process that meets them"),
    tuning("hoodie.table.service*", _SERVICE),
    tuning("hoodie.metadata.*", "no metadata table is written"),
    tuning("hoodie.markers.*", "on object stores a task has one list of markers, elsewhere each file has a marker"),
    tuning(
        "hoodie.write.markers.type", "on object stores a task has one list of markers, elsewhere each file has a marker"
    ),
    tuning("hoodie.write.buffer.*", "memory is bounded by limits of its own"),
    tuning("hoodie.write.executor.*", "memory is bounded by limits of its own"),
    tuning("hoodie.write.status.storage.level", "nothing is cached"),
    tuning("hoodie.write.auto.upgrade", "tables are not upgraded"),
    tuning("hoodie.memory.*", "memory is bounded by limits of its own"),
    tuning("hoodie.common.*", "nothing is spilled to disk"),
    tuning("hoodie.embed.*", "there is no timeline server"),
    tuning("hoodie.filesystem.*", "there is no timeline server, and calls have retries of their own"),
    tuning("hoodie.consistency.*", "the store is asked as it is"),
    tuning("hoodie.metrics.*", "figures are in the result of each write"),
    tuning("hoodie.client.*", "there is no such client"),
    tuning("hoodie.write.commit.callback.*", "no callback is made"),
    tuning("hoodie.meta.sync.*", "no catalog is told of the table"),
    tuning("hoodie.meta_sync.*", "no catalog is told of the table"),
    tuning("hoodie.metaserver.*", "the timeline lies in the table"),
    tuning("hoodie.partition.ttl.*", "nothing is removed by age"),
    tuning("hoodie.errortable.*", "a row that does not fit is an error"),
    tuning("hoodie.layout.optimize.*", "rows are sorted by `t.cluster(sort_by=…)`"),
    tuning("hoodie.orc.*", "base files are Parquet"),
    tuning("hoodie.hfile.*", "base files are Parquet"),
    tuning("hoodie.lance.*", "base files are Parquet"),
    tuning("hoodie.merge.*", "rows are merged by key"),
    tuning("hoodie.write.record.positions", "rows are merged by key"),
    tuning("hoodie.write.tagged.record.storage.level", "nothing is cached"),
    tuning("hoodie.write.track.event.time.watermark", "no watermark is kept in commits"),
    tuning("hoodie.payload.event.time.field", "no watermark is kept in commits"),
    tuning("hoodie.optimistic.consistency.guard.*", "the store is asked as it is"),
    tuning("hoodie.fail.*", "an error of a service after a commit is in the result"),
    tuning("hoodie.release.resource.on.completion.enable", "nothing is cached"),
    tuning("hoodie.spark.sql.*", "SQL statements do not write"),
    tuning("hoodie.sql.*", "SQL statements do not write"),
    tuning("hoodie.sensitive.config.keys", "options are not written into logs"),
    tuning("hoodie.avro.schema.validate", "rows are always checked"),
    tuning("hoodie.skip.default.partition.validation", "rows are always checked"),
    tuning("hoodie.allow.empty.commit", "a write without rows is a commit without files"),
)
"""What a write may be told."""

READ_OPTIONS: Final[tuple[Option, ...]] = (
    read(
        "hoodie.datasource.query.type",
        "snapshot if nothing is said",
        "hoodie.datasource.view.type",
        values=("snapshot", "read_optimized", "incremental", "realtime"),
    ),
    read("as.of.instant", "the table as it was when everything up to that completion time was visible"),
    read(
        "hoodie.datasource.read.begin.instanttime",
        "changes completed after it; 000 or earliest: from the beginning. In Hudi 1.x, too, this is a completion time",
    ),
    read(
        "hoodie.datasource.read.end.instanttime",
        "changes completed up to it; now if nothing is said",
    ),
    read(
        "hoodie.datasource.query.incremental.format",
        "latest_state: rows that are new or changed; cdc: op, ts_ms, before, after; changes (of lakebraid): rows with "
        "_change_type and _commit_completion_time, deletes among them",
        values=("latest_state", "cdc", "changes"),
    ),
    read(
        "startingFrom",
        "where a stream of changes begins that has no checkpoint yet: earliest (if nothing is said), latest, or a time",
        "hoodie.datasource.streaming.startOffset",
    ),
    read("maxCommitsPerTrigger", "commits in one batch of a stream"),
    read("maxFilesPerTrigger", "files that the commits in one batch of a stream wrote; one commit at least"),
    read("maxRowsPerTrigger", "rows that the commits in one batch of a stream wrote; one commit at least"),
    read("consumer", "the name of a stream of changes: no clean removes what it has not read"),
    read("lakebraid.meta_columns", "false: leave Hudi's five columns out", values=("true", "false")),
    read("lakebraid.where", "SQL text: only these rows, and only the files that may hold them"),
    refused("hoodie.datasource.merge.type", "logs are always merged", side="read", harmless=("payload_combine",)),
    refused(
        "hoodie.datasource.read.incr.path.glob", "use a filter on the partition columns", side="read", harmless=("",)
    ),
    refused("hoodie.datasource.read.incr.filters", "use a filter", side="read", harmless=("",)),
    refused("hoodie.datasource.read.paths", "one table is read at a time", side="read"),
    refused("hoodie.realtime.merge.skip", "logs are always merged", side="read", harmless=("false",)),
    tuning(
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
        "changes are found by comparing two states",
        side="read",
    ),
    tuning("hoodie.datasource.read.incr.*", "a compaction or clustering changes no row", side="read"),
    tuning("hoodie.datasource.read.*", "the table says how it is read", side="read"),
    tuning("hoodie.read.*", "writes count by their completion", side="read"),
    tuning("hoodie.file.*", "files are pruned by partition, bucket and statistics", side="read"),
    tuning("hoodie.fileindex.*", "files are pruned by partition, bucket and statistics", side="read"),
    tuning("hoodie.enable.data.skipping", "files are pruned by partition, bucket and statistics", side="read"),
)
"""What a read may be told."""

OWN_OPTIONS: Final[tuple[Option, ...]] = (
    done("path", "where the table lies"),
    done("lakebraid.storage.*", "settings of the object store, such as lakebraid.storage.aws_region"),
)
"""What both take."""

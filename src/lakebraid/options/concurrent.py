# SPDX-License-Identifier: Apache-2.0
"""The options of RFC-61, 66, 71, 79 and 82: how writers and table services get along, by Hudi's names and the RFCs'."""

from __future__ import annotations

from typing import Final

from lakebraid.options.option import Option, done, done_by_class, refused, tuning

_KEPT: Final = "kept in the table that this write creates"
_LEDGER: Final = "decisions go through the table's own ledger; no lock is waited for"
_EARLY: Final = (
    "who has completed is looked for when the file groups are known, before each is rewritten, with each heartbeat"
)
_TRANSACTIONS: Final = "org.apache.hudi.client.transaction"
_UPDATES: Final = "org.apache.hudi.client.clustering.update.strategy"

CONCURRENT_OPTIONS: Final[tuple[Option, ...]] = (
    done(
        "hoodie.write.concurrency.mode",
        "non-blocking if nothing is said (Hudi: single_writer)",
        values=("non_blocking_concurrency_control", "optimistic_concurrency_control", "single_writer"),
    ),
    done(
        "hoodie.write.lock.provider",
        "for tables that Apache Hudi writes too: every decision is made inside its lock",
        values=(
            "org.apache.hudi.client.transaction.lock.filesystembasedlockprovider",
            "org.apache.hudi.client.transaction.lock.storagebasedlockprovider",
        ),
    ),
    done_by_class(
        "hoodie.write.lock.conflict.resolution.strategy",
        "counts for this write, whatever the table says: how an optimistic write finds those who completed since it began, by "
        "their request times (Simple…, BucketIndex…) or their completions (the others). Both find the same",
        f"{_TRANSACTIONS}.SimpleConcurrentFileWritesConflictResolutionStrategy",
        f"{_TRANSACTIONS}.BucketIndexConcurrentFileWritesConflictResolutionStrategy",
        f"{_TRANSACTIONS}.PreferWriterConflictResolutionStrategy",
        f"{_TRANSACTIONS}.IngestionPrimaryWriterBasedConflictResolutionStrategy",
        f"{_TRANSACTIONS}.StateTransitionTimeBasedConflictResolutionStrategy",
        f"{_TRANSACTIONS}.EndTimestampBasedConcurrentFileWritesConflictResolutionStrategy",
    ),
    done_by_class(
        "hoodie.clustering.updates.strategy",
        "counts for this write, whatever the table says: who gives way if it touches file groups of a pending clustering, the "
        "write (Reject…, if nothing is said) or the clustering (Allow…). Beside Apache Hudi, Allow… needs "
        "PreferWriterConflictResolutionStrategy: without it Hudi's clusterings drop rows that came while they ran",
        f"{_UPDATES}.SparkRejectUpdateStrategy",
        f"{_UPDATES}.SparkAllowUpdateStrategy",
    ),
    done(
        "hoodie.write.concurrency.early.conflict.detection.enable",
        f"counts for this write, whatever the table says: true: {_EARLY}; who is certain to be refused at its commit ends then",
        is_switch=True,
    ),
    done("hoodie.client.heartbeat.interval_in_ms", f"{_KEPT}: how often its writers show that they live"),
    done("hoodie.client.heartbeat.tolerable.misses", f"{_KEPT}: who has missed more of them counts as dead"),
    done(
        "hoodie.lakebraid.table.service.rollback.delay.minutes",
        f"{_KEPT}: RFC-79's table_service_rollback_delay, how old a removable plan must be before it is rolled back; 60 if "
        "nothing is said. Also `t.rollback(table_service_rollback_delay_minutes=…)` and `t.clean(…)`, "
        "`lakebraid rollback --table-service-rollback-delay` and `lakebraid clean …`",
        "lakebraid.table_service_rollback_delay",
        "table_service_rollback_delay",
    ),
    done(
        "hoodie.lakebraid.clustering.plans.removable",
        f"{_KEPT}: true: its clusterings are RFC-79's removable plans. Also `t.cluster(removable=…)`, `lakebraid cluster --removable`",
        is_switch=True,
    ),
    done(
        "hoodie.lakebraid.logcompaction.plans.removable",
        f"{_KEPT}: the same of log compactions. Also `t.log_compact(removable=…)`, `lakebraid log-compact --removable`",
        is_switch=True,
    ),
    done(
        "hoodie.lakebraid.schema.conflict",
        "counts for this write, whatever the table says: merge joins schema changes of concurrent writers, abort (if nothing is "
        "said) refuses the second by RFC-82. Also `schema_conflict=…` of all writes and of `Table.create`",
        "lakebraid.schema_conflict",
        values=("abort", "merge"),
    ),
    refused(
        "hoodie.clean.failed.writes.policy",
        "only writers that have been silent for too long are rolled back, as RFC-61 and 66 want it",
        "hoodie.cleaner.policy.failed.writes",
        harmless=("lazy",),
    ),
    refused("hoodie.auto.commit", "every write is committed whole, or is not there", harmless=("true",)),
    refused(
        "hoodie.write.concurrency.schema.conflict.resolution.enable",
        "schemas of concurrent writers are always held against each other (RFC-82)",
        harmless=("true",),
    ),
    tuning("hoodie.write.concurrency.early.conflict.*", _EARLY),
    tuning("hoodie.write.concurrency.async.conflict.*", _EARLY),
    tuning(
        "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution",
        "with SparkAllowUpdateStrategy a clustering always gives way to writes that have announced a file of its groups",
    ),
    tuning(
        "hoodie.write.num.retries.on.conflict.failures",
        "a refused write is done again by itself: `retries=` says how often",
    ),
    tuning("hoodie.write.lock.*", _LEDGER),
    tuning("hoodie.write.concurrency.*", _LEDGER),
    tuning("hoodie.auto.adjust.lock.configs", _LEDGER),
    tuning("hoodie.time.generator.*", _LEDGER),
)
"""A part of what a write may be told."""

# SPDX-License-Identifier: Apache-2.0
"""The one door through which services open a table: its ledger, and what its properties say about services.

The properties are read once. What they say travels as `ServiceSettings`, a frozen value with a field for each property;
the names of the properties stand here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from lakebraid.digits import whole_number
from lakebraid.errors import UnsupportedTable
from lakebraid.model.config import TableConfig
from lakebraid.model.writable import check_rewritable, check_tended
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from lakebraid.txn.checks.file_groups import UPDATES
from lakebraid.txn.checks.rivalry import allows_updates
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.writer import Writing

_CLUSTERING_PLAN: Final = "hoodie.clustering.plan.strategy"
_TRIGGER: Final = "hoodie.compact.inline"


@dataclass(frozen=True, slots=True)
class Setting:
    """One property: its name, and its text if the table states it."""

    name: str
    text: str | None = None

    @property
    def is_true(self) -> bool:
        return (self.text or "").strip().lower() == "true"

    @property
    def number(self) -> int | None:
        """The whole number that is stated, of at most 18 digits; None if there is none or the text is none."""
        return whole_number((self.text or "").strip(), 18)

    @property
    def words(self) -> tuple[str, ...]:
        """The names that are stated, between commas."""
        return tuple(word.strip() for word in (self.text or "").split(",") if word.strip())


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What a table's properties say about its services, in Hudi's names.

    A text that a service cannot use is refused by that service when it needs it, and stops no other.
    """

    compaction_strategy: Setting = Setting("hoodie.compaction.strategy")
    compaction_logs_min: Setting = Setting("hoodie.compaction.logfile.num.threshold")
    compaction_log_bytes_min: Setting = Setting("hoodie.compaction.logfile.size.threshold")
    compaction_io_mb: Setting = Setting("hoodie.compaction.target.io")
    compaction_partitions: Setting = Setting("hoodie.compaction.daybased.target.partitions")
    trigger_strategy: Setting = Setting(f"{_TRIGGER}.trigger.strategy")
    trigger_logs: Setting = Setting(f"{_TRIGGER}.max.delta.commits")
    trigger_seconds: Setting = Setting(f"{_TRIGGER}.max.delta.seconds")
    trigger_share: Setting = Setting("hoodie.lakebraid.compact.log.share")
    log_compaction_inline: Setting = Setting("hoodie.log.compaction.inline")
    log_compaction_logs_min: Setting = Setting("hoodie.log.compaction.blocks.threshold")
    log_compaction_removable: Setting = Setting("hoodie.lakebraid.logcompaction.plans.removable")
    clustering_inline: Setting = Setting("hoodie.clustering.inline")
    clustering_async: Setting = Setting("hoodie.clustering.async.enabled")
    clustering_commits: Setting = Setting("hoodie.clustering.inline.max.commits")
    clustering_async_commits: Setting = Setting("hoodie.clustering.async.max.commits")
    clustering_sort_columns: Setting = Setting(f"{_CLUSTERING_PLAN}.sort.columns")
    clustering_small_bytes: Setting = Setting(f"{_CLUSTERING_PLAN}.small.file.limit")
    clustering_target_bytes: Setting = Setting(f"{_CLUSTERING_PLAN}.target.file.max.bytes")
    clustering_group_bytes: Setting = Setting(f"{_CLUSTERING_PLAN}.max.bytes.per.group")
    clustering_groups_max: Setting = Setting(f"{_CLUSTERING_PLAN}.max.num.groups")
    clustering_removable: Setting = Setting("hoodie.lakebraid.clustering.plans.removable")
    clustering_updates: Setting = Setting(UPDATES)
    clean_policy: Setting = Setting("hoodie.clean.policy")
    clean_commits: Setting = Setting("hoodie.clean.commits.retained")
    clean_hours: Setting = Setting("hoodie.clean.hours.retained")
    clean_versions: Setting = Setting("hoodie.clean.fileversions.retained")
    keep_min: Setting = Setting("hoodie.keep.min.commits")
    keep_max: Setting = Setting("hoodie.keep.max.commits")
    plan_rollback_minutes: Setting = Setting("hoodie.lakebraid.table.service.rollback.delay.minutes")

    @property
    def allows_updates(self) -> bool:
        """Whether a clustering gives way to a write that touches one of its file groups."""
        return allows_updates({UPDATES: self.clustering_updates.text or ""})


_NAMES: Final = {field.name: field.default.name for field in fields(ServiceSettings)}


def parse_settings(properties: Mapping[str, str]) -> ServiceSettings:
    """The settings of a table with these properties."""
    return ServiceSettings(**{field: Setting(name, properties.get(name)) for field, name in _NAMES.items()})


@dataclass(frozen=True, slots=True)
class Opened:
    """A table that was opened for a service: what is remembered of it between calls, a ledger, and its settings."""

    writing: Writing
    ledger: Ledger
    settings: ServiceSettings = ServiceSettings()
    rewriting_refused: UnsupportedTable | None = None
    """Why base files of the table cannot be written anew; None if they can."""

    @property
    def storage(self) -> Storage:
        return self.ledger.storage

    @property
    def table(self) -> TableAt:
        return self.ledger.table

    @property
    def config(self) -> TableConfig:
        return self.ledger.config

    def check_rewritable(self) -> None:
        """UnsupportedTable if base files of the table cannot be written anew."""
        if self.rewriting_refused is not None:
            raise self.rewriting_refused


def open_table(writing: Writing, *, is_written: bool = False) -> Opened:
    """The table as it is now, for a service; UnsupportedTable if no service may touch it.

    `is_written` is for services that write rows or move instants, and therefore must know how rows find their place.
    """
    config, properties = load_config(writing.storage)
    url = writing.storage.url
    completed = writing.completions(config) if config.timezone != "UTC" else None
    check_tended(config, properties, url, completed=completed)
    if is_written:
        writing.check_writable(config, properties)
    return Opened(writing, writing.ledger(config), parse_settings(properties), _rewriting(config, properties, url))


def _rewriting(config: TableConfig, properties: Mapping[str, str], url: str) -> UnsupportedTable | None:
    try:
        check_rewritable(config, properties, url)
    except UnsupportedTable as refused:
        return refused
    return None

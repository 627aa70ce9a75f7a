# SPDX-License-Identifier: Apache-2.0
"""Every setting that RFC-61, 66, 71, 79 and 82 name: one name as property and option, an argument and a flag that say the
same, and a line in docs/options.md that says what is done.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

import lakebraid as lb
from lakebraid.cli.main import lakebraid
from lakebraid.errors import InvalidArgument
from lakebraid.model.creation.properties import property_texts
from lakebraid.options import write_options
from lakebraid.options.concurrent import CONCURRENT_OPTIONS
from lakebraid.options.option import Use
from lakebraid.options.parsing import find_option
from lakebraid.writing.request import SCHEMA_CONFLICT

pytestmark = pytest.mark.unit
DOCS = (Path(__file__).parents[3] / "docs/options.md").read_text()
DONE, TOLD, REFUSED = Use.DONE, Use.TUNING, Use.REFUSED
LOCK = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
TRANSACTION, CLUSTERING = "org.apache.hudi.client.transaction.", "org.apache.hudi.client.clustering.update.strategy."


@dataclass(frozen=True)
class Setting:
    """What an RFC, or Hudi where it implements one, calls a setting; and where it can be given here."""

    rfc: int
    name: str
    use: Use
    value: str
    """One that is taken; of a refused setting one that is not."""
    aliases: tuple[str, ...] = ()
    is_kept: bool = True
    """Whether a new table keeps it under its own name."""
    arguments: tuple[tuple[Callable[..., Any], str], ...] = ()
    flags: tuple[tuple[str, str], ...] = ()


DELAY = "table_service_rollback_delay"
T = lb.Table
SETTINGS = (
    Setting(61, "hoodie.clean.failed.writes.policy", REFUSED, "EAGER", ("hoodie.cleaner.policy.failed.writes",)),
    Setting(61, "hoodie.table.type", DONE, "MERGE_ON_READ", arguments=((T.create, "table_type"),)),
    Setting(61, "hoodie.index.type", DONE, "BUCKET", arguments=((T.create, "index"),)),
    Setting(
        61,
        "hoodie.table.ordering.fields",
        DONE,
        "ts",
        ("hoodie.datasource.write.precombine.field",),
        arguments=((T.create, "ordering_fields"),),
    ),
    Setting(
        66,
        "hoodie.write.concurrency.mode",
        DONE,
        "OPTIMISTIC_CONCURRENCY_CONTROL",
        arguments=((T.create, "concurrency"),),
    ),
    Setting(66, "hoodie.write.lock.provider", DONE, LOCK, arguments=((T.create, "shared"),)),
    Setting(66, "hoodie.time.generator.max_expected_clock_skew_ms", TOLD, "200"),
    Setting(
        71,
        "hoodie.write.lock.conflict.resolution.strategy",
        DONE,
        TRANSACTION + "PreferWriterConflictResolutionStrategy",
    ),
    Setting(71, "hoodie.clustering.updates.strategy", DONE, CLUSTERING + "SparkAllowUpdateStrategy"),
    Setting(71, "hoodie.write.concurrency.early.conflict.detection.enable", DONE, "true"),
    Setting(71, "hoodie.write.concurrency.early.conflict.detection.strategy", TOLD, "com.example.Mine"),
    Setting(71, "hoodie.write.concurrency.early.conflict.check.commit.conflict", TOLD, "true"),
    Setting(71, "hoodie.write.concurrency.async.conflict.detector.period_ms", TOLD, "1"),
    Setting(71, "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution", TOLD, "true"),
    Setting(71, "hoodie.write.num.retries.on.conflict.failures", TOLD, "3"),
    Setting(71, "hoodie.auto.commit", REFUSED, "false"),
    Setting(71, "hoodie.auto.adjust.lock.configs", TOLD, "true"),
    Setting(79, "hoodie.client.heartbeat.interval_in_ms", DONE, "5000"),
    Setting(79, "hoodie.client.heartbeat.tolerable.misses", DONE, "3"),
    Setting(
        79,
        "hoodie.lakebraid.table.service.rollback.delay.minutes",
        DONE,
        "5",
        (DELAY, f"lakebraid.{DELAY}"),
        arguments=((T.rollback, f"{DELAY}_minutes"), (T.clean, f"{DELAY}_minutes")),
        flags=(("rollback", "--table-service-rollback-delay"), ("clean", "--table-service-rollback-delay")),
    ),
    Setting(
        79,
        "hoodie.lakebraid.clustering.plans.removable",
        DONE,
        "true",
        arguments=((T.cluster, "removable"), (T.plan_clustering, "removable")),
        flags=(("cluster", "--removable"),),
    ),
    Setting(
        79,
        "hoodie.lakebraid.logcompaction.plans.removable",
        DONE,
        "true",
        arguments=((T.log_compact, "removable"), (T.plan_log_compaction, "removable")),
        flags=(("log-compact", "--removable"),),
    ),
    Setting(
        82,
        "hoodie.lakebraid.schema.conflict",
        DONE,
        "merge",
        ("lakebraid.schema_conflict",),
        is_kept=False,
        arguments=tuple((method, "schema_conflict") for method in (T.create, T.upsert, T.begin, T.stream)),
    ),
    Setting(82, "hoodie.write.concurrency.schema.conflict.resolution.enable", REFUSED, "false"),
)
CLASSES = (
    "SimpleConcurrentFileWritesConflictResolutionStrategy",
    "EndTimestampBasedConcurrentFileWritesConflictResolutionStrategy",
    "IngestionPrimaryWriterBasedConflictResolutionStrategy",
    "BucketIndexConcurrentFileWritesConflictResolutionStrategy",
)
"""Those that RFC-71 names."""
every = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"{setting.rfc} {setting.name}")
kept = pytest.mark.parametrize("setting", [s for s in SETTINGS if s.use is DONE and s.is_kept], ids=lambda s: s.name)


@every
def test_a_setting_is_known_and_told_in_the_documentation(setting: Setting) -> None:
    for name in (setting.name, *setting.aliases):
        option = find_option(name)
        assert option is not None, name
        assert option.use is setting.use
        assert f"`{option.name}`" in DOCS
        assert option.use is not DONE or f"`{name}`" in DOCS


@every
def test_a_setting_is_done_told_or_refused(setting: Setting) -> None:
    for name in (setting.name, *setting.aliases):
        given = {name: setting.value}
        if setting.use is REFUSED:
            with pytest.raises(InvalidArgument, match=f"{name}='{setting.value}' would change results"):
                write_options(given)
        elif setting.use is TOLD:
            with pytest.warns(lb.options.OptionNotice, match=f"{name} has no effect"):
                assert write_options(given) == write_options({})
        else:
            assert write_options(given) != write_options({})


@every
def test_arguments_and_flags_of_a_setting_are_there(setting: Setting) -> None:
    for method, argument in setting.arguments:
        assert argument in inspect.signature(method).parameters, f"{method} has no {argument}"
    for command, flag in setting.flags:
        found = lakebraid.get_command(click.Context(lakebraid), command)
        assert found is not None
        assert any(flag in parameter.opts for parameter in found.params), f"{command} has no {flag}"


@kept
def test_a_new_table_keeps_a_setting_under_one_name_whichever_was_given(setting: Setting, tmp_path: Path) -> None:
    for number, name in enumerate((setting.name, *setting.aliases)):
        given: dict[str, Any] = {"hoodie.table.recordkey.fields": "id", name: setting.value}
        lb.write([{"id": "a", "ts": 1}], tmp_path / f"w{number}", **given)
        stated = lb.Table.open(tmp_path / f"w{number}").properties
        assert stated[setting.name] == setting.value
        if name.startswith(("hoodie.", "lakebraid.")) and setting.name not in DESCRIBED:
            made = lb.Table.create(
                tmp_path / f"c{number}", "id string, ts bigint", record_keys="id", properties={name: setting.value}
            )
            assert made.properties[setting.name] == setting.value


def test_the_answer_to_schema_conflicts_has_one_name_in_the_table() -> None:
    same = [property_texts({name: "merge"}) for name in (SCHEMA_CONFLICT, "lakebraid.schema_conflict")]
    assert same == [{SCHEMA_CONFLICT: "merge"}] * 2


DESCRIBED = (
    "hoodie.table.ordering.fields",
    "hoodie.write.concurrency.mode",
    "hoodie.write.lock.provider",
)
"""Arguments of `Table.create` say them, and a property may not say otherwise."""


def test_the_list_has_every_option_of_how_writers_get_along() -> None:
    names = {setting.name for setting in SETTINGS}
    for option in CONCURRENT_OPTIONS:
        if "*" in option.name:
            assert any(find_option(name) is option for name in names) or option.name in (
                "hoodie.write.lock.*",
                "hoodie.write.concurrency.*",
            ), option.name
        else:
            assert option.name in names


def test_the_classes_that_rfc_71_names_are_taken() -> None:
    for name in CLASSES:
        option = "hoodie.write.lock.conflict.resolution.strategy"
        assert write_options({option: name}).told == ((option, name),)
        assert f"`{TRANSACTION}{name}`" in DOCS

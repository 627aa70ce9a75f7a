# SPDX-License-Identifier: Apache-2.0
"""Hudi's option names: what is done, what is told, what is refused."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from lakebraid.errors import InvalidArgument
from lakebraid.options import (
    OptionNotice,
    ReadOptions,
    SinkOptions,
    SourceOptions,
    WriteOptions,
    read_options,
    sink_options,
    source_options,
    write_options,
)
from lakebraid.options.known import OWN_OPTIONS, READ_OPTIONS, WRITE_OPTIONS
from lakebraid.options.option import Use
from lakebraid.options.page import page
from lakebraid.options.parsing import find_option

pytestmark = pytest.mark.unit


def test_the_page_of_options_says_what_the_code_does() -> None:
    written = (Path(__file__).parents[3] / "docs/options.md").read_text()
    assert written == page(), "run: python -m lakebraid.options.page > docs/options.md"


def test_no_name_stands_for_two_options() -> None:
    names = [n.lower() for o in (*OWN_OPTIONS, *WRITE_OPTIONS, *READ_OPTIONS) for n in (o.name, *o.aliases)]
    assert len(names) == len({*names})


def test_every_option_that_is_done_has_an_effect() -> None:
    """Each value, given alone, changes what a write or a read is told; but for those that say that nothing is needed."""
    idle = {"hoodie.index.bucket.engine"}
    for option in (*WRITE_OPTIONS, *READ_OPTIONS):
        if option.use is not Use.DONE or option.name in idle:
            continue
        parse = _write if option.side == "write" else _read
        changed = [parse({option.name: value}) != parse({}) for value in option.values or ("20260101000000000", "7")]
        assert any(changed), option.name


def _write(given: dict[str, str]) -> tuple[WriteOptions, SinkOptions]:
    return write_options(given), sink_options({"lakebraid.writer": "orders"} | given)


def _read(given: dict[str, str]) -> tuple[ReadOptions, SourceOptions]:
    return read_options(given), source_options(given)


def test_old_names_and_other_cases_mean_the_same() -> None:
    new = write_options({"hoodie.datasource.write.precombine.field": "ts", "hoodie.clean.commits.retained": 3})
    assert new == write_options({"Hoodie.Table.PreCombine.Field": "ts", "hoodie.cleaner.commits.retained": "3"})
    assert read_options({"hoodie.datasource.view.type": "REALTIME"}) == read_options({})


def test_two_names_of_one_option_must_not_contradict_each_other() -> None:
    same = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.table.recordkey.fields": "id"}
    assert write_options(same).record_keys == ("id",)
    with pytest.raises(InvalidArgument, match=r"given twice, as 'id' and, by hoodie.table.recordkey.fields, as 'k'"):
        write_options(same | {"hoodie.table.recordkey.fields": "k"})


def test_an_unknown_option_is_an_error_that_proposes_the_right_one() -> None:
    with pytest.raises(InvalidArgument, match=r"Did you mean hoodie.datasource.write.recordkey.field\?"):
        write_options({"hoodie.datasource.write.recordkey.fields": "id"})
    with pytest.raises(InvalidArgument, match=r"'colour' is not known. Nothing"):
        read_options({"colour": "red"})


@pytest.mark.parametrize(
    ("name", "value", "harmless"),
    [
        ("hoodie.datasource.write.insert.drop.duplicates", "true", "false"),
        (
            "hoodie.datasource.write.payload.class",
            "com.example.Mine",
            "org.apache.hudi.common.model.EventTimeAvroPayload",
        ),
        ("hoodie.metadata.enable", "true", "false"),
        ("hoodie.combine.before.insert", "false", "true"),
    ],
)
def test_an_option_that_would_change_results_is_refused_by_name(name: str, value: str, harmless: str) -> None:
    assert write_options({name: harmless}) == write_options({})
    with pytest.raises(InvalidArgument, match=f"{name}='{value}' would change results") as refused:
        write_options({name: value})
    assert refused.value.option == name


def test_a_tuning_option_is_told_in_one_line_and_changes_nothing() -> None:
    with pytest.warns(OptionNotice, match="hoodie.upsert.shuffle.parallelism has no effect") as told:
        assert write_options({"hoodie.upsert.shuffle.parallelism": 2}) == write_options({})
    assert len(told) == 1
    assert "\n" not in str(told[0].message)


def test_options_of_writes_do_not_disturb_reads_nor_the_other_way_round() -> None:
    everything = {
        "hoodie.datasource.write.payload.class": "com.example.Mine",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.datasource.query.type": "incremental",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_options(everything).query == "incremental"
        assert write_options({"hoodie.datasource.query.type": "incremental", "as.of.instant": "1"}) == write_options({})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("000", None),
        ("earliest", None),
        ("20260102030405678", "20260102030405678"),
        ("2026-01-02", "20260102000000000"),
        ("2026-01-02 03:04:05", "20260102030405000"),
        ("2026-01-02 03:04:05.6", "20260102030405600"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
    ],
)
def test_times_are_taken_as_hudi_takes_them(given: str, meant: str | None) -> None:
    assert read_options({"hoodie.datasource.read.begin.instanttime": given}).begin == meant


def test_a_look_back_at_nothing_is_not_taken_for_a_look_at_now() -> None:
    assert read_options({"as.of.instant": "000"}).as_of == "000"


def test_a_value_that_an_option_cannot_have_is_named_with_those_it_can() -> None:
    with pytest.raises(InvalidArgument, match="cannot be 'merge_on_write'; it may be merge_on_read, copy_on_write"):
        write_options({"hoodie.datasource.write.table.type": "merge_on_write"})
    with pytest.raises(InvalidArgument, match="must be a whole number, not 'many'"):
        write_options({"hoodie.bucket.index.num.buckets": "many"})


def test_credentials_go_to_the_store_and_into_no_other_place() -> None:
    said = read_options({"lakebraid.storage.aws_secret_access_key": "s", "path": "s3://b/t"})
    assert said.storage == (("aws_secret_access_key", "s"),)
    assert "'s'" not in repr(said)


def test_a_pattern_never_hides_an_option_that_is_done() -> None:
    for option in (*OWN_OPTIONS, *WRITE_OPTIONS, *READ_OPTIONS):
        for name in (option.name, *option.aliases):
            assert "*" in name or find_option(name) is option

# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi and hudi-rs read from the tables that we write what we read from them, and what was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import lakebraid as lb
from tests.interop import our_tables_merging, our_tables_types, our_tables_writers
from tests.interop.expected import Row, key_of, name_of
from tests.interop.our_tables import DEFINITIONS, Written
from tests.interop.referee import Referee
from tests.kit.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop

REGISTERED = (our_tables_merging, our_tables_types, our_tables_writers)

# Read in every way that Hudi has; of the others only the snapshot is compared, which takes a tenth of the time. Partial
# updates must stay out: asked for a range that has nothing else of a row, Hudi takes them for whole rows and breaks down.
THOROUGHLY = (
    "blocks_of_both_kinds",
    "bulk_insert_then_upserts",
    "compacted_twice",
    "deletes_by_bigint_over_base",
    "deletes_in_commit_order",
    "overlapping_writers",
    "partitions_in_hive_style",
    "pending_compaction",
    "tombstones_carried_over",
    "types_in_base_files",
    "writers_that_gave_up",
)
# Where writers overlap Hudi's as-of means something else (FORMAT, section 11).
OTHER_PAST = {"overlapping_writers"}
# What hudi-rs refuses (FORMAT, section 20): the table, and a part of its message.
REFUSED_BY_RS = {
    "deletes_by_three_ordering_columns": "Multiple ordering fields",
    "deletes_by_timestamp_ntz_over_base": "not yet implemented",
    "deletes_by_timestamp_ntz_over_log": "not yet implemented",
    "times_without_zone": "not yet implemented",
    "types_in_avro_blocks": "reconcile: column 'structs'",
}


@dataclass(frozen=True)
class Judged:
    """A table of ours and what Hudi says of it."""

    written: Written
    answers: dict[str, Any]

    @property
    def table(self) -> lb.Table:
        return self.written.table

    def ours(self, **options: Any) -> list[Row]:
        return our_rows(self.table.to_arrow(meta_columns=True, **options))

    def shown(self) -> list[Row]:
        """Our rows without those that Hudi hides."""
        hidden = self.written.hidden
        return [row for row in self.ours() if hidden.get(key_of(row)) != name_of(row)]


@pytest.fixture(scope="module")
def judge(referee: Referee, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Judged]:
    """Makes a table by its name, once, and asks Hudi about it."""

    @cache
    def made(name: str) -> Judged:
        path = tmp_path_factory.mktemp("ours") / name
        written = DEFINITIONS[name](path)
        if name in THOROUGHLY:
            return Judged(written, referee.ask("answers", path=str(path)))
        return Judged(written, {"snapshot": referee.ask("read", path=str(path))["rows"]})

    return made


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_hudi_reads_what_we_read_and_that_is_what_was_written(name: str, judge: Callable[[str], Judged]) -> None:
    judged = judge(name)
    assert sorted(name_of(row) for row in judged.ours()) == sorted(judged.written.names)
    assert hudi_rows(rows_of(judged.answers["snapshot"])) == judged.shown()
    assert len(judged.ours()) - len(judged.shown()) == len(judged.written.hidden)


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_hudi_rs_reads_what_we_read(name: str, judge: Callable[[str], Judged]) -> None:
    judged = judge(name)
    if name in REFUSED_BY_RS:
        with pytest.raises(BaseException, match=REFUSED_BY_RS[name]):  # some refusals are Rust panics
            read_by_rs(judged.table)
    else:
        assert read_by_rs(judged.table) == judged.ours()


@pytest.mark.parametrize("name", THOROUGHLY)
def test_hudi_reads_our_base_files_as_we_do(name: str, judge: Callable[[str], Judged]) -> None:
    judged = judge(name)
    assert hudi_rows(rows_of(judged.answers["read_optimized"])) == judged.ours(mode="read_optimized")


@pytest.mark.parametrize("name", [name for name in THOROUGHLY if name not in OTHER_PAST])
def test_hudi_reads_the_past_as_we_do(name: str, judge: Callable[[str], Judged]) -> None:
    judged = judge(name)
    assert len(judged.answers["as_of"]) > 1
    for time, expected in judged.answers["as_of"].items():
        assert hudi_rows(rows_of(expected)) == judged.ours(as_of=time), time


@pytest.mark.parametrize("name", THOROUGHLY)
def test_hudis_incremental_answer_from_the_beginning_is_the_table(name: str, judge: Callable[[str], Judged]) -> None:
    judged = judge(name)
    assert hudi_rows(rows_of(judged.answers["incremental_after"]["000"])) == judged.shown()


@pytest.mark.parametrize("name", THOROUGHLY)
def test_each_row_that_changed_is_among_those_that_hudi_calls_new(name: str, judge: Callable[[str], Judged]) -> None:
    judged = judge(name)
    for after, expected in judged.answers["incremental_after"].items():
        if after != "000":
            new = {without_meta(row) for row in hudi_rows(rows_of(expected))}
            assert changed_rows(judged.table, after) <= new, after


def changed_rows(table: lb.Table, after: str) -> set[Row]:
    changes = our_rows(table.changes(after=after).to_arrow())
    return {without_meta(row) for row in changes if dict(row)["_change_type"] != "delete"}


def without_meta(row: Row) -> Row:
    return tuple((name, value) for name, value in row if not name.startswith(("_hoodie_", "_change", "_commit")))


def read_by_rs(table: lb.Table) -> list[Row]:
    batches = HudiTableBuilder.from_base_uri(table.path.removeprefix("file://")).build().read()
    return our_rows(pa.Table.from_batches(batches)) if batches else []


def rows_of(answer: Any) -> list[dict[str, Any]]:
    """Hudi's rows. A refusal of Hudi's fails the test, with its words."""
    assert isinstance(answer, list), answer
    return answer

# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi and hudi-rs read from the tables that we write what we read from them, and what was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import lakebraid as lb
from tests.interop.expected import Row, key_of, name_of
from tests.interop.our_tables import DEFINITIONS, Written
from tests.interop.referee import Referee
from tests.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop

# What hudi-rs refuses (FORMAT, section 20): the table, and a part of its message.
REFUSED_BY_RS: dict[str, str] = {}
# Where writers overlap, or one is pending, Hudi's as-of means something else or is refused (traps 2 and 30).
OTHER_PAST = {"late_finisher_behind_a_compaction", "overlapping_writers", "overlapping_writers_in_commit_order"}


@dataclass(frozen=True)
class Judged:
    name: str
    written: Written
    answers: dict[str, Any]

    @property
    def table(self) -> lb.Table:
        return self.written.table

    def ours(self, **options: Any) -> list[Row]:
        return our_rows(self.table.to_arrow(meta_columns=True, **options))


@pytest.fixture(scope="module", params=sorted(DEFINITIONS))
def judged(request: pytest.FixtureRequest, referee: Referee, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    path = tmp_path_factory.mktemp("ours") / request.param
    made = DEFINITIONS[request.param](path)
    return Judged(request.param, made, referee.ask("answers", path=str(path)))


def test_the_table_holds_what_was_written(judged: Judged) -> None:
    assert sorted(name_of(row) for row in judged.ours()) == sorted(judged.written.names)


def test_hudi_reads_every_row_and_column_as_we_do(judged: Judged) -> None:
    hidden = judged.written.hidden
    shown = [row for row in judged.ours() if hidden.get(key_of(row)) != name_of(row)]
    assert judged.ours() != shown or not hidden
    assert hudi_rows(rows_of(judged.answers["snapshot"])) == shown


def test_hudi_reads_the_base_files_as_we_do(judged: Judged) -> None:
    assert hudi_rows(rows_of(judged.answers["read_optimized"])) == judged.ours(mode="read_optimized")


def test_hudi_reads_the_past_as_we_do_unless_writers_overlap(judged: Judged) -> None:
    compared = 0
    for time, expected in judged.answers["as_of"].items():
        if judged.name not in OTHER_PAST and judged.written.hold is None:
            assert hudi_rows(rows_of(expected)) == judged.ours(as_of=time), time
            compared += 1
    assert compared or judged.name in OTHER_PAST or judged.written.hold is not None


def test_what_changed_from_the_beginning_is_in_hudis_incremental_answer(judged: Judged) -> None:
    """Hudi merges the instants of the range among themselves; from the beginning that is the whole table."""
    hudis = hudi_rows(rows_of(judged.answers["incremental_after"]["000"]))
    hidden = judged.written.hidden
    assert hudis == [row for row in judged.ours() if hidden.get(key_of(row)) != name_of(row)]


def test_hudi_rs_reads_every_row_and_column_as_we_do(judged: Judged) -> None:
    if judged.name in REFUSED_BY_RS:
        with pytest.raises(BaseException, match=REFUSED_BY_RS[judged.name]):  # some refusals are Rust panics
            read_by_rs(judged.table)
    else:
        assert read_by_rs(judged.table) == judged.ours()


def read_by_rs(table: lb.Table) -> list[Row]:
    path = table.path.removeprefix("file://")
    batches = HudiTableBuilder.from_base_uri(path).build().read()
    return our_rows(pa.Table.from_batches(batches)) if batches else []


def rows_of(answer: Any) -> list[dict[str, Any]]:
    """Hudi's rows. A refusal of Hudi's fails the test, with its words."""
    assert isinstance(answer, list), answer
    return answer

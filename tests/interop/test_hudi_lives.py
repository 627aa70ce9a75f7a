# SPDX-License-Identifier: Apache-2.0
"""Random lives of tables, with values at the edges of every type, and Apache Hudi as judge at their end.

See tests/unit/house/test_lives.py. A life that fails is printed as a script.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakebraid.clock import SystemClock
from lakebraid.storage import open_storage
from tests.interop.referee import Referee
from tests.interop.test_hudi_reads_our_writes import rows_of
from tests.kit.effort import playing, seeds
from tests.kit.reference import hudi_rows, our_rows
from tests.lives.checking import check
from tests.lives.choosing import Step, choose
from tests.lives.kinds import TYPES, Kind, random_kind
from tests.lives.life import Life
from tests.lives.values import LONG_LENGTHS
from tests.lives.walking import Failure, apply, end, said_by

pytestmark = [pytest.mark.interop, pytest.mark.slow]

_FOUND = (92789930, 730000073)
"""A delete ahead of its row in the log file of a compaction; partial updates that a plan kept from the last compaction."""
NOT_HERE = ("wait", "tend", "rescue", "consume", "hold", "let_go", "look")
"""The clock is the machine's, and looking is not what is judged here."""
_STEPS = 14


@pytest.mark.parametrize("seed", [*seeds(8), *_FOUND])
def test_hudi_reads_a_table_as_its_writers_made_it_after_a_whole_life(
    seed: int, referee: Referee, tmp_path: Path
) -> None:
    playing(seed)
    failure = live(seed, tmp_path, referee)
    assert failure is None, f"\n{failure}"


def live(seed: int, where: Path, referee: Referee) -> Failure | None:
    """A life on a disk, judged at its end by Hudi, and how it failed."""
    dice = random.Random(seed)
    life = Life(_kind(dice), SystemClock(), open_storage(where))
    steps: list[Step] = []
    try:
        while len(steps) < _STEPS:
            step = choose(dice, life)
            if step[0] not in NOT_HERE:
                steps.append(step)
                apply(life, step)
                check(life)
        _settle(life, any(is_partial(step) for step in steps))
        check(life)
        assert seen_by_hudi(life, referee, where) == model(life)
    except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
        return Failure(life.kind, steps, said_by(error)[-4000:])
    finally:
        end(life)
    return None


def _settle(life: Life, has_partial: bool) -> None:
    """Ends writers and compacts, so that nothing is left of what Hudi shows only after a compaction (docs/differences.md).

    A plan that nobody runs keeps its file groups from that. It stays, save where partial updates were.
    """
    for name in [*life.open]:
        life.abort(name)
    for name in [*life.plans] if has_partial else ():
        life.run(name)
    if life.kind.table_type == "mor":
        life.compact()


def is_partial(step: Step) -> bool:
    name, args, how = step
    return how.get("partial") is not None or (name == "begin" and len(args) > 2)


def _kind(dice: random.Random) -> Kind:
    kind = replace(random_kind(dice), shared=False)
    return replace(kind, lengths=LONG_LENGTHS) if dice.random() < 0.1 else kind


def seen_by_hudi(life: Life, referee: Referee, where: Path) -> list[Any]:
    """Hudi's rows, without partition columns, whose values it reads off the folders (docs/differences.md)."""
    rows = rows_of(referee.ask("read", path=str(where))["rows"])
    left_out = {*life.kind.partitions}
    return hudi_rows(
        [{n: v for n, v in row.items() if not n.startswith("_hoodie_") and n not in left_out} for row in rows]
    )


def model(life: Life) -> list[Any]:
    names = [n for n in life.world.columns if n not in life.kind.partitions and not n.startswith("_hoodie_")]
    schema = pa.schema([(n, TYPES[life.world.columns[n]]) for n in names])
    return our_rows(pa.Table.from_pylist([{n: row[n] for n in names} for row in life.world.rows().values()], schema))

# SPDX-License-Identifier: Apache-2.0
"""Random lives of tables in which everything meets everything, judged by Apache Hudi before their logs are compacted.

Three keys in one bucket, a write that is open from the beginning to the end, compactions and log compactions all the time: so compactions carry on what they
must not forget (docs/spec/ledger.md, tombstones), and Hudi has to merge it. Partial updates and equal ordering values are left out: there we differ (docs/differences.md).
`LAKEBRAID_EFFORT` lives more of them. A life that fails is printed as a script.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from lakebraid.clock import SystemClock
from lakebraid.storage import open_storage
from tests.interop.referee import Referee
from tests.interop.test_hudi_lives import NOT_HERE, is_partial, model, seen_by_hudi
from tests.kit.effort import playing, seeds
from tests.lives.checking import check
from tests.lives.choosing import Step, choose
from tests.lives.kinds import Kind, random_kind
from tests.lives.life import Life
from tests.lives.walking import Failure, apply, end, said_by

pytestmark = [pytest.mark.interop, pytest.mark.slow]

_STEPS: Final = 16
_FOUND: Final = (11, 13)
"""Deletes ahead of their rows in the log file of a compaction."""
_WEIGHTS: Final[Mapping[str, float]] = {
    "write": 30, "overlap": 16, "delete": 14, "compact": 14, "plan": 3, "run": 3, "clean": 2,
    "alter": 1, "archive": 1, "overwrite": 1, "savepoint": 1, "restore": 1, "swap": 1,
}  # fmt: skip


@pytest.mark.parametrize("seed", [*seeds(4), *_FOUND])
def test_hudi_merges_few_keys_as_we_do_while_a_write_stays_open_and_compactions_run(
    seed: int, referee: Referee, tmp_path: Path
) -> None:
    playing(seed)
    failure = live(seed, tmp_path, referee)
    assert failure is None, f"\n{failure}"


def live(seed: int, where: Path, referee: Referee) -> Failure | None:
    """Such a life, and how it failed."""
    dice = random.Random(seed)
    life = Life(_kind(dice), SystemClock(), open_storage(where))
    steps: list[Step] = [("begin", ("slow", "upsert"), {})]
    apply(life, steps[0])
    slow = life.open.pop("slow")  # nobody writes to it, or ends it
    try:
        while len(steps) < _STEPS:
            step = choose(dice, life, _WEIGHTS)
            if step[0] not in NOT_HERE and not is_partial(step):
                steps.append(step)
                apply(life, step)
                check(life)
        for made in (slow, *life.open.values()):
            made.transaction.abort()
        check(life)
        assert seen_by_hudi(life, referee, where) == model(life)
        life.compact()
        check(life)
        assert seen_by_hudi(life, referee, where) == model(life), "after a compaction"
    except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
        return Failure(life.kind, steps, said_by(error)[-4000:])
    finally:
        slow.transaction._heartbeat.stop()
        end(life)
    return None


def _kind(dice: random.Random) -> Kind:
    kind = random_kind(dice)
    return replace(
        kind,
        table_type="mor",
        index="bucket",
        concurrency=dice.choice(["nbcc", "occ"]),
        ordering=kind.ordering or ("ts",),
        keys=("id",),
        partitions=(),
        buckets=1,
        columns=tuple((n, "string" if n == "id" else t) for n, t in kind.columns if n not in ("k2", "p", "q")),
        properties=tuple(p for p in kind.properties if "clustering" not in p[0]),
        captures="",
        shared=False,
        lengths=None,
        key_texts=("a", "B", "k:2"),
        spread=10**6,
    )

# SPDX-License-Identifier: Apache-2.0
"""Random lives of tables that capture changes, and Apache Hudi's CDC query as judge of every commit at their end.

See tests/unit/house/test_lives.py. `LAKEBRAID_EFFORT` lives more of them. A life that fails is printed as a script.
What Hudi's query is known to tell otherwise (docs/differences.md) is left out of these lives; so is what takes files away.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lakebraid.clock import SystemClock
from lakebraid.model.config import CDC_MODES
from lakebraid.storage import open_storage
from tests.interop.referee import Referee
from tests.kit.effort import seeds
from tests.kit.models.cdc_reader import differences
from tests.lives.checking import check
from tests.lives.choosing import Step, choose
from tests.lives.judging import OVERWRITES
from tests.lives.kinds import SOFT, Kind
from tests.lives.life import Life
from tests.lives.walking import Failure, apply, end, said_by

pytestmark = [pytest.mark.interop, pytest.mark.slow]

_HERE = ("write", "begin", "more", "less", "commit", "abort", "delete", "delete_partitions", "alter")
_SERVICES = ("compact", "log_compact", "cluster", "plan", "run", "take_back")
_STEPS = 14
_COLUMNS = (("id", "string"), ("p", "string"), ("ts", "bigint"), ("v", "string"), ("n", "int"))
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""How Hudi tells a missing partition value in some of its rows."""
Image = tuple[Any, ...]
Told = dict[Image, tuple[Counter[Image], Counter[Image]]]
"""By key: the rows that went, and those that came. A row that went and came as it was is in neither."""


@pytest.mark.parametrize("seed", seeds(6))
def test_hudis_cdc_query_tells_of_every_commit_of_a_life_what_became_of_the_table(
    seed: int, referee: Referee, tmp_path: Path
) -> None:
    failure = live(seed, tmp_path, referee)
    assert failure is None, f"seed {seed}\n{failure}"


def live(seed: int, where: Path, referee: Referee) -> Failure | None:
    """A life on a disk, judged at its end by Hudi, and how it failed."""
    dice = random.Random(seed)
    life = Life(_kind(dice), SystemClock(), open_storage(where))
    steps: list[Step] = []
    expected: dict[str, Told] = {}
    try:
        while len(steps) < _STEPS:
            step = choose(dice, life)
            if not _is_wanted(life, step):
                continue
            steps.append(step)
            apply(life, step)
            if life.fresh is not None:
                request_time, old, new = life.fresh
                expected[request_time] = _told(life, differences(old.rows(), new.rows()))
            check(life)
        assert _told_by_hudi(life, referee, where) == {
            request_time: told for request_time, told in expected.items() if told
        }
    except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
        return Failure(life.kind, steps, said_by(error)[-4000:])
    finally:
        end(life)
    return None


def _kind(dice: random.Random) -> Kind:
    table_type = dice.choice(["mor", "mor", "cow"])
    index = dice.choice(["bucket", "simple", "simple", "simple", "global_simple"])
    properties = {"hoodie.parquet.small.file.limit": "0"} if dice.random() < 0.7 else {}
    if index != "bucket" and dice.random() < 0.4:
        name = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
        properties["hoodie.clustering.updates.strategy"] = name
    return Kind(
        table_type,
        index,
        dice.choice(["nbcc", "occ"]) if (table_type, index) == ("mor", "bucket") else "occ",
        dice.choice([("ts",), ("ts",), ()]),
        partitions=dice.choice([(), ("p",), ("p",)]),
        hive=dice.random() < 0.5,
        block_format=dice.choice(["parquet", "avro"]),
        columns=(*_COLUMNS, (SOFT, "boolean")) if dice.random() < 0.3 else _COLUMNS,
        properties=tuple(properties.items()),
        captures=dice.choice(CDC_MODES),
        lengths=None,
    )


def _is_wanted(life: Life, step: Step) -> bool:
    name, args, how = step
    if name in _SERVICES:
        return args[1:2] != ("clean",)
    if name not in _HERE or how.get("is_inline"):
        return False
    return life.kind.table_type == "cow" or not (_is_told_otherwise(life, step) or _is_hidden(life, step))


def _is_told_otherwise(life: Life, step: Step) -> bool:
    """Deletes that may lose, partial updates, and writers that win by their request time although they were published before."""
    name, args, how = step
    if how.get("partial") or (name == "begin" and len(args) > 2):
        return True
    if not life.kind.ordering:
        return name == "begin" and life.kind.concurrency == "nbcc"
    rows = [row for given in args if isinstance(given, list) for row in given if isinstance(row, dict)]
    return name == "less" or args[1:] == ("delete",) or any(_is_delete(name, row) for row in rows)


def _is_delete(name: str, row: dict[str, Any]) -> bool:
    return bool(row.get(SOFT)) or (name == "delete" and "ts" in row)


def _is_hidden(life: Life, step: Step) -> bool:
    """An overwrite of groups with files that count for no reader, or of which a compaction is planned."""
    name, args, _ = step
    operation = {"write": args[0], "delete_partitions": "delete_partition"}.get(name)
    if name == "commit" and args[0] in life.open:
        operation = life.open[args[0]].operation
    return operation in OVERWRITES and (bool(life.open) or any(kind == "compaction" for kind, _ in life.plans.values()))


def _told_by_hudi(life: Life, referee: Referee, where: Path) -> dict[str, Told]:
    options = {"hoodie.datasource.read.begin.instanttime": "000"}
    commits = defaultdict(list)
    for row in referee.ask("read", path=str(where), mode="cdc", options=options)["rows"]:
        commits[row["ts_ms"]].append(
            (row["op"], json.loads(row["before"] or "null"), json.loads(row["after"] or "null"))
        )
    found = {request_time: _told(life, events) for request_time, events in commits.items()}
    return {request_time: told for request_time, told in found.items() if told}


def _told(life: Life, events: Iterable[tuple[str, Any, Any]]) -> Told:
    """Steps on the way do not count: Hudi tells an update by an overwrite as a delete and an insert."""
    went, came = (defaultdict[Image, Counter[Image]](Counter) for _ in range(2))
    for _, before, after in events:
        for row, side in ((before, went), (after, came)):
            if row is not None:
                image = _image(row)
                side[image[:2] if life.kind.identifying == ("p", "id") else image[:1]][image] += 1
    pairs = {key: (went[key] - came[key], came[key] - went[key]) for key in {**went, **came}}
    return {key: pair for key, pair in pairs.items() if any(pair)}


def _image(row: dict[str, Any]) -> Image:
    return tuple(None if name == "p" and row.get(name) == _NO_PARTITION else row.get(name) for name, _ in _COLUMNS)

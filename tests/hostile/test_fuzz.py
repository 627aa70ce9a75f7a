# SPDX-License-Identifier: Apache-2.0
"""Real tables with random damage, so many of them. A failure names its seed; the seed tells the whole story."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from functools import cache
from random import Random

import pytest

from lakebraid.errors import CorruptFile, LakebraidError
from lakebraid.format.log.blocks import BlockType, LogBlock, format_block, read_blocks
from tests.hostile.attack import Target, files_of, look_at_everything, read_rows, refusal, target
from tests.hostile.forge_avro import container, split
from tests.hostile.mutations import mutate, mutate_log, mutate_records
from tests.kit import reference
from tests.kit.effort import first_seed, played, times

pytestmark = pytest.mark.hostile

FILES_DAMAGED = times(2000, least=200)
"""With fewer there may be none that is refused, or none that is read."""
FIRST = first_seed(20260715)

FILES = {
    "log bytes": r"(^|/)\.[^/]*\.log\.",
    "log insides": r"(^|/)\.[^/]*\.log\.",
    "log records": r"(^|/)\.[^/]*\.log\.",
    "base file": r"\.parquet$",
    "base footer": r"\.parquet$",
    "timeline": r"\.hoodie/(timeline/)?\d[^/]*$",
    "timeline record": r"\.hoodie/(timeline/)?\d[^/]*$",
    "properties": r"hoodie\.properties$|partition_metadata",
    "history": r"history/",
}
WEIGHTS = {"log insides": 3, "log records": 3, "base file": 2, "base footer": 2, "timeline record": 2}


@cache
def _tables() -> list[str]:
    return [name for name in reference.names() if sum(map(len, files_of(name).values())) < 2_000_000]


def _damaged(kind: str, data: bytes, random: Random) -> bytes:
    match kind:
        case "log insides":
            return mutate_log(data, random)
        case "log records":
            return _damaged_records(data, random)
        case "base footer" if len(data) > 12:
            footer = int.from_bytes(data[-8:-4], "little")
            changed = mutate(data[-8 - footer : -8], random)
            return data[: -8 - footer] + changed + len(changed).to_bytes(4, "little") + b"PAR1"
        case "timeline record" if data[:4] == b"Obj\x01":
            schema, body = split(data)
            return container(schema, mutate(body, random))
        case _:
            return mutate(data, random)


def _damaged_records(data: bytes, random: Random) -> bytes:
    try:
        blocks = list(read_blocks(data, "a log file").blocks)
    except CorruptFile:
        return mutate(data, random)
    rows = [at for at, block in enumerate(blocks) if block.type in (BlockType.AVRO, BlockType.CDC)]
    if not rows:
        return mutate_log(data, random)
    at = random.choice(rows)
    block = blocks[at]
    blocks[at] = LogBlock(block.type, block.header, mutate_records(bytes(block.content), random))
    return b"".join(format_block(b.type, b.header, b.content) for b in blocks)


def _try(seed: int, targets: dict[str, Target]) -> tuple[str, LakebraidError | None] | None:
    random = Random(seed)
    kind = random.choice([kind for kind in FILES for _ in range(WEIGHTS.get(kind, 1))])
    table = random.choice(_tables())
    made = targets.setdefault(table, target(table))
    names = [n for n in made.files if re.search(FILES[kind], n) and not n.startswith(".hoodie/metadata/")]
    if not names:
        return None
    name = random.choice(names)
    made.put(name, _damaged(kind, made.files[name], random))
    read = look_at_everything if random.random() < 0.3 else read_rows
    try:
        return kind, refusal(f"fuzz: {kind}", lambda: read(made.url), what=f"seed {seed}: {table} {name}")
    except BaseException as error:
        error.add_note(f"seed {seed}: {kind} of {table}, {name}")
        raise
    finally:
        made.restore(name)


def test_tables_with_random_damage_give_rows_or_a_lakebraid_error() -> None:
    targets: dict[str, Target] = {}
    outcomes: Counter[str] = Counter()
    seeds = played(itertools.count(FIRST))
    while outcomes.total() < FILES_DAMAGED:
        found = _try(next(seeds), targets)
        if found:
            outcomes[f"{found[0]}: {type(found[1]).__name__ if found[1] else 'rows'}"] += 1
    print(f"\n{outcomes.total():,} damaged files from seed {FIRST} on: {dict(sorted(outcomes.items()))}")
    assert any("CorruptFile" in kind for kind in outcomes)
    assert any("rows" in kind for kind in outcomes)

# SPDX-License-Identifier: Apache-2.0
"""The setting of a history: everything that is drawn from its seed before it begins. Printed with every failure."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from simulator.world.faults import CALM, Rates, drawn_rates
from simulator.world.schedule import Driver, Priorities, RandomWalk


@dataclass(frozen=True, slots=True)
class Setting:
    """Who takes part, on what kind of table, under which weather."""

    seed: int
    by_event: bool = True
    partitions: int = 1
    buckets: int = 1
    keys: int = 4
    orders: int = 6
    deletes: float = 0.2
    aborts: float = 0.1
    refusals: float = 0.0
    """How often the checks of a round refuse a write."""
    actors: tuple[tuple[str, int], ...] = (
        ("writer", 2),
        ("writer", 2),
        ("compactor", 2),
        ("rescuer", 4),
        ("reader", 3),
    )
    """Kind, and how many rounds it goes; named after their kind and place."""
    timeout_ms: int = 2000
    """Of heartbeats (and of the lease, in the protocol that has one)."""
    call_ms: int = 5
    skew_ms: int = 0
    drift: float = 0.0
    entries_kept: int = 1000
    staged_held: int = 64
    executors: bool = False
    """Whether tasks run in processes of their own, which outlive their driver and are sometimes run twice."""
    whole: bool = False
    """Whether writers and compactors are the product's own Transaction and service, or only call its decisions."""
    switch: float = 0.2
    """Chance of a switch at a call; 0 with `depth`: priorities instead."""
    depth: int = 0
    rates: Rates = CALM
    protocol: str = "ledger"
    retained: int = 2
    """Commits that a clean leaves readable."""
    clean_files: int = 100_000
    gone_ms: int = 86_400_000
    """How long late files of a write that was rolled back are reckoned with."""
    removable: float = 0.0
    """How often a plan may be taken back."""
    fixed: bool = False
    """Whether all file ids are ours: then they follow from overwrites alone, and nobody lists them."""
    placed: bool = False
    """Whether rows may lie in any file group, so that writers look for them and clusterings move them."""
    cow: bool = False
    """Whether such a table has base files alone, which are rewritten; their rows may be deleted."""
    gives_way: bool = False
    """Whether clusterings give way to writers; else writers are refused."""
    shared: bool = False
    """Whether jobs of Apache Hudi write the table as well, and Hudi's lock guards every decision."""
    captures: bool = False
    """Whether commits carry what Hudi's CDC query needs."""
    optimistic: bool = False
    """Whether of two writers that meet in a bucket the second is refused."""
    eager: bool = False
    """Whether processes ask for what they want, and go on while decisions are applied, as where calls take long."""
    ask_entries: int = 16
    """For how many entries asks count and outcomes are remembered."""
    asks_decided: int = 256
    """How many asks one entry decides."""
    grouped: bool = False
    """Whether completed files of one entry appear side by side, in any order."""
    metadata: bool = False
    """Whether the table has a metadata table, by which Apache Hudi's readers list its files."""

    def driver(self) -> Driver:
        rng = Random(self.seed * 7919 + 13)
        if self.depth:
            return Priorities(rng, self.rates, self.timeout_ms, self.depth, 600)
        return RandomWalk(rng, self.rates, self.timeout_ms, self.switch)

    def names(self) -> list[tuple[str, str, int]]:
        """Name, kind and rounds of each actor."""
        return [(f"{kind}{at}", kind, rounds) for at, (kind, rounds) in enumerate(self.actors)]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


def parse_setting(record: dict[str, Any]) -> Setting:
    actors = tuple((kind, rounds) for kind, rounds in record.pop("actors"))
    return Setting(actors=actors, rates=Rates(**record.pop("rates")), **record)


def drawn(seed: int) -> Setting:
    """The setting of a seed."""
    setting, rng = with_streams(_without_streams(seed), Random(seed * 131 + 3)), Random(seed * 173 + 11)
    is_placed = rng.random() < 0.12 and not setting.shared and not setting.fixed
    setting = with_clustering(setting, rng) if is_placed else with_capture(setting, Random(seed * 211 + 29))
    setting = with_asks(with_optimism(setting, Random(seed * 401 + 53)), Random(seed * 307 + 41))
    return with_loops(with_groups(setting, Random(seed * 409 + 59)), Random(seed * 431 + 61))


def with_metadata(seed: int) -> Setting:
    """The setting of a seed on a table with a metadata table: no transaction of the product begins on one yet."""
    setting, rng = replace(plain(seed), whole=False, metadata=True), Random(seed * 419 + 61)
    actors = [actor for actor in setting.actors if actor[0] != "hudi"]
    actors += [(kind, rng.randrange(2, 6)) for kind in ("tender", "lister", *(("tender",) * rng.randrange(2)))]
    actors += [("cleaner", 3)] if rng.random() < 0.5 else []
    setting = replace(setting, actors=tuple(actors), clean_files=rng.choice((1, 100_000)))
    return with_groups(with_asks(setting, Random(seed * 307 + 41)), Random(seed * 409 + 59))


def with_optimism(setting: Setting, rng: Random) -> Setting:
    """The same, in some histories, with buckets in which writers are in each other's way: where transactions are the product's."""
    may = setting.whole and not (setting.shared or setting.fixed or setting.placed or setting.captures)
    return replace(setting, optimistic=True, buckets=rng.choice((1, 2, 2))) if may and rng.random() < 0.15 else setting


def with_asks(setting: Setting, rng: Random) -> Setting:
    """The same, in half of all worlds with many asks, little memory of them and few of them in one entry."""
    if rng.random() < 0.5 or setting.shared:
        return setting
    entries, decided = rng.choice((1, 2, 4, 16)), rng.choice((1, 2, 8, 256))
    return replace(setting, eager=True, ask_entries=entries, asks_decided=decided)


def with_loops(setting: Setting, rng: Random) -> Setting:
    """The same, in some worlds with asks, with writers that begin their next write ahead."""
    if not setting.eager or setting.placed or rng.random() >= 0.35:
        return setting
    loops = [("looper", rng.randrange(1, 4)) for _ in range(rng.choice((1, 2, 3)))]
    return replace(setting, actors=(*setting.actors, *loops))


def with_groups(setting: Setting, rng: Random) -> Setting:
    """The same, in some histories without Apache Hudi, on a table whose commits appear side by side; of these in some with
    eight writers more, so that entries decide many of them.
    """
    if setting.shared or rng.random() >= (0.4 if setting.eager else 0.1):
        return setting
    more = (("writer", 2),) * 8 if rng.random() < 0.3 and not setting.placed and not setting.fixed else ()
    return replace(setting, grouped=True, actors=(*setting.actors, *more))


def with_capture(setting: Setting, rng: Random) -> Setting:
    """The same, in some histories, on a table that captures changes: where transactions are the product's own."""
    may = setting.whole and not setting.shared and not setting.fixed
    return replace(setting, captures=True) if may and rng.random() < 0.15 else setting


def with_clustering(setting: Setting, rng: Random) -> Setting:
    """The same on a table whose rows may lie in any file group, with clusterings; of either type."""
    kept = ("compactor", "rescuer", "reader", "traveller", "mirror", "cleaner", "archiver", "savepointer", "restorer")
    actors = [(kind, rounds) for kind, rounds in setting.actors if kind in (*kept, "holder", "consumer")]
    actors += [("placer", rounds) for kind, rounds in setting.actors if kind == "writer"]
    actors += [("clusterer", rng.randrange(1, 5)) for _ in range(rng.choice((1, 1, 2, 2)))]
    placed = replace(
        setting,
        placed=True,
        gives_way=rng.random() < 0.5,
        executors=False,
        whole=True,
        removable=rng.choice((0.0, 0.0, 0.5)),
        actors=tuple(actors),
    )
    if rng.random() < 0.5:
        return copy_on_write(placed, setting)
    return (
        replace(placed, deletes=0.0) if setting.by_event else placed
    )  # a clustering forgets deletes, older events do not


def copy_on_write(placed: Setting, drawn: Setting) -> Setting:
    """The same with base files alone; executors are as they were drawn."""
    actors = tuple(actor for actor in placed.actors if actor[0] != "compactor")
    return replace(placed, cow=True, actors=actors, executors=drawn.executors)


def with_streams(setting: Setting, rng: Random) -> Setting:
    """The same, in some histories, with streams whose drivers come again."""
    count = rng.choice((0, 0, 0, 1, 2))
    return replace(setting, actors=(*setting.actors, *(("streamer", rng.randrange(2, 5)) for _ in range(count))))


def _without_streams(seed: int) -> Setting:
    setting, rng = plain(seed), Random(seed * 31 + 7)
    if rng.random() < 0.15:
        setting = beside_hudi(setting, rng)
    if rng.random() >= 0.55:
        return setting
    setting, rng = with_services(setting, rng), Random(seed * 97 + 5)
    return with_overwrites(setting, rng) if rng.random() < 0.35 and not setting.shared else setting


def plain(seed: int) -> Setting:
    """The same without table services and without Apache Hudi."""
    rng = Random(seed)
    walks = rng.random() < 0.6
    return Setting(
        seed=seed,
        by_event=rng.random() < 0.7,
        partitions=rng.choice((1, 1, 2)),
        buckets=rng.choice((1, 1, 2)),
        keys=rng.choice((1, 2, 4, 6)),
        orders=rng.choice((2, 5, 50)),
        deletes=rng.choice((0.0, 0.2, 0.4)),
        aborts=rng.choice((0.0, 0.1, 0.3)),
        refusals=rng.choice((0.0, 0.0, 0.1, 0.3)),
        actors=_drawn_actors(rng),
        call_ms=rng.choice((0, 1, 5, 20, 60)),
        skew_ms=rng.choice((0, 0, 30, 400)),
        drift=rng.choice((0.0, 0.0, 0.01, 0.2)),
        entries_kept=rng.choice((1, 1, 2, 5, 1000)),
        staged_held=rng.choice((0, 1, 3, 64)),
        executors=rng.random() < 0.4,
        whole=rng.random() < 0.5,
        switch=rng.choice((0.02, 0.1, 0.3, 0.6, 0.95)) if walks else 0.0,
        depth=0 if walks else rng.randrange(1, 6),
        rates=drawn_rates(rng),
    )


def small(seed: int) -> Setting:
    """The same with few actors, each of another kind: short enough to be killed at each of its calls in turn."""
    rng = Random(seed)
    others = rng.sample(("writer", "compactor", "rescuer", "reader", "traveller"), 3)
    return replace(plain(seed), actors=tuple((kind, 1) for kind in ("writer", "writer", *others)))


def with_services(setting: Setting, rng: Random) -> Setting:
    """The same with table services at work."""
    actors: list[tuple[str, int]] = []
    for kind, most, chance in (
        ("cleaner", 5, 0.7), ("archiver", 5, 0.6), ("logcompactor", 4, 0.5), ("savepointer", 3, 0.3),
        ("restorer", 2, 0.3), ("holder", 3, 0.4), ("consumer", 4, 0.3),
    ):  # fmt: skip
        if rng.random() < chance:
            actors += [(kind, rng.randrange(1, most + 1)) for _ in range(rng.choice((1, 1, 2)))]
    return replace(
        setting,
        whole=True,
        retained=rng.choice((1, 1, 2, 3)),
        clean_files=rng.choice((1, 3, 100_000)),
        gone_ms=rng.choice((86_400_000, 86_400_000, 60 * setting.timeout_ms)),
        removable=rng.choice((0.0, 0.0, 0.5, 1.0)),
        actors=(*_busier(setting.actors, rng), *actors),
    )


def with_overwrites(setting: Setting, rng: Random) -> Setting:
    """The same with writers that replace whole partitions."""
    actors = [("overwriter", rng.randrange(1, 4)) for _ in range(rng.choice((1, 1, 2)))]
    return replace(setting, fixed=True, actors=(*setting.actors, *actors))


def _busier(actors: tuple[tuple[str, int], ...], rng: Random) -> list[tuple[str, int]]:
    """More to clean and to archive: writers go on for longer, and somebody compacts."""
    busier = [(kind, rounds + rng.randrange(3) if kind == "writer" else rounds) for kind, rounds in actors]
    return [*busier, ("compactor", rng.randrange(2, 5))]


LATE = ("kill_late", "vanished", "late", "again", "echo", "back")
"""What a local disk and clocks that agree do not do: Hudi's lock is no lock without them."""


def beside_hudi(setting: Setting, rng: Random) -> Setting:
    """The same with jobs of Apache Hudi beside our writers. They forget deletes, so there are none."""
    jobs = [("job", rng.randrange(2, 6)) for _ in range(rng.choice((1, 1, 2)))]
    return replace(
        setting,
        shared=True,
        deletes=0.0,
        drift=0.0,
        skew_ms=min(setting.skew_ms, 35),
        call_ms=max(setting.call_ms, 1),
        rates=replace(setting.rates, **dict.fromkeys(LATE, 0.0)),
        actors=(*(a for a in setting.actors if a[0] != "hudi"), *jobs, ("operator", 12)),
    )


def _drawn_actors(rng: Random) -> tuple[tuple[str, int], ...]:
    actors = [("writer", rng.randrange(1, 4)) for _ in range(rng.randrange(1, 5))]
    actors += [("compactor", rng.randrange(1, 4)) for _ in range(rng.choice((0, 1, 1, 2)))]
    actors += [("rescuer", rng.randrange(2, 7)) for _ in range(rng.choice((0, 1, 1, 2)))]
    actors += [("reader", rng.randrange(1, 4)) for _ in range(rng.choice((0, 1, 1, 2)))]
    actors += [("traveller", rng.randrange(1, 3)) for _ in range(rng.choice((0, 0, 1)))]
    actors += [("mirror", rng.randrange(2, 5)) for _ in range(rng.choice((0, 1, 1)))]
    actors += [("hudi", rng.randrange(1, 3)) for _ in range(rng.choice((0, 0, 1)))]
    return tuple(actors)

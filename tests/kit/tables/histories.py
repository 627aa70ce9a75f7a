# SPDX-License-Identifier: Apache-2.0
"""Random histories of a table: writers that overlap, die and finish late, and services that run between them.

What a history may do is what Hudi's own rules allow: one pending service per file group, nobody writes into a group
while it is being replaced, a clean removes only what no present snapshot reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from lakebraid.model.keys.buckets import bucket_file_id, bucket_of
from tests.kit.models.oracle import (
    AT,
    UNAVAILABLE,
    Base,
    Block,
    Gone,
    Group,
    History,
    Instant,
    Log,
    Oracle,
    Put,
    Row,
    Settings,
    Version,
    live_files,
    merge_files,
    merged,
    versions_of,
)
from tests.kit.tables.built_files import record_key
from tests.kit.tables.table_settings import settings_of

KEYS = ("k0", "k1", "k2", "k3")
Place = tuple[str, tuple[str, ...]]  # a partition and keys in it
TOKENS = ("0-0-0", "1-0-1", "10-0-2", "9-0-3")


@st.composite
def histories(
    draw: st.DrawFn,
    steps_max: int = 9,
    *,
    deletes: bool = True,
    partial: bool = True,
    services: Sequence[str] = ("compact", "log_compact", "replace", "clean"),
    settings: st.SearchStrategy[Settings] | None = None,
    stories: Sequence[str] = (),
) -> History:
    """A history. Without services of a kind, deletes or partial updates if asked; with the given stories at the end."""
    world = _World(draw, draw(settings_of() if settings is None else settings), deletes=deletes, partial=partial)
    steps = [step for step, needs in STEPS if needs in ("", *services)]
    steps_min = draw(st.sampled_from([1, steps_max // 3, steps_max * 2 // 3]))
    for step in draw(st.lists(st.sampled_from(steps), min_size=steps_min, max_size=steps_max)):
        getattr(world, step)()
    for story in stories:
        getattr(world, story)()
    for _ in range(draw(st.integers(0, 3))):
        world.finish()
    return world.history


STEPS = (
    *[("write", "")] * 3, *[("begin", "")] * 2, *[("finish", "")] * 3, ("give_up", ""), ("spare", ""),
    ("compact", "compact"), *[("finish_late", "compact")] * 3, ("log_compact", "log_compact"),
    *[("squeeze", "log_compact")] * 2, ("replace", "replace"), *[("replace_and_write_on", "replace")],
    ("clean", "clean"), ("compact_and_clean", "clean"),
)  # fmt: skip
"""What may happen, as often as it stands here, and the service it needs. Some are whole stories, for chance alone
seldom makes a writer finish late into a compacted group."""


class _World:
    """The table as it comes to be; every step takes the next moments."""

    def __init__(self, draw: st.DrawFn, settings: Settings, *, deletes: bool, partial: bool) -> None:
        self.draw, self.settings = draw, settings
        self.deletes, self.partial = deletes, partial and draw(st.booleans())
        self.flags = deletes and not settings.fill and draw(st.booleans())
        self.nulls = settings.order_type == "long" and not self.partial and not settings.fill and draw(st.booleans())
        self.now = 2
        self.partitions = ("p0", "p1") if settings.partitioned else ("",)
        self.home: dict[tuple[str, str], str] = {}
        self.renewed: dict[tuple[str, int], str] = {}
        self.locked: set[Group] = set()
        self.open: list[Instant] = []
        first = Instant(1, "deltacommit", 2, columns=self.columns(wide=False))
        self.history = History(settings, [first])

    def tick(self) -> int:
        self.now += self.draw(st.sampled_from([1, 1, 2]))
        return self.now

    def columns(self, *, wide: bool) -> tuple[str, ...]:
        names = ["id", *(["part"] if self.settings.partitioned else []), "ts"]
        names += ["ts2"] if "ts2" in self.settings.ordering else []
        return (*names, "v", "w", *(["extra"] if wide else []), *(["_hoodie_is_deleted"] if self.flags else []))

    def group_of(self, partition: str, key: str) -> Group:
        buckets = self.settings.buckets
        if buckets is None:
            file_id = self.home.setdefault((partition, key), self.draw(st.sampled_from(["g0", "g1"])))
        else:
            bucket = bucket_of(record_key(key, self.settings), ("id",), buckets)
            file_id = self.renewed.get((partition, bucket), bucket_file_id(bucket))
        return partition, file_id

    def used_groups(self) -> list[Group]:
        return [g for g in Oracle(self.history).groups if g not in self.locked and self.live(g) != (None, [])]

    def live(self, group: Group) -> tuple[Base | None, list[Log]]:
        return live_files(self.history, group, self.now)

    def is_quiet(self, group: Group) -> bool:
        """Whether nobody who may still finish writes into the group."""
        open_request_times = {i.request_time for i in self.open}
        files = self.history.files
        return not any(f.group == group and f.request_time in open_request_times for f in files)

    def values(self, partition: str, key: str, columns: tuple[str, ...], *, flagged: bool) -> Row:
        draw = self.draw
        row: Row = {"id": key, "part": partition, "w": draw(st.sampled_from([None, 0, 1, 2]))}
        orders = st.sampled_from([None, 0, 1, 2, -1] if self.nulls else [0, 1, 2, -1])
        row |= {"ts": draw(orders), "ts2": draw(orders)}
        texts = [None, "a", "b", "c", *([UNAVAILABLE] if self.settings.fill else [])]
        row |= {"v": draw(st.sampled_from(texts)), "extra": draw(st.sampled_from([None, "x", "y"]))}
        row["_hoodie_is_deleted"] = flagged and draw(st.sampled_from([None, False, False, True]))
        return {name: row[name] for name in columns}

    def block(self, partition: str, keys: list[str], columns: tuple[str, ...]) -> Block:
        draw = self.draw
        form = draw(st.sampled_from(["avro", "parquet", *(["delete"] if self.deletes else [])]))
        if form == "delete":
            width = len(self.settings.ordering)
            orders = st.one_of(st.none(), st.tuples(*[st.sampled_from([0, 1, 2, -1])] * width))
            return Block("delete", tuple(Gone(k, draw(orders) or None) for k in keys))
        is_partial = self.partial and not self.settings.fill and draw(st.booleans())
        if is_partial:
            some = draw(st.sets(st.sampled_from(["v", "w", *(["extra"] if "extra" in columns else [])])))
            columns = tuple(c for c in columns if c in {"id", "part", *(self.settings.ordering), *some})
        puts = tuple(Put(k, self.values(partition, k, columns, flagged=self.flags and not is_partial)) for k in keys)
        return Block(form, puts, columns, is_partial)

    def begin(self, place: Place | None = None) -> Instant:
        """A writer starts and puts its files down; nobody sees them yet."""
        draw = self.draw
        request_time, wide = self.tick(), draw(st.booleans())
        columns = self.columns(wide=wide)
        instant = Instant(request_time, "deltacommit", columns=columns)
        by_group: dict[Group, list[str]] = {}
        partition, chosen = place or self.place()
        for key in chosen:
            by_group.setdefault(self.group_of(partition, key), []).append(key)
        for group, keys in by_group.items():
            if group in self.locked:
                continue
            if (
                self.live(group) == (None, [])
                and not self.has_base(group)
                and draw(st.sampled_from([False, False, True]))
            ):
                rows = tuple((request_time, self.values(partition, k, columns, flagged=False)) for k in keys)
                self.history.bases.append(Base(group, request_time, rows, columns=columns))
                continue
            for version in range(1, draw(st.sampled_from([2, 2, 3]))):
                count = draw(st.sampled_from([1, 1, 2]))
                again = keys[: draw(st.sampled_from([0, 0, 1]))]  # a key may come twice in one block
                blocks = tuple(self.block(partition, [*keys, *again], columns) for _ in range(count))
                token = draw(st.sampled_from(TOKENS))
                self.history.logs.append(Log(group, request_time, blocks, version, token))
        self.history.instants.append(instant)
        self.open.append(instant)
        return instant

    def place(self) -> Place:
        """A partition and some keys in it."""
        keys = self.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
        return self.draw(st.sampled_from(self.partitions)), tuple(keys)

    def has_base(self, group: Group) -> bool:
        return any(b.group == group for b in self.history.bases)

    def finish(self, instant: Instant | None = None) -> None:
        """Somebody who is under way completes."""
        if self.open:
            instant = instant or self.draw(st.sampled_from(self.open))
            self.open.remove(instant)
            instant.completion = self.tick()
            self.release(instant)

    def write(self) -> None:
        self.finish(self.begin())

    def finish_late(self) -> None:
        """A slow writer and a fast one; a compaction takes the fast one's log; the slow one finishes after that."""
        place = self.place()
        slow = self.begin(place)
        self.finish(self.begin(place))
        planned = self.compact()
        for instant in self.draw(st.permutations([slow, *([planned] if planned else [])])):
            if self.draw(st.sampled_from([True, True, True, False])):
                self.finish(instant)

    def squeeze(self) -> None:
        """Two writes, perhaps one that began between them, and a log compaction of the two."""
        place = self.place()
        first = self.begin(place)
        self.finish(first)
        between = [self.begin(place)] if self.draw(st.booleans()) else []
        self.finish(self.begin(place))
        planned = self.log_compact()
        for instant in self.draw(st.permutations([*between, *([planned] if planned else [])])):
            self.finish(instant)

    def replace_and_write_on(self) -> None:
        """Groups are replaced, and writers go on where their keys then are."""
        place = self.place()
        self.finish(self.begin(place))
        planned = self.replace()
        if planned:
            self.finish(planned)
            self.finish(self.begin(place))

    def compact_and_clean(self) -> None:
        self.write()
        planned = self.compact()
        if planned:
            self.finish(planned)
        self.clean()

    def give_up(self) -> None:
        """Somebody dies: pending for ever, or rolled back, with or without the files."""
        if self.open:
            instant = self.draw(st.sampled_from(self.open))
            self.open.remove(instant)
            if instant.action == "deltacommit" and self.draw(st.booleans()):
                instant.rolled_back_at = self.tick()
                instant.leaves_files = self.draw(st.booleans())
            self.release(instant)

    def release(self, instant: Instant) -> None:
        """A replacement lets go of its groups. A dead compaction keeps its plan: its groups get no other one."""
        self.locked -= {*instant.replaces}
        if instant.replaces and instant.completion is not None:
            self.settle(instant)

    def spare(self) -> None:
        """A second attempt of a task leaves a base file that no commit names."""
        bases = [b for b in self.history.bases if b.named]
        if bases:
            twin = self.draw(st.sampled_from(bases))
            if not any(
                b.request_time == twin.request_time and b.group == twin.group and not b.named
                for b in self.history.bases
            ):
                rows = tuple((at, row | {"w": 9}) for at, row in twin.rows)
                token = "0-9-9" if self.draw(st.booleans()) else "7-7-7"
                self.history.bases.append(replace(twin, rows=rows, token=token, named=False))

    def planned_groups(self) -> set[Group]:
        pending = [i for i in self.history.instants if i.completion is None and i.inputs]
        return {f.group for i in pending for f in i.inputs}

    def compact(self) -> Instant | None:
        """A plan, and at once the base file; it counts when the compaction completes."""
        # A first base file that is still being written would vanish behind the compacted one.
        waiting = {b.group for b in self.history.bases if b.request_time in {i.request_time for i in self.open}}
        groups = [g for g in self.used_groups() if g not in self.planned_groups() | waiting and self.live(g)[1]]
        if not groups:
            return None
        request_time, everything = self.tick(), self.columns(wide=True)
        instant = Instant(request_time, "compaction")
        chosen = self.draw(st.lists(st.sampled_from(groups), min_size=1, max_size=2, unique=True))
        for group in chosen:
            base, logs = self.live(group)
            rows = merge_files(base, logs, self.settings, everything)
            kept = tuple((row[AT], _data(row)) for _, row in sorted(rows.items()))
            self.history.bases.append(Base(group, request_time, kept, columns=everything))
            instant.inputs += (*([base] if base else []), *logs)
        self.history.instants.append(instant)
        self.open.append(instant)
        return instant

    def log_compact(self) -> Instant | None:
        """Some whole logs of a slice, merged into one log file."""
        if self.settings.fill or self.partial:
            return None
        groups = [g for g in self.used_groups() if g not in self.planned_groups() and len(self.live(g)[1]) > 1]
        if not groups:
            return None
        group = self.draw(st.sampled_from(groups))
        _, logs = self.live(group)
        named = {s for log in logs for block in log.blocks for s in block.compacted}
        request_times = sorted({log.request_time for log in logs} - named)
        chosen = self.draw(st.sets(st.sampled_from(request_times), min_size=1))
        inputs = [log for log in logs if log.request_time in chosen]
        request_time, everything = self.tick(), self.columns(wide=True)
        own: dict[str, list[Version]] = {}
        for key, version in versions_of(inputs, self.settings, everything):
            own.setdefault(key, []).append(version)
        states = {key: state for key, found in own.items() if (state := merged(None, found, self.settings))}
        puts = tuple(Put(k, _data(v.values)) for k, v in sorted(states.items()) if not v.deleted)
        gone = tuple(Gone(k, v.order) for k, v in sorted(states.items()) if v.deleted)
        times = tuple(sorted(chosen))
        blocks = [Block("parquet", puts, everything, compacted=times)] if puts else []
        blocks += [Block("delete", gone, compacted=times)] if gone else []
        self.history.logs.append(Log(group, request_time, tuple(blocks)))
        instant = Instant(request_time, "logcompaction", inputs=tuple(inputs))
        self.history.instants.append(instant)
        self.open.append(instant)
        return instant

    def replace(self) -> Instant | None:
        """An overwrite, a dropped partition or a clustering takes groups away, and perhaps puts others there."""
        groups = [g for g in self.used_groups() if g not in self.planned_groups() and self.is_quiet(g)]
        if not groups:
            return None
        partition = self.draw(st.sampled_from(groups))[0]
        groups = [g for g in groups if g[0] == partition]
        kind = self.draw(st.sampled_from(["cluster", "overwrite", "drop"]))
        request_time, everything = self.tick(), self.columns(wide=True)
        action = "clustering" if kind == "cluster" else "replacecommit"
        instant = Instant(request_time, action, replaces=tuple(groups))
        instant.columns = () if kind == "cluster" else everything
        self.locked |= {*groups}
        rows: list[tuple[int, Row]] = []
        if kind == "cluster":
            for group in groups:
                merged = merge_files(*self.live(group), self.settings, everything)
                rows += [(row[AT], _data(row)) for row in merged.values()]
        elif kind == "overwrite":
            for key in KEYS:
                group = self.group_of(partition, key)
                if group in groups and self.draw(st.booleans()):
                    rows.append((request_time, self.values(partition, key, everything, flagged=False)))
        by_file: dict[str, list[tuple[int, Row]]] = {}
        for at, row in sorted(rows, key=lambda r: r[1]["id"]):
            by_file.setdefault(self.new_file_id(row["id"], request_time), []).append((at, row))
        for file_id, own in by_file.items():
            self.history.bases.append(Base((partition, file_id), request_time, tuple(own), columns=everything))
        self.history.instants.append(instant)
        self.open.append(instant)
        return instant

    def new_file_id(self, key: str, request_time: int) -> str:
        buckets = self.settings.buckets
        if buckets is None:
            return f"c{request_time}"
        return f"{bucket_of(record_key(key, self.settings), ('id',), buckets):08d}-{request_time:04d}-0000-0000-000000000000-0"

    def settle(self, instant: Instant) -> None:
        """From now on keys live where the replacement put them, or, after a drop, where they did."""
        new = [b for b in self.history.bases if b.request_time == instant.request_time and b.named]
        buckets = self.settings.buckets
        if buckets is not None:
            self.renewed |= {(b.group[0], int(b.group[1][:8])): b.group[1] for b in new}
            return
        gone = {*instant.replaces}
        self.home = {k: f for k, f in self.home.items() if (k[0], f) not in gone}
        self.home |= {(b.group[0], row["id"]): b.group[1] for b in new for _, row in b.rows}

    def clean(self) -> None:
        """Slices older than the newest base of their group go, and groups that were replaced."""
        request_time = self.tick()
        removed: list[Log | Base] = []
        cleaned = {id(f) for i in self.history.instants for f in i.removed}
        for group in Oracle(self.history).groups:
            own = [f for f in self.history.files if f.group == group and id(f) not in cleaned]
            done = [f for f in own if self.history.instant(f.request_time).done(request_time)]
            base, logs = self.live(group)
            replaced = any(group in i.replaces and i.done(request_time) for i in self.history.instants)
            if base is None and not replaced:
                continue
            kept = {id(f) for f in (base, *logs)}
            if replaced and base is None and logs:
                continue
            twins = {
                id(f) for f in done if isinstance(f, Base) and base is not None and f.request_time == base.request_time
            }
            everything = bool(base) or self.draw(st.booleans())
            removed += [f for f in done if id(f) not in kept | twins and (everything or isinstance(f, Base))]
        instant = Instant(request_time, "clean", removed=tuple(removed))
        instant.completion = self.tick() if self.draw(st.booleans()) else None
        self.history.instants.append(instant)


def _data(row: dict[str, Any]) -> Row:
    return {name: value for name, value in row.items() if name != AT}

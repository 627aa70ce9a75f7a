# SPDX-License-Identifier: Apache-2.0
"""Whether the keys that a partial update took for new are new at the moment it is published.

Hudi's readers take a skeleton for a whole row: it hides the columns of every write that began before it. So of two
writers that open a row for one key the second is refused, and so is one that began before a row was opened, and looked
after it. Both begin again, and then come after the skeleton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import SnapshotExpired, WriteConflict
from lakebraid.format.avro.rows import parse_avro_block
from lakebraid.format.log.blocks import BlockType, LogBlock, read_blocks
from lakebraid.format.parquet.rows import read_parquet_block
from lakebraid.model.schema.avro_text import states_skeletons
from lakebraid.model.timeline.instant import Instant
from lakebraid.storage.protocol import Storage
from lakebraid.table.loading import load_commit
from lakebraid.tasks.open_files import read_log
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.ledger.rounds import Round

RECORD_KEY = "_hoodie_record_key"
SERVICES = frozenset({"compaction", "logcompaction"})
_Group = tuple[str, str]
_Clash = Callable[[Storage, Iterable[StagedFile], str], bool]


@dataclass(slots=True)
class Looked:
    """What a partial update knew when it looked which keys have a row."""

    position: str
    """Everything that completed up to this time was seen."""
    first_active: str | None
    """The first write of the timeline then: if it is another one now, some were archived meanwhile."""
    younger: tuple[Instant, ...] = ()
    """Writes that were seen, though they began later than this one."""
    judged: set[str] = field(default_factory=set)
    """Writes that completed since and are known to touch none of the new keys."""

    def check(self, now: Round, start: str, files: Iterable[StagedFile]) -> None:
        """WriteConflict if a write that completed since has rows of keys that these files open, or if a younger one
        opened rows that they update.

        Compactions change no answer, and what is only deleted is still new.
        """
        own = by_group(files)
        for instant in self.younger:
            if meets(now, instant, own, _opened_rows):
                raise _conflict(
                    now, start, f"the write {instant.request_time}, which began later, opened one of its rows", instant
                )
        self.younger = ()
        opened = by_group(file for file in files if file.new_keys)
        if not opened:
            return
        timeline = now.since(self.position)
        if timeline.first_active_write != self.first_active:
            raise _conflict(now, start, "writes that may have brought the same new keys were archived meanwhile")
        for instant in timeline.writes:
            if (instant.completion_time or "") > self.position and instant.request_time not in self.judged:
                if _may_bring_the_same(now, instant, opened):
                    raise _conflict(
                        now, start, f"the write {instant.request_time} brought a key of it that was new", instant
                    )
                self.judged.add(instant.request_time)


def _may_bring_the_same(now: Round, instant: Instant, opened: dict[_Group, list[StagedFile]]) -> bool:
    if instant.kind in SERVICES:
        return False
    # What replaces file groups has its rows in others, under the same keys.
    return instant.action == "replacecommit" or meets(now, instant, opened, _same_new_keys)


def by_group(files: Iterable[StagedFile]) -> dict[_Group, list[StagedFile]]:
    """Our files, by partition and file id."""
    groups: dict[_Group, list[StagedFile]] = {}
    for file in files:
        groups.setdefault((file.partition, file.file_id), []).append(file)
    return groups


def meets(now: Round, instant: Instant, groups: dict[_Group, list[StagedFile]], do_clash: _Clash) -> bool:
    """Whether a file of a completed write clashes with our own of the same file group."""
    storage = now.ledger.storage
    metadata = load_commit(storage, now.ledger.config, instant, now.ledger.clock)
    for partition, stats in metadata.write_stats.items():
        for stat in stats:
            own = groups.get((partition, stat.file_id or ""))
            if own is not None and stat.path is not None and do_clash(storage, own, stat.path):
                return True
    return False


def _same_new_keys(storage: Storage, own: Iterable[StagedFile], other: str) -> bool:
    """Whether another file has rows of keys that ours open; what cannot be known counts as yes."""
    if other.endswith(".parquet"):
        return True
    mine = [keys for file in own for keys in _keys(storage, file.path, only_skeletons=True)]
    try:
        return share(mine, list(_keys(storage, other, only_skeletons=False)))
    except SnapshotExpired:
        return True  # compacted and cleaned away meanwhile


def _opened_rows(storage: Storage, own: Iterable[StagedFile], other: str) -> bool:
    """Whether another file opens rows of which ours have columns. One that was compacted does so no more."""
    try:
        theirs = [] if other.endswith(".parquet") else list(_keys(storage, other, only_skeletons=True))
    except SnapshotExpired:
        return False
    return bool(theirs) and share(theirs, [k for f in own for k in _keys(storage, f.path, only_skeletons=False)])


def share(some: list[pa.Array], others: list[pa.Array]) -> bool:
    """Whether a key is among both."""
    known = pa.chunked_array(some, pa.string()).combine_chunks()
    return bool(pc.any(pc.is_in(pa.chunked_array(others, pa.string()), value_set=known)).as_py())


def _keys(storage: Storage, name: str, *, only_skeletons: bool) -> Iterator[pa.Array]:
    """The record keys of the rows in a log file, block by block."""
    for block in read_blocks(read_log(storage, name), name).blocks:
        if block.type in (BlockType.AVRO, BlockType.PARQUET) and (
            not only_skeletons or states_skeletons(block.schema_text)
        ):
            yield from block_rows(block, name).column(RECORD_KEY).chunks


def block_rows(block: LogBlock, name: str, columns: Sequence[str] = (RECORD_KEY,)) -> pa.Table:
    """The rows of a data block, at least these columns of them."""
    where = f"the block at byte {block.offset:,} of {name}"
    if block.type is BlockType.AVRO:
        return parse_avro_block(block.content, block.schema_text or "", where)
    return read_parquet_block(block.content, [*columns], where)


def _conflict(now: Round, start: str, reason: str, instant: Instant | None = None) -> WriteConflict:
    facts = {} if instant is None else {"other": instant.request_time}
    return WriteConflict(
        f"The partial update {start} of {now.ledger.storage.url} was refused: {reason}. Nothing of it "
        "is visible. Run it again from its begin: it will then update the rows that are there now "
        "(`table.upsert(rows, columns=...)` does so by itself).",
        instant=start,
        **facts,
    )

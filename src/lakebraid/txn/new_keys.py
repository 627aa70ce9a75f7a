# SPDX-License-Identifier: Apache-2.0
"""Whether the keys that a partial update took for new are new at the moment it is published.

Two writers that both open a row for one key would each put a skeleton of it down, and Hudi's readers take the later
one for a whole row: the columns of the other writer are gone. So the second one is refused, and does it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import SnapshotExpired, WriteConflict
from lakebraid.format.avro_rows import parse_avro_block
from lakebraid.format.log_blocks import BlockType, LogBlock, read_blocks
from lakebraid.format.parquet_rows import read_parquet_block
from lakebraid.model.instant import Instant
from lakebraid.model.schema_text import states_skeletons
from lakebraid.storage.protocol import Storage
from lakebraid.table.loading import load_commit
from lakebraid.tasks.files import read_log
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.ledger import Round

_RECORD_KEY = "_hoodie_record_key"
_SERVICES = frozenset({"compaction", "logcompaction"})
_Group = tuple[str, str]


@dataclass(slots=True)
class Looked:
    """What a partial update knew when it looked which keys have a row."""

    position: str
    """Everything that completed up to this time was seen."""
    first_active: str | None
    """The first write of the timeline then: if it is another one now, some were archived meanwhile."""
    judged: set[str] = field(default_factory=set)
    """Writes that completed since and are known to touch none of the new keys."""

    def check(self, now: Round, start: str, files: Iterable[StagedFile]) -> None:
        """WriteConflict if a write that completed since has rows of keys that these files open.

        Compactions change no answer, and what is only deleted is still new.
        """
        opened: dict[_Group, list[StagedFile]] = {}
        for file in files:
            if file.new_keys:
                opened.setdefault((file.partition, file.file_id), []).append(file)
        if not opened:
            return
        timeline = now.timeline()
        if timeline.first_active_write != self.first_active:
            raise _conflict(now, start, "writes that may have brought the same new keys were archived meanwhile")
        for instant in timeline.writes:
            if (instant.completion_time or "") > self.position and instant.request_time not in self.judged:
                if instant.kind not in _SERVICES and _meets(now, instant, opened):
                    raise _conflict(now, start, f"the write {instant.request_time} brought a key that was new", instant)
                self.judged.add(instant.request_time)


def _meets(now: Round, instant: Instant, opened: dict[_Group, list[StagedFile]]) -> bool:
    """Whether a completed write has rows of opened keys; what cannot be known counts as yes."""
    storage = now.ledger.storage
    metadata = load_commit(storage, now.ledger.config, instant, now.ledger.clock)
    if metadata.replaced:
        return True
    for partition, stats in metadata.write_stats.items():
        for stat in stats:
            own = opened.get((partition, stat.file_id or ""))
            if own is None or stat.path is None:
                continue
            if stat.path.endswith(".parquet") or _share_keys(storage, own, stat.path):
                return True
    return False


def _share_keys(storage: Storage, own: Iterable[StagedFile], other: str) -> bool:
    mine = [keys for file in own for keys in _keys(storage, file.path, only_skeletons=True)]
    try:
        theirs = [keys for keys in _keys(storage, other, only_skeletons=False) if keys is not None]
    except SnapshotExpired:
        return True  # compacted and cleaned away meanwhile
    return bool(pc.any(pc.is_in(pa.chunked_array(theirs, pa.string()), value_set=_one(mine))).as_py())


def _keys(storage: Storage, name: str, *, only_skeletons: bool) -> Iterator[pa.ChunkedArray]:
    """The record keys of the rows in a log file, block by block."""
    for block in read_blocks(read_log(storage, name), name).blocks:
        if block.type in (BlockType.AVRO, BlockType.PARQUET) and (
            not only_skeletons or states_skeletons(block.schema_text)
        ):
            yield from _rows(block, name).column(_RECORD_KEY).chunks


def _rows(block: LogBlock, name: str) -> pa.Table:
    where = f"the block at byte {block.offset:,} of {name}"
    if block.type is BlockType.AVRO:
        return parse_avro_block(block.content, block.schema_text or "", where)
    return read_parquet_block(block.content, [_RECORD_KEY], where)


def _one(chunks: Iterable[pa.Array]) -> pa.Array:
    return pa.chunked_array(list(chunks), pa.string()).combine_chunks()


def _conflict(now: Round, start: str, reason: str, instant: Instant | None = None) -> WriteConflict:
    facts = {} if instant is None else {"other": instant.request_time}
    return WriteConflict(
        f"The partial update {start} of {now.ledger.storage.url} was refused: {reason} when this one looked. Nothing of it "
        "is visible. Run it again from its begin: it will then update the rows that are there now "
        "(`table.upsert(rows, columns=...)` does so by itself).",
        instant=start,
        **facts,
    )

# SPDX-License-Identifier: Apache-2.0
"""Whether another writer has inserted one of our new keys since we began: the check that keeps keys unique (scenario F26).

Where keys are looked up, two writers that insert one key put it into different file groups, and neither meets the other
there. So the keys of our new rows are held against the base files of all writes that completed since then: by
partition, by the footer's key range and filter, then key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import ObjectNotFound, SnapshotExpired, WriteConflict
from lakebraid.format.parquet.rows import open_parquet_file, read_parquet_rows
from lakebraid.format.timeline.commit import WriteStat
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.timeline.instant import Instant
from lakebraid.storage.protocol import Storage
from lakebraid.table.loading import load_commit
from lakebraid.tasks.data_files import open_base
from lakebraid.tasks.lookup.find import file_keys
from lakebraid.tasks.staged_file import StagedFile, brings_keys
from lakebraid.txn.checks.file_groups import writer_of
from lakebraid.txn.ledger.rounds import Round

_TIME = "_hoodie_commit_time"


@dataclass(slots=True)
class SameKeys:
    """What is known of our new keys and of rivals; the latter stays true between rounds."""

    request_time: str
    judged: set[str] = field(default_factory=set)
    _own: dict[str, pa.Array] | None = None

    def check(self, now: Round, rivals: Iterable[Instant], files: Iterable[StagedFile], writer: str) -> None:
        """WriteConflict if one of these rivals has brought a key that our base files bring as well."""
        inserting = [file for file in files if file.is_base and file.inserts]
        for rival in rivals if inserting else ():
            # A clustering moves rows that are there, a compaction merges them: they bring no keys.
            if rival.request_time in self.judged or rival.kind in ("clustering", "compaction", "logcompaction"):
                continue
            common = self._common(now, rival, inserting)
            if common is not None:
                raise _conflict(now, self.request_time, rival, common, writer)
            self.judged.add(rival.request_time)

    def _common(self, now: Round, rival: Instant, files: list[StagedFile]) -> str | None:
        """A key that both bring; what cannot be known counts as one."""
        ledger = now.ledger
        everywhere = ledger.config.is_global
        partitions = {file.partition for file in files}
        metadata = load_commit(ledger.table, rival)
        for partition, stats in metadata.write_stats.items():
            if not everywhere and partition not in partitions:
                continue
            for stat in stats:
                if brings_keys(stat):
                    own = self._new_keys(ledger.storage, files, None if everywhere else partition)
                    try:
                        found = self.common_key(ledger.storage, stat, own)
                    except (SnapshotExpired, ObjectNotFound):
                        found = "?"  # rewritten and cleaned away since
                    if found is not None:
                        return found
        return None

    def _new_keys(self, storage: Storage, files: Iterable[StagedFile], partition: str | None) -> pa.Array:
        if self._own is None:
            by_partition: dict[str, list[pa.Array]] = {}
            for file in files:
                keys = self.keys(storage, file.path, file.size, since=self.request_time)
                by_partition.setdefault(file.partition, []).extend(keys)
            self._own = {p: pa.chunked_array(k, pa.string()).combine_chunks() for p, k in by_partition.items()}
        chosen = [keys for p, keys in self._own.items() if partition in (None, p)]
        return pa.chunked_array(chosen, pa.string()).combine_chunks()

    def common_key(self, storage: Storage, stat: WriteStat, own: pa.Array) -> str | None:
        """One of these keys that the base file of a rival holds as well, or None."""
        name = stat.path or ""
        size = storage.info(name).size
        metadata = open_parquet_file(open_base(storage, name), size, name).metadata
        possible = own.filter(pa.array(file_keys(metadata.num_rows, metadata.metadata or {}).may_hold(own)))
        for keys in self.keys(storage, name, size) if len(possible) else ():
            both = possible.filter(pc.is_in(possible, value_set=keys))
            if len(both):
                return str(both[0].as_py())
        return None

    def keys(self, storage: Storage, name: str, size: int, *, since: str | None = None) -> Iterator[pa.Array]:
        """The record keys of a base file, of all rows or of those that one write has brought."""
        source = open_base(storage, name)
        file = open_parquet_file(source, size, name)
        groups = list(range(file.metadata.num_row_groups))
        for rows in read_parquet_rows(file, source, groups, [_TIME, RECORD_KEY], name):
            kept = rows if since is None else rows.filter(pc.equal(rows.column(_TIME), since))
            yield kept.column(RECORD_KEY).combine_chunks().cast(pa.string())


def _conflict(now: Round, request_time: str, rival: Instant, key: str, writer: str) -> WriteConflict:
    ledger = now.ledger
    other_writer = writer_of(now, rival)
    what = f"the key {key!r:.200}" if key != "?" else "keys that are no longer known"
    return WriteConflict(
        f"The write {request_time} of {ledger.storage.url} (by {writer}) was refused: the {rival.kind} {rival.request_time} (by "
        f"{other_writer}, completed {rival.completion_time}) has inserted {what} as well, and it would be there twice. "
        "Nothing of this write is visible, now or later; the other one is safe. Write again: it will then update that row.",
        instant=request_time,
        other=rival.request_time,
        writer=writer,
        other_writer=other_writer,
        key=None if key == "?" else key,
        rule="a key is there once",
    )

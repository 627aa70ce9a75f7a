# SPDX-License-Identifier: Apache-2.0
"""What a writing process knows of a table: its settings, its ledger, its schema."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CorruptFile, ObjectNotFound
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.names import parse_timeline_file
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.model.config import TableConfig
from lakebraid.model.schema.avro_text import table_schema_text
from lakebraid.model.schema.rfc82 import resolve
from lakebraid.model.writable import check_writable
from lakebraid.storage.parallel import Behind
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import Settings, load_settings
from lakebraid.table.metadata.scope import load_indexed_columns
from lakebraid.table.view import load_view
from lakebraid.txn.checks.inserted_keys import SameKeys
from lakebraid.txn.checks.overwrite_maps import NO_MAP, load_newest_map
from lakebraid.txn.checks.overwrites import listed_ids
from lakebraid.txn.checks.rivalry import Placement
from lakebraid.txn.hudi.lock import Lock, hudi_lock
from lakebraid.txn.ledger.entries import Entry
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.ledger.watch import Company
from lakebraid.txn.liveness.heartbeat import Heartbeat

FIXED_IDS = "hoodie.lakebraid.fixed.file.ids"
"""In the properties of tables whose buckets never had other file ids than the fixed ones."""


class SettingsChanged(Exception):
    """No error: a write that began with the settings that this process remembered has to begin with those that are so now."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The table's columns, and the text in which commits state them."""

    columns: pa.Schema
    text: str
    file: str | None
    """The timeline file that said so."""


class Writing:
    """Opens ledgers for transactions and remembers between them what saves calls; safe to share between threads."""

    heartbeat: type[Heartbeat] = Heartbeat
    """How its writes, and the plans that it executes, show that they live."""
    company: type[Company] = Company
    """What its decisions have in common."""
    same_keys: type[SameKeys] = SameKeys
    """How its writes compare their new keys with those of others."""

    def __init__(self, storage: Storage, clock: Clock, told: Mapping[str, str] | None = None) -> None:
        """`told` goes before the table's own properties, for these writes alone."""
        self.storage, self.clock, self._told = storage, clock, told or {}
        self._newest: tuple[Entry | None, int] = (None, 0)
        self._company = self.company()
        self._schema: TableSchema | None = None
        self._map = NO_MAP
        self._settings: Settings | None = None
        self._writable: tuple[TableConfig, Mapping[str, str]] | None = None
        """Settings that were found to be writable; while they stay as they are, they are."""

    def settings(self) -> tuple[TableConfig, Mapping[str, str]]:
        """The table's settings as they are now; UnsupportedTable if we must not write it."""
        found = load_settings(self.storage, self._settings)
        self.check_writable(found.config, found.properties)
        self._settings = found
        return found.config, {**found.properties, **self._told}

    def settings_ahead(self) -> tuple[tuple[TableConfig, Mapping[str, str]], Callable[[], None] | None]:
        """The same; where calls take long as they were at the last write of this process, with what raises `SettingsChanged` if
        they are not so any more. They are read while the write goes on.
        """
        if self._settings is None or not self._company.is_far:
            return self.settings(), None
        known = self._settings.config, {**self._settings.properties, **self._told}
        now = Behind(self.storage, self.settings)

        def confirm() -> None:
            if now.result() != known:
                raise SettingsChanged

        return known, confirm

    def at(self, config: TableConfig) -> TableAt:
        """The table with a configuration that was read of it."""
        return TableAt(self.storage, config, self.clock)

    def check_writable(self, config: TableConfig, properties: Mapping[str, str]) -> None:
        """UnsupportedTable if we must not write a table with these properties."""
        if properties.get(FIXED_IDS) == "true":
            if self._writable != (config, properties):
                check_writable(config, properties, self.storage.url)
                self._writable = (config, properties)
            return
        _, folders = self.storage.list_folder(".hoodie/.bucket_index")
        completed = self.completions(config) if config.timezone == "LOCAL" else None
        check_writable(
            config, properties, self.storage.url, completed=completed, bucket_index_folders=_last_parts(folders)
        )

    def ledger(self, config: TableConfig) -> Ledger:
        """A new ledger, which knows what the last one of this process knew."""
        lock = None if config.lock_provider is None else self.lock(self.at(config))
        known, applied = self._newest
        ledger = Ledger(self.at(config), is_shared=lock is not None, company=self._company)
        if lock is not None:
            ledger.lock = lock
        ledger.watch.known, ledger.applied = known, applied
        return ledger

    def lock(self, table: TableAt) -> Lock | None:
        """Hudi's lock, if the table is shared with its writers."""
        return hudi_lock(table)

    def open_writers(self, config: TableConfig) -> dict[str, str | None]:
        """The writer of each open write, by its request time; none is known where the ledger is damaged."""
        with contextlib.suppress(CorruptFile):
            state = Ledger(self.at(config)).newest().state
            return {request_time: state.writer_of(request_time) for request_time in state.open}
        return {}

    def remember(self, ledger: Ledger) -> None:
        known, _ = self._newest
        if ledger.known is not None and (known is None or known.number < ledger.known.number):
            self._newest = (ledger.known, ledger.applied)

    def schema(self, ledger: Ledger) -> TableSchema | None:
        """The table's schema now; None if none was ever stated."""
        file = None if ledger.is_shared else (ledger.known or ledger.newest()).state.schema_file
        if file is None:
            return self._slow_schema(ledger)
        known = self._schema
        if known is None or known.file != file:
            known = self._schema = self._stated(ledger, file) or self._slow_schema(ledger)
        return known

    def newest_schema(self, ledger: Ledger) -> TableSchema | None:
        """The same, whatever this process remembers."""
        ledger.newest()
        return self.schema(ledger)

    def columns(self, config: TableConfig) -> pa.Schema | None:
        """The table's columns, perhaps as they were at the last write of this process; None if none was ever stated."""
        schema = self.schema(self.ledger(config))
        return None if schema is None else schema.columns

    def indexed_columns(self, config: TableConfig) -> tuple[str, ...]:
        """The columns of which the table's metadata table keeps statistics; none if it has no such table."""
        return load_indexed_columns(self.at(config)) if config.metadata_partitions else ()

    def schema_since(self, ledger: Ledger, begun: TableSchema | None) -> TableSchema | None:
        """The schema that was looked at before beginning, or the one of the beginning if it has changed in between.

        What this process remembered may be what a restore removed; its columns would come back, or hide new ones.
        """
        known = ledger.entered or ledger.known
        is_same = known is None or known.state.schema_file == (None if begun is None else begun.file)
        return begun if ledger.is_shared or is_same else self.newest_schema(ledger)

    def schema_text(self, now: Round, begun: TableSchema | None, own: pa.Schema, *, merges: bool = False) -> str:
        """What a commit of this round must state, by RFC-82; SchemaConflict if another writer's change is in the way.

        Readers take the schema of the commit with the greatest request time (FORMAT, trap 33), so every commit repeats the
        table's schema as it is now, not the one its writer began with.
        """
        is_unchanged = begun is not None and now.state.schema_file == begun.file and not now.is_shared
        if begun is not None and is_unchanged and own.equals(begun.columns):
            return begun.text  # RFC-82, row 4: nothing changed
        current = begun if is_unchanged else self.schema(now.ledger)
        columns = None if current is None else current.columns
        before = None if begun is None else begun.columns
        stated = resolve(before, columns, own, merges=merges, where=self.storage.url)
        if current is not None and stated.equals(current.columns):
            return current.text
        now.states_schema = True
        return table_schema_text(stated, now.config.name)

    def placement(self, properties: Mapping[str, str], ledger: Ledger) -> Placement:
        """Where rows go. Ids of buckets that Apache Hudi made are looked up: a second id for one would double its keys."""
        if ledger.config.buckets is None or (properties.get(FIXED_IDS) == "true" and not ledger.is_shared):
            return Placement()
        view = load_view(ledger.table)
        return Placement(listed_ids(view.groups, view.replaced), looked=view.completion_time)

    def placed_since(self, ledger: Ledger, placement: Placement) -> Placement:
        """The same with the ids that overwrites have given, as the ledger has it since the write began."""
        known, name = self._map, (ledger.entered or ledger.newest()).state.replaced_file
        if known.name != name:
            known = self._map = load_newest_map(ledger)
        return replace(placement, known=known)

    def completions(self, config: TableConfig) -> dict[str, int]:
        """Completion times and when their files were written: they tell the zone of a timeline that does not say it."""
        files, _ = self.storage.list_folder(config.timeline_folder)
        parsed = ((parse_timeline_file(file.name.rpartition("/")[2]), file.modified_ms) for file in files)
        return {name.completion_time: ms for name, ms in parsed if name is not None and name.completion_time}

    def _stated(self, ledger: Ledger, file: str) -> TableSchema | None:
        name = f"{ledger.config.timeline_folder}/{file}"
        try:
            text = parse_commit(self.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), name).schema
        except ObjectNotFound:
            return None  # archived since
        return None if text is None else TableSchema(parse_avro_schema(text, name), text, file)

    def _slow_schema(self, ledger: Ledger) -> TableSchema | None:
        view = load_view(ledger.table)
        if not view.schema:
            return None
        return TableSchema(view.schema, table_schema_text(view.schema, ledger.config.name), None)


def _last_parts(names: list[str]) -> tuple[str, ...]:
    return tuple(name.rpartition("/")[2] for name in names)

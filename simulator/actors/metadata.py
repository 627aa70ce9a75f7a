# SPDX-License-Identifier: Apache-2.0
"""The metadata table: what writers tell it, the process that tends it, and readers who list the table by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebraid.errors import CommitRefused, CommitUnknown, CorruptFile, ObjectNotFound, StorageError, UnsupportedTable
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.metadata.delta import AddedFile, MetadataDelta, delta_of_commit
from lakebraid.model.metadata.scope import MetadataScope
from lakebraid.services import archiving
from lakebraid.services.metadata.compaction import compact_metadata
from lakebraid.services.metadata.tidying import tidy_metadata
from lakebraid.services.settings import Opened
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_commit, load_timeline
from lakebraid.table.metadata.layout import MetadataLayout
from lakebraid.table.metadata.lookups import load_files
from lakebraid.table.metadata.opening import open_metadata_table
from lakebraid.txn.ledger.ledger import Ledger
from simulator.stand_ins import product
from simulator.world.violation import Violation
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene

_DELTAS = 3


def tell(commit: CommitMetadata, layout: MetadataLayout) -> MetadataDelta:
    """What a commit of tiny files says: their names; every one has the same size."""
    added = [
        AddedFile(partition, path.removeprefix(f"{partition}/"), 100, None)
        for partition, stats in commit.write_stats.items()
        for path in (stat.path or "" for stat in stats)
    ]
    return delta_of_commit(added, MetadataScope(frozenset(layout.groups)))


def tend(scene: Scene, process: Process, rounds: int) -> None:
    """Compacts the metadata table, archives the table as far as that lets it, and removes what no reader needs."""
    for _ in range(rounds):
        process.clock.sleep(process.rng.random() * 0.4)
        try:
            tend_once(scene, process)
        except (StorageError, CommitRefused, CommitUnknown) as error:
            scene.mark(f"metadata table: {type(error).__name__}")


def tend_once(scene: Scene, process: Process) -> None:
    ledger = Ledger(TableAt(process.storage, scene.table.config, process.clock), company=product.RightClock())
    opened = Opened(product.new_writing(scene, process), ledger)
    if compact_metadata(opened, _DELTAS) is not None:
        scene.mark("metadata table compacted")
    if archiving.archive(opened, 1, 1 + process.rng.randrange(3)).instants:
        scene.mark("archived up to the last compaction of the metadata table")
    tidied = tidy_metadata(opened)
    if tidied.files:
        scene.mark("files of the metadata table removed")
    if tidied.instants:
        scene.mark("instants of the metadata table archived")


def list_rounds(scene: Scene, process: Process, rounds: int) -> None:
    """Lists the table by its metadata table, as the product does."""
    for _ in range(rounds):
        process.clock.sleep(process.rng.random() * 0.3)
        try:
            list_once(scene, process)
        except ObjectNotFound as error:
            if "/metadata/" not in str(error):
                raise
            scene.mark("lister overtaken by the removal of old files")
        except (StorageError, UnsupportedTable, CorruptFile) as error:
            scene.mark(f"lister: {type(error).__name__}")


def list_once(scene: Scene, process: Process) -> None:
    at = TableAt(process.storage, scene.table.config, process.clock)
    timeline = load_timeline(at)
    opened = open_metadata_table(at, timeline)
    listed = {} if opened is None else load_files(opened) or {}
    names = {f"{partition}/{name}" for partition, files in listed.items() for name in files}
    for write in timeline.writes:
        missing = {*load_commit(at, write).file_paths} - names - scene.oracle.doomed.keys()
        if missing:
            raise Violation("24 both tables list the same", f"{process.name} does not get {min(missing)}")
    scene.mark("listed by the metadata table")

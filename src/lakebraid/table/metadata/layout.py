# SPDX-License-Identifier: Apache-2.0
"""What a process that publishes has to know of the metadata table at that moment: its partitions, file groups, indexes and timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakebraid import limits
from lakebraid.errors import CommitRefused, ObjectNotFound, UnsupportedTable
from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.metadata.index_definitions import INDEX_DEFINITIONS, IndexDefinition, parse_index_definitions
from lakebraid.format.names import parse_data_file
from lakebraid.format.times import next_instant_time
from lakebraid.model.metadata.keys import COLUMN_STATS, FILE_ID_PREFIXES
from lakebraid.model.timeline.timeline import Timeline, build_timeline
from lakebraid.storage.parallel import map_calls, together
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_properties


@dataclass(frozen=True, slots=True)
class MetadataLayout:
    """A metadata table as its writers find it."""

    groups: Mapping[str, tuple[str, ...]]
    """The file ids in each of its partitions; how many there are decides where a key lies."""
    timeline: Timeline
    """Its own."""
    indexes: Mapping[str, IndexDefinition] = field(default_factory=dict)
    """By their names; empty where no statistics are kept."""

    @property
    def next_time(self) -> str:
        """A time greater than every one on its timeline."""
        return next_time(self.timeline)

    def has_later_deltas(self, request_time: str) -> bool:
        """Whether a delta commit that began after that time is completed: what it says of a partition may replace what an instant
        of that time says, whenever that one completes (MDT, section 4, point 3).
        """
        return any(i.action == "deltacommit" and i.request_time > request_time for i in self.timeline.writes)


def load_layout(table: TableAt) -> MetadataLayout:
    """The metadata table as it is now. CommitRefused if the table's properties no longer list what they listed when the table
    was opened; UnsupportedTable for what lakebraid's writers do not keep (MDT, M7).
    """
    storage, partitions = table.storage, table.config.metadata_partitions
    properties, timeline, groups, indexes = together(
        storage,
        lambda: load_properties(storage),
        lambda: load_metadata_timeline(storage),
        lambda: map_calls(storage, lambda partition: _group_ids(storage, partition), partitions),
        lambda: _load_indexes(storage) if COLUMN_STATS in partitions else {},
    )
    _check_partitions(table, properties)
    return MetadataLayout(dict(zip(partitions, groups, strict=True)), timeline, indexes)


def load_metadata_timeline(storage: Storage) -> Timeline:
    """The timeline of the metadata table as one listing shows it."""
    return build_timeline(storage.list_names(TIMELINE))


def compacted_until(timeline: Timeline) -> str:
    """The request time of the last compaction of a metadata table that is completed; empty if there was none."""
    return max((i.request_time for i in timeline.writes if i.action == "commit"), default="")


def next_time(timeline: Timeline) -> str:
    """A time greater than every one on the timeline of a metadata table, of which the table's own knows nothing (MDT, M3)."""
    times = [time for i in timeline for time in (i.request_time, i.completion_time) if time]
    return next_instant_time(max(times, default="0" * 17))


def _check_partitions(table: TableAt, properties: Mapping[str, str]) -> None:
    listed = sorted(_names(properties, "hoodie.table.metadata.partitions"))
    built = _names(properties, "hoodie.table.metadata.partitions.inflight")
    if built or listed != sorted(table.config.metadata_partitions):
        raise CommitRefused(
            f"The metadata table of {table.storage.url} was changed since this write began: it has {', '.join(listed) or 'nothing'}, "
            f"and {', '.join(built) or 'nothing'} is being built. Nothing was published. Wait until that is done, open the table again "
            "and write again.",
            path=table.storage.url,
        )


def _names(properties: Mapping[str, str], key: str) -> list[str]:
    return [name.strip() for name in properties.get(key, "").split(",") if name.strip()]


def _group_ids(storage: Storage, partition: str) -> tuple[str, ...]:
    parsed = (parse_data_file(name) for name in storage.list_names(f"{FOLDER}/{partition}"))
    ids = tuple(sorted({file.file_id for file in parsed if file is not None}))
    prefix = FILE_ID_PREFIXES.get(partition, "")
    if not ids or len(ids) > limits.METADATA_GROUPS_MAX or ids != tuple(f"{prefix}-{n:04d}-0" for n in range(len(ids))):
        # With a group that is missing, keys would lie in others than readers look for them in.
        raise UnsupportedTable(
            f"The partition {partition} of the metadata table of {storage.url} has the file groups {', '.join(ids)[:200] or '(none)'}, "
            "which are not understood. Nothing was published. Rebuild the metadata table with Apache Hudi.",
            path=storage.url,
        )
    return ids


def _load_indexes(storage: Storage) -> dict[str, IndexDefinition]:
    try:
        data = storage.read(INDEX_DEFINITIONS, limits.INDEX_DEFINITIONS_BYTES_MAX)
    except ObjectNotFound:
        return {}
    return parse_index_definitions(data, f"{storage.url}/{INDEX_DEFINITIONS}")

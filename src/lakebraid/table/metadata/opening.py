# SPDX-License-Identifier: Apache-2.0
"""Opening the metadata table beside a timeline of the table itself, and reading records out of its file groups.

The table's timeline must have been loaded first: the metadata table is completed before the table is. Whatever is not
understood, or is damaged, raises UnsupportedTable or CorruptFile; then the folders are to be listed instead. Nothing is answered
in part. (MDT, sections 4, 8)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from lakebraid import limits
from lakebraid.errors import CorruptFile
from lakebraid.format.hfile.read import EVERYTHING, Selection
from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.metadata.records import BloomFilter, ColumnStats, Files, RowPlace
from lakebraid.format.names import BaseFileName, LogFileName, parse_data_file
from lakebraid.format.properties import parse_properties
from lakebraid.memory import check_held
from lakebraid.model.metadata.keys import FILE_ID_PREFIXES, keys_by_group
from lakebraid.model.metadata.statistics import merge_files, merge_stats
from lakebraid.model.metadata.validity import Validity
from lakebraid.model.timeline.slicing import BaseFile, FileSlice, GroupId, LogFile
from lakebraid.model.timeline.timeline import Timeline, build_timeline
from lakebraid.storage.parallel import map_calls, together
from lakebraid.storage.protocol import ObjectInfo, Storage
from lakebraid.table.at import TableAt
from lakebraid.table.metadata.files import RECORD_BYTES_HELD, Contribution, read_base, read_log

_PROPERTIES: Final = f"{FOLDER}/.hoodie/hoodie.properties"
_VERSIONS: Final = ("8", "9")

R = TypeVar("R", Files, ColumnStats, RowPlace, BloomFilter)


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """A metadata table as of one moment; `partitions` are those that the table's properties list."""

    storage: Storage
    validity: Validity
    partitions: frozenset[str]


def open_metadata_table(table: TableAt, timeline: Timeline) -> MetadataTable | None:
    """The metadata table of a table whose timeline was loaded before; None if it has none."""
    if not table.config.metadata_partitions:
        return None
    where = table.storage.url
    if table.config.layout == 1:
        raise Validity(timeline, timeline, where).not_understood("tables of version 6 lay theirs out in another way")
    properties, names = together(
        table.storage,
        lambda: parse_properties(
            table.storage.read(_PROPERTIES, limits.PROPERTIES_BYTES_MAX), f"{where}/{_PROPERTIES}"
        ),
        lambda: table.storage.list_names(TIMELINE),
    )
    if len(names) > limits.TIMELINE_FILES_MAX:
        raise CorruptFile(
            f"The timeline of the metadata table of {where} has {len(names):,} files. Nothing was read.", path=where
        )
    own = build_timeline(names)
    validity = Validity(timeline, own, where)
    _check_known(properties, names, validity)
    validity.check()
    return MetadataTable(table.storage, validity, frozenset(table.config.metadata_partitions))


def _check_known(properties: Mapping[str, str], names: Iterable[str], validity: Validity) -> None:
    if properties.get("hoodie.table.version") not in _VERSIONS:
        raise validity.not_understood(f"it has version {properties.get('hoodie.table.version')}")
    if (
        properties.get("hoodie.timeline.layout.version", "2") != "2"
        or properties.get("hoodie.timeline.path", "timeline") != "timeline"
    ):
        raise validity.not_understood("its timeline is laid out in another way")
    if any("_" not in name and not name.endswith((".requested", ".inflight")) for name in names):
        raise validity.not_understood("its timeline has completions without times, left from an upgrade")


def load_records(
    opened: MetadataTable,
    partition: str,
    kind: type[R],
    *,
    selection: Selection = EVERYTHING,
    keys: Sequence[str] | None = None,
) -> dict[str, R]:
    """The wanted records of one partition, merged, by their keys. With `keys`, only the file groups in which these lie are read."""
    slices = load_slices(opened, partition)
    chosen = [selection] * len(slices)
    if keys is not None:
        chosen = [Selection.of_keys(key.encode() for key in own) for own in keys_by_group(keys, len(slices))]
    wanted = [(found, own) for found, own in zip(slices, chosen, strict=True) if found is not None and own.keys != ()]
    # Of each group the base first, then the logs in their order; groups have no key in common.
    files = [(file, own) for found, own in wanted for file in _files(found)]
    records = merged_records(opened.storage, files, kind)
    return {key.decode("utf-8", "replace"): record for key, record in records.items()}


def merged_records(
    storage: Storage, files: Sequence[tuple[BaseFile | LogFile, Selection]], kind: type[R]
) -> dict[bytes, R]:
    """What these files say together, each meeting what those before it say."""
    read = map_calls(
        storage,
        lambda part: _read(storage, *part),
        files,
        size=lambda part: min(part[0].size, limits.STORE_BYTES_AT_ONCE_MAX),
    )
    records: dict[bytes, R] = {}
    for contributions in read:
        for contribution in contributions:
            _merge(records, contribution, kind, storage.url)
    return records


def _files(found: FileSlice) -> list[BaseFile | LogFile]:
    return [*([found.base] if found.base else []), *found.logs]


def _read(storage: Storage, file: BaseFile | LogFile, selection: Selection) -> list[Contribution]:
    if isinstance(file, BaseFile):
        return [read_base(storage, file.name, file.size, selection)]
    return read_log(storage, file.name, file.size, file.request_time, selection)


def _merge(records: dict[bytes, R], new: Contribution, kind: type[R], where: str) -> None:
    for key, record in new.entries:
        if not isinstance(record, kind):
            raise CorruptFile(
                f"The metadata table of {where} holds a record of another kind under {key!r}. Nothing was guessed and nothing was "
                "changed. Rebuild it with Apache Hudi, or read the table without it.",
                path=where,
            )
        older = records.get(key)
        records[key] = record if older is None else _merged(older, record)
    for deleted in new.deleted:
        records.pop(deleted.encode(), None)
    check_held(len(records) * RECORD_BYTES_HELD, f"The metadata table of {where}")


def _merged(older: R, newer: R) -> R:
    match older, newer:
        case Files(), Files():
            return merge_files(older, newer)
        case ColumnStats(), ColumnStats():
            return merge_stats(older, newer)
    return newer


def load_slices(opened: MetadataTable, partition: str) -> list[FileSlice | None]:
    """What is to be read of each file group of a partition, in the order of their numbers."""
    listed = opened.storage.list_folder(f"{FOLDER}/{partition}")[0]
    bases: dict[str, list[BaseFile]] = {}
    logs: dict[str, list[LogFile]] = {}
    for info in listed:
        _sort_in(info, bases, logs)
    ids = sorted({*bases, *logs})
    expected = [f"{FILE_ID_PREFIXES[partition]}-{number:04d}-0" for number in range(len(ids))]
    if ids != expected or not ids or len(ids) > limits.METADATA_GROUPS_MAX:
        # A group that is missing would send keys to others: the number of groups decides where a key lies.
        raise opened.validity.not_understood(
            f"its partition {partition} has the file groups {', '.join(ids)[:200] or '(none)'}"
        )
    take = partial(_slice, opened, partition, bases, logs)
    return [take(file_id) for file_id in ids]


def _sort_in(info: ObjectInfo, bases: dict[str, list[BaseFile]], logs: dict[str, list[LogFile]]) -> None:
    parsed = parse_data_file(info.name.rpartition("/")[2])
    if isinstance(parsed, BaseFileName) and parsed.extension == ".hfile":
        bases.setdefault(parsed.file_id, []).append(BaseFile(info.name, parsed, info.size, ""))
    elif isinstance(parsed, LogFileName):
        logs.setdefault(parsed.file_id, []).append(LogFile(info.name, parsed, info.size, ""))


def _slice(
    opened: MetadataTable,
    partition: str,
    bases: Mapping[str, list[BaseFile]],
    logs: Mapping[str, list[LogFile]],
    file_id: str,
) -> FileSlice | None:
    group = GroupId(partition, file_id)
    found = opened.validity.slice(group, bases.get(file_id, ()), logs.get(file_id, ()))
    if found is not None and len(found.logs) > limits.METADATA_LOGS_MAX:
        raise opened.validity.not_understood(
            f"{file_id} has {len(found.logs):,} log files; {limits.METADATA_LOGS_MAX:,} are read"
        )
    return found

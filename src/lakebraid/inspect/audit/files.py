# SPDX-License-Identifier: Apache-2.0
"""Audit: whether files are what their commits say: sizes, rows, Parquet footers, headers of log blocks, marks, buckets."""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from lakebraid import limits
from lakebraid.errors import CorruptFile, LakebraidError, ObjectNotFound
from lakebraid.format.log.blocks import BlockType
from lakebraid.format.names import BaseFileName, in_partition
from lakebraid.format.parquet.rows import open_parquet_file
from lakebraid.format.properties import parse_partition_metadata
from lakebraid.inspect.audit.evidence import Evidence, Object
from lakebraid.inspect.audit.findings import Finding
from lakebraid.inspect.audit.logs import Merged, check_log, check_merged, fits_table
from lakebraid.inspect.audit.reach import Reach
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.schema.conform import without_meta
from lakebraid.table.loading import PARTITION_MARK

_DATA: Final = (BlockType.AVRO, BlockType.PARQUET)
_CRC_HEAD: Final = struct.Struct(">4si")
Step = Callable[[int, int], None]
"""Is told how many of how many files were looked at."""


def check_sizes(evidence: Evidence, reach: Reach) -> Iterator[Finding]:
    """Listed sizes against commits. In layout 1 logs grow, so theirs say nothing."""
    for path, file in reach.named.items():
        found = evidence.objects.get(path)
        if found is None or file.size is None or not (file.is_base or evidence.config.layout == 2):
            continue
        if found.info.size != file.size:
            yield Finding("file-size", path, f"It has {found.info.size:,} bytes; {file.instant} wrote {file.size:,}.")


def check_files(evidence: Evidence, reach: Reach, step: Step) -> Iterator[Finding]:
    """Footers of all committed base files, blocks of all committed logs, one file at a time."""
    completed = [o for o in evidence.objects.values() if _is_committed(evidence, reach, o)]
    merged: Merged = {}
    for number, found in enumerate(completed):
        step(number, len(completed))
        try:
            if isinstance(found.parsed, BaseFileName):
                yield from _base(evidence, reach, found)
            else:
                yield from check_log(evidence, reach, found, merged)
        except ObjectNotFound:
            continue  # cleaned away since; if it should not have been, that is found elsewhere
    step(len(completed), len(completed))
    yield from check_merged(evidence, reach, merged)


def _is_committed(evidence: Evidence, reach: Reach, found: Object) -> bool:
    return found.info.name in reach.named or evidence.timeline.completion_of(found.parsed.request_time) is not None


def _base(evidence: Evidence, reach: Reach, found: Object) -> Iterator[Finding]:
    name, size = found.info.name, found.info.size
    if found.parsed.extension != ".parquet":  # type: ignore[union-attr] # a base file, by the caller
        return
    try:
        file = open_parquet_file(evidence.storage.open_input(name), size, name)
    except ObjectNotFound:
        raise
    except LakebraidError as error:
        yield Finding("file-damaged", name, error.message)
        return
    named = reach.named.get(name)
    if named is not None and named.rows is not None and file.metadata.num_rows != named.rows:
        yield Finding(
            "file-rows", name, f"It has {file.metadata.num_rows:,} rows; {named.instant} wrote {named.rows:,}."
        )
    yield from fits_table(evidence, name, without_meta(file.schema_arrow))


def check_marks(evidence: Evidence) -> Iterator[Finding]:
    """The files that make folders partitions."""
    for folder in sorted(evidence.marks):
        name = in_partition(folder, PARTITION_MARK)
        try:
            found = parse_partition_metadata(evidence.storage.read(name, limits.PROPERTIES_BYTES_MAX), name)
        except ObjectNotFound:
            continue  # it has an extension: a Parquet file with the same content, of Hudi's making
        except CorruptFile as error:
            yield Finding("partition-mark-damaged", name, error.message)
            continue
        depth = folder.count("/") + 1 if folder else 0
        if found.depth != depth:
            yield Finding("partition-mark-damaged", name, f"It says depth {found.depth}; the folder lies at {depth}.")


def check_buckets(evidence: Evidence) -> Iterator[Finding]:
    """File ids of a table with the simple bucket index."""
    count = evidence.config.buckets
    if count is None or evidence.view is None:
        return
    buckets: dict[tuple[str, int], list[str]] = defaultdict(list)
    for group in evidence.view.groups:
        bucket = bucket_of_file_id(group.file_id)
        where = in_partition(group.partition, group.file_id)
        if bucket is None or bucket >= count:
            yield Finding("bucket-out-of-range", where, f"The table has buckets 0 to {count - 1}.")
        else:
            buckets[group.partition, bucket].append(group.file_id)
    for (partition, bucket), file_ids in buckets.items():
        if len(file_ids) > 1:
            what = f"Bucket {bucket} is in {' and '.join(sorted(file_ids))}."
            yield Finding("bucket-twice", partition or ".", what)


def check_checksums(evidence: Evidence, *, deep: bool) -> Iterator[Finding]:
    """Hadoop's `.<name>.crc` beside files on local disks (FORMAT, trap 6); of data files only where all is read."""
    folders = [".hoodie", evidence.config.timeline_folder, *(sorted(evidence.marks) if deep else ())]
    for folder in dict.fromkeys(folders):
        listed = {info.name: info for info in evidence.storage.list_folder(folder)[0]}
        for name, info in listed.items():
            if info.size > limits.LOG_FILE_BYTES_MAX or _sibling(name) not in listed:
                continue
            try:
                crc = evidence.storage.read(_sibling(name), limits.LOG_FILE_BYTES_MAX)
                data = evidence.storage.read(name, limits.LOG_FILE_BYTES_MAX)
            except (ObjectNotFound, CorruptFile):
                continue
            if not is_checksum_of(crc, data):
                yield Finding("crc-stale", _sibling(name), f"It does not fit the {len(data):,} bytes of {name}.")


def _sibling(name: str) -> str:
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}.{last}.crc"


def is_checksum_of(crc: bytes, data: bytes) -> bool:
    """Whether Hadoop's checksum file fits: a head, then CRC-32 of each stretch of so many bytes."""
    if len(crc) < _CRC_HEAD.size:
        return False
    magic, each = _CRC_HEAD.unpack_from(crc)
    if magic != b"crc\x00" or each <= 0:
        return False
    sums = b"".join(zlib.crc32(data[at : at + each]).to_bytes(4, "big") for at in range(0, len(data), each))
    return crc[_CRC_HEAD.size :] == sums

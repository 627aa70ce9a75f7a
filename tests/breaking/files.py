# SPDX-License-Identifier: Apache-2.0
"""Ways to break data files: gone, torn, doubled, misplaced, or with other rows than their commits say."""

from __future__ import annotations

import dataclasses
import io

import pyarrow as pa
import pyarrow.parquet as pq

from lakebraid.format.log.blocks import HeaderKey, format_block, read_blocks
from lakebraid.format.times import next_instant_time
from tests.breaking.table import (
    TIMELINE,
    Broken,
    archived,
    breaks,
    parsed,
    restated,
    rich,
)
from tests.kit.tables.scene import table_on


@breaks("file-missing")
def log_gone() -> Broken:
    b = rich()
    b.storage.delete([b.logs()[-1]])
    return b


@breaks("file-missing")
def base_gone() -> Broken:
    b = rich()
    b.storage.delete([b.bases()[-1]])
    return b


@breaks("old-file-missing")
def compacted_log_gone() -> Broken:
    b = rich()
    first = b.commits()[1].rpartition("/")[2][:17]
    b.storage.delete([next(n for n in b.logs() if first in n)])
    return b


@breaks("file-unreachable")
def base_of_another_format() -> Broken:
    b = rich()
    name = b.bases()[-1]
    other = name.replace(".parquet", ".orc")
    b.move(name, other)
    commit = b.names(TIMELINE, "_", ".commit")[-1]
    b.edit(
        commit,
        lambda m: restated(m, lambda s: dataclasses.replace(s, path=other) if s.path == name else s),
    )
    return b


@breaks("file-misnamed")
def commit_names_a_file_of_another_group() -> Broken:
    b = rich()
    b.edit(b.commits()[-1], lambda m: restated(m, lambda s: dataclasses.replace(s, file_id="7" * 8 + "-x")))
    return b


@breaks("uncommitted-visible")
def late_log_of_a_zombie_task() -> Broken:
    b = rich()
    name = b.logs()[-1]
    b.storage.create(f"{name.rpartition('_')[0]}_9-9-9", b.read(name))
    return b


@breaks("orphan-visible")
def late_log_older_than_the_timeline() -> Broken:
    b = archived()
    name = b.logs()[-1]
    request_times = sorted(i.request_time for i in (e.instant for e in b.table.timeline(archived=True)))
    request_time = parsed(name).request_time
    b.storage.create(name.replace(request_time, next_instant_time(next_instant_time(request_times[1]))), b.read(name))
    return b


@breaks("late-twin")
def twin_of_a_compaction() -> Broken:
    b = rich()
    name = b.bases()[-1]
    token = parsed(name).write_token
    b.storage.create(name.replace(f"_{token}_", "_0-0-1_"), b.read(name))
    return b


@breaks("orphan-file")
def log_of_nobody() -> Broken:
    b = rich()
    name = b.logs()[-1]
    request_time = parsed(name).request_time
    b.storage.create(name.replace(request_time, next_instant_time(next_instant_time(request_time))), b.read(name))
    return b


@breaks("partition-mark-missing")
def folder_without_mark() -> Broken:
    b = rich()
    b.storage.delete([".hoodie_partition_metadata"])
    return b


@breaks("partition-mark-damaged")
def torn_mark() -> Broken:
    b = rich()
    b.storage.replace(".hoodie_partition_metadata", b"partitionDepth=0\n")
    return b


@breaks("partition-mark-damaged")
def mark_of_another_depth() -> Broken:
    b = rich()
    b.storage.replace(".hoodie_partition_metadata", b"commitTime=20260101000000000\npartitionDepth=2\n")
    return b


@breaks("savepoint-file-missing")
def file_of_a_savepoint_gone() -> Broken:
    b = rich()
    b.table.savepoint()
    b.storage.delete([b.bases()[-1]])
    return b


@breaks("file-size")
def longer_log() -> Broken:
    b = rich()
    name = b.logs()[-1]
    b.storage.replace(name, b.read(name) * 2)
    return b


@breaks("file-rows")
def fewer_rows_than_committed() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.restate(name, rows=99)
    return b


@breaks("file-rows")
def fewer_rows_in_a_log() -> Broken:
    b = rich()
    b.restate(b.logs()[-1], rows=99)
    return b


@breaks("file-damaged")
def base_without_its_end() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.replace(name, b.read(name)[:-4] + b"XXXX")
    return b


@breaks("file-damaged")
def base_of_zeros() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.replace(name, bytes(len(b.read(name))))
    return b


@breaks("log-torn")
def log_without_its_end() -> Broken:
    b = rich()
    name = b.logs()[-1]
    b.storage.replace(name, b.read(name)[:-9])
    return b


@breaks("log-damaged")
def log_without_its_beginning() -> Broken:
    b = rich()
    name = b.logs()[-1]
    b.storage.replace(name, b"#hudi?" + b.read(name)[6:])
    return b


@breaks("block-instant")
def block_of_another_instant() -> Broken:
    b = rich()
    older, name = b.logs()[-3], b.logs()[-1]
    blocks = read_blocks(b.read(name), name).blocks
    header = {HeaderKey.INSTANT_TIME: parsed(older).request_time}
    b.storage.replace(name, b"".join(format_block(k.type, k.header | header, k.content) for k in blocks))
    return b


@breaks("file-schema")
def base_with_another_type() -> Broken:
    b = rich()

    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("ts")
        return rows.set_column(at, "ts", rows.column("ts").cast(pa.string()))

    b.rewrite_base(b.bases()[-1], change)
    return b


@breaks("bucket-twice")
def second_group_of_a_bucket() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.create(name.replace("-0000-0000", "-0000-000a", 1), b.read(name))
    return b


@breaks("bucket-out-of-range")
def group_of_a_bucket_that_is_none() -> Broken:
    b = rich()
    name = b.bases()[-1]
    b.storage.create(f"00000007{name[8:]}", b.read(name))
    return b


def _exchange(b: Broken) -> None:
    """One bucket's newest base file becomes that of the other: all its keys are in both, or in the wrong one."""
    first, second = b.bases()[-3], b.bases()[-1]
    assert parsed(first).request_time == parsed(second).request_time
    b.storage.replace(second, b.read(first))
    b.restate(second, rows=pq.read_metadata(io.BytesIO(b.read(first))).num_rows)


@breaks("key-wrong-bucket")
def keys_in_another_bucket() -> Broken:
    b = rich()
    _exchange(b)
    return b


def _without_index(b: Broken) -> Broken:
    """The same files in a table that does not say how keys find their groups."""
    b.set_properties(**{"index.type": None, "bucket.index.num.buckets": None, "index.bucket.engine": None})
    return Broken(b.storage, b.clock, table_on(b.storage, b.clock))


@breaks("key-two-groups")
def keys_in_two_groups() -> Broken:
    b = rich()
    _exchange(b)
    return _without_index(b)


@breaks("key-inserted-twice")
def keys_inserted_twice() -> Broken:
    b = rich()
    _exchange(b)
    b.edit(b.commits()[1], lambda m: dataclasses.replace(m, operation="BULK_INSERT"))
    return _without_index(b)


@breaks("key-twice")
def key_twice_in_a_file() -> Broken:
    b = rich()
    b.storage.delete([n for n in b.logs() if parsed(n).request_time > parsed(b.bases()[-1]).request_time])
    b.rewrite_base(b.bases()[-1], lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))
    return b


def _with_column(b: Broken, column: str, value: str | None) -> Broken:
    b.storage.delete([n for n in b.logs() if parsed(n).request_time > parsed(b.bases()[-1]).request_time])

    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index(column)
        return rows.set_column(at, column, pa.array([value] * rows.num_rows, pa.string()))

    b.rewrite_base(b.bases()[-1], change)
    return b


@breaks("key-wrong-partition")
def rows_of_another_partition() -> Broken:
    return _with_column(rich(), "_hoodie_partition_path", "elsewhere")


@breaks("key-missing")
def rows_without_key() -> Broken:
    return _with_column(rich(), "_hoodie_record_key", None)

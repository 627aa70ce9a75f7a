# SPDX-License-Identifier: Apache-2.0
"""The tables that are read, made once and kept below benchmarks/out.

`hudi-parquet`, `hudi-avro`: by Apache Hudi, with that kind of log blocks. `plain`: by lakebraid's own format functions.
Each also as `…-compacted`, by Hudi or, for `plain`, as the one base file a bucket that a compaction would leave.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tests.interop.referee import Referee

from benchmarks.data import Scale, Workload
from lakebraid.format.avro.types import format_avro_schema
from lakebraid.format.log.blocks import BlockType, HeaderKey, format_block
from lakebraid.format.names import BaseFileName, LogFileName
from lakebraid.format.parquet.rows import format_parquet_block
from lakebraid.format.properties import PartitionMetadata, format_partition_metadata, format_properties
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat, format_commit
from lakebraid.model.config import META_COLUMNS
from lakebraid.model.keys.buckets import bucket_file_id, bucket_ids

OUT = Path(__file__).parent / "out"
KINDS = {"hudi": ("hudi-parquet", "hudi-avro"), "plain": ("plain",)}


def made(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, made by `make` if it is not there; half-made ones have another name."""
    if not folder.exists():
        unfinished = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        make(unfinished)
        unfinished.rename(folder)
    return folder


def make_tables(root: Path, names: Iterable[str], scale: Scale, load: Workload) -> None:
    """All tables of these kinds below `root`, those that are not there yet."""
    made(root / "input", lambda folder: _write_input(folder, load))
    by_hudi = [name for name in names if name.startswith("hudi-")]
    missing = [n for n in by_hudi if not (root / n).exists() or not (root / f"{n}-compacted").exists()]
    if missing:
        with Referee.start() as referee:
            for name in missing:
                blocks = name.removeprefix("hudi-")
                made(root / name, partial(_write_by_hudi, referee, root / "input", scale, blocks))
                made(root / f"{name}-compacted", partial(_compact_by_hudi, referee, root / name))
    if "plain" in names:
        made(root / "plain", lambda folder: write_plain(folder, [load.bulk, *load.upserts], scale.buckets))
        made(root / "plain-compacted", lambda folder: write_plain(folder, [load.merged], scale.buckets))


def base_files(table: Path) -> list[str]:
    """The newest base file of each bucket; the benchmarks' tables are not partitioned."""
    newest = {file.name.split("_")[0]: str(file) for file in sorted(table.glob("*.parquet"), key=_request_time)}
    return sorted(newest.values())


def _request_time(file: Path) -> str:
    return file.stem.rsplit("_", 1)[1]


def _write_input(folder: Path, load: Workload) -> None:
    for version, batch in enumerate([load.bulk, *load.upserts]):
        pq.write_table(batch, folder / f"{version:03}.parquet")
    pq.write_table(load.merged, folder / "merged.parquet")


# By Apache Hudi -------------------------------------------------------------------------------------------------------


def _write_by_hudi(referee: Referee, source: Path, scale: Scale, blocks: str, folder: Path) -> None:
    options = {
        "hoodie.table.name": "bench",
        "hoodie.write.table.version": "9",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(scale.buckets),
        "hoodie.bucket.index.hash.field": "id",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.logfile.data.block.format": blocks,
    }
    for version in range(scale.upserts + 1):
        operation = {"hoodie.datasource.write.operation": "upsert" if version else "bulk_insert"}
        file = str(source / f"{version:03}.parquet")
        referee.ask("write", path=str(folder), rows=file, options=options | operation)


def _compact_by_hudi(referee: Referee, source: Path, folder: Path) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True)
    at_once = "hoodie.compact.inline.max.delta.commits=1"
    referee.ask("sql", text=f"CALL run_compaction(op => 'schedule', path => '{folder}', options => '{at_once}')")
    referee.ask("sql", text=f"CALL run_compaction(op => 'run', path => '{folder}')")


# By lakebraid's format functions --------------------------------------------------------------------------------------


def write_plain(folder: Path, batches: Iterable[pa.Table], buckets: int) -> None:
    """A table whose first batch is base files sorted by key, and each other one a Parquet log block a bucket."""
    start_plain(folder, buckets)
    for version, batch in enumerate(batches):
        request_time = instant_time(version)
        codes = bucket_ids(batch["id"], ["id"], buckets)
        stats = []
        for bucket in range(buckets):
            rows = batch.filter(pa.array(codes == bucket)).sort_by("id")
            file_id = bucket_file_id(bucket)
            if version == 0:
                name = BaseFileName(file_id, "0-0-0", request_time, ".parquet").format()
                written = with_meta(rows, request_time, name)
                chosen = repeated_columns(written)
                pq.write_table(written, folder / name, compression="zstd", store_schema=False, use_dictionary=chosen)
            else:
                name = LogFileName(file_id, request_time, 1, "0-0-0", "").format()
                (folder / name).write_bytes(log_block(with_meta(rows, request_time, file_id), request_time))
            stats.append(WriteStat(file_id=file_id, path=name, num_writes=len(rows)))
        write_commit(folder, request_time, {"": tuple(stats)}, batch.schema)


def repeated_columns(rows: pa.Table) -> list[str]:
    """The columns with few different values: a dictionary of all others only costs the reader time."""
    return [name for name in rows.column_names if pc.count_distinct(rows[name]).as_py() * 4 < len(rows)]


def start_plain(folder: Path, buckets: int, more: dict[str, str] | None = None) -> None:
    """An empty merge-on-read table of version 9, keyed by `id`, ordered by `ts`."""
    properties = {
        "hoodie.table.name": "bench",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.keygenerator.type": "NON_PARTITION",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(buckets),
    }
    (folder / ".hoodie" / "timeline").mkdir(parents=True)
    (folder / ".hoodie" / "hoodie.properties").write_bytes(format_properties(properties | (more or {})))
    mark_partition(folder, 0)


def mark_partition(folder: Path, depth: int) -> None:
    mark = format_partition_metadata(PartitionMetadata(instant_time(0), depth))
    (folder / ".hoodie_partition_metadata").write_bytes(mark)


def instant_time(number: int) -> str:
    """The time of the write with this number; each begins ten seconds after the one before it."""
    minutes, tens = divmod(number, 6)
    hours, minutes = divmod(minutes, 60)
    return f"20260101{hours:02}{minutes:02}{tens}0000"


def with_meta(rows: pa.Table, request_time: str, file_name: str) -> pa.Table:
    count = len(rows)
    meta = [
        pa.repeat(request_time, count),
        pa.array([f"{request_time}_0_{i}" for i in range(count)]),
        rows["id"],
        pa.repeat("", count),
        pa.repeat(file_name, count),
    ]
    return pa.table([*meta, *rows.columns], [*META_COLUMNS, *rows.column_names])


def log_block(rows: pa.Table, request_time: str) -> bytes:
    header = {
        HeaderKey.INSTANT_TIME: request_time,
        HeaderKey.SCHEMA: format_avro_schema(rows.schema, "bench", "hoodie"),
    }
    return format_block(BlockType.PARQUET, header, format_parquet_block(rows))


def write_commit(folder: Path, request_time: str, stats: dict[str, tuple[WriteStat, ...]], schema: pa.Schema) -> None:
    """A completed delta commit that began at `request_time` and took one second."""
    text = format_avro_schema(schema, "bench", "hoodie")
    metadata = CommitMetadata(write_stats=stats, extra={"schema": text}, operation="UPSERT")
    timeline = folder / ".hoodie" / "timeline"
    (timeline / f"{request_time}.deltacommit.requested").write_bytes(b"")
    (timeline / f"{request_time}.deltacommit.inflight").write_bytes(b"")
    (timeline / f"{request_time}_{int(request_time) + 1000}.deltacommit").write_bytes(format_commit(metadata))

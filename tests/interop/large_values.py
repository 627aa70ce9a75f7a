# SPDX-License-Identifier: Apache-2.0
"""Long and repeated values in tables that Apache Hudi wrote. `python -m tests.interop.large_values` stores them anew.

They are in `tests/data/large`, since the answers that are kept beside the other reference tables would be 50 MB of one letter.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.interop.referee import Referee
from tests.kit.reference import DATA

FOLDER = DATA / "large"
KINDS = {
    "cow": {},
    "mor_avro": {"hoodie.logfile.data.block.format": "avro"},
    "mor_parquet": {"hoodie.logfile.data.block.format": "parquet"},
}
STORED = ("cow", "mor_parquet")
_OPTIONS = {
    "hoodie.table.name": "large",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.datasource.write.operation": "upsert",
}


def rows(ts: int) -> pa.Table:
    """One text of 20 MB, one of 5 MB of blanks, one blob of 8 MB of zeros, and 8,000 rows that share a text of 20 KB."""
    texts = ["x" * 20_000_000, " " * 5_000_000, None, *["y" * 20_000] * 8000]
    count = len(texts)
    blobs = [None, None, bytes(8_000_000), *[None] * (count - 3)]
    return pa.table({"id": range(count), "ts": [ts] * count, "v": texts, "b": pa.array(blobs, pa.binary())})


def hudi_writes(referee: Referee, path: Path, kind: str) -> None:
    """All rows as a base file; in a merge-on-read table as log blocks, and then once more."""
    options = _OPTIONS | KINDS[kind]
    options["hoodie.datasource.write.table.type"] = "COPY_ON_WRITE" if kind == "cow" else "MERGE_ON_READ"
    with tempfile.TemporaryDirectory() as folder:
        for ts in (1,) if kind == "cow" else (1, 2):
            pq.write_table(rows(ts), f"{folder}/{ts}.parquet", compression="zstd")
            referee.ask("write", path=str(path), rows=f"{folder}/{ts}.parquet", options=options)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Referee.start() as referee:
        for kind in STORED:
            made = Path(folder) / kind
            hudi_writes(referee, made, kind)
            # One zip in another, for what was compressed once still repeats itself.
            inner = Path(folder) / f"{kind}.zip"
            _pack(made, inner)
            with zipfile.ZipFile(FOLDER / f"{kind}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as outer:
                outer.write(inner, "table.zip")
            print(kind, (FOLDER / f"{kind}.zip").stat().st_size, flush=True)


def unpack(kind: str, folder: Path) -> Path:
    """A stored table."""
    with zipfile.ZipFile(FOLDER / f"{kind}.zip") as outer, zipfile.ZipFile(outer.open("table.zip")) as inner:
        inner.extractall(folder)
    return folder


def _pack(made: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(made.rglob("*")):
            if path.is_file() and not path.name.endswith(".crc"):
                packed.write(path, path.relative_to(made).as_posix())


if __name__ == "__main__":
    main()

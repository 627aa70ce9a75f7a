# SPDX-License-Identifier: Apache-2.0
"""The command `export`: rows of a table into one file, batch by batch."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import click
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from lakebraid.api.table import Table
from lakebraid.cli.output import progress_line
from lakebraid.errors import InvalidArgument, StorageError
from lakebraid.reading.plan import Mode

_SUFFIXES: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


class _Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


@click.command(epilog="""Example: lakebraid export ./orders -o oslo.csv --where "city = 'Oslo'" --columns id,price""")
@click.argument("path")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where to; - for stdout (csv and json).")
@click.option(
    "--format", "form", type=click.Choice(["parquet", "csv", "json"]), help="Else the suffix of FILE says it."
)
@click.option("--columns", metavar="A,B", help="Only these columns.")
@click.option("--where", metavar="SQL", help="Only rows that match, such as \"id = 'k7' and ts > 5\".")
@click.option("--as-of", metavar="TIME", help="The table as of a completion time (17 digits, or RFC 3339).")
@click.option("--read-optimized", is_flag=True, help="Base files only.")
@click.option("--meta", is_flag=True, help="Hudi's own columns, too.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it is there.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as one JSON object.")
def export(
    path: str,
    *,
    output: str,
    form: str | None,
    columns: str | None,
    where: str | None,
    as_of: str | None,
    read_optimized: bool,
    meta: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write rows of a table into one Parquet, CSV or JSON file (one object per line), without Spark.

    The file appears when it is complete; memory does not grow with the table.
    """
    chosen = _format(output, form)
    snapshot = Table.open(path).snapshot(as_of)
    names = None if columns is None else [c.strip() for c in columns.split(",") if c.strip()]
    mode: Mode = "read_optimized" if read_optimized else "snapshot"
    plan, _ = snapshot.plan(names, where, mode=mode, meta_columns=meta)
    batches = snapshot.to_batches(names, where, mode=mode, meta_columns=meta)
    with _sink(output, force=force) as file, progress_line() as tell:
        try:
            rows = _write(_WRITERS[chosen](file, plan.output_schema), batches, tell)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgument(
                f"These rows cannot be written as {chosen}: {error!s:.200}. Nothing was written. Leave the column out with "
                "--columns, or choose another --format."
            ) from None
    if as_json:
        facts = {"path": output, "format": chosen, "rows": rows, "as_of": snapshot.completion_time}
        click.echo(json.dumps(facts), err=output == "-")
    elif output != "-":
        click.echo(f"{rows:,} rows as of {snapshot.completion_time or 'its creation'} in {output}")


def _format(output: str, form: str | None) -> str:
    chosen = form or _SUFFIXES.get(Path(output).suffix.lower())
    if chosen is None:
        raise InvalidArgument(f"{output} does not say by its suffix what to write. Nothing was written. Give --format.")
    if chosen == "parquet" and output == "-":
        raise InvalidArgument("Parquet cannot be written to stdout. Nothing was written. Name a file.")
    return chosen


@contextlib.contextmanager
def _sink(output: str, *, force: bool) -> Iterator[BinaryIO]:
    """The file to write to, under its own name only when all is written."""
    if output == "-":
        yield sys.stdout.buffer
        return
    target = Path(output)
    if target.exists() and not force:
        raise InvalidArgument(f"{output} is there already. Nothing was written. Name another file, or say --force.")
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    except OSError as error:
        raise StorageError(f"{output} could not be written: {error}. The table is as before.", path=output) from error
    finally:
        part.unlink(missing_ok=True)


def _write(writer: _Writer, batches: Iterator[pa.RecordBatch], tell: Callable[[str, int, int], None]) -> int:
    rows = 0
    for batch in batches:
        writer.write(batch)
        rows += batch.num_rows
        tell("rows", rows, 0)
    writer.close()
    return rows


class _Json:
    """One object per line; what JSON cannot say is text."""

    def __init__(self, file: BinaryIO, _schema: pa.Schema) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self._file.write(json.dumps(row, default=_plain, ensure_ascii=False).encode() + b"\n")

    def close(self) -> None:
        self._file.flush()


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


_WRITERS: Final[dict[str, Callable[[BinaryIO, pa.Schema], _Writer]]] = {
    "parquet": lambda file, schema: pq.ParquetWriter(file, schema, compression="zstd"),
    "csv": pa_csv.CSVWriter,
    "json": _Json,
}

# SPDX-License-Identifier: Apache-2.0
"""`lakebraid demo`: the most there is to see, in about a minute: writers that are killed, and a table of Apache Hudi."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from importlib.resources import as_file, files
from pathlib import Path

import click

from lakebraid.api.table import Table
from lakebraid.cli.output import paint
from lakebraid.cli.torture import Storm, rage
from lakebraid.clock import SystemClock
from lakebraid.table.show import Grid

_TABLE = "v9_mor_nbcc_overlap"
_STORM_SECONDS = 10.0


@click.command(epilog="Example: lakebraid demo --keep ./demo-table")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave the table in this folder.")
@click.option("--no-spark", is_flag=True, help="Leave out the part that starts Spark.")
def demo(*, keep: Path | None, no_spark: bool) -> None:
    """Kill writers on one table and account for every row; then read a table of Apache Hudi, also on Spark."""
    with tempfile.TemporaryDirectory(prefix="lakebraid-demo-") as folder:
        _storm(Path(folder) / "storm")
        path = _unpack(Path(folder))
        _story(Table.open(path), no_spark=no_spark)
        if keep is not None:
            shutil.copytree(path, keep)
            click.echo(f"\nThe table stays in {keep}. Try: lakebraid timeline {keep}")


def _storm(folder: Path) -> None:
    _title(
        "Four writer processes on the same keys of one new table, a compactor beside them; some are killed or stopped"
    )
    storm = Storm(folder, keys=100, rows=20, kill=0.2, stop=0.2)
    table, verdict = rage(storm, _STORM_SECONDS, writers=4, compactors=1, buckets=4)
    if not verdict.is_clean:
        raise click.ClickException("Rows are missing or wrong. Please report this.")
    _title("The end of its timeline: writers overlap, some are taken back, compactions in between")
    click.echo("\n".join(repr(table.timeline()).splitlines()[-12:]))


def _unpack(folder: Path) -> Path:
    with as_file(files("lakebraid.cli") / "data" / "demo_table.zip") as archive, zipfile.ZipFile(archive) as content:
        content.extractall(folder)
    return folder / _TABLE


def _story(table: Table, *, no_spark: bool) -> None:
    clock = SystemClock()
    began = clock.monotonic()
    _title("A merge-on-read table, written by Apache Hudi 1.2.0")
    click.echo(repr(table))
    _title("What happened to it: writers overlap each other and a compaction")
    listing = table.timeline()
    click.echo(repr(listing))
    late = max(
        (e.instant for e in listing if e.instant.is_write and e.instant.kind == "deltacommit"),
        key=lambda i: int(i.completion_time or 0) - int(i.request_time),
    )
    click.echo(
        f"\nThe writer that began at {late.request_time} is the slow one: a compaction was planned and others finished "
        f"before it did, at {late.completion_time}. No row of it may be lost, and none may show too early."
    )
    _title("Its rows, read in this process, without Spark")
    _print_rows(table)
    _title("Time travel by completion: just before and just after the slow writer finished")
    before = str(int(late.completion_time or 0) - 1)
    for time in (before, late.completion_time or ""):
        click.echo(f"as of {time}: {table.count(as_of=time)} rows, {_names(table, time)}")
    _title("What changed between the two: a late finisher is delivered exactly once")
    changes = table.changes(after=before, until=late.completion_time)
    _print_grid(changes.to_arrow().drop_columns(["_commit_completion_time"]).to_pylist())
    click.echo(f"next position: {changes.next_position}")
    if not no_spark:
        _on_spark(table)
    click.echo(f"\n{paint('done', 'green', bold=True)} in {clock.monotonic() - began:.1f} s")


def _on_spark(table: Table) -> None:
    _title("The same on Spark: a lazy data frame, usable in joins, views and SQL")
    from lakebraid.spark.session import session  # noqa: PLC0415  Spark is only loaded when it is used

    spark = session("lakebraid demo")
    table.to_spark(spark=spark).createOrReplaceTempView("braided")
    query = "select part, count(*) as rows, max(ts) as newest from braided group by part order by part"
    click.echo(f"{paint(query, dim=True)}\n")
    _print_grid([row.asDict() for row in spark.sql(query).collect()])
    spark.stop()


def _title(text: str) -> None:
    click.echo(f"\n{paint(text, bold=True)}")


def _print_rows(table: Table) -> None:
    _print_grid(table.to_arrow().sort_by("id").to_pylist())


def _print_grid(rows: list[dict[str, object]]) -> None:
    click.echo(str(Grid(tuple(rows[0]), [tuple(row.values()) for row in rows])))


def _names(table: Table, time: str) -> str:
    rows = table.to_arrow(columns=["id", "name"], as_of=time).sort_by("id").to_pylist()
    return " ".join(f"{row['id']}={row['name']}" for row in rows)

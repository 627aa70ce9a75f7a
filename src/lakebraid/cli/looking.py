# SPDX-License-Identifier: Apache-2.0
"""Commands that look at a table: `status`, `timeline`, and `show` of rows."""

from __future__ import annotations

import json
from typing import Any

import click

from lakebraid.api.table import Table
from lakebraid.cli.detailing import show_instant
from lakebraid.cli.output import paint
from lakebraid.reading.plan import Mode
from lakebraid.table.grid import Grid
from lakebraid.table.listing import ListedInstant

_PATH = click.argument("path")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")


@click.command(epilog="Example: lakebraid status s3://bucket/orders --json")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--check", is_flag=True, help="Exit with 1 if there is something to run.")
def status(path: str, *, as_json: bool, check: bool) -> int:
    """Show who writes, what waits, what is due, who holds back what, and what to run."""
    found = Table.open(path).status()
    if as_json:
        click.echo(json.dumps(found.to_dict()))
    else:
        click.echo("\n".join(_painted(line) for line in repr(found).splitlines()))
    return 1 if check and not found.is_well else 0


def _painted(line: str) -> str:
    if line.startswith("Status of "):
        return paint(line, bold=True)
    if "silent" in line or line.startswith("  lakebraid "):
        return paint(line, "yellow")
    return paint(line, dim=True) if set(line.strip()) == {"─", " "} or set(line.strip()) == {"─"} else line


@click.command(epilog="Example: lakebraid timeline s3://bucket/orders --archived")
@_PATH
@_JSON
@click.option("--archived", is_flag=True, help="Also what was archived.")
def timeline(path: str, *, as_json: bool, archived: bool) -> None:
    """Show what happened to a table: each instant with its times, action, state, rows and files."""
    listing = Table.open(path).timeline(archived=archived)
    if as_json:
        for entry in listing:
            click.echo(json.dumps(_entry(entry)))
    else:
        click.echo(repr(listing))


def _entry(entry: ListedInstant) -> dict[str, object]:
    instant = entry.instant
    return {
        "request_time": instant.request_time,
        "completion_time": instant.completion_time,
        "action": instant.kind,
        "state": instant.state.value,
        "operation": entry.operation,
        "rows": entry.rows,
        "files": entry.files,
        "bytes": entry.bytes,
        "archived": entry.archived,
        "problem": entry.problem,
        "writer": entry.writer,
    }


@click.command(
    epilog="""Examples: lakebraid show ./orders --where "city = 'Oslo'" --columns id,city --limit 5

    lakebraid show ./orders 20260131120000000"""
)
@_PATH
@click.argument("instant", required=False)
@_JSON
@click.option("--columns", metavar="A,B", help="Only these columns.")
@click.option("--where", metavar="SQL", help="Only rows that match, such as \"id = 'k7' and ts > 5\".")
@click.option("--as-of", metavar="TIME", help="The table as of a completion time (17 digits, or RFC 3339).")
@click.option("--read-optimized", is_flag=True, help="Base files only.")
@click.option("--meta", is_flag=True, help="Hudi's own columns, too.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(0), help="How many rows to print.")
def show(
    path: str,
    instant: str | None,
    *,
    as_json: bool,
    columns: str | None,
    where: str | None,
    as_of: str | None,
    read_optimized: bool,
    meta: bool,
    limit: int,
) -> None:
    """Print rows of a table, or all about one INSTANT: files, rows, metadata, plan; without Spark."""
    if instant is not None:
        show_instant(path, instant, as_json=as_json)
        return
    table = Table.open(path)
    snapshot = table.snapshot(as_of)
    names = None if columns is None else [c.strip() for c in columns.split(",") if c.strip()]
    mode: Mode = "read_optimized" if read_optimized else "snapshot"
    rows: list[dict[str, Any]] = []
    for batch in snapshot.to_batches(names, where, mode=mode, meta_columns=meta):
        rows += batch.slice(0, limit - len(rows)).to_pylist()
        if len(rows) >= limit:
            break
    if as_json:
        for row in rows:
            click.echo(json.dumps(row, default=str))
        return
    if not rows:
        click.echo("no rows")
        return
    click.echo(repr(table))
    click.echo(f"  {'as of':<14}  {snapshot.completion_time or 'its creation'}\n")
    click.echo(str(Grid(tuple(rows[0]), [tuple(map(_cell, row.values())) for row in rows])))
    if len(rows) == limit:
        click.echo(f"\nThe first {limit} rows; --limit shows more.")


def _cell(value: object) -> str:
    return "NULL" if value is None else str(value)

# SPDX-License-Identifier: Apache-2.0
"""The command `adopt`: what a table is, and what it must state so that it can be written."""

from __future__ import annotations

import json

import click

from lakebraid.api.table import Table
from lakebraid.cli.output import paint
from lakebraid.errors import UnsupportedTable
from lakebraid.services.adoption.result import Adoption


@click.command(epilog="Example: lakebraid adopt s3://bucket/orders --dry-run")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--dry-run", is_flag=True, help="Tell what would be done, and change nothing.")
@click.option("--deep", is_flag=True, help="Look at all keys, not only at those of some files of every partition.")
@click.option(
    "--buckets",
    metavar="N",
    type=int,
    help="The number of buckets that its writers have, where its keys leave a choice.",
)
@click.option("--undo", is_flag=True, help="Take the lines of the last adoption out of hoodie.properties again.")
def adopt(path: str, *, as_json: bool, dry_run: bool, deep: bool, buckets: int | None, undo: bool) -> int:
    """Find out what a table of Apache Hudi is, and state what it must say so that lakebraid can write it.

    Its file ids and keys prove how its rows find their file group. Only lines of hoodie.properties are changed, and only
    those that are proven and missing; no data is touched. Exit code 0: the table can be written, or could after the adoption;
    1: something is in the way, and nothing was changed.
    """
    if undo and (dry_run or buckets is not None):
        raise click.UsageError("--undo goes with neither --dry-run nor --buckets.")
    table = Table.open(path)
    try:
        found = table.adopt(dry_run=dry_run, deep=deep, buckets=buckets, undo=undo)
    except UnsupportedTable as error:
        if not isinstance(error.facts.get("adoption"), Adoption):
            raise
        found = error.adoption
    click.echo(json.dumps(found.to_dict()) if as_json else "\n".join(map(_painted, repr(found).splitlines())))
    return 0 if found.is_possible or undo else 1


def _painted(line: str) -> str:
    if line.startswith("Adoption of "):
        return paint(line, bold=True)
    if line.startswith("It can"):
        return paint(line, "red" if line.startswith("It cannot") else "green", bold=True)
    return paint(line, "red") if line.endswith("in the way") else line

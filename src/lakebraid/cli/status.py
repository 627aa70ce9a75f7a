# SPDX-License-Identifier: Apache-2.0
"""The command `status`: how a table is, and what to run."""

from __future__ import annotations

import json

import click

from lakebraid.api.table import Table
from lakebraid.cli.output import paint


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

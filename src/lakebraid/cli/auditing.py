# SPDX-License-Identifier: Apache-2.0
"""The commands `audit` and `why`: is a table what its commits say, and what became of an instant."""

from __future__ import annotations

import json

import click

from lakebraid.api.table import Table
from lakebraid.cli.output import paint, progress_line
from lakebraid.clock import SystemClock
from lakebraid.errors import LakebraidError
from lakebraid.inspect.audit.findings import KINDS, Severity
from lakebraid.inspect.audit.run import audit_table
from lakebraid.storage import open_storage

_COLOURS = {Severity.DAMAGE: "red", Severity.RISK: "yellow", Severity.UNTIDY: "cyan"}


@click.command(epilog="Example: lakebraid audit s3://bucket/orders --deep && echo healthy")
@click.argument("path", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--deep", is_flag=True, help="Also read the keys of all rows: each once, in its bucket and partition.")
@click.option("--kinds", is_flag=True, help="Print what can be found, and what to do then; needs no PATH.")
def audit(path: str | None, *, as_json: bool, deep: bool, kinds: bool) -> int:
    """Hold what was committed against what readers get, and look at everything around it.

    Changes nothing, works beside running writers and on tables of Apache Hudi. Exit code 0: no damage (risks and
    untidiness may be listed); 1: damage was found; 2: the table could not be audited.
    """
    if kinds or path is None:
        if path is None and not kinds:
            raise click.UsageError("Missing argument 'PATH'.")
        _print_kinds(as_json=as_json)
        return 0
    try:
        with progress_line() as tell:
            found = audit_table(open_storage(path), SystemClock(), deep=deep, progress=tell)
    except LakebraidError as error:
        if as_json:
            click.echo(json.dumps({"path": path, "healthy": None, "error": error.message}))
        click.echo(f"error: {error}", err=True)
        return 2
    if as_json:
        click.echo(json.dumps(found.to_dict()))
    else:
        click.echo("\n".join(_painted(line) for line in repr(found).splitlines()))
    return 0 if found.is_healthy else 1


def _painted(line: str) -> str:
    severity = next((s for s in Severity if line.startswith(f"{s.value}: ")), None)
    if severity is not None:
        return paint(line, _COLOURS[severity], bold=True)
    return paint(line, "green", bold=True) if line.startswith("healthy") else line


def _print_kinds(*, as_json: bool) -> None:
    for name, kind in KINDS.items():
        if as_json:
            facts = {"severity": kind.severity.value, "affects_rows": kind.affects_rows}
            click.echo(json.dumps({"kind": name, **facts, "meaning": kind.meaning, "advice": kind.advice}))
        else:
            click.echo(
                f"{paint(name, _COLOURS[kind.severity])} ({kind.severity.value})\n  {kind.meaning}\n  {kind.advice}"
            )


@click.command(epilog="Example: lakebraid why ./orders 20260131120000000")
@click.argument("path")
@click.argument("instant")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def why(path: str, instant: str, *, as_json: bool) -> int:
    """Tell the story of an instant: who wrote it, how it ended and by what rule, and what hides its rows now.

    Exit code 1 if nothing is known of it.
    """
    story = Table.open(path).why(instant)
    click.echo(json.dumps(story.to_dict()) if as_json else repr(story))
    return 0 if story.is_known else 1

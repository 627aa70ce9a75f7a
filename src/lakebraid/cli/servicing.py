# SPDX-License-Identifier: Apache-2.0
"""Commands that keep a table small, fast and tidy: `compact`, `clean`, `rollback`, `archive`, `services` and their like."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import click

from lakebraid.api.services import SERVICES
from lakebraid.api.table import Table
from lakebraid.cli.output import paint
from lakebraid.cli.service_text import told
from lakebraid.clock import SystemClock
from lakebraid.errors import InvalidArgument
from lakebraid.format.times import format_instant_time, table_zone
from lakebraid.services.merging.clustering import ClusteringResult
from lakebraid.services.plans import Plan
from lakebraid.services.runner import ServiceRound, parse_seconds

_PATH: Final = click.argument("path")
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
_DRY_RUN: Final = click.option("--dry-run", is_flag=True, help="Tell what would be done, and change nothing.")
_PLAN_ONLY: Final = click.option("--plan-only", is_flag=True, help="Decide the plan and leave it to others to execute.")
_RUN: Final = click.option(
    "--run", metavar="INSTANT", help="Execute this pending plan, or tell the result of a done one."
)
_ROLLBACK_DELAY: Final = click.option(
    "--table-service-rollback-delay",
    metavar="TIME",
    help="Removable plans of this age that no process executes are rolled back; the table's setting, or 1h.",
)


def say(results: Iterable[Any], *, as_json: bool, nothing: str) -> None:
    """Prints what was done, or that nothing was to do; as JSON one object for each result."""
    found = [result for result in results if result is not None]
    for result in found:
        click.echo(json.dumps(dataclasses.asdict(result), default=str) if as_json else told(result))
    if not found and not as_json:
        click.echo(nothing)


@click.command(epilog="Example: lakebraid compact s3://bucket/orders --dry-run")
@_PATH
@_JSON
@_DRY_RUN
@_PLAN_ONLY
@_RUN
def compact(path: str, *, as_json: bool, dry_run: bool, plan_only: bool, run: str | None) -> None:
    """Merge log files into base files, beside any number of writers."""
    table = Table.open(path)
    results = _planned(table, table.plan_compaction, table.compact, run, dry_run=dry_run, plan_only=plan_only)
    say(results, as_json=as_json, nothing="nothing to compact")


@click.command("log-compact", epilog="Example: lakebraid log-compact ./orders --plan-only --removable")
@_PATH
@_JSON
@_DRY_RUN
@_PLAN_ONLY
@_RUN
@click.option("--removable", is_flag=True, help="Roll the plan back if it fails or no process executes it for an hour.")
def log_compact(path: str, *, as_json: bool, dry_run: bool, plan_only: bool, run: str | None, removable: bool) -> None:
    """Merge small log files into larger ones, where rewriting base files would cost too much."""
    table = Table.open(path)

    def plan(*, dry_run: bool = False) -> Plan | None:
        return table.plan_log_compaction(removable=removable or None, dry_run=dry_run)

    do = partial(table.log_compact, removable=removable or None)
    results = _planned(table, plan, do, run, dry_run=dry_run, plan_only=plan_only)
    say(results, as_json=as_json, nothing="nothing to compact")


@click.command(epilog="Example: lakebraid cluster ./orders --sort-by city,ts --dry-run")
@_PATH
@_JSON
@_DRY_RUN
@_PLAN_ONLY
@_RUN
@click.option("--sort-by", metavar="A,B", help="Sort the rows by these columns.")
@click.option("--small-file-limit", type=click.IntRange(1), metavar="BYTES", help="Only file groups below this size.")
@click.option("--target-size", type=click.IntRange(1), metavar="BYTES", help="How large new files become.")
@click.option("--max-bytes-per-group", type=click.IntRange(1), metavar="BYTES", help="Sort no more than this together.")
@click.option("--max-groups", type=click.IntRange(1), help="So many tasks at most.")
@click.option("--partition", "partitions", multiple=True, help="Only this partition; may be given several times.")
@click.option("--removable", is_flag=True, help="Roll the plan back if it fails or no process executes it for an hour.")
def cluster(
    path: str,
    *,
    as_json: bool,
    dry_run: bool,
    plan_only: bool,
    run: str | None,
    sort_by: str | None,
    small_file_limit: int | None,
    target_size: int | None,
    max_bytes_per_group: int | None,
    max_groups: int | None,
    partitions: tuple[str, ...],
    removable: bool,
) -> None:
    """Put small file groups together and sort their rows; for tables without a bucket index."""
    table = Table.open(path)
    columns = None if sort_by is None else _names(sort_by)

    def plan(*, dry_run: bool = False) -> Plan | None:
        return table.plan_clustering(
            sort_by=columns,
            small_file_limit=small_file_limit,
            target_size=target_size,
            max_bytes_per_group=max_bytes_per_group,
            max_groups=max_groups,
            partitions=partitions or None,
            removable=removable or None,
            dry_run=dry_run,
        )

    def do() -> list[ClusteringResult]:
        return table.cluster(
            sort_by=columns,
            small_file_limit=small_file_limit,
            target_size=target_size,
            max_bytes_per_group=max_bytes_per_group,
            max_groups=max_groups,
            partitions=partitions or None,
            removable=removable or None,
        )

    say(
        _planned(table, plan, do, run, dry_run=dry_run, plan_only=plan_only),
        as_json=as_json,
        nothing="nothing to cluster",
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _planned(
    table: Table,
    plan: Callable[..., Plan | None],
    do: Callable[[], Iterable[Any]],
    run: str | None,
    *,
    dry_run: bool,
    plan_only: bool,
) -> Iterable[Any]:
    if sum((dry_run, plan_only, run is not None)) > 1:
        raise InvalidArgument(
            "--dry-run, --plan-only and --run exclude each other. Nothing was changed. Give one of them."
        )
    if run is not None:
        return [table.run(run)]
    return [plan(dry_run=dry_run)] if dry_run or plan_only else do()


@click.command(epilog="Example: lakebraid clean ./orders --hours 24 --dry-run")
@_PATH
@_JSON
@_DRY_RUN
@click.option("--commits", type=click.IntRange(1), help="Keep the versions of so many commits.")
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="Keep the versions of so many hours.")
@click.option("--versions", type=click.IntRange(1), help="Keep so many versions of each file group.")
@_ROLLBACK_DELAY
def clean(
    path: str,
    *,
    as_json: bool,
    dry_run: bool,
    commits: int | None,
    hours: float | None,
    versions: int | None,
    table_service_rollback_delay: str | None,
) -> None:
    """Remove files of versions that are too old, and say what still needs others. Dead writers are rolled back first."""
    delay = _minutes(table_service_rollback_delay)
    done = Table.open(path).clean(
        commits=commits,
        hours=hours,
        versions=versions,
        table_service_rollback_delay_minutes=delay,
        dry_run=dry_run,
    )
    say([done], as_json=as_json, nothing="")


@click.command(epilog="Example: lakebraid rollback ./orders --timeout 5m")
@_PATH
@_JSON
@click.option("--timeout", metavar="TIME", help="Who is silent for this long is dead; the table's setting, or 2m.")
@_ROLLBACK_DELAY
@click.option("--plan", metavar="INSTANT", help="Only this pending plan of a clustering or log compaction.")
def rollback(
    path: str, *, as_json: bool, timeout: str | None, table_service_rollback_delay: str | None, plan: str | None
) -> None:
    """Roll back the writes of dead writers, and finish what others began and left."""
    seconds = None if timeout is None else parse_seconds(timeout)
    delay = _minutes(table_service_rollback_delay)
    done = Table.open(path).rollback(timeout_seconds=seconds, table_service_rollback_delay_minutes=delay, plan=plan)
    say([done], as_json=as_json, nothing="")


def _minutes(time: str | None) -> float | None:
    return None if time is None else parse_seconds(time) / 60


@click.command(epilog="Example: lakebraid archive ./orders --keep-min 50 --keep-max 100")
@_PATH
@_JSON
@_DRY_RUN
@click.option("--keep-min", type=click.IntRange(1), help="Leave so many writes on the timeline (20).")
@click.option("--keep-max", type=click.IntRange(1), help="Archive nothing before there are more than this (30).")
def archive(path: str, *, as_json: bool, dry_run: bool, keep_min: int | None, keep_max: int | None) -> None:
    """Move old instants from the timeline into the history."""
    done = Table.open(path).archive(keep_min=keep_min, keep_max=keep_max, dry_run=dry_run)
    say([done], as_json=as_json, nothing="")


@click.command(epilog="Example: lakebraid savepoint ./orders --comment 'before the migration'")
@_PATH
@click.argument("instant", required=False)
@_JSON
@click.option("--comment", default="", help="Why it is kept.")
@click.option("--list", "lists", is_flag=True, help="Print the savepoints there are.")
@click.option("--delete", metavar="INSTANT", help="Let this savepoint go.")
def savepoint(path: str, instant: str | None, *, as_json: bool, comment: str, lists: bool, delete: str | None) -> int:
    """Keep the table as of a write (the newest, or INSTANT) from being cleaned away."""
    table = Table.open(path)
    if delete is not None:
        is_gone = table.delete_savepoint(delete)
        click.echo(f"savepoint {delete} deleted" if is_gone else f"there is no savepoint {delete}", err=not is_gone)
        return 0 if is_gone else 1
    found = table.savepoints() if lists else [table.savepoint(instant, comment=comment)]
    say(found, as_json=as_json, nothing="no savepoints")
    return 0


@click.command(epilog="Example: lakebraid restore ./orders 20260131120000000 --dry-run")
@_PATH
@click.argument("to")
@_JSON
@_DRY_RUN
@click.option("--yes", is_flag=True, help="Do not ask.")
def restore(path: str, to: str, *, as_json: bool, dry_run: bool, yes: bool) -> None:
    """Remove everything that completed after a savepoint, a write or a moment (17 digits, or RFC 3339)."""
    table = Table.open(path)
    would = table.restore(to, dry_run=True)
    if dry_run or not (would.undone or would.refused):
        say([would], as_json=as_json, nothing="")
        return
    if not yes and not sys.stdin.isatty():
        raise InvalidArgument(f"{told(would)}. Nothing was changed. Say --yes if there is no terminal to ask at.")
    if not yes:
        click.confirm(f"{told(would)}\nDo it?", abort=True, err=True)
    say([table.restore(to)], as_json=as_json, nothing="")


@click.command(epilog="Example: lakebraid services ./orders --every 1m --only compact,clean")
@_PATH
@_JSON
@click.option("--every", default="30s", show_default=True, metavar="TIME", help="How often to look, as 30s, 5m or 1h.")
@click.option("--once", is_flag=True, help="One round; exit code 1 if a service failed.")
@click.option("--only", metavar="A,B", help=f"Only some of {', '.join(SERVICES)}.")
def services(path: str, *, as_json: bool, every: str, once: bool, only: str | None) -> int:
    """Do whatever is due, again and again: run it beside a table, in any number of copies.

    Each round rolls dead writers back, executes plans that were left, compacts, cleans and archives. SIGTERM and Ctrl-C end
    it after the round; killing it does no harm.
    """
    names = None if only is None else [name.strip().replace("-", "_") for name in only.split(",") if name.strip()]
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    table = Table.open(path)
    last = table.services.run(
        every, once=once, only=names, stop=stop, report=lambda done: _report(done, as_json=as_json)
    )
    if once and not last and not as_json:
        click.echo("nothing to do")
    return 1 if once and last.errors else 0


def _report(done: ServiceRound, *, as_json: bool) -> None:
    moment = format_instant_time(SystemClock().now_ms(), table_zone("UTC"))
    if as_json:
        ran = [dataclasses.asdict(one) for one in done.ran if one.did_something]
        click.echo(json.dumps({"time": moment, "seconds": round(done.seconds, 3), "ran": ran}, default=str))
        return
    for one in done.ran:
        if one.error is not None:
            click.echo(f"{moment}  {paint(f'{one.service} failed', 'red')}: {one.error}", err=True)
        elif one.did_something:
            results = one.result if isinstance(one.result, list) else [one.result]
            for result in results:
                click.echo(f"{moment}  {told(result)}")

# SPDX-License-Identifier: Apache-2.0
"""Commands that look closer: one instant of `show`, `files`, `locks`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click

from lakebraid.api.table import Table
from lakebraid.cli.output import paint
from lakebraid.clock import SystemClock
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.plans import CompactionPlan
from lakebraid.inspect.detail import Detail
from lakebraid.inspect.locks import HeldLock, load_locks
from lakebraid.inspect.status_text import counted
from lakebraid.model.timeline.slicing import FileGroup, FileSlice
from lakebraid.storage import open_storage
from lakebraid.table.grid import Grid, printable, text_bytes
from lakebraid.table.loading import load_config

_SHOWN_FILES = 50


def show_instant(path: str, instant: str, *, as_json: bool) -> None:
    """Prints one instant in full."""
    for number, detail in enumerate(Table.open(path).detail(instant)):
        if as_json:
            click.echo(json.dumps(detail.to_dict(), default=str))
        else:
            click.echo(("\n" if number else "") + "\n".join(_instant_lines(detail)))


def _instant_lines(detail: Detail) -> list[str]:
    instant, metadata = detail.instant, detail.metadata
    completed = f", completed {instant.completion_time}" if instant.completion_time else ""
    lines = [paint(f"{instant.kind} {instant.request_time}: {instant.state.lower()}{completed}", bold=True)]
    lines += ["  archived"] if detail.is_archived else [f"  {name}" for name in detail.states]
    lines += [paint(f"  {printable(problem)}", "red") for problem in detail.problems]
    if isinstance(metadata, CommitMetadata):
        lines += _commit_lines(detail, metadata)
    elif metadata is not None:
        lines += ["", *_value_lines(dataclasses.asdict(metadata))]
    if isinstance(detail.plan, CompactionPlan):
        lines += ["", f"  plan: {counted(len(detail.plan.operations), 'file group')}"]
        lines += [
            f"    {printable(f'{o.partition_path or chr(46)}/{o.file_id}')}  {counted(len(o.delta_file_names), 'log file')}"
            + (f" on {printable(o.data_file_name)}" if o.data_file_name else "")
            for o in detail.plan.operations[:_SHOWN_FILES]
        ]
    elif detail.plan is not None:
        lines += ["", "  plan:", *_value_lines(dataclasses.asdict(detail.plan), "    ")]
    return lines


def _commit_lines(detail: Detail, metadata: CommitMetadata) -> list[str]:
    facts = [("operation", metadata.operation or "(not stated)"), ("rows", f"{metadata.rows_written:,}")]
    facts += [(key, _shortened(value)) for key, value in metadata.extra.items()]
    facts += [("replaces", f"{p or '.'}: {', '.join(ids)}") for p, ids in metadata.replaced.items()]
    lines = ["", *(f"  {printable(key):<18}  {printable(value)}" for key, value in facts)]
    if detail.files:
        rows = [
            (f.path, f.rows, f.deletes, None if f.bytes is None else text_bytes(f.bytes), "" if f.is_there else "gone")
            for f in detail.files
        ]
        grid = Grid(("file", "rows", "deletes", "bytes", ""), rows, right={1, 2, 3})
        lines += ["", *(f"  {line}" for line in str(grid).splitlines())]
    return lines


def _value_lines(value: dict[str, Any], indent: str = "  ") -> list[str]:
    text = json.dumps(value, indent=2, default=str).splitlines()
    more = [f"… {len(text) - 2 * _SHOWN_FILES:,} more lines; --json has all"] if len(text) > 2 * _SHOWN_FILES else []
    return [indent + printable(line) for line in [*text[: 2 * _SHOWN_FILES], *more]]


def _shortened(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:150]} … ({len(text):,} characters; --json has all)"


@click.command(epilog="Example: lakebraid files ./orders --as-of 2026-01-31T12:00:00Z --partition city=Oslo")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per slice.")
@click.option("--as-of", metavar="TIME", help="The table as of a completion time (17 digits, or RFC 3339).")
@click.option("--partition", metavar="FOLDER", help="Only this partition.")
@click.option("--all", "every", is_flag=True, help="Older slices, too, that only earlier versions read.")
def files(path: str, *, as_json: bool, as_of: str | None, partition: str | None, every: bool) -> None:
    """List the file slices that readers take: each file group with its base file, its logs and their sizes."""
    groups = Table.open(path).snapshot(as_of).groups
    chosen = [g for g in groups if partition is None or g.group.partition == partition.strip("/")]
    rows = [(g, s) for g in chosen for s in _slices(g, every=every)]
    if as_json:
        for group, part in rows:
            click.echo(json.dumps(_slice_facts(group, part)))
        return
    if not rows:
        click.echo("no files")
        return
    grid = Grid(
        ("partition", "file group", "since", "base file", "logs", "bytes of logs"),
        [_slice_row(group, part) for group, part in rows],
        right={3, 4, 5},
    )
    click.echo(str(grid))
    size = sum(part.size for _, part in rows)
    logs = sum(len(part.logs) for _, part in rows)
    click.echo(
        f"\n{counted(len(chosen), 'file group')}, {counted(len(rows), 'slice')}, {counted(logs, 'log file')}, {text_bytes(size)}"
    )


def _slices(group: FileGroup, *, every: bool) -> list[FileSlice]:
    latest = group.latest()
    return list(group.slices) if every else [latest] if latest is not None else []


def _slice_row(group: FileGroup, part: FileSlice) -> tuple[Any, ...]:
    base = text_bytes(part.base.size) if part.base else "none"
    logs = sum(log.size for log in part.logs)
    return (group.group.partition or ".", group.group.file_id, part.barrier, base, len(part.logs), text_bytes(logs))


def _slice_facts(group: FileGroup, part: FileSlice) -> dict[str, Any]:
    base = part.base
    return {
        "partition": group.group.partition,
        "file_id": group.group.file_id,
        "since": part.barrier,
        "base": None
        if base is None
        else {"name": base.name, "bytes": base.size, "completion_time": base.completion_time},
        "logs": [{"name": f.name, "bytes": f.size, "completion_time": f.completion_time} for f in part.logs],
        "bytes": part.size,
    }


@click.command(epilog="Example: lakebraid locks s3://bucket/orders")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per lock.")
def locks(path: str, *, as_json: bool) -> int:
    """Show who holds Apache Hudi's locks, for how long, and whether the holder still lives.

    Our own writers need no lock, except on tables that they share with Apache Hudi. Exit code 1 if a lock is stale.
    """
    storage = open_storage(path)
    load_config(storage)
    found = load_locks(storage, SystemClock())
    for lock in found:
        click.echo(json.dumps(dataclasses.asdict(lock)) if as_json else _lock_line(lock))
    if not found and not as_json:
        click.echo("no lock is held")
    return 1 if any(lock.is_stale for lock in found) else 0


def _lock_line(lock: HeldLock) -> str:
    held = f"{lock.name}: {printable(lock.holder)}, for {lock.age_ms / 1000:,.0f} s"
    if not lock.is_stale:
        return held
    return paint(f"{held}. {lock.why} Remove it when you are certain that its holder is gone.", "yellow")

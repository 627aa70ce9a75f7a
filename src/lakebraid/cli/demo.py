# SPDX-License-Identifier: Apache-2.0
"""`lakebraid demo`: many writers on one table, on Spark and off it, one of them killed; then every row is accounted for."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import click

import lakebraid as lb
from lakebraid.cli.output import paint
from lakebraid.cli.torture.run import Actor, Storm, rage
from lakebraid.clock import SystemClock
from lakebraid.inspect.occ_replay import look_back
from lakebraid.storage import open_storage
from lakebraid.table.at import TableAt
from lakebraid.table.grid import Grid
from lakebraid.table.loading import load_config
from lakebraid.web.gathering import load_facts
from lakebraid.web.page import render_page
from lakebraid.web.picture import build_model

_TABLE = "v9_mor_nbcc_overlap"
_STORM_SECONDS = 20.0
_ATTEMPTS = 10
_PAGE = "lakebraid-demo.html"
_NAME_WIDTH = 22
_COLOURS = {"compaction": "yellow", "rollback": "red", "clean": "green"}


@click.command(epilog="Example: lakebraid demo --keep ./demo-table")
@click.option("--keep", type=click.Path(path_type=Path), help="Leave the table in this folder.")
@click.option(
    "--page", type=click.Path(path_type=Path), default=_PAGE, show_default=True, help="Where the picture goes."
)
@click.option("--no-spark", is_flag=True, help="Leave out what starts Spark: quicker, and less to see.")
def demo(*, keep: Path | None, page: Path, no_spark: bool) -> None:
    """Let many writers loose on one table, kill one, add a column while they run, and account for every row."""
    clock = SystemClock()
    began = clock.monotonic()
    if keep is not None and keep.exists():
        raise lb.InvalidArgument(f"{keep} is there already. Nothing was changed. Name a folder that is not.")
    with tempfile.TemporaryDirectory(prefix="lakebraid-demo-") as folder:
        table = _storm(Path(folder) / "storm", spark=0 if no_spark else 2)
        _picture(table, page)
        _hindsight(table)
        _of_hudi(_unpack(Path(folder)))
        if keep is not None:
            shutil.copytree(table.path, keep)
            click.echo(f"\nThe table stays in {keep}. Try: lakebraid status {keep}")
    click.echo(f"\n{paint('done', 'green', bold=True)} in {clock.monotonic() - began:.0f} s")


def _storm(folder: Path, *, spark: int) -> lb.Table:
    where = f"{spark} on Spark and 2 in plain Python" if spark else "4 in plain Python"
    _title(f"Writer processes on the same 100 keys of one new table, {where}; a compactor and a reader beside them")
    if spark:
        click.echo("each Spark takes a few seconds to start …")
    storm = Storm(folder, keys=100, rows=20, kill=0, stop=0.05)

    def kill(_: lb.Table, actors: Sequence[Actor]) -> str:
        storm.kill_one(actors[0])
        return paint("writer 0 is killed (SIGKILL), wherever it was; the others are not told", "red")

    def add_column(table: lb.Table, _: Sequence[Actor]) -> str:
        for _attempt in range(_ATTEMPTS):
            # The rescuer of this storm takes a second of silence for death; on a busy machine the living are silent, too.
            with contextlib.suppress(lb.CommitRefused):
                lb.Table.open(table.path).alter().add("town", "string").commit()
                break
        return paint("a column `town` was added; no writer stopped for it", "yellow")

    table, verdict = rage(
        storm,
        _STORM_SECONDS,
        writers=2 if spark else 4,
        spark=spark,
        compactors=1,
        buckets=4,
        events=[(0.4, kill), (0.6, add_column)],
    )
    if not verdict.is_clean:
        raise click.ClickException("Rows are missing or wrong. Please report this.")
    _title("Its audit: what was committed, held against what readers get (lakebraid audit PATH --deep)")
    click.echo(repr(table.audit(deep=True)))
    return table


def _picture(table: lb.Table, page: Path) -> None:
    _title("What happened: a lane for each writer, ┊ where a compaction was planned (lakebraid view PATH)")
    model = build_model(load_facts(open_storage(table.path), SystemClock()))
    width = min(shutil.get_terminal_size((100, 24)).columns, 140)
    click.echo("\n".join(draw_lanes(model["instants"], (lane["name"] for lane in model["lanes"]), width)))
    late = sum(1 for instant in model["instants"] if instant.get("late"))
    click.echo(
        f"{late} writes began before a compaction was planned and ended after: their rows are in the next slice."
    )
    try:
        page.write_text(render_page(model), encoding="utf-8")
    except OSError as error:
        click.echo(f"{page} could not be written ({error.strerror}); --page names another file.")
    else:
        click.echo(f"The same to zoom into and click on: open {paint(str(page), bold=True)} in a browser.")


def _hindsight(table: lb.Table) -> None:
    _title("What Apache Hudi would have done with the same writes")
    storage = open_storage(table.path)
    found = look_back(TableAt(storage, load_config(storage)[0], SystemClock()))
    click.echo(
        f"Its optimistic mode refuses a writer that met another one in a file group: {len(found.refused)} of these {found.writes} "
        "commits,\nby its own rule (RFC-71) on this very timeline. Its non-blocking mode lets them through, with a lock provider, a "
        "jar\nthat fits the Spark, and a lock taken for every step. Here none waited, and there was no lock."
    )


def _unpack(folder: Path) -> lb.Table:
    with as_file(files("lakebraid.cli") / "data" / "demo_table.zip") as archive, zipfile.ZipFile(archive) as content:
        content.extractall(folder)
    return lb.Table.open(folder / _TABLE)


def _of_hudi(table: lb.Table) -> None:
    _title("And a table that Apache Hudi 1.2.0 wrote, read without Spark and without Java")
    listing = table.timeline()
    click.echo(repr(listing))
    late = max(
        (e.instant for e in listing if e.instant.is_write and e.instant.kind == "deltacommit"),
        key=lambda i: int(i.completion_time or 0) - int(i.request_time),
    )
    click.echo(
        f"\nThe writer that began at {late.request_time} is the slow one: a compaction was planned and others finished "
        f"before it did, at {late.completion_time}. What changed then, delivered exactly once:"
    )
    before = str(int(late.completion_time or 0) - 1)
    changes = table.changes(after=before, until=late.completion_time)
    _print_grid(changes.to_arrow().drop_columns(["_commit_completion_time"]).to_pylist())


def _title(text: str) -> None:
    click.echo(f"\n{paint(text, bold=True)}")


def _print_grid(rows: list[dict[str, object]]) -> None:
    click.echo(str(Grid(tuple(rows[0]), [tuple(row.values()) for row in rows])))


def draw_lanes(instants: Sequence[Mapping[str, Any]], lanes: Iterable[str], width: int = 100) -> list[str]:
    """A timeline as lines of text: a lane for each writer, time from left to right. `━` is a write from its beginning to its completion, `X` ends one that was rolled back, `┊` is where
    a compaction was planned: who began left of it and ends right of it has landed in the next slice. Commits without
    rows are left out.
    """
    names = list(lanes)
    timed = [i for i in instants if i.get("t0") is not None and i.get("rows") != 0]
    if not timed:
        return []
    first = min(i["t0"] for i in timed)
    last = max(i.get("t1") or i["t0"] for i in timed)
    cells = max(width - _NAME_WIDTH - 2, 20)

    def place(time: int) -> int:
        return min(int((time - first) / max(last - first, 1) * cells), cells - 1)

    barriers = {place(i["t0"]) for i in timed if i["kind"] == "compaction"}
    lines = []
    for number in sorted(range(len(names)), key=lambda at: (_is_service(timed, at), names[at])):
        lane = names[number]
        row = ["┊" if at in barriers else " " for at in range(cells)]
        mine = [i for i in timed if i.get("lane", 0) == number]
        if not mine:
            continue
        for instant in mine:
            _draw(row, instant, place(instant["t0"]), place(instant.get("t1") or last))
        name = lane if len(lane) <= _NAME_WIDTH else f"{lane[: _NAME_WIDTH - 1]}…"
        kind = mine[0]["kind"] if mine[0].get("service") else ""
        lines.append(f"{name:<{_NAME_WIDTH}}  {paint(''.join(row).rstrip(), _COLOURS.get(kind, 'cyan'))}".rstrip())
    seconds = (last - first) / 1000
    lines.append(" " * (_NAME_WIDTH + 2) + paint(f"0 s{f'{seconds:.0f} s':>{cells - 3}}", dim=True))
    return lines


def _draw(row: list[str], instant: Mapping[str, Any], begin: int, end: int) -> None:
    for at in range(begin, end):
        row[at] = "━" if row[at] in " ┊━" else row[at]
    row[end] = "X" if instant["state"] in ("rolled back", "aborted", "refused") else "┫" if end > begin else "╋"


def _is_service(instants: Iterable[Mapping[str, Any]], lane: int) -> bool:
    return any(i.get("service") for i in instants if i.get("lane", 0) == lane)

# SPDX-License-Identifier: Apache-2.0
"""One picture for each measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.suite.row import Rows

BLUE, ORANGE, GREEN, GREY = "#2f5d8a", "#c8762b", "#4f8a5b", "#8a8f98"
COLOURS = (BLUE, ORANGE, GREEN, GREY)
STYLE: Any = {
    "font.family": "sans-serif",
    "svg.fonttype": "none",  # letters, not outlines: small files, and the text can be searched
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9aa0a8",
    "axes.labelcolor": "#3c4149",
    "xtick.color": "#3c4149",
    "ytick.color": "#3c4149",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#e4e6ea",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
    "svg.hashsalt": "lakebraid",  # the same figures give the same file
}


def draw(name: str, rows: Rows, file: Path) -> None:
    """Draws a measurement's rows into the file, SVG or PNG by its name."""
    with mpl.rc_context(STYLE):
        drawn = DRAWINGS[name](rows)
        drawn.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _contention(rows: Rows) -> Figure:
    figure, (rate, latency, refused) = _panels(3)
    modes = _by(rows, "mode")
    for colour, (mode, points) in zip(COLOURS, modes.items(), strict=False):
        _line(rate, points, "writers", "commits_per_s", mode, colour)
        _line(latency, points, "writers", "p50_s", mode, colour)
        _line(latency, points, "writers", "p99_s", None, colour, "--")
        _line(refused, points, "writers", "refused_per_s", mode, colour)
    writers = sorted({row["writers"] for row in rows})
    for axes in (rate, latency, refused):
        _log_x(axes, writers, "writer processes")
    _log_y(latency)
    _name(rate, "Published", "commits/s", zero=True)
    _name(latency, "Latency (p50, dashed: p99)", "seconds")
    _name(refused, "Refused", "writes/s", zero=True)
    figure.legend(*rate.get_legend_handles_labels(), loc="outside lower center", ncols=len(modes))
    return figure


def _small_commits(rows: Rows) -> Figure:
    figure, (axes,) = _panels(1)
    for key, label, colour in (("p50_ms", "p50", BLUE), ("p99_ms", "p99", ORANGE), ("cpu_ms", "CPU", GREY)):
        _line(axes, rows, "rows", key, label, colour)
    _log_x(axes, [row["rows"] for row in rows], "rows in the commit")
    _name(axes, "One commit", "milliseconds", zero=True)
    axes.legend()
    return figure


def _upsert(rows: Rows) -> Figure:
    figure, (axes,) = _panels(1)
    for colour, (kind, points) in zip(COLOURS, _by(rows, "kind").items(), strict=False):
        _line(axes, [row for row in points if row["share"] < 1], "changed_rows", "cpu_s", kind, colour)
    _log_x(axes, sorted({row["changed_rows"] for row in rows if row["share"] < 1}), "rows in the upsert")
    _log_y(axes)
    total = max(row["changed_rows"] for row in rows)
    _name(axes, f"Upsert into {total:,} rows", "CPU seconds")
    axes.legend()
    return figure


def _merge_read(rows: Rows) -> Figure:
    figure, (axes,) = _panels(1)
    logs = [row for row in rows if row["state"] == "with logs"]
    compacted = [row for row in rows if row["state"] == "compacted"]
    for colour, name in zip(COLOURS, ("scan", "count", "lookup", "pyarrow_scan"), strict=True):
        label = "pyarrow, base files alone" if name == "pyarrow_scan" else name
        _line(axes, logs, "upserts", f"{name}_cpu_ms", label, colour)
        for row in compacted:
            axes.plot(row["upserts"], row[f"{name}_cpu_ms"], "D", mfc="white", mec=colour)
    axes.plot([], [], "D", mfc="white", mec=GREY, label="after compaction")
    axes.set_xlabel("upserts of 1 % of the rows since the last compaction")
    _name(axes, "Reading a table with logs", "CPU milliseconds", zero=True)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _compaction(rows: Rows) -> Figure:
    figure, (axes,) = _panels(1)
    _line(axes, rows, "rows", "cpu_s", "compaction", BLUE)
    _line(axes, rows, "rows", "pyarrow_cpu_s", "pyarrow: read and write, no merge", GREY)
    _log_x(axes, [row["rows"] for row in rows], "rows of the table")
    _log_y(axes)
    _name(axes, "Compaction of five upserts", "CPU seconds")
    axes.legend()
    return figure


def _join(rows: Rows) -> Figure:
    groups = _by(rows, "streams")
    figure, panels = _panels(len(groups), sharey=True)
    for axes, (streams, points) in zip(panels, groups.items(), strict=True):
        _line(axes, points, "round", "partial_updates_cpu_s_sum", "partial updates, read", BLUE)
        _line(axes, points, "round", "batch_join_cpu_s_sum", "batch join each time", ORANGE)
        axes.set_xlabel("round")
        axes.xaxis.get_major_locator().set_params(integer=True)
        _name(axes, f"{streams} streams", "CPU seconds so far" if axes is panels[0] else "")
    panels[0].set_ylim(bottom=0)
    panels[0].legend()
    return figure


def _gdpr_delete(rows: Rows) -> Figure:
    figure, (ingest, deletes) = _panels(2)
    names = [str(row["what"]) for row in rows]
    _bars(ingest, names, [row["commits_per_s"] for row in rows], (GREY, BLUE))
    ingest.set_xlabel("commits/s")
    ingest.set_title("Two writers")
    row = rows[-1]
    keys = ("find_p50_s", "find_p99_s", "delete_p50_s", "delete_p99_s")
    names = [key.removesuffix("_s").replace("_", ", ") for key in keys]
    _bars(deletes, names, [float(row[key]) * 1000 for key in keys], (GREEN, GREEN, ORANGE, ORANGE))
    deletes.set_xlabel("milliseconds")
    deletes.set_title("One person's rows")
    return figure


def _timeline(rows: Rows) -> Figure:
    figure, panels = _panels(3, sharey=True)
    keys = {"open_ms": "Open", "read_ms": "Open and read", "next_commit_ms": "Commit"}
    for axes, (key, title) in zip(panels, keys.items(), strict=True):
        for colour, (state, points) in zip((ORANGE, BLUE), _by(rows, "state").items(), strict=True):
            label = "all active" if state == "active" else "archived"
            _line(axes, points, "instants", key, label, colour)
        _log_x(axes, sorted({row["instants"] for row in rows}), "instants")
        _log_y(axes)
        _name(axes, title, "milliseconds" if axes is panels[0] else "")
    panels[0].legend()
    return figure


def _recovery(rows: Rows) -> Figure:
    figure, (axes,) = _panels(1)
    silences = [0.0, *sorted({float(row["silence_s"]) for row in rows})]
    axes.plot(silences, silences, color=GREY, linestyle="--", label="the silence allowed")
    for colour, (what, points) in zip(COLOURS, _by(rows, "what").items(), strict=False):
        _line(axes, points, "silence_s", "p50_s", what, colour)
        _line(axes, points, "silence_s", "slowest_s", None, colour, ":")
    axes.set_xlabel("silence after which a process counts as dead, seconds")
    axes.set_xlim(0)
    _name(axes, "From the kill to the recovery (p50, dotted: slowest)", "seconds", zero=True)
    axes.legend()
    return figure


# The parts ------------------------------------------------------------------------------------------------------------


def _panels(count: int, *, sharey: bool = False) -> tuple[Figure, Sequence[Any]]:
    figure = Figure(figsize=(6.4 if count == 1 else 9.6, 3.4), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False, sharey=sharey)[0]


def _line(axes: Any, rows: Rows, x: str, y: str, label: str | None, colour: str, style: str = "-") -> None:
    points = [(row[x], row[y]) for row in rows]
    axes.plot(*zip(*points, strict=True), style, marker="o", color=colour, label=label)


def _bars(axes: Any, names: list[str], values: list[Any], colours: Sequence[str]) -> None:
    bars = axes.barh(names, values, color=colours, height=0.6)
    axes.bar_label(bars, fmt="%.3g", padding=3, fontsize=9)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.margins(x=0.15)


def _log_x(axes: Any, ticks: Iterable[Any], label: str) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(ticks), [f"{tick:,}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(label)


def _log_y(axes: Any) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _name(axes: Any, title: str, unit: str, *, zero: bool = False) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)
    if zero:
        axes.set_ylim(bottom=0)


def _by(rows: Rows, key: str) -> dict[Any, Rows]:
    groups: dict[Any, Rows] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


DRAWINGS: Mapping[str, Callable[[Rows], Figure]] = {
    "contention": _contention,
    "small_commits": _small_commits,
    "upsert": _upsert,
    "merge_read": _merge_read,
    "compaction": _compaction,
    "join": _join,
    "gdpr_delete": _gdpr_delete,
    "timeline": _timeline,
    "recovery": _recovery,
}

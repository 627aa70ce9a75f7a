# SPDX-License-Identifier: Apache-2.0
"""The pictures of the cloud rig, in the manner of the suite's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.cloud.page import BEFORE, CONSTANT, LOGNORMAL, MANY, S3
from benchmarks.suite.pictures import BLUE, GREEN, GREY, ORANGE, STYLE, _bars, _line, _log_x, _log_y, _name, _panels
from benchmarks.suite.row import Rows

PLUM = "#7d5a8c"
MODEL = "model, lognormal"
LINES: Mapping[str, tuple[str, str, str, str]] = {
    "measured without asks": (LOGNORMAL, f"{MANY}{BEFORE}", ORANGE, "-"),
    "measured, each": (LOGNORMAL, MANY, GREEN, "-"),
    "measured, group": (LOGNORMAL, f"{MANY}, group", BLUE, "-"),
    "without asks, model": (MODEL, "without asks, 8 buckets", ORANGE, ":"),
    "each, simulated time": (MODEL, "asks, each, 8 buckets", GREEN, ":"),
    "group, simulated time": (MODEL, "asks, group, 8 buckets", BLUE, ":"),
    "group, begun ahead, simulated time": (MODEL, "asks, group, begun ahead, 8 buckets", PLUM, ":"),
}
"""Label: ground, workload, colour, style."""
BESIDE: Mapping[str, tuple[str, str, str, str]] = {
    "lakebraid, upsert": (S3, MANY, GREEN, "-"),
    "lakebraid without asks": (S3, f"{MANY}{BEFORE}", ORANGE, "-"),
    "delta-rs, append": (S3, "delta-rs, append of 1,000 rows", GREY, "--"),
    "delta-rs, merge": (S3, "delta-rs, merge of 1,000 rows", GREY, "-"),
    "Apache Hudi NBCC, upsert": (S3, "Apache Hudi NBCC, in-process lock, no metadata table", BLUE, "-"),
}


def draw(rows: Rows, folder: Path) -> None:
    """Of what is among the rows; the others are left as they are."""
    with mpl.rc_context(STYLE):
        drawings = {
            "bench-cloud_writers.svg": _writers(rows, LINES),
            "bench-cloud_beside.svg": _writers(rows, BESIDE),
            "bench-cloud_requests.svg": _requests(rows),
        }
        for name, figure in drawings.items():
            if figure is not None:
                figure.savefig(folder / name, metadata={"Date": None})


def _writers(rows: Rows, lines: Mapping[str, tuple[str, str, str, str]]) -> Figure | None:
    found = {
        label: sorted((r for r in rows if (r["ground"], r["workload"]) == key[:2]), key=lambda row: row["writers"])
        for label, key in lines.items()
    }
    if not any(found.values()):
        return None
    figure, (rate, latency, requests) = _panels(3)
    for label, points in found.items():
        _, _, colour, style = lines[label]
        for axes, figures in ((rate, "commits_per_s"), (latency, "p50_s"), (requests, "requests")):
            if points:
                _line(axes, points, "writers", figures, label, colour, style)
    counts = sorted({row["writers"] for points in found.values() for row in points})
    for axes in (rate, latency, requests):
        _log_x(axes, counts, "writers")
        _log_y(axes)
    _name(rate, "Published", "commits/s")
    _name(latency, "Latency, p50", "seconds")
    _name(requests, "Requests", "per commit")
    figure.legend(*rate.get_legend_handles_labels(), loc="outside lower center", ncols=min(len(lines), 4))
    return figure


def _requests(rows: Rows) -> Figure | None:
    """What one process waits for."""
    lone = [r for r in rows if r["ground"] == CONSTANT and not r["workload"].startswith("commits ")]
    if not lone:
        return None
    figure, (trips, seconds) = _panels(2, sharey=True)
    figure.set_size_inches(9.6, 0.9 + 0.36 * len(lone))
    names = [row["workload"] for row in lone]
    _bars(trips, names, [row["round_trips"] for row in lone], (BLUE,))
    trips.set_title("Round trips in a row")
    _bars(seconds, names, [row["p50_s"] for row in lone], (ORANGE,))
    seconds.set_title("Seconds, p50")
    seconds.invert_yaxis()  # it shares the axis that is turned already
    return figure

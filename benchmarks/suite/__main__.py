# SPDX-License-Identifier: Apache-2.0
"""Measures, and writes results, pictures and the tables of the page.

    uv run python -m benchmarks.suite                             # everything, about ten minutes on two quiet cores
    uv run python -m benchmarks.suite --quick                     # the same with small sizes
    uv run python -m benchmarks.suite --only upsert compaction
    uv run python -m benchmarks.suite --draw                      # pictures and tables again, from the results that are there

Results go to benchmarks/results/NAME.json, pictures to docs/pictures/bench-NAME.svg, tables between the markers of
docs/benchmarks.md. A wrong answer ends the run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.suite.facts import facts, load, others_cpu_seconds
from benchmarks.suite.measurements import MEASUREMENTS
from benchmarks.suite.page import block, updated
from benchmarks.suite.row import rounded

HOME = Path(__file__).parents[2]
PAGE = Path("docs") / "benchmarks.md"


def main(given: list[str] | None = None) -> None:
    asked = _arguments().parse_args(given)
    at_first = {"load before": load()}  # later the measurements themselves are most of it
    for name in asked.only:
        result = asked.out / "benchmarks" / "results" / f"{name}.json"
        if not asked.draw:
            print(f"{name} ...", flush=True)
            measured = _measured(name, quick=asked.quick)
            _write(result, _json(measured | {"facts": at_first | measured["facts"]}))
            print(f"{name}: {measured['facts']['seconds']} s, load {measured['facts']['load after']}", flush=True)
        _show(asked.out, name, json.loads(result.read_text("utf-8")))


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: a minute or two")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS), metavar="NAME")
    parser.add_argument("--draw", action="store_true", help="measure nothing, draw again")
    parser.add_argument("--out", type=Path, default=HOME, help="another folder for the same three places")
    return parser


def _measured(name: str, *, quick: bool) -> dict[str, Any]:
    known, began, others = facts(quick=quick), time.monotonic(), others_cpu_seconds()
    folder = Path(tempfile.mkdtemp(prefix="lakebraid-suite-"))
    try:
        rows = MEASUREMENTS[name].run(folder, quick=quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - began
    used = max(others_cpu_seconds() - others, 0.0) / seconds
    known |= {"load after": load(), "seconds": round(seconds, 1), "cores used by others": round(used, 2)}
    return {"measurement": name, "facts": known, "rows": [rounded(row) for row in rows]}


def _json(measured: dict[str, Any]) -> str:
    """One line a row: small, and a difference of two runs can be read."""
    rows = ",\n  ".join(json.dumps(row) for row in measured["rows"])
    known = json.dumps(measured["facts"], indent=1)
    return f'{{"measurement": {json.dumps(measured["measurement"])},\n"facts": {known},\n"rows": [\n  {rows}\n]}}\n'


def _show(out: Path, name: str, result: dict[str, Any]) -> None:
    # Here, since every process that a measurement starts imports this module first.
    from benchmarks.suite.pictures import draw  # noqa: PLC0415

    picture = out / "docs" / "pictures" / f"bench-{name}.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    draw(name, result["rows"], picture)
    page = out / PAGE
    text = (page if page.exists() else HOME / PAGE).read_text("utf-8")
    one = MEASUREMENTS[name]
    _write(page, updated(text, name, block(f"pictures/{picture.name}", one.alt, one.columns, result)))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Measures lakebraid as on an object store.

    python -m benchmarks.cloud                                    # injected latencies, and the model: about ten minutes
    python -m benchmarks.cloud --quick                            # a minute or so
    python -m benchmarks.cloud --parts injected --lognormal --writers 1 4 16 64
    python -m benchmarks.cloud --only writers --orders each group --buckets 8 64
    python -m benchmarks.cloud --only commits ahead               # writers that begin their next write ahead
    python -m benchmarks.cloud --parts model                      # 1 to 256 writers, without asks and with them
    python -m benchmarks.cloud --parts s3 delta --faults 0.01     # a real S3 server behind the slow proxy; delta-rs beside
    python -m benchmarks.cloud --parts torture                    # five minutes of kills and stops on that server
    python -m benchmarks.cloud --compare benchmarks/results/cloud.json             # ratios beside an earlier run
    python -m benchmarks.cloud --out benchmarks/results/cloud.json --draw docs/pictures

Latencies are sleeps, so figures hold on a busy machine as long as its load leaves the processes some CPU: the load is
written beside them. A wrong answer ends the run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.cloud import report
from benchmarks.cloud.model.run import COUNTS, modelled
from benchmarks.cloud.page import filled
from benchmarks.cloud.rig.grounds import Ground, Injected
from benchmarks.cloud.rig.latency import TAIL, Latencies
from benchmarks.cloud.workloads import lone_commits, reads
from benchmarks.cloud.writers import BUCKETS, EACH, GROUP, contention
from benchmarks.suite.facts import facts, load
from benchmarks.suite.row import Row, Rows, rounded

MEMORY = "/dev/shm"
PAGE = Path(__file__).parents[1] / "README.md"


def main(given: list[str] | None = None) -> None:
    asked = _arguments().parse_args(given)
    before = json.loads(asked.compare.read_text("utf-8"))["rows"] if asked.compare else []
    kept = json.loads(asked.out.read_text("utf-8"))["rows"] if asked.add and asked.out.exists() else []
    known, rows = facts(quick=asked.quick) | {"load before": load()}, []
    for part in () if asked.draw else asked.parts:
        print(f"{part}, load {load()}\n{report.HEAD}", flush=True)
        for row in PARTS[part](asked):
            rows.append(rounded(row | {"load": float(load()), "date": known["date"]}))
            print(report.line(row), flush=True)
            _save(asked.out, known | {"load after": load()}, report.with_rows(kept, rows))
    if before:
        print("\n".join(report.compared(rows, before)))
    if asked.draw:
        from benchmarks.cloud.pictures import draw  # noqa: PLC0415 - every process that is started imports this module

        found = json.loads(asked.out.read_text("utf-8"))["rows"]
        draw(found, asked.draw)
        PAGE.write_text(filled(PAGE.read_text("utf-8"), found), "utf-8")


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["injected", "model"], metavar="PART")
    parser.add_argument("--quick", action="store_true", help="small sizes: a minute or so")
    parser.add_argument("--lognormal", action="store_true", help=f"p99 of a request is {TAIL:g} times the median")
    parser.add_argument("--only", nargs="+", choices=("commits", "reads", "writers", "ahead"), metavar="WORK")
    parser.add_argument("--writers", type=int, nargs="+", help="how many at once; 1 4 16 64 unless told")
    parser.add_argument("--buckets", type=int, nargs="+", default=[BUCKETS], help="of the tables of many writers")
    parser.add_argument("--orders", nargs="+", choices=(EACH, GROUP), default=[EACH], help="in which commits appear")
    parser.add_argument("--faults", type=float, default=0.0, help="the share of requests to S3 that fail")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/cloud.json"), help="the figures, as JSON")
    parser.add_argument("--add", action="store_true", help="keep what --out has of other measurements")
    parser.add_argument(
        "--draw",
        type=Path,
        metavar="FOLDER",
        help="measure nothing; draw the pictures of --out, and write its tables into benchmarks/README.md",
    )
    parser.add_argument("--compare", type=Path, metavar="FILE.json", help="an earlier run, for ratios beside it")
    return parser


def _injected(asked: argparse.Namespace) -> Iterator[Row]:
    latencies = Latencies(tail=TAIL if asked.lognormal else 1.0)
    # In memory where that can be had: a busy disk takes as long for an fsync as an object store for a put.
    folder = tempfile.mkdtemp(prefix="lakebraid-cloud-", dir=MEMORY if Path(MEMORY).is_dir() else None)
    try:
        yield from _on(Injected(folder, latencies), asked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _s3(asked: argparse.Namespace) -> Iterator[Row]:
    from benchmarks.cloud.rig.server import s3  # noqa: PLC0415 - only this part needs what the tests need

    with s3(tail=TAIL if asked.lognormal else 1.0, faults=asked.faults, seed=asked.seed) as ground:
        yield from _on(ground, asked)
        print(f"faults: {ground.faults() or 'none'}")


def _delta(asked: argparse.Namespace) -> Iterator[Row]:
    from benchmarks.cloud.peers.delta import beside  # noqa: PLC0415 - the same
    from benchmarks.cloud.rig.server import s3  # noqa: PLC0415 - the same

    with s3(tail=TAIL if asked.lognormal else 1.0, faults=asked.faults, seed=asked.seed) as ground:
        for row in beside(ground, asked.writers or ((1, 4) if asked.quick else (1, 4, 16)), quick=asked.quick):
            yield {"ground": ground.title} | row


def _hudi(asked: argparse.Namespace) -> Iterator[Row]:
    from benchmarks.cloud.peers.hudi import beside  # noqa: PLC0415 - the same
    from benchmarks.cloud.rig.server import s3  # noqa: PLC0415 - the same

    with s3(tail=TAIL if asked.lognormal else 1.0, faults=asked.faults, seed=asked.seed) as ground:
        for row in beside(ground, asked.writers or ((1,) if asked.quick else (1, 4)), quick=asked.quick):
            yield {"ground": ground.title} | row


def _torture(asked: argparse.Namespace) -> Iterator[Row]:
    from benchmarks.cloud.rig.server import s3  # noqa: PLC0415 - the same
    from benchmarks.cloud.torture import WRITERS, tortured  # noqa: PLC0415 - the same

    with s3(tail=TAIL if asked.lognormal else 1.0, faults=asked.faults, seed=asked.seed) as ground:
        for row in tortured(ground, asked.writers or (WRITERS,), quick=asked.quick):
            yield {"ground": ground.title} | row


def _model(asked: argparse.Namespace) -> Iterator[Row]:
    counts = asked.writers or ((1, 4, 16) if asked.quick else COUNTS)
    for row in modelled(Latencies(tail=TAIL if asked.lognormal else 1.0), counts, asked.seed):
        yield {"ground": f"model, {'lognormal' if asked.lognormal else 'constant'}"} | row


def _on(ground: Ground, asked: argparse.Namespace) -> Iterator[Row]:
    counts = asked.writers or ((1, 4) if asked.quick else (1, 4, 16, 64))
    works: dict[str, Callable[[], Iterator[Row]]] = {
        "commits": lambda: lone_commits(ground, quick=asked.quick),
        "reads": lambda: reads(ground, quick=asked.quick),
        "writers": lambda: contention(
            ground, counts, quick=asked.quick, seed=asked.seed, buckets=asked.buckets, orders=asked.orders
        ),
    }
    works["ahead"] = lambda: contention(
        ground, counts, quick=asked.quick, seed=asked.seed, buckets=asked.buckets, orders=asked.orders, is_ahead=True
    )
    for name in asked.only or works:
        for row in works[name]():
            yield {"ground": ground.title} | row


def _save(path: Path, known: dict[str, Any], rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    path.write_text(f'{{"facts": {json.dumps(known, indent=1)},\n"rows": [\n  {lines}\n]}}\n', "utf-8")


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "injected": _injected,
    "model": _model,
    "s3": _s3,
    "delta": _delta,
    "hudi": _hudi,
    "torture": _torture,
}

if __name__ == "__main__":
    main()

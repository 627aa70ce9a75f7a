# SPDX-License-Identifier: Apache-2.0
"""`lakebraid torture` on a ground: writers and services that are killed and stopped while the store is as slow as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.cloud.rig.calls import summed
from benchmarks.cloud.rig.grounds import S3
from benchmarks.suite.row import Row, percentile

WRITERS, SECONDS, SECONDS_QUICK = 8, 300, 25
CREW = ("--services", "1", "--compactors", "1", "--buckets", "8", "--kill", "0.02", "--stop", "0.05")
"""A process lives for 50 s on average: it starts anew each time, and a commit takes seconds where many write."""


def tortured(ground: S3, counts: Sequence[int], *, quick: bool) -> Iterator[Row]:
    """A row for each number of writers. SystemExit if a row is missing, wrong, doubled or was never published."""
    for writers in counts:
        ground.forget()
        verdict = storm(ground, f"torture-{writers}", writers, SECONDS_QUICK if quick else SECONDS)
        if not verdict["clean"]:
            raise SystemExit(f"torture: {verdict['problems'][:20]}. Notes: {verdict['folder']}")
        commits, walls = verdict["published"], verdict["commit_seconds"]
        yield {
            "workload": f"torture: {verdict['kills']} kills, {verdict['stops']} stops, {verdict['reads']} reads",
            "writers": writers,
            "commits": commits,
            "commits_per_s": commits / verdict["seconds"],
            "p50_s": percentile(walls, 0.5),
            "p99_s": percentile(walls, 0.99),
            **summed(ground.sent()).per(max(commits, 1)),
            "round_trips": 0,  # of requests of several processes nothing is in a row
        }


def storm(ground: S3, name: str, writers: int, seconds: float, *flags: str) -> dict[str, Any]:
    """What the command says at its end, as it prints it for programs; its progress goes where ours does."""
    command = [
        *(sys.executable, "-m", "lakebraid.cli.main", "torture", "--json", "--table", ground.url(name)),
        *("--writers", str(writers), "--seconds", str(seconds), *CREW, *flags),
    ]
    done = subprocess.run(command, env=os.environ | ground.environment(), stdout=subprocess.PIPE, check=False)
    if not done.stdout:
        raise SystemExit("`lakebraid torture` ended without a verdict.")
    return dict(json.loads(done.stdout))

# SPDX-License-Identifier: Apache-2.0
"""delta-rs beside lakebraid: appends and merges of several writer processes, on the same S3 server and proxy.

Its environment is made once, in the user's cache: its packages and lakebraid's need not agree.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.interop.referee import python_of_spark
from tests.kit.environments import make_environment

from benchmarks.cloud.rig.calls import summed
from benchmarks.cloud.rig.grounds import S3
from benchmarks.suite.row import Row, percentile

REQUIREMENTS = ("deltalake==1.6.6", "pyarrow", "numpy")
WRITER = Path(__file__).with_name("delta_writer.py")
COMMITS = {1: 10, 4: 5, 16: 3}
SECONDS_MAX = 150.0


def beside(ground: S3, counts: Sequence[int], *, quick: bool) -> Iterator[Row]:
    python = environment() / "bin" / "python"
    for work in ("append", "merge"):
        for writers in counts:
            commits = max(2, COMMITS.get(writers, 3) // (4 if quick else 1))
            yield _run(ground, python, work, writers, commits)


def environment() -> Path:
    """A virtual environment with delta-rs, made at the first call; a half-made one has no `ready` file."""
    digest = hashlib.sha256("\n".join((*REQUIREMENTS, str(sys.version_info[:2]))).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / f"lakebraid-delta-{digest}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "ready").exists():
            shutil.rmtree(home, ignore_errors=True)
            make_environment(home, [*REQUIREMENTS], python_of_spark())
            (home / "ready").write_text("\n".join(REQUIREMENTS))
    return home


def _run(ground: S3, python: Path, work: str, writers: int, commits: int) -> Row:
    name = f"delta-{work}-{writers}"
    told = {"url": ground.url(name), "work": work, "commits": commits, "seconds_max": SECONDS_MAX}
    _finished([_started(python, told | {"work": "create", "options": _options(ground, ground.server)})])
    slow = told | {"options": _options(ground, ground.proxy)}
    processes = [_started(python, slow | {"number": number}) for number in range(writers)]
    ground.forget()
    notes = _finished(processes)
    sent = summed(ground.sent())
    spans = [span for note in notes for span in note["spans"]]
    _check(python, told | {"work": "check", "options": _options(ground, ground.server)}, work, len(spans))
    if not spans:
        raise SystemExit(f"No {work} of delta-rs was published: {notes[0]['errors'][:1]}")
    walls = [end - begin for begin, end in spans]
    seconds = max(end for _, end in spans) - min(begin for begin, _ in spans)
    figures: Row = {
        "commits": len(spans),
        "commits_per_s": len(spans) / seconds,
        "p50_s": percentile(walls, 0.5),
        "p99_s": percentile(walls, 0.99),
        **sent.per(len(spans)),
        "round_trips": sent.round_trips / len(spans) if writers == 1 else 0,
        "cpu_s": sum(note["cpu"] for note in notes) / len(spans),
        "again": sum(note["again"] for note in notes),
        "failed": sum(note["failed"] for note in notes),
    }
    return {"workload": f"delta-rs, {work} of 1,000 rows", "writers": writers, **figures}


def _check(python: Path, told: dict[str, Any], work: str, commits: int) -> None:
    (found,) = _finished([_started(python, told)])
    rows = 10_000 + (1000 * commits if work == "append" else 0)
    if (found["version"], found["rows"]) != (commits, rows):
        raise SystemExit(f"delta-rs acknowledged {commits} commits, and has {found}.")


def _options(ground: S3, endpoint: str) -> dict[str, str]:
    """In delta-rs's names. Without the conditional put two writers could both make the same version."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": ground.options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": ground.options["secret_access_key"],
        "AWS_REGION": ground.options["region"],
        "AWS_ALLOW_HTTP": "true",
        "conditional_put": "etag",
    }


def _started(python: Path, told: dict[str, Any]) -> subprocess.Popen[str]:
    """A process that has opened the table, and waits for a word."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "AWS_"))}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": kept}
    process = subprocess.Popen([str(python), str(WRITER)], **pipes)
    if process.stdin is None or process.stdout is None:
        raise SystemExit("A writer has no pipes.")
    process.stdin.write(json.dumps(told) + "\n")
    process.stdin.flush()
    if process.stdout.readline().strip() != "ready":
        raise SystemExit("A writer of delta-rs did not start.")
    return process


def _finished(processes: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    for process in processes:
        if process.stdin is not None:
            process.stdin.write("go\n")
            process.stdin.flush()
    notes = []
    for process in processes:
        said, _ = process.communicate()
        if process.returncode:
            raise SystemExit("A writer of delta-rs failed.")
        notes.append(json.loads(said))
    return notes

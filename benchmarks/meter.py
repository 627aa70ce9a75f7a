# SPDX-License-Identifier: Apache-2.0
"""CPU seconds of this process and all its descendants, the JVM and Python workers among them, from /proc."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")


class Meter:
    """`with Meter() as used: ...`, then `used.cpu`, `used.wall`, and `used.parts`: the CPU by kind of process.

    Wall seconds mean little on a busy machine. CPU seconds come in steps of a hundredth.
    """

    def __enter__(self) -> Self:
        self.cpu = self.wall = 0.0
        self.parts: dict[str, float] = {}
        self._before, self._began = cpu_by_kind(), time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall = time.perf_counter() - self._began
        after = cpu_by_kind()
        self.parts = {k: round(used - self._before.get(k, 0.0), 3) for k, used in after.items()}
        self.cpu = round(sum(self.parts.values()), 3)


def cpu_by_kind() -> dict[str, float]:
    """CPU seconds so far of `driver` (this process), `jvm` and `workers`, with those of their ended children."""
    parents, used, names = {}, {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # it has just ended
            pid, fields = int(entry.name), text[text.rindex(")") + 2 :].split()
            parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
            names[pid] = text[text.index("(") + 1 : text.rindex(")")]
    kinds: dict[str, float] = defaultdict(float)
    for pid in _tree(parents):
        kind = "driver" if pid == os.getpid() else "jvm" if names[pid] == "java" else "workers"
        kinds[kind] += used[pid] / _TICKS
    return dict(kinds)


def _tree(parents: dict[int, int]) -> list[int]:
    children = defaultdict(list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    found = [os.getpid()]
    for pid in found:
        found += children[pid]
    return [pid for pid in found if pid in parents]


def machine() -> dict[str, str]:
    """What a figure should never be shown without."""
    models = [line.split(":")[1].strip() for line in lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = next((int(line.split()[1]) for line in lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory / 2**20:.0f} GiB",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "date": time.strftime("%Y-%m-%d"),
    }


def lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []

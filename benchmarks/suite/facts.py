# SPDX-License-Identifier: Apache-2.0
"""What a figure should never be shown without: the machine, its load, the versions, the date."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from typing import Any

from benchmarks.meter import cpu_by_kind, lines, machine

PACKAGES = ("lakebraid", "pyarrow", "numpy")


def facts(*, quick: bool) -> dict[str, Any]:
    """No name of the machine or of a folder is among them."""
    seen = machine()
    kernel = ".".join(platform.release().split("-")[0].split(".")[:2])
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "quick": quick,
        "cpu": seen["cpu"],
        "cores": seen["cores"],
        "memory": seen["memory"],
        "system": f"{platform.system()} {kernel}",
        "python": seen["python"],
        **{name: version(name) for name in PACKAGES},
    }


def others_cpu_seconds() -> float:
    """What all other processes of the machine have used so far: its growth says whether the machine was quiet."""
    first = next((line for line in lines("/proc/stat") if line.startswith("cpu ")), "cpu 0 0 0 0 0 0 0 0")
    user, nice, system, _idle, _waiting, *interrupts_and_stolen = map(int, first.split()[1:9])
    busy = user + nice + system + sum(interrupts_and_stolen)
    return busy / os.sysconf("SC_CLK_TCK") - sum(cpu_by_kind().values())


def load() -> str:
    """Processes that ran or wanted to, over the last minute."""
    return f"{os.getloadavg()[0]:.1f}"

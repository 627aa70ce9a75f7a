# SPDX-License-Identifier: Apache-2.0
"""Python processes that run our functions for Spark."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator

from pyspark.sql import SparkSession

from lakebraid.errors import EnvironmentProblem


def use_this_python(spark: SparkSession) -> None:
    """Lets a local session that was made elsewhere run our functions with the interpreter that has lakebraid."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none, and its server chooses for itself
    if context is not None and "PYSPARK_PYTHON" not in os.environ and str(context.master).startswith("local"):
        context.pythonExec = sys.executable


@contextlib.contextmanager
def told_if_not_installed() -> Iterator[None]:
    """EnvironmentProblem instead of Spark's long story, if the processes that run our functions have no lakebraid."""
    try:
        yield
    except Exception as error:  # Spark's own, classic or Connect, or Java's
        if not any(f"No module named '{name}'" in str(error) for name in ("lakebraid", "pyarrow")):
            raise
        raise EnvironmentProblem(
            "Spark's workers run a Python without lakebraid. Nothing of the write is visible. Install lakebraid where the "
            f"executors run, or name a Python that has it ({sys.executable} does, here): set PYSPARK_PYTHON, for Spark "
            "Connect in the environment of the server, before Spark starts.",
            package="lakebraid",
        ) from error


def spare_imports() -> None:
    """For the beginning of what a Python process does for Spark, a task or a plan: Spark collects garbage after each, and
    looking through all modules takes 25 ms.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()

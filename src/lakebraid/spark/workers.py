# SPDX-License-Identifier: Apache-2.0
"""Python processes that run our functions for Spark."""

from __future__ import annotations

import gc
import os
import sys

from pyspark.sql import SparkSession


def use_this_python(spark: SparkSession) -> None:
    """Lets a local session that somebody else made run our functions with the interpreter that has lakebraid."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none, and its server chooses for itself
    if context is not None and "PYSPARK_PYTHON" not in os.environ and str(context.master).startswith("local"):
        context.pythonExec = sys.executable


def spare_imports() -> None:
    """For the beginning of a task: Spark collects garbage after each, and looking through all modules takes 25 ms."""
    if gc.get_freeze_count() == 0:
        gc.freeze()

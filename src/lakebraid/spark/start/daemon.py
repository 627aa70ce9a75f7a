# SPDX-License-Identifier: Apache-2.0
"""The process out of which Spark forks Python workers: pyspark's own, which has imported beforehand what our tasks need.

Spark runs it as `python -m lakebraid.spark.start.daemon pyspark.worker` if `spark.python.daemon.module` says so, as in local
sessions by `lakebraid.session()`. Two things make a worker's first task cheaper. Spark puts pyspark's zip file first on
the path, whose modules are compiled by every process again; where the same pyspark is installed as a folder, that is
taken. And what all workers import is imported once, before the first of them is forked.

Nothing may be imported at the top of this module that leads to pyspark or pyarrow.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

WORKER: Final = "pyspark.worker"

MODULES: Final = (WORKER, "pyarrow.parquet", "lakebraid.spark.read", "lakebraid.spark.write_tasks")
"""What reading and writing tasks import. Not pandas: it takes long, not all need it, and what it imports may start threads."""

ARROW_ALLOCATOR: Final = "JE_ARROW_MALLOC_CONF"


def main() -> None:
    """Forks workers until Spark closes our standard input."""
    path = without_archives(sys.path, os.environ.get("SPARK_HOME"))
    for archive in {*sys.path} - {*path}:
        sys.path_importer_cache.pop(archive, None)  # else each worker reads all that are in it again, once
    sys.path[:] = path
    if sys.argv[1:2] == [WORKER] and sys.platform == "linux":
        import_ahead()
        if threads() > 1:
            # Forked processes have one thread, whatever locks the others held. So begin again, as Spark itself does.
            os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])  # noqa: S606 - that is meant
    from pyspark.daemon import manager  # noqa: PLC0415 - not before the path is right

    manager()


def without_archives(path: Sequence[str], spark_home: str | None) -> list[str]:
    """The path without Spark's zip and jar files, if all that is in them is found on the rest of it, too."""
    if spark_home is None:
        return list(path)
    archives = (os.path.join(spark_home, "python", "lib", ""), os.path.join(spark_home, "jars", ""))  # noqa: PTH118 - as on the path
    rest = [entry for entry in path if not entry.startswith(archives)]
    pyspark, py4j = PathFinder.find_spec("pyspark", rest), PathFinder.find_spec("py4j", rest)
    is_same = pyspark is not None and pyspark.origin is not None and Path(pyspark.origin).parent == Path(spark_home)
    return rest if is_same and py4j is not None else list(path)


def import_ahead() -> None:
    """Imports what tasks need, without a thread that Arrow's second allocator would start for itself."""
    given = os.environ.get(ARROW_ALLOCATOR)
    os.environ[ARROW_ALLOCATOR] = ",".join(filter(None, [given, "background_thread:false"]))
    try:
        for module in MODULES:
            importlib.import_module(module)
    except ImportError:
        pass  # a task that needs it will say so; others may not
    finally:
        del os.environ[ARROW_ALLOCATOR]
        if given is not None:
            os.environ[ARROW_ALLOCATOR] = given
    gc.freeze()  # so that workers neither look through these objects nor copy their pages


def threads() -> int:
    """How many threads this process has, also such as Python knows nothing of; Linux only."""
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names are all that is wanted


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Everything that runs on Spark. This package imports no pyspark; its modules do, and are loaded when they are first used.

So `from lakebraid import spark` and, later, `spark.read.read_spark(...)` is all that the layers above need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from lakebraid.errors import EnvironmentProblem

if TYPE_CHECKING:
    from lakebraid.spark import conditional, engine, merge, read, schemas, versions, write
    from lakebraid.spark.start import session

__all__ = ["conditional", "engine", "merge", "read", "schemas", "session", "versions", "write"]
_MODULES: Final = {name: f"lakebraid.spark.{name}" for name in __all__} | {"session": "lakebraid.spark.start.session"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    try:
        return import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("pyspark", "py4j"):
            raise
        raise EnvironmentProblem(
            f"This needs Spark, and {package} is not installed. Nothing was done. Run `pip install 'lakebraid[spark]'`, or use "
            "the Python of a platform that has Spark; reading and writing in process need none.",
            package=package,
        ) from error

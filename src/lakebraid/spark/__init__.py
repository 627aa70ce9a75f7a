# SPDX-License-Identifier: Apache-2.0
"""Everything that runs on Spark. This package imports no pyspark; its modules do, and are loaded when they are first used.

So `from lakebraid import spark` and, later, `spark.read.read_spark(...)` is all that the layers above need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lakebraid.spark import conditional, engine, merge, read, schemas, write
    from lakebraid.spark.start import session

__all__ = ["conditional", "engine", "merge", "read", "schemas", "session", "write"]
_MODULES: Final = {name: f"lakebraid.spark.{name}" for name in __all__} | {"session": "lakebraid.spark.start.session"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(name)

# SPDX-License-Identifier: Apache-2.0
"""How a session gets to know the format where it did not find it by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebraid import spark as on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Makes the format known to a session, and the table functions `lakebraid_as_of` and `lakebraid_changes`.

    Spark finds the format by itself where lakebraid is installed beside it, but no functions.
    """
    on_spark.versions.check_sources()
    from lakebraid.source.format import LakebraidSource  # noqa: PLC0415  there may be no Spark, or one without sources
    from lakebraid.source.functions import register_functions  # noqa: PLC0415  as above

    on_spark.versions.register_source(spark, LakebraidSource)
    register_functions(spark)

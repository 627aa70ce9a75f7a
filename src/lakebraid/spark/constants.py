# SPDX-License-Identifier: Apache-2.0
"""Plain values as Spark columns of exactly a type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakebraid.model.predicate.literals import literal_text
from lakebraid.spark.versions import spark_type


def constant(value: Any, kind: pa.DataType) -> Column:
    """A column of that value, which `model.values.exact` has found fit for the type."""
    if value is None or not pa.types.is_nested(kind):
        return F.expr(literal_text(value)).cast(spark_type(kind))
    if pa.types.is_struct(kind):
        return F.struct(*(constant(value[field.name], field.type).alias(field.name) for field in kind))
    if pa.types.is_map(kind):
        keys = F.array(*(constant(key, kind.key_type) for key, _ in value))
        items = F.array(*(constant(item, kind.item_type) for _, item in value))
        return F.map_from_arrays(keys, items).cast(spark_type(kind))
    return F.array(*(constant(element, kind.value_type) for element in value)).cast(spark_type(kind))

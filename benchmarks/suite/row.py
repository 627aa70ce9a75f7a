# SPDX-License-Identifier: Apache-2.0
"""A result is a list of flat rows: text and numbers under names that end with their unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
Rows = list[Row]


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that `share` of the values do not exceed; a measured one, nothing between two.

    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([2.0, 1.0], 0.5), percentile([2.0, 1.0], 0.99)
    (2.0, 1.0, 2.0)
    """
    return sorted(values)[math.ceil(len(values) * share) - 1]


def rounded(row: Row) -> Row:
    """Four significant digits: what lies beyond is noise."""
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}

# SPDX-License-Identifier: Apache-2.0
"""The comparisons of SQL as Python has them, for models of what a condition means."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

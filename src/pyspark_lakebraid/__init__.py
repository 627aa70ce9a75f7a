# SPDX-License-Identifier: Apache-2.0
"""How Spark finds the format `lakebraid` by itself: it looks into every top-level module whose name begins so."""

from lakebraid.source.format import LakebraidSource as DefaultSource

__all__ = ["DefaultSource"]

# SPDX-License-Identifier: Apache-2.0
"""Rules of Hudi's metadata table: keys, ranges of values, and how newer records meet older ones."""

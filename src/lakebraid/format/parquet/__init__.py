# SPDX-License-Identifier: Apache-2.0
"""Parquet: footers, pages, rows, Bloom filters."""

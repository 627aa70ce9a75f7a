# SPDX-License-Identifier: Apache-2.0
"""Whole lives of tables: random steps through the public API, held against a dictionary after each of them."""

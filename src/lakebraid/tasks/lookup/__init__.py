# SPDX-License-Identifier: Apache-2.0
"""Lookup tables: which file group has a key, and what becomes of the rows there."""

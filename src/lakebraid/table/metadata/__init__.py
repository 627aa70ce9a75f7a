# SPDX-License-Identifier: Apache-2.0
"""Looking at a table's metadata table: its files, statistics and index of keys without listing or opening the data files."""

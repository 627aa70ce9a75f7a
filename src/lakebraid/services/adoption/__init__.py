# SPDX-License-Identifier: Apache-2.0
"""What a table is, found out from its files, and what it must state so that it may be written."""

# SPDX-License-Identifier: Apache-2.0
"""What the ledger decides of the metadata table of a table."""

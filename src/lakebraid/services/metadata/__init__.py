# SPDX-License-Identifier: Apache-2.0
"""Services of a table's metadata table: it is compacted by the rules of the ledger, like the table itself."""

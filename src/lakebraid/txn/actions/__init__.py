# SPDX-License-Identifier: Apache-2.0
"""What the ledger decides: one module for each action of the timeline."""

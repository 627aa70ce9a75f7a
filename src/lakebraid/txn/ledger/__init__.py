# SPDX-License-Identifier: Apache-2.0
"""The ledger: numbered entries, rounds, and the timeline files that they state."""

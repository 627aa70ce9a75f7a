# SPDX-License-Identifier: Apache-2.0
"""Transactions: the only writer of the timeline."""

# SPDX-License-Identifier: Apache-2.0
"""Processes beside each other: every interleaving, faults at every call, deaths at a named one, slow stores."""

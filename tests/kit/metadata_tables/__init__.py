# SPDX-License-Identifier: Apache-2.0
"""Metadata tables for tests: those of the reference tables, those of which every byte is ours, and what writes into them."""

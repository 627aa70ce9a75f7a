# SPDX-License-Identifier: Apache-2.0
"""Avro: containers, rows, types."""

# SPDX-License-Identifier: Apache-2.0
"""Beside Apache Hudi: its locks, and what its jobs left."""

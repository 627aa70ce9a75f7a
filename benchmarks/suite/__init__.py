# SPDX-License-Identifier: Apache-2.0
"""Every measurement with one command: `uv run python -m benchmarks.suite [--quick] [--only NAME ...]`."""

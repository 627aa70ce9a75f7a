# SPDX-License-Identifier: Apache-2.0
"""What stands in for Spark and for bytes of rows: the simulator's engine, its executors, and tiny files."""

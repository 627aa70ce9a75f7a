# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of lakebraid beside floors that do no table work at all; see README.md."""

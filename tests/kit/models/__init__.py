# SPDX-License-Identifier: Apache-2.0
"""Naive models, written apart from the product: what a table, a value or a job of Apache Hudi must answer."""

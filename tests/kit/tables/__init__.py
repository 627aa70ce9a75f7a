# SPDX-License-Identifier: Apache-2.0
"""Tables for tests: built out of a described history, written step by step, or made by Apache Hudi."""

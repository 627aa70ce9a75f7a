# SPDX-License-Identifier: Apache-2.0
"""The Spark format `lakebraid`, a Python data source: what Spark calls, in processes of its own."""

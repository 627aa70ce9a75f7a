# SPDX-License-Identifier: Apache-2.0
"""Starting Spark: sessions, Java, Python workers."""

# SPDX-License-Identifier: Apache-2.0
"""The same work by others: Apache Hudi and delta-rs, on the same server and proxy."""

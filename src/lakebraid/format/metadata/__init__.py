# SPDX-License-Identifier: Apache-2.0
"""Records of Hudi's metadata table, and the log files that hold them."""

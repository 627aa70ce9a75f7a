# SPDX-License-Identifier: Apache-2.0
"""Services that merge files: compaction, log compaction, clustering."""

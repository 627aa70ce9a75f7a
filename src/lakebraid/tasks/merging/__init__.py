# SPDX-License-Identifier: Apache-2.0
"""What one task of a compaction, a clustering or a rewrite does."""

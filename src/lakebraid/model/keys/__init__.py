# SPDX-License-Identifier: Apache-2.0
"""Record keys, buckets and partition paths."""

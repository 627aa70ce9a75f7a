# SPDX-License-Identifier: Apache-2.0
"""The audit: what is on storage, held against what the timeline says."""

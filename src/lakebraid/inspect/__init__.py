# SPDX-License-Identifier: Apache-2.0
"""Looking at tables: audit, status, the story of a write, its detail, locks."""

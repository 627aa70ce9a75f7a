# SPDX-License-Identifier: Apache-2.0
"""Schemas: as users state them, as rows of other ages have them, as they grow."""

# SPDX-License-Identifier: Apache-2.0
"""The content of timeline files."""

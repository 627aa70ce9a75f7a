# SPDX-License-Identifier: Apache-2.0
"""Instants, the timeline, file slices."""

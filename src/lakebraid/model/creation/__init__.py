# SPDX-License-Identifier: Apache-2.0
"""Planning a new table."""

# SPDX-License-Identifier: Apache-2.0
"""Writing the files of a write."""

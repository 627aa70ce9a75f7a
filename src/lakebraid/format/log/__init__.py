# SPDX-License-Identifier: Apache-2.0
"""Log files: blocks and lists of deletes."""

# SPDX-License-Identifier: Apache-2.0
"""What a write is held against before it is published."""

# SPDX-License-Identifier: Apache-2.0
"""What changed in a slice between two moments."""

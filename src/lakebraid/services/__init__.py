# SPDX-License-Identifier: Apache-2.0
"""Table services: plan() decides, run() does."""

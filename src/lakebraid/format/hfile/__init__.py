# SPDX-License-Identifier: Apache-2.0
"""HFile version 3: sorted keys and values in blocks, as Hudi's metadata table uses it."""

# SPDX-License-Identifier: Apache-2.0
"""Writing: a request begins, its rows become files, one small file publishes them."""

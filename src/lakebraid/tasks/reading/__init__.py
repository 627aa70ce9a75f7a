# SPDX-License-Identifier: Apache-2.0
"""Reading one slice."""

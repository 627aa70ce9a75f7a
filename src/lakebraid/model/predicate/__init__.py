# SPDX-License-Identifier: Apache-2.0
"""Conditions on rows: parsed, bound to a schema, evaluated on Arrow."""

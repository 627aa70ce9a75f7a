# SPDX-License-Identifier: Apache-2.0
"""Playing histories: search by seeds, kills at every call, tapes, smaller histories that still fail, reports."""

# SPDX-License-Identifier: Apache-2.0
"""Reading: a snapshot or the changes of a table become a plan of slices, run in process or on Spark."""

# SPDX-License-Identifier: Apache-2.0
"""The world in which the processes run: time, storage, faults, and the schedule by which they take turns."""

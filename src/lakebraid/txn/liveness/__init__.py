# SPDX-License-Identifier: Apache-2.0
"""Who is alive: heartbeats, markers, leases, waiting for others."""

# SPDX-License-Identifier: Apache-2.0
"""Writers on a store of given latencies, event by event: what 256 of them would do, in seconds and without a store."""

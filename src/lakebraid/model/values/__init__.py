# SPDX-License-Identifier: Apache-2.0
"""Values on their way in: kept exactly, or refused."""

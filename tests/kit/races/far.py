# SPDX-License-Identifier: Apache-2.0
"""A process for which calls take long, whatever they take: it asks for what it wants, and goes on while it is decided."""

from __future__ import annotations

from lakebraid.clock import Clock
from lakebraid.txn.ledger.watch import Company


class FarCompany(Company):
    @property
    def is_far(self) -> bool:
        return True

    def is_clock_right(self, clock: Clock) -> bool:
        return True

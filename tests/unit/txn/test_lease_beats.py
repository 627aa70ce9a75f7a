# SPDX-License-Identifier: Apache-2.0
"""The first beat of a lease: a clean that runs while the lease is being entered must leave it alone."""

from __future__ import annotations

import pytest

from lakebraid import limits
from lakebraid.txn.liveness.leases import LEASES, forget_beats
from tests.kit.tables.scene import Scene, row

pytestmark = pytest.mark.unit


def test_a_beat_whose_lease_is_not_entered_yet_stays_and_goes_when_it_is_old() -> None:
    scene = Scene()
    scene.table.upsert([row("a", "1")])
    ledger = scene.table._writing.ledger(scene.table._config)
    beat = f"{LEASES}/0123456789abcdef"
    scene.storage.replace(beat, b"")
    forget_beats(ledger)
    assert [info.name for info in scene.storage.list(LEASES)] == [beat]
    scene.clock.sleep(2 * limits.LEASE_MS / 1000)
    forget_beats(ledger)
    assert scene.storage.list(LEASES) == []

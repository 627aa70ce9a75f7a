# SPDX-License-Identifier: Apache-2.0
"""Readers that come again, and readers that read later."""

from __future__ import annotations

from lakebraid.errors import SnapshotExpired
from tests.lives.life import Life
from tests.lives.world import check_replayed


def consume(life: Life, name: str) -> None:
    """A named reader comes, reads on, and says so."""
    is_new = name not in life.consumers
    consumer = life.other.consumer(name)
    if is_new:
        life.consumers[name] = (consumer.position or "", life.world)
        return
    position, seen = life.consumers[name]
    if _is_lost(life, position):
        life.other.drop_consumer(name)
        del life.consumers[name]
        return
    assert consumer.position == position
    changes = consumer.changes()
    check_replayed(life.kind, life.world, seen, changes, f"the consumer {name} at {position}")
    life.consumers[name] = (consumer.commit(changes), life.world)


def hold(life: Life) -> None:
    """A reader takes the table as it is, and reads later."""
    snapshot = life.other.snapshot()
    snapshot.__enter__()
    life.held.append((snapshot, life.world, life.waited))


def let_go(life: Life) -> None:
    """It reads what was there then, whatever was cleaned meanwhile."""
    if life.held:
        snapshot, world, waited = life.held.pop()
        try:
            rows = snapshot.to_arrow().to_pylist()
            assert {life.kind.identity(row): row for row in rows} == world.rows(), "a held snapshot"
        except SnapshotExpired:
            assert life.waited > waited or life.lost, "a held snapshot was cleaned away"
        finally:
            snapshot.__exit__(None, None, None)


def _is_lost(life: Life, moment: str) -> bool:
    return any(low < moment < high for low, high in life.lost)

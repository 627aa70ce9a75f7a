# SPDX-License-Identifier: Apache-2.0
"""Tables with something to clean, and what is left of them."""

from __future__ import annotations

from typing import Any

import lakebraid as lb
from lakebraid.txn.ledger.ledger import Ledger
from tests.kit.tables.scene import Call, Scene, row

TIMELINE = ".hoodie/timeline"


def versions(count: int = 4, **arguments: Any) -> Scene:
    """A table of one row that was written and compacted again and again."""
    scene = Scene(arguments=arguments)
    for n in range(count):
        scene.write(row("a", f"v{n}", ts=n + 1), row("b", f"v{n}", ts=n + 1))
        scene.compact()
    return scene


def ledger_of(table: lb.Table) -> Ledger:
    return table._writing.ledger(table._config)


def objects(storage: Any) -> dict[str, bytes]:
    return {info.name: storage.read(info.name, info.size) for info in storage.list()}


def _is_data(call: Call) -> bool:
    return any(not str(name).startswith(".hoodie/") for name in call.args[0])

# SPDX-License-Identifier: Apache-2.0
"""The viewer looks at damaged tables: it says what is wrong, shows the rest, and never stumbles."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lakebraid.clock import SystemClock
from lakebraid.web.gathering import load_facts
from lakebraid.web.page import render_page
from lakebraid.web.picture import build_model
from tests.hostile.attack import Target, refusal, target

pytestmark = [pytest.mark.hostile, pytest.mark.slow]

TABLES = ("v9_mor_late_writers_two_compactions", "v9_mor_rollback_completed", "v9_mor_restore", "v9_mor_archived")
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "flipped": lambda data: bytes(byte ^ 0x55 if at % 7 == 3 else byte for at, byte in enumerate(data)),
    "noise": lambda data: b"</script>" * 40,
}


def _view(attacked: Target) -> dict[str, Any]:
    model = build_model(load_facts(attacked.storage, SystemClock()))
    body = render_page(model).partition('type="application/json">')[2].partition("</script>")[0]
    assert json.loads(body)["model"]["table"] == json.loads(json.dumps(model["table"]))
    return model


@pytest.mark.parametrize("name", TABLES)
def test_damage_to_any_file_of_a_timeline_is_said_or_passed_over(name: str) -> None:
    attacked = target(name)
    whole = len(_view(attacked)["instants"])
    for file in attacked.named(r"^\.hoodie/timeline/"):
        for how, damaged in DAMAGE.items():
            attacked.put(file, damaged(attacked.files[file]))
            shown: list[dict[str, Any]] = []
            refusal("viewer", lambda: shown.append(_view(attacked)), what=f"{how} {file}")  # noqa: B023
            assert shown, (file, how)
            says = shown[0]["problems"] or [i for i in shown[0]["instants"] if "problem" in i]
            assert len(shown[0]["instants"]) == whole or says or how == "empty", (file, how)
            attacked.restore(file)

# SPDX-License-Identifier: Apache-2.0
"""Why a write was rolled back, kept in the plan of its rollback, so that `why` can tell it later.

Avro readers pass over fields that they do not know, so Apache Hudi reads these plans as any other; no file and no call is
added, and the story goes into the history with its rollback.
"""

from __future__ import annotations

import json
from typing import Any, Final

from lakebraid import limits
from lakebraid.errors import LakebraidError
from lakebraid.txn.liveness.heartbeat import process_name

_FACTS: Final = ("rule", "other", "other_writer", "writer", "groups", "restore")


def refused(error: LakebraidError, writer: str) -> str:
    """The story of a write that withdrew because its commit was refused."""
    facts = {name: error.facts[name] for name in _FACTS if name in error.facts}
    if isinstance(facts.get("groups"), list):
        facts["groups"] = facts["groups"][: limits.STORY_GROUPS_MAX]
    return _text(type(error).__name__, error.message, {"writer": writer} | facts)


def given_up(writer: str) -> str:
    """The story of a write that its own writer aborted."""
    return _text("Aborted", "Its writer gave it up.", {"writer": writer})


def unused(writer: str) -> str:
    """The story of a write that was begun ahead, and that no rows came for."""
    return _text("Aborted", "It was begun ahead, and its writer had no more rows for it.", {"writer": writer})


def silent(timeout_ms: int, writer: str | None = None) -> str:
    """The story of a write whose writer seemed dead."""
    why = f"Its writer showed no sign of life for {timeout_ms / 1000:g} seconds or more."
    return _text("RolledBack", why, {} if writer is None else {"writer": writer})


def parse_story(text: str | None) -> dict[str, Any]:
    """What a story says; empty if there is none, or it is not one of ours."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(kind: str, message: str, facts: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, "why": message, "by": process_name(), **facts}, default=str)

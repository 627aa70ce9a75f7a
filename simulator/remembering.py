# SPDX-License-Identifier: Apache-2.0
"""Pure functions of the product, remembered: a simulator asks them the same a hundred times.

Only what depends on nothing but its arguments is here. Planted bugs change functions, so planting forgets everything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from lakebraid.format.avro import container
from lakebraid.format.properties import choose_properties
from lakebraid.model.config import TableConfig, parse_config
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table import loading

_PURE: Final = (
    ("lakebraid.format.names", "parse_timeline_file"),
    ("lakebraid.format.names", "parse_data_file"),
    ("lakebraid.format.names", "parse_marker"),
    ("lakebraid.format.timeline.commit", "parse_commit"),
    ("lakebraid.format.timeline.plans", "parse_compaction_plan"),
    ("lakebraid.format.timeline.rollbacks", "parse_rollback_plan"),
    ("lakebraid.format.timeline.services", "parse_clean_plan"),
    ("lakebraid.format.timeline.services", "parse_savepoint_metadata"),
    ("lakebraid.format.avro.types", "parse_avro_schema"),
    ("lakebraid.format.times", "next_instant_time"),
    ("lakebraid.model.timeline.instant", "action_family"),
    ("lakebraid.txn.ledger.entries", "parse_entry"),
    ("lakebraid.txn.ledger.entries", "parse_entry_name"),
    ("lakebraid.txn.ledger.entries", "parse_staged_name"),
)

Change = tuple[Any, str, Any]
"""A module, a name in it, and what it is to be."""


def remembered() -> tuple[Change, ...]:
    """What to put in whose place, in every module that has it by name."""
    found = _found()
    return (
        *found,
        (loading, "_timeline", _timeline),
        (loading, "choose_properties", _properties),
        (loading, "parse_config", _config),
        (container, "_check_read_back", _checked_elsewhere),
    )


def forget() -> None:
    """Forgets all answers: the functions are not what they were."""
    for _, _, cached in _found():
        cached.cache_clear()
    _timelines.clear()


@lru_cache(1)
def _found() -> tuple[Change, ...]:
    changes: list[Change] = []
    for home, name in _PURE:
        original = getattr(import_module(home), name, None)
        if original is None:
            continue
        cached = lru_cache(100_000)(original)
        modules = [m for path, m in sorted(sys.modules.items()) if path.startswith("lakebraid.")]
        changes += [(module, name, cached) for module in modules if module.__dict__.get(name) is original]
    return tuple(changes)


_build: Final[Callable[..., Timeline]] = loading._timeline
_timelines: Final[dict[tuple[object, ...], Timeline]] = {}


def _timeline(names: Mapping[str, str], config: TableConfig, *more: frozenset[str]) -> Timeline:
    """The timeline that a listing spells: names alone say it, since no table here was ever upgraded."""
    key = (*more, *names)
    known = _timelines.get(key)
    if known is None:
        if len(_timelines) > 50_000:
            _timelines.clear()
        known = _timelines[key] = _build(names, config, *more)
    return known


_properties: Final = lru_cache(1000)(choose_properties)


@lru_cache(1000)
def _config_of(entries: tuple[tuple[str, str], ...], where: str) -> TableConfig:
    return parse_config(dict(entries), where)


def _config(properties: Mapping[str, str], where: str) -> TableConfig:
    return _config_of(tuple(properties.items()), where)


def _checked_elsewhere(*_: object) -> None:
    """That a record is read back as it was written is a matter of the format's own tests."""

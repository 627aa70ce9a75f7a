# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of wishes whose rules look at more than the state (LEDGER, G8 and G10), and of those of table services."""

from __future__ import annotations

from typing import Any

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates

_WISHES = "lakebraid.txn.ledger.wishes"
_MASKS = "lakebraid.txn.checks.rivalry"
_ASKING: dict[str, Any] = {
    "eager": True, "whole": True, "executors": False, "refusals": 0.0, "aborts": 0.0, "call_ms": 20, "switch": 0.6,
    "depth": 0, "rates": Rates(pause=0.02, slow=0.03, late=0.02),
}  # fmt: skip
_MOR: dict[str, Any] = {
    **_ASKING, "placed": True, "deletes": 0.0, "keys": 6,
    "actors": (("placer", 5), ("placer", 5), ("placer", 5), ("placer", 5), ("reader", 4)),
}  # fmt: skip
_OPTIMISTIC: dict[str, Any] = {
    **_ASKING, "optimistic": True, "buckets": 2, "actors": (("writer", 5), ("writer", 5), ("writer", 5), ("writer", 5), ("reader", 3)),
}  # fmt: skip
_COW = {**_MOR, "cow": True, "keys": 4}
_CLUSTERED = {
    **_MOR, "keys": 4, "actors": (("placer", 5), ("placer", 5), ("placer", 5), ("clusterer", 4), ("clusterer", 4), ("reader", 4)),
}  # fmt: skip
_POLITE = {
    **_CLUSTERED, "gives_way": True, "call_ms": 5, "rates": Rates(slow=0.12),
    "actors": (("placer", 8), ("placer", 8), ("clusterer", 6), ("clusterer", 6), ("reader", 3)),
}  # fmt: skip
_CLEANED: dict[str, Any] = {
    **_ASKING, "keys": 2, "retained": 1, "clean_files": 1, "call_ms": 5, "switch": 0.3, "rates": Rates(pause=0.02, slow=0.05),
    "actors": (("writer", 5), ("writer", 5), ("compactor", 6), ("compactor", 6), ("cleaner", 8), ("cleaner", 8), ("cleaner", 8)),
}  # fmt: skip
_HELD = {**_CLEANED, "actors": (*_CLEANED["actors"], ("holder", 8), ("holder", 8))}
_LOST = ("1", "2", "5", "14", "21")
"""One of two writes hides the other, or both bring one key."""

OF_WISHES = (
    Mutant(
        "a publication does not mind what its entry publishes before it", "G10", _WISHES, "_has_changed",
        "at > look.entry and", "look.entry < at < number and", _LOST, _COW,
    ),
    Mutant(
        "what entries have changed is forgotten before the looks expire that mind it", "G10", _WISHES, "noted",
        "if at > since}", "if at >= number}", _LOST, _COW,
    ),
    Mutant(
        "a look counts however old it is", "G10", _WISHES, "_has_changed",
        "if not look.entry < number <= look.entry + limits.ASK_ENTRIES_MAX:", "if False:", _LOST, {**_COW, "ask_entries": 1},
    ),
    Mutant(
        "an optimistic write is published whatever was published since its rule looked", "G10", _WISHES, "_publish",
        "if _has_changed(state, number, seen) or", "if", ("12",), _OPTIMISTIC,
    ),
    Mutant(
        "a commit of an optimistic table leaves no mask of its buckets", "G10", _MASKS, "mask_of",
        "return _mask(", "return 0 and _mask(", ("12",), _OPTIMISTIC,
    ),
    Mutant(
        "what a process decides by itself leaves no mask", "G10", _WISHES, "noted",
        "touched=touched), number, touches)", "touched=touched), number, 0)",
        (*_LOST, "20"), _CLUSTERED,
    ),
    Mutant(
        "masks do not tell that new keys were brought", "G10", _MASKS, "_keys_mask",
        "if not config.has_filters:", "if True:", ("21",), _MOR,
    ),
    Mutant(
        "the mask of a clustering does not name the groups that it replaces", "G10", _MASKS, "touched_by",
        "for partition, ids in content.replaced.items() for file_id in ids", "for partition, ids in () for file_id in ids",
        _LOST, _POLITE, first_seed=630,
    ),
    Mutant(
        "what was under way when a write began is looked up before another process begins it", "G10",
        "lakebraid.txn.checks.file_groups", "begun", "Begun(request_time, None,",
        "Begun(request_time, frozenset((*now.state.open, *now.state.plans)),", _LOST, _COW,
    ),
    Mutant(
        "an executed plan is published though its claim was taken over since it was asked for", "G8", _WISHES, "_finish",
        "plan.epoch != epoch or ", "", ("3", "5", "1", "15", "no crash"),
        {**_ASKING, "timeout_ms": 300, "rates": Rates(pause=0.03, slow=0.08),
         "actors": (("writer", 2), ("compactor", 4), ("compactor", 4), ("compactor", 4), ("rescuer", 4))},
    ),
    Mutant(
        "a clustering is published though a group of it was written since its executor looked", "G10", _WISHES, "_finish",
        " or _has_changed(state, number, seen)", "", _LOST, _POLITE,
    ),
    Mutant(
        "a clean is reported done twice", "G8", _WISHES, "_cleaned",
        "if _text(clean) not in state.cleans:", "if False:", ("6",),
        {**_CLEANED, "actors": (*_CLEANED["actors"], *(("cleaner", 8) for _ in range(4))), "rates": Rates(slow=0.1)},
    ),
    Mutant(
        "one who gives a lease back gives back all", "G8", _WISHES, "_drop",
        "leases=without(state.leases, token)", "leases={}", ("14", "3"), _HELD,
    ),
    Mutant(
        "a consumer is moved to the last time that was given, not to where it has read", "G8", _WISHES, "_consumer",
        "name: _moment(after)}", "name: state.last}", ("14", "3", "13"),
        {**_CLEANED, "actors": (*_CLEANED["actors"], ("consumer", 8), ("consumer", 8))},
    ),
)  # fmt: skip

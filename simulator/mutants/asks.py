# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of asks, each of a rule of docs/spec/ledger.md (G1 to G9), with the invariants that may catch it."""

from __future__ import annotations

from typing import Any

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates

_ASKS = "lakebraid.txn.ledger.asks"
_ASKING = "lakebraid.txn.ledger.asking"
_LEDGER = "lakebraid.txn.ledger.ledger"
_WISHES = "lakebraid.txn.ledger.wishes"
_LEFTOVERS = "lakebraid.txn.ledger.watch"
_BUSY: dict[str, Any] = {
    "eager": True, "call_ms": 20, "whole": False, "executors": False, "switch": 0.6, "depth": 0, "aborts": 0.1, "refusals": 0.0,
    "actors": (("writer", 4), ("writer", 4), ("writer", 4), ("writer", 4), ("rescuer", 3), ("reader", 3)),
    "rates": Rates(pause=0.02, slow=0.03, late=0.03, lost=0.02, vanished=0.01, again=0.02),
}  # fmt: skip
_SHORT = {**_BUSY, "ask_entries": 1}
_LOADING = "lakebraid.table.loading"
_GROUPED = {
    **_BUSY, "grouped": True, "call_ms": 60, "switch": 0.3,
    "actors": (*(("writer", 4),) * 8, ("rescuer", 3), ("reader", 8), ("reader", 8), ("mirror", 8), ("hudi", 8)),
}  # fmt: skip

OF_GROUPS = (
    Mutant(
        "a later commit of the newest entry counts though an earlier one is missing", "G6", _LOADING, "_settled",
        "(newest and newest.whole_until({**before, **after})) or ", "",
        ("2", "13", "1"), _GROUPED,
    ),
    Mutant(
        "an entry whose files appear side by side does not say so", "G6", _LEDGER, "Ledger._apply",
        "is_ordered=entry.since is None", "is_ordered=False",
        ("2", "6", "13", "1"), _GROUPED,
        elsewhere=(("lakebraid.txn.ledger.timeline_copies", "since_of", "newest.time if", "None if"),),
    ),
    Mutant(
        "the mark of an entry comes before its files, which appear side by side", "G7", _LEDGER, "Ledger._conclude",
        "if not self._apply(mine)",
        'from lakebraid.txn.ledger.asks import mark_name; self.storage.create(mark_name(mine.number), b"")\n    if not self._apply(mine)',
        ("11", "1", "2", "3", "13", "16", "18", "9"), _GROUPED,
    ),
    Mutant(
        "a process is told of an outcome while other files of the entry appear beside it", "G7", _ASKING, "_told",
        "_await_applied(ledger, entry, told.number)", "pass",
        ("11", "1", "2", "3", "13", "16", "18", "9"), _GROUPED,
    ),
)  # fmt: skip
"""Where commits of one entry appear side by side."""

OF_ASKS = (
    Mutant(
        "an ask counts however old it is", "G1", _ASKS, "counting",
        "ask.seen < slot <= ask.seen + limits.ASK_ENTRIES_MAX and ", "ask.seen < slot and ",
        ("23",), _SHORT,
    ),
    Mutant(
        "an ask counts though its wish is decided", "G1", _ASKS, "counting",
        " and ask.id not in state.decided", "",
        ("23", "liveness"), _BUSY,
    ),
    Mutant(
        "outcomes are forgotten before asks expire", "G1", _WISHES, "noted",
        "d.number > since", "d.number >= number",
        ("23",), _BUSY,
    ),
    Mutant(
        "an ask counts of which a part is missing", "G1", _ASKS, "parse_asks",
        " if len(parts) == ask.parts", "",
        ("23",), {**_BUSY, "aborts": 0.6},
    ),
    Mutant(
        "an unanswered ask is put again under its name", "G2", _ASKING, "put_ask",
        "Ask(entry.number, attempted.wish, clock.token(),", "Ask(entry.number, attempted.wish, attempted.wish,",
        ("23",), {**_BUSY, "rates": Rates(late=0.2, vanished=0.1)},
    ),
    Mutant(
        "a wish whose outcome may be forgotten is asked for again", "G2", _ASKING, "ask",
        "attempted.wish and entry.number - attempted.undecided > limits.ASK_ENTRIES_MAX", "False",
        ("23",), {**_SHORT, "rates": Rates(pause=0.05, slow=0.1)},
    ),
    Mutant(
        "an ask is removed that nobody has decided", "G3", _ASKS, "is_dead",
        "ask.seen + limits.ASK_ENTRIES_MAX <= number", "ask.seen <= number",
        ("23",), _BUSY,
    ),
    Mutant(
        "a process that lost a slot removes the asks that it would have decided", "G3", _LEFTOVERS, "Leftovers.add",
        " if parse_staged_name(source) is not None", "",
        ("23",), {**_BUSY, "asks_decided": 1},
    ),
    Mutant(
        "an ask is removed before all files of its entry are there", "G4", _LEDGER, "Ledger._conclude",
        "if not self._apply(mine)",
        "self.leftovers.after(entry, mine, own, may_wait=False, is_far=False)\n    if not self._apply(mine)",
        ("23", "11", "6", "16", "9", "3", "no crash"), _BUSY,
    ),
    Mutant(
        "a rollback leaves the ask that began its victim", "G4", _LEFTOVERS, "Leftovers.sweep",
        "if doomed:", "if False:",
        ("9", "16"), {**_BUSY, "aborts": 0.5, "rates": Rates(pause=0.03, slow=0.05, late=0.1, lost=0.02, again=0.1)},
        elsewhere=((_LEFTOVERS, "Leftovers.after", "delete_later(storage, names, is_far=is_far)", "pass"),),
    ),
    Mutant(
        "a sweep takes asks of an entry that is not applied yet", "G4", _LEFTOVERS, "Leftovers.sweep",
        "min(known.number, below) - 1", "min(known.number, below)",
        ("23", "9", "11"), {**_BUSY, "actors": (*_BUSY["actors"], ("rescuer", 6), ("rescuer", 6))},
    ),
    Mutant(
        "a commit is published though the schema, overwrites or batches have changed since it was written down", "G8",
        "lakebraid.txn.ledger.wishes", "_publish",
        "guard != _guard(state, write.batch) or not _is_next(state, write.batch)", "False",
        ("18", "1", "17", "19"),
        {**_BUSY, "actors": (("streamer", 4), ("streamer", 4), ("writer", 2), ("rescuer", 3)),
         "rates": Rates(kill_after=0.01, pause=0.03, slow=0.05, late=0.03, lost=0.02)},
    ),
    Mutant(
        "a process is told of an outcome that is not applied yet", "G7", _ASKING, "_told",
        "_await_applied(ledger, entry, told.number)", "pass",
        ("11", "1", "2", "3", "16", "18", "9"), _BUSY,
    ),
    Mutant(
        "the mark of an entry comes before its files", "G7", _LEDGER, "Ledger._conclude",
        "if not self._apply(mine)",
        'from lakebraid.txn.ledger.asks import mark_name; self.storage.create(mark_name(mine.number), b"")\n    if not self._apply(mine)',
        ("11", "1", "2", "3", "16", "18", "9"), _BUSY,
    ),
    Mutant(
        "the times of one entry are the same", "G9", _ASKING, "carry",
        "max(clock, next_instant_time(state.last))", "max(clock, state.last)",
        ("6", "no crash"), _BUSY,
    ),
    *OF_GROUPS,
    Mutant(
        "an ask that the store has put twice counts as not asked for", "G2", _ASKING, "put_ask",
        "contextlib.suppress(ObjectExists)", "contextlib.suppress(ObjectNotFound)",
        ("11", "23"), {**_BUSY, "whole": True, "refusals": 0.3, "rates": Rates(echo=0.05, slow=0.03, pause=0.02)},
    ),
    Mutant(
        "a process looks for its ask only among those that the next entry may decide", "G2", _ASKING, "_rank",
        "entry.number + 1)", "entry.number + 1)[: limits.ASKS_DECIDED_MAX]",
        ("16", "liveness"), {**_BUSY, "asks_decided": 1, "rates": Rates(kill_after=0.01, kill_before=0.01, slow=0.02)},
    ),
    Mutant(
        "files are put though the beginning of their write may mean nothing", "H2", "lakebraid.writing.begin", "check_begun",
        "if not ledger.counts():", "if ledger.counts() is None:",
        ("11", "15", "3", "1", "no crash", "9"), {**_BUSY, "whole": True, "entries_kept": 1, "rates": Rates(pause=0.06, slow=0.05)},
    ),
)  # fmt: skip
